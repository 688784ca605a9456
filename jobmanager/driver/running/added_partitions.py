"""Adds partitions to a job's plan that its Kafka topics got after the job was planned.

The vertex that reads a new partition is written into the job's plan first. Later, that vertex
writes into its journal from which time on the partition takes part (:mod:`rvertex.host.log_feed`).
So a successor that starts from any checkpoint decides the same. Each partition is assigned to the
vertex of the source that reads the fewest; ties go to the first. This module does that when a job
is resumed; :mod:`jobmanager.driver.running.growing_topics` does it while a job runs.

A new partition takes part only from a time above all output emitted before. To know that time, a
job that stops records the end offsets of its topics: no instance has read beyond them. After a
crash there is no such record. Then the end offsets are read one lease after this process has
claimed the root, because after that no host of the former driver may use a row that it reads.
Source: ADR 36.

Invariant: recorded ends are used only by the next driver, because they are stored with the epoch.
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

    #: Per vertex, the source partition of a topic that it reads.
    Readers = Mapping[str, SourcePartition]
    Look = Callable[[SourceSpec, Sequence[Unit]], Sequence[Unit]]

_log = logging.getLogger(__name__)
#: A file in the job's root: the end offsets of its topics after all of its instances had ended.
LOG_ENDS = "log_ends.json"
TROUBLE = (LogNotFoundError, LogRefusedError, LogUnreachableError)
#: Final states of a job that can be resumed and whose hosts were shut down cleanly.
_LEFT = ("stopped", "cancelled")
_pause = threading.Event().wait


def note_ends(plan: PhysicalPlan, root: JobRoot, *, leases_end_s: float) -> None:
    """Write the end offsets of the topics of a stopped job. A failure is only logged.

    ``leases_end_s``: monotonic time from which a host that hangs may not use the rows it reads.
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
            root.store.put(root.own_path(LOG_ENDS), json_document(noted))
    except (*TROUBLE, OperatingError) as error:
        _log.info("cannot store where topics end: %s", error)


def may_continue(state: str, plan: PhysicalPlan) -> bool:
    """Return whether a job in this final state can be resumed and read more of its topics."""
    return state in _LEFT and bool(topics_of(plan))


def _noted_ends(root: JobRoot) -> dict[str, dict[int, int]]:
    try:
        noted = read_json_document(root.read_file(LOG_ENDS))
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
    """Return the plan with the new partitions of its topics, and notes for the user.

    If the brokers of a topic do not answer, the plan keeps the known partitions of that topic.
    ``root``: this process has just claimed it. ``lease_s``: the duration of a host's lease.
    """
    changed: dict[str, SourcePartition] = {}
    notes = []
    for (stage, path), readers in topics_of(plan).items():
        try:
            new_units = find_added(readers, added_units)
        except TROUBLE as error:  # the topic's readers wait, or report the error
            _log.warning("cannot look up new partitions: %s", error)
            continue
        if new_units:
            ends = _noted_ends(root).get(path) or _ends_after(readers.values(), lease_s)
            changed |= dealt(readers, new_units, ends)
            notes.append(note_of(f"stage {stage}", new_units))
    return with_sources(plan, changed), tuple(notes)


def note_of(reader: str, units: Sequence[Unit]) -> str:
    """Return the note for users on the new partitions of a stage or a vertex."""
    numbers = ", ".join(str(unit.stream) for unit in units)
    return f"{reader} reads partitions that were added to its topic: {numbers}"


def with_sources(plan: PhysicalPlan, changed: Mapping[str, SourcePartition]) -> PhysicalPlan:
    """Return the plan with other source partitions for these vertices."""
    if not changed:
        return plan
    vertices = tuple(
        replace(v, source=changed[v.id]) if v.id in changed else v for v in plan.vertices
    )
    return replace(plan, vertices=vertices)


def topics_of(plan: PhysicalPlan) -> dict[tuple[str, str], dict[str, SourcePartition]]:
    """Return per stage and unbounded topic the vertices that read it, with their partitions."""
    sources: dict[tuple[str, str], dict[str, SourcePartition]] = {}
    for vertex in plan.vertices:
        if _may_grow(vertex):
            assert vertex.source is not None
            place = vertex.stage, vertex.source.spec.path
            sources.setdefault(place, {})[vertex.id] = vertex.source
    return sources


def _may_grow(vertex: VertexSpec) -> bool:
    """Return whether a vertex reads an unbounded topic."""
    source = vertex.source
    return (
        source is not None
        and source.spec.format == "kafka"
        and source.spec.live is not None
        and all(unit.until is None for unit in source.log_units)
    )


def find_added(readers: Readers, look: Look) -> Sequence[Unit]:
    """Return the partitions of a topic that none of its readers has.

    Raises:
        LogNotFoundError, LogRefusedError, LogUnreachableError: naming the topic.
    """
    known = [unit for reader in readers.values() for unit in reader.log_units]
    return look(next(iter(readers.values())).spec, known)


def _ends_after(readers: Iterable[SourcePartition], lease_s: float) -> dict[int, int]:
    """Return the end offsets of the partitions after ``lease_s``.

    The result is empty if the brokers do not answer. Then the readers request the offsets later.
    """
    _pause(lease_s)
    units = [unit for reader in readers for unit in reader.log_units]
    try:
        return ends_of(next(iter(readers)).spec, [unit.stream for unit in units])
    except TROUBLE as error:
        _log.info("cannot read where topics end: %s", error)
        return {}


def dealt(
    readers: Readers, new_units: Sequence[Unit], ends: Mapping[int, int]
) -> dict[str, SourcePartition]:
    """Return the readers with the new partitions. All units get the new number of partitions.

    ``ends``: the end offset per partition. If empty, instances determine themselves how far a
    former instance may have read.
    """
    count = max(unit.log_partitions for unit in new_units)
    added = {name: [*reader.added] for name, reader in readers.items()}

    def with_partitions(unit: Unit) -> Unit:
        return replace(unit, log_partitions=count, settles_at=ends.get(unit.stream))

    for unit in new_units:
        fewest = min(readers, key=lambda name: len(readers[name].units) + len(added[name]))
        added[fewest].append(unit)
    return {
        name: replace(
            reader,
            units=tuple(with_partitions(unit) for unit in reader.units),
            added=tuple(with_partitions(unit) for unit in added[name]),
        )
        for name, reader in readers.items()
    }
