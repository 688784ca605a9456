"""From which time on the rows of a changed query depend on no row that the former query has read.

Theory. The former query has read its sources up to a time M. An operator *reaches back* by D if its
output from time t + D on depends only on rows that start at t or later. So output rows from M plus
the sum of all D on the way belong to the new query alone. A stage that computes the same in both
queries, from inputs that do, has equal rows in its state, so it adds nothing. The horizon of an
operator (:mod:`rvertex.operators.horizon`) is an upper bound of D. Windows have a smaller one,
because a window's result starts with the window.

A stage may store rows of any age, and a source may have ended: then no such time exists, and the
names of these stages are returned.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING

from jobmanager.cli.branching.export import saved_plan
from jobmanager.driver.running.changes.snapshots import (
    reach_of_chain,
    read_snapshot,
    time_of_rows,
)
from jobmanager.storage.root import display_uri
from planner.physical.layout import chain_of
from planner.physical.recovery import durations_of
from rstream.types import INF_TIME, MIN_TIME
from rvertex.checkpoint.conversion import places_of
from rvertex.operators.lifetimes.shift import Shift
from rvertex.user_code.code import UserCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jobmanager.driver.running.changes.compare import Comparison
    from jobmanager.storage.root import JobRoot
    from jobmanager.storage.savepoints import Savepoint
    from planner.physical.plan import PhysicalPlan
    from rvertex.vertex.spec import VertexId, VertexSpec


@dataclass(frozen=True, slots=True)
class Onset:
    """``time_us``: rows that start from here on are rows of the new query alone.

    ``mixed``: stages that may use rows of any age which the former query has read; then no time is
    late enough. ``ended``: sources that the former query has read to their ends.
    """

    time_us: int
    mixed: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()

    @classmethod
    def latest(cls, of: Sequence[Onset]) -> Onset:
        """Return the onset of a stream that is computed from all of these."""
        none: frozenset[str] = frozenset()
        return cls(
            max((one.time_us for one in of), default=int(MIN_TIME)),
            none.union(*(one.mixed for one in of)),
            none.union(*(one.ended for one in of)),
        )


def onsets(root: JobRoot, savepoint: Savepoint, comparison: Comparison) -> dict[str, Onset]:
    """Return the onset of each output. ``savepoint``: of the former query, at the change."""
    old, new = saved_plan(root, savepoint, display_uri(root.uri)), comparison.plan
    read: dict[str, Onset] = {}
    for saved in savepoint.vertices:
        vertex = old.vertex(saved.vertex)
        if vertex.source is None:
            continue
        time_us = int(INF_TIME)
        if not saved.is_finished:
            time_us = time_of_rows(read_snapshot(root.store, vertex, saved.checkpoint))
        if time_us == INF_TIME:
            read[vertex.id] = Onset(int(MIN_TIME), ended=frozenset({vertex.stage}))
        else:
            read[vertex.id] = Onset(time_us if time_us == MIN_TIME else time_us + 1)
    rows = [row for row in comparison.rows if row.verdict != "kept"]
    code = _with_changed_code(old, new, comparison.links)
    changed = {row.stage for row in rows} | code, {row.former for row in rows} | code
    empty = {row.stage for row in rows if row.verdict == "started empty"}
    of_new = {
        str(v.id): read[f"{comparison.links[v.stage]}.{v.index}"]
        for v in new.vertices
        if v.source is not None and v.stage in comparison.links
    }
    # rows that the former query has stored may live as long as its own plan allows
    after, before = _Walk(new, changed[0], empty, of_new), _Walk(old, changed[1], set(), read)
    return {
        own.name: Onset.latest([*after.of_output(own), *before.of_output(was)])
        for was, own in zip(old.of_outputs, new.of_outputs, strict=True)
    }


class _Walk:
    """Computes the onset of each vertex's output. ``read``: of the rows of sources."""

    def __init__(
        self, plan: PhysicalPlan, changed: set[str], empty: set[str], read: Mapping[str, Onset]
    ) -> None:
        self._changed, self._empty, self._read = changed, empty, read
        self._writers, self._durations = plan.writers(), durations_of(plan)
        self._onsets: dict[VertexId, Onset] = {}
        self._differs: dict[VertexId, bool] = {}
        for name in plan.topological_order():
            vertex = replace(plan.vertex(name), operators=chain_of(plan.vertex(name)))
            above = [self._writers[channel.stream] for channel in vertex.inputs]
            is_changed = vertex.stage in self._changed
            self._differs[name] = is_changed or any(self._differs[other] for other in above)
            self._onsets[name] = self._of_vertex(vertex)

    def of_output(self, output: PhysicalPlan) -> list[Onset]:
        """Return the onset of each partition of an output."""
        return [self._onsets[self._writers[stream]] for stream, _ in output.sink_streams()]

    def _of_vertex(self, vertex: VertexSpec) -> Onset:
        equal = self._equal_ports(vertex)
        above = [self._read.get(vertex.id, Onset(int(MIN_TIME)))]
        for channel in vertex.inputs:
            onset = self._onsets[self._writers[channel.stream]]
            above.append(Onset(onset.time_us) if channel.port in equal else onset)
        found = Onset.latest(above)
        if not self._differs[vertex.id]:
            shifts = sum(abs(op.duration_us) for op in vertex.operators if isinstance(op, Shift))
            return replace(found, time_us=_later(found.time_us, shifts))
        durations = self._durations[vertex.id]
        back = reach_of_chain(vertex.operators, durations, equal)
        mixed = found.mixed | found.ended
        if back is None:
            mixed |= {vertex.stage}
        return Onset(_later(found.time_us, back or 0), mixed)

    def _equal_ports(self, vertex: VertexSpec) -> set[int]:
        """Return the ports of a join whose stored rows are equal in both queries."""
        ports = {channel.port for channel in vertex.inputs}
        if len(ports) < 2 or vertex.stage in self._empty or places_of(vertex)[0].is_stateless:
            return set()
        other = {c.port for c in vertex.inputs if self._differs[self._writers[c.stream]]}
        return ports - other


def _later(time_us: int, by_us: int) -> int:
    return time_us if time_us == MIN_TIME else time_us + by_us


def _with_changed_code(old: PhysicalPlan, new: PhysicalPlan, links: Mapping[str, str]) -> set[str]:
    """Return the stages, of both plans, whose user code imports a module that has changed."""
    sources = [
        {v.stage: {s for op in chain_of(v) for s in _sources(op)} for v in plan.vertices}
        for plan in (old, new)
    ]
    pairs = [(link, stage) for stage, link in links.items()]
    return {name for pair in pairs if sources[0][pair[0]] != sources[1][pair[1]] for name in pair}


def _sources(value: object) -> Iterator[tuple[str, str]]:
    """Return the modules of all user code in an operator, with the digests of their files."""
    if isinstance(value, UserCode):
        yield from value.sources
    elif isinstance(value, tuple):
        for one in value:
            yield from _sources(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _sources(getattr(value, field.name))
