"""Ends the outputs of a job at a change: fences before its commit, truncation at a rollback."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobmanager.driver.running.changes.errors import NotACutError
from jobmanager.storage.root import GENERATION, display_uri
from rstream.log.overlap import copy_range
from rstream.store.fences import (
    Fence,
    put_fence,
    reaches_beyond,
    remove_fences,
    valid_segments,
)
from rstream.store.segment_names import segment_name
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobmanager.driver.running.changes.cut import Cut
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore


def outputs_of(plan: PhysicalPlan) -> list[tuple[str, str]]:
    """Return stream and uri of each output and side output, which outlive a generation."""
    sides = (pair for pairs in plan.side_streams().values() for pair in pairs)
    return [*plan.sink_streams(), *sides]


def end_of(cut: Cut, stream: str) -> int:
    """Return the end (seq) of an output at the cut."""
    writer = cut.job.topology.streams[stream].writer
    ref = cut.refs.get(writer.vertex)
    return (cut.job.vertices[writer.vertex].ends if ref is None else ref.outputs)[writer.index]


def next_generation(root: JobRoot) -> int:
    """Return the number of the generation that the job's next change starts."""
    return int(root.settings().get(GENERATION, 0)) + 1


def in_generation(plan: PhysicalPlan, number: int) -> PhysicalPlan:
    """Return the plan with outputs that a generation writes."""
    vertices = []
    for vertex in plan.vertices:
        edges = (
            replace(e, generation=number) if e.is_sink or e.side else e for e in vertex.outputs
        )
        vertices.append(replace(vertex, outputs=tuple(edges)))
    return replace(plan, vertices=tuple(vertices))


def fence_off(
    root: JobRoot,
    plans: tuple[PhysicalPlan, PhysicalPlan],
    cut: Cut,
    number: int,
    begins: Mapping[str, int],
) -> None:
    """Fence off the outputs of both plans, the old and the new one.

    ``begins``: per uri, the seq at which generation ``number`` continues, if it is not the end.

    Raises:
        NotACutError: a suspended host has written beyond the cut meanwhile, and readers may have
            read that. The job must continue as before.
    """
    ends = {uri: end_of(cut, stream) for stream, uri in outputs_of(plans[0])}
    starts = {**dict.fromkeys((uri for _, uri in outputs_of(plans[1])), 0), **ends, **begins}
    for uri, start in starts.items():
        store = root.open_store(uri)
        root.check_owner()
        put_fence(store, Fence(start, number, root.epoch))
        # read after the fence, so segments written later do not count
        at_end = Fence(ends.get(uri, 0), number, root.epoch)
        if uri in ends and reaches_beyond(store, at_end):
            raise NotACutError(
                display_uri(root.uri), f"a suspended host has written to {uri} after the cut"
            )


def withdraw_fences(root: JobRoot, plan: PhysicalPlan, number: int) -> None:
    """Remove the fences that a change stored before it failed to commit."""
    for _, uri in outputs_of(plan):
        remove_fences(root.open_store(uri), number, root.epoch)


def truncate(store: BlobStore, end: int, generation: int) -> None:
    """Delete all items from seq ``end`` on. A segment that contains ``end`` is rewritten.

    A second call with the same ``end`` changes nothing. ``generation`` is the generation that
    continues at ``end``. Its fence hides these items, but a plain Parquet reader of the folder
    would see them.
    """
    former = valid_segments(store.list(), before=generation)
    beyond = {s: file for s, file in former.items() if s.hi > end and s.generation < generation}
    for seqs in beyond:
        if seqs.lo < end:
            copy_range(store, SeqRange(seqs.lo, end, seqs.generation))
    for file in beyond.values():
        store.delete(segment_name(file))
