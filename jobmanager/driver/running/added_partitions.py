"""Takes partitions in that a Kafka topic got after its job was planned: in a plan that has them.

Which vertex reads a new partition is written into the job's plan before anything follows from it;
from which time on it takes part, that vertex writes into its journal
(:mod:`rvertex.host.log_feed`). So whoever goes on later, from whatever checkpoint, finds the same.
Partitions are dealt to the vertices of the source that read the fewest, in the order of both. This
file does it when a job is resumed, :mod:`jobmanager.driver.running.growing_topics` while it runs.

A new partition takes part above all that was put out before. So when a job has stopped, it is noted
where its topics end: no instance has read beyond, so what comes while it does not run is above
that. After a death nobody has noted that, and the ends one lease after the root was claimed count:
then nobody confirms a host of the life before any more. Source: ADR 36.

Invariant: ends that are noted are those of the life before this one: its epoch is beside them.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from jobmanager.storage.documents import (
    BrokenDocumentError,
    json_document,
    read_json_document,
)
from rstream.clock import SystemClock
from rstream.errors import OperatingError
from rvertex.sources.logs.errors import (
    LogNotFoundError,
    LogRefusedError,
    LogUnreachableError,
)
from rvertex.sources.logs.kafka.positions import added_units, ends_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan
    from rvertex.sources.spec import SourcePartition, SourceSpec, Unit
    from rvertex.vertex.spec import VertexSpec

    #: By vertex, what it reads of a topic; and how brokers are asked what else there is.
    Readers = Mapping[str, SourcePartition]
    Look = Callable[[SourceSpec, Sequence[Unit]], Sequence[Unit]]

_log = logging.getLogger(__name__)
#: In a job's root: where its topics ended when all of its instances had.
LOG_ENDS = "log_ends.json"
TROUBLE = (LogNotFoundError, LogRefusedError, LogUnreachableError)
#: States of a job that can be resumed, and whose hosts were told to leave.
_LEFT = ("stopped", "cancelled")
_pause = threading.Event().wait


def note_ends(plan: PhysicalPlan, root: JobRoot, *, leases_end_s: float) -> None:
    """Write down where the topics of a job end that has stopped; without them it goes on, too.

    ``leases_end_s``: from then on a host that hangs, and did not leave, may use no row.
    """
    _pause(max(leases_end_s - SystemClock().monotonic_s(), 0.0))
    ends: dict[str, dict[int, int]] = {}
    try:
        for readers in topics_of(plan).values():
            units = [unit for reader in readers.values() for unit in reader.log_units]
            spec = next(iter(readers.values())).spec
            ends.setdefault(spec.path, {}).update(ends_of(spec, [unit.stream for unit in units]))
        if ends:
            noted = {"epoch": root.epoch, "ends": ends}
            root.store.put(LOG_ENDS, json_document(noted))
    except (*TROUBLE, OperatingError) as error:
        _log.info("where topics end is not noted: %s", error)


def may_go_on(state: str, plan: PhysicalPlan) -> bool:
    """Whether a job that has ended in this state may be resumed, and read more then."""
    return state in _LEFT and bool(topics_of(plan))


def _noted_ends(root: JobRoot) -> dict[str, dict[int, int]]:
    try:
        noted = read_json_document(root.store.get(LOG_ENDS))
        if noted["epoch"] != root.epoch - 1:
            return {}
        return {
            path: {int(p): int(end) for p, end in ends.items()}
            for path, ends in noted["ends"].items()
        }
    except (FileNotFoundError, BrokenDocumentError, KeyError):
        return {}


def with_added_partitions(
    plan: PhysicalPlan, root: JobRoot, *, lease_s: float
) -> tuple[PhysicalPlan, tuple[str, ...]]:
    """The plan to go on with, the same one if there are none, and notes for the user.

    A topic whose brokers do not answer keeps the partitions that it has in the plan. ``root``: it
    was claimed just now.
    """
    changed: dict[str, SourcePartition] = {}
    notes = []
    for (stage, path), readers in topics_of(plan).items():
        try:
            found = look_for_more(readers, added_units)
        except TROUBLE as error:  # its readers wait, or tell what is wrong
            _log.warning("cannot look up new partitions: %s", error)
            continue
        if found:
            ends = _noted_ends(root).get(path) or _ends_after(readers.values(), lease_s)
            changed |= dealt(readers, found, ends)
            notes.append(note_of(f"stage {stage}", found))
    return with_sources(plan, changed), tuple(notes)


def note_of(reader: str, found: Sequence[Unit]) -> str:
    """What users are told of a stage, or of one of its vertices."""
    numbers = ", ".join(str(unit.stream) for unit in found)
    return f"{reader} reads partitions that were added to its topic: {numbers}"


def with_sources(plan: PhysicalPlan, changed: Mapping[str, SourcePartition]) -> PhysicalPlan:
    """The plan in which these vertices read that; the same one if there are none."""
    if not changed:
        return plan
    vertices = tuple(
        replace(v, source=changed[v.id]) if v.id in changed else v for v in plan.vertices
    )
    return replace(plan, vertices=vertices)


def topics_of(plan: PhysicalPlan) -> dict[tuple[str, str], dict[str, SourcePartition]]:
    """By stage and topic the vertices that read one without end, and what each reads."""
    sources: dict[tuple[str, str], dict[str, SourcePartition]] = {}
    for vertex in plan.vertices:
        if _may_grow(vertex):
            assert vertex.source is not None
            place = vertex.stage, vertex.source.spec.path
            sources.setdefault(place, {})[vertex.id] = vertex.source
    return sources


def _may_grow(vertex: VertexSpec) -> bool:
    """Whether it reads a topic that has no end in the plan."""
    source = vertex.source
    return (
        source is not None
        and source.spec.format == "kafka"
        and source.spec.log is not None
        and all(unit.until is None for unit in source.log_units)
    )


def look_for_more(readers: Readers, look: Look) -> Sequence[Unit]:
    """The partitions of a topic that none of its readers has.

    Raises:
        LogNotFoundError, LogRefusedError, LogUnreachableError: naming the topic.
    """
    known = [unit for reader in readers.values() for unit in reader.log_units]
    return look(next(iter(readers.values())).spec, known)


def _ends_after(readers: Iterable[SourcePartition], lease_s: float) -> dict[int, int]:
    """Where the partitions end by then; empty: their readers are to ask."""
    _pause(lease_s)
    units = [unit for reader in readers for unit in reader.log_units]
    try:
        return ends_of(next(iter(readers)).spec, [unit.stream for unit in units])
    except TROUBLE as error:
        _log.info("where topics end is not known: %s", error)
        return {}


def dealt(
    readers: Readers, found: Sequence[Unit], ends: Mapping[int, int]
) -> dict[str, SourcePartition]:
    """The readers with the new partitions; all know how many there are, and where theirs ended.

    ``ends``: by partition; empty: instances are to find out how far an earlier one may have read.
    """
    count = max(unit.log_partitions for unit in found)
    added = {name: [*reader.added] for name, reader in readers.items()}

    def told(unit: Unit) -> Unit:
        return replace(unit, log_partitions=count, settles_at=ends.get(unit.stream))

    for unit in found:
        fewest = min(readers, key=lambda name: len(readers[name].units) + len(added[name]))
        added[fewest].append(unit)
    return {
        name: replace(
            reader,
            units=tuple(told(unit) for unit in reader.units),
            added=tuple(told(unit) for unit in added[name]),
        )
        for name, reader in readers.items()
    }
