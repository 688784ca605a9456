"""Stops a run in a debugger before steps whose rows satisfy a condition."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from jobmanager.replay.conditions import Condition
from jobmanager.replay.errors import InvalidConditionError
from jobmanager.replay.feeds import STEP_ROWS
from jobmanager.replay.rerun import VertexRun
from rstream.items.batch import EVENT, KIND, VE, VS, kinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from jobmanager.replay.feeds import Feed
    from rstream.items.batch import Items
    from rvertex.events.run import Run
    from rvertex.vertex.rvertex import RVertex
    from rvertex.vertex.spec import VertexSpec

#: The most reads of one item after a row that satisfies the condition. The row may have to wait for
#: others, for example in MERGE.
_SINGLE_READS_MAX = 256


class Stops:
    """The condition of one vertex, and the number of times that it has stopped the run."""

    def __init__(self, spec: VertexSpec, text: str) -> None:
        """Parse the condition for rows that the vertex reads. Raises InvalidConditionError."""
        self.vertex: str = spec.id
        self.count = 0
        self._run: _StoppedRun | None = None
        if spec.source is not None:
            payloads, ports = [spec.source.spec.schema], [0]
        else:
            payloads, ports = [c.payload for c in spec.inputs], [c.port for c in spec.inputs]
        #: The port of each channel.
        self._ports = ports
        self._conditions = _by_port(text, dict(zip(ports, payloads, strict=True)))

    def make(self, spec: VertexSpec, vertex: RVertex, feeds: Sequence[Feed]) -> VertexRun:
        """Return the run that is stopped."""
        self._run = _StoppedRun(spec, vertex, feeds, self)
        return self._run

    def first(self, channel: int, batch: pa.RecordBatch) -> int | None:
        """Return the first row of items, or of a source, that satisfies the condition."""
        condition = self._conditions.get(self._ports[channel])
        if condition is None:
            return None
        at = np.arange(batch.num_rows)
        if batch.schema.names[0] == KIND:
            at = np.flatnonzero(kinds(batch) == EVENT)
            batch = batch.take(at) if len(at) < batch.num_rows else batch
        matches = at[condition.mask(_events(batch, condition))]
        return int(matches[0]) if len(matches) else None

    def before_step(self, ports: list[Run]) -> None:
        """Stop if rows of the step satisfy the condition."""
        for port, condition in self._conditions.items():
            events = ports[port].events
            mask = condition.mask(events)
            if mask.any():
                assert self._run is not None
                self.count += 1
                self._run.rows_max = STEP_ROWS
                rows = condition.shown(events).filter(mask).to_pylist()
                stop(self._run.vertex, rows, lambda: _state(self._run))


def stop(vertex: RVertex, rows: list[dict[str, Any]], state: Any) -> None:
    """Stop in a debugger: ``rows`` satisfy the condition, ``state()`` is from before the step."""
    sys.breakpointhook()
    del vertex, rows, state  # the debugger stops here, or above (Python 3.13); `c` continues


class _StoppedRun(VertexRun):
    """Offers items that satisfy the condition one at a time."""

    def __init__(
        self, spec: VertexSpec, vertex: RVertex, feeds: Sequence[Feed], stops: Stops
    ) -> None:
        super().__init__(spec, vertex, feeds)
        self._stops = stops
        self._single_reads = 0

    def offered(self, channel: int, items: Items) -> Items:
        """Return all items before the first that satisfies the condition, or that item alone."""
        if self.rows_max == 1:
            self._single_reads -= 1
            self.rows_max = 1 if self._single_reads > 0 else STEP_ROWS
            return items
        first = self._stops.first(channel, items.batch)
        if first is None or self.vertex.is_replaying:
            return items
        if first == 0:
            self.rows_max, self._single_reads = 1, _SINGLE_READS_MAX
        return items.head(max(first, 1))


def _by_port(text: str, payloads: dict[int, pa.Schema]) -> dict[int, Condition]:
    """Return the condition for each port whose rows have its columns."""
    conditions: dict[int, Condition] = {}
    errors = []
    for port, payload in payloads.items():
        try:
            conditions[port] = Condition(text, payload)
        except InvalidConditionError as error:
            errors.append(error)
    if not conditions:
        raise errors[0]
    return conditions


def _events(batch: pa.RecordBatch, condition: Condition) -> pa.RecordBatch:
    return batch.select([VS, VE, *condition.payload.names])


def _state(run: VertexRun | None) -> dict[str, Any]:
    """Return the state of each operator: scalars and Arrow tables."""
    assert run is not None
    names = ["input", *(type(operator).__name__ for operator in run.spec.operators)]
    states = zip(names, run.vertex.states(), strict=True)
    return {name: {**state.header, **state.tables} for name, state in states}
