"""Replays one vertex between two times and compares its output; can stop in pdb."""

from __future__ import annotations

import bisect
import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jobmanager.replay.differences import checks_of
from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.recorded import Recorded, vertex_of
from jobmanager.replay.rerun import Rerun, Shape
from jobmanager.storage.root import JobRoot
from planner.durations import time_us
from rstream.items.batch import only_events
from rstream.types import INF_TIME, MIN_TIME
from rvertex.vertex.rvertex import RVertex
from rvertex.vertex.spec import ReplayFrom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from jobmanager.replay.differences import Difference
    from jobmanager.replay.recorded import Retained
    from jobmanager.replay.rerun import VertexRun
    from jobmanager.replay.stops import Stops
    from planner import Query
    from planner.durations import Time
    from planner.physical.plan import PhysicalPlan
    from rvertex.vertex.rvertex import StepResult
    from rvertex.vertex.spec import VertexSpec


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay."""

    vertex: str
    #: The checkpoint that it started from; empty: the beginning of the input.
    checkpoint: str
    #: The number of items that it emitted, of items compared one by one, and of digests compared.
    items: int
    compared_items: int
    compared_digests: int
    #: The number of times that ``break_`` stopped it.
    stops: int
    difference: Difference | None

    @property
    def is_equal(self) -> bool:
        """Whether no item and no digest differs from the recorded ones."""
        return self.difference is None

    def __str__(self) -> str:
        start = f"from checkpoint {self.checkpoint}" if self.checkpoint else "from the beginning"
        compared = f"{self.compared_items:,} items and {self.compared_digests:,} digests compared"
        text = f"{self.vertex}: replayed {self.items:,} items {start}, {compared}"
        if self.difference is not None:
            return f"{text}\n{self.difference}"
        if not self.compared_items and not self.compared_digests:
            return f"{text}: nothing is retained to compare with"
        return f"{text}: equal"

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "vertex": self.vertex,
            "checkpoint": self.checkpoint,
            "items": self.items,
            "compared_items": self.compared_items,
            "compared_digests": self.compared_digests,
            "stops": self.stops,
            "equal": self.is_equal,
            "difference": None if self.difference is None else str(self.difference),
        }


def replay(
    root: str,
    vertex: str,
    *,
    from_: Time | None = None,
    until: Time | None = None,
    break_: str | None = None,
    code: Query | None = None,
    on_rows: Callable[[pa.RecordBatch], None] | None = None,
    trust: bool = False,
) -> Replay:
    """Run one vertex of a job again in this process and compare its output with the recorded one.

    It starts from the newest retained checkpoint at or before ``from_``, and ends once its output
    has reached ``until``. Nothing is written to the root, and nothing is delivered.

    ``vertex``: such as ``"s02-join.1"``; ``status`` lists them. ``break_``: a SQL condition on the
    rows that the vertex reads. Before each step with such a row it calls ``sys.breakpointhook()``,
    which is pdb unless a debugger is attached. ``code``: a query to run instead, on the recorded
    input. ``on_rows`` gets the events of the output, with ``_vs, _ve`` and the payload.

    Raises:
        CannotReplayError: something that it needs is not retained, or there is no such vertex.
        InvalidConditionError: ``break_`` is no condition on the rows.
    """
    recorded = Recorded(JobRoot(root, trust=trust), to_run=code is None)
    begin = MIN_TIME if from_ is None else time_us(from_, what="from")
    end = INF_TIME if until is None else time_us(until, what="until")
    plan: PhysicalPlan = recorded.plan
    is_recorded: Callable[[VertexSpec], bool] = lambda _: True  # noqa: E731 - typed
    if code is not None:
        from jobmanager.replay.newcode import planned_again, same_meaning

        plan = planned_again(recorded, code)
        is_recorded = same_meaning(recorded.plan, plan)
    spec = vertex_of(plan, vertex)
    start = newest_before(recorded, spec, begin) if is_recorded(spec) else None
    stops = None if break_ is None else _stops(spec, break_)
    rerun = Rerun(Shape.of(plan), recorded, is_recorded=is_recorded)
    with contextlib.closing(rerun):
        (run,) = rerun.open({spec.id: start}, stops)
        return _Comparing(recorded, spec, start, end, on_rows).follow(run, stops)


def _stops(spec: VertexSpec, text: str) -> Stops:
    from jobmanager.replay.stops import Stops

    return Stops(spec, text)


def replay_all(
    root: str, *, from_: Time | None = None, until: Time | None = None, trust: bool = False
) -> Iterator[Replay | CannotReplayError]:
    """Replay each vertex as :func:`replay` does; yield the error of one that cannot run again."""
    for vertex in Recorded(JobRoot(root, trust=trust)).plan.topological_order():
        try:
            yield replay(root, vertex, from_=from_, until=until, trust=trust)
        except CannotReplayError as error:
            yield error


def replay_range(recorded: Recorded, spec: VertexSpec, number: int) -> Replay:
    """Run a vertex from its ``number``-th oldest checkpoint to the next one; 0: the beginning."""
    starts = recorded.checkpoints(spec.id)[::-1]
    start = starts[number - 1] if number else recorded.beginning(spec.id)
    end = input_time(recorded, starts[number], spec) if number < len(starts) else INF_TIME
    rerun = Rerun(Shape.of(recorded.plan), recorded)
    with contextlib.closing(rerun):
        (run,) = rerun.open({spec.id: start})
        return _Comparing(recorded, spec, start, end, None).follow(run, None)


def newest_before(recorded: Recorded, spec: VertexSpec, begin_us: int) -> Retained | None:
    """Return the newest retained checkpoint before ``begin_us``; None: there is none.

    Its vertex had not passed that event time.

    Raises:
        CannotReplayError: the vertex began with a state that is not retained.
    """
    if begin_us == MIN_TIME:
        return recorded.beginning(spec.id)
    checkpoints = recorded.checkpoints(spec.id)
    # The list has the newest first, so the checkpoints before that time are at its end.
    at = bisect.bisect_left(
        checkpoints, True, key=lambda one: input_time(recorded, one, spec) <= begin_us
    )
    return checkpoints[at] if at < len(checkpoints) else recorded.beginning(spec.id)


def input_time(recorded: Recorded, checkpoint: Retained, spec: VertexSpec) -> int:
    """Return the last watermark that the vertex had consumed.

    The end of time if it has finished.
    """
    snapshot = recorded.snapshot(checkpoint, spec)
    if snapshot.is_final:
        return INF_TIME
    # The state is not needed, so no input is read again to rebuild it.
    if snapshot.replay_from is not None:
        here = ReplayFrom(snapshot.inputs, snapshot.states[0])
        snapshot = replace(snapshot, replay_from=here)
    vertex = RVertex(spec, pending_rows_max=1)
    vertex.load(snapshot)
    return vertex.input_cti


class _Comparing:
    """Follows a run, and compares its output."""

    def __init__(
        self,
        recorded: Recorded,
        spec: VertexSpec,
        start: Retained | None,
        end_us: int,
        on_rows: Callable[[pa.RecordBatch], None] | None,
    ) -> None:
        known = {v.id: v for v in recorded.plan.vertices}.get(spec.id)
        is_known = known is not None and known.output_payload.equals(spec.output_payload)
        # Without a start it is other code. Then the output of a changed job is not compared: it is
        # the output of more than one query.
        is_known &= start is not None or not recorded.was_changed
        self._checks = checks_of(recorded, spec, start) if is_known else {}
        self._spec, self._start, self._end_us = spec, start, end_us
        self._on_rows = on_rows

    def follow(self, run: VertexRun, stops: Stops | None) -> Replay:
        """Run until the end of the range or the first difference."""
        difference, items = None, 0
        with contextlib.ExitStack() as closing:
            for check in self._checks.values():
                closing.callback(check.close)
            while difference is None and run.vertex.output_cti < self._end_us:
                if not run.turn():
                    difference = self._missing(run)
                    break
                if run.result is not None:
                    difference = self._check(run.result)
                    items += sum(i.batch.num_rows for i in run.result.outputs if i is not None)
        return Replay(
            self._spec.id,
            "" if self._start is None else self._start.name,
            items,
            sum(check.compared for check in self._checks.values()),
            sum(check.digests for check in self._checks.values()),
            0 if stops is None else stops.count,
            difference,
        )

    def _check(self, result: StepResult) -> Difference | None:
        first: Difference | None = None
        for stream, items in zip(self._spec.output_streams, result.outputs, strict=True):
            if items is None:
                continue
            if self._on_rows is not None:
                self._on_rows(only_events(items.batch))
            check = self._checks.get(stream)
            if check is not None and first is None:
                first = check.check(items)
        return first

    def _missing(self, run: VertexRun) -> Difference | None:
        if not run.vertex.is_finished:
            return None  # the retained input ends before that item
        seqs = zip(self._spec.output_streams, run.vertex.output_seqs, strict=True)
        lost = (self._checks[stream].missing(seq) for stream, seq in seqs if stream in self._checks)
        return next((difference for difference in lost if difference is not None), None)
