"""Reads the checkpoints of a cut, and the unconsumed items of its channels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from jobmanager.driver.running.changes.errors import ChangeRefusedError, NotACutError
from planner.physical.layout import chain_of
from rstream import open_reader
from rstream.errors import CorruptSegmentError, SequenceDiscardedError, SequenceLostError
from rstream.items.batch import VS, Items, event_schema, int64_column
from rstream.log.reader import SegmentCursor
from rstream.types import INF_TIME, MIN_TIME
from rvertex.checkpoint.checkpointer import read_checkpoint
from rvertex.checkpoint.conversion import pairs_of, places_of
from rvertex.events.run import Run, to_items
from rvertex.operators.composite_state import part_state
from rvertex.vertex.merge import REACHED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobmanager.driver.running.changes.cut import Rest
    from planner.physical.plan import PhysicalPlan
    from rstream.log.durable import DurableLog
    from rstream.store.protocol import BlobStore
    from rvertex.vertex.spec import Snapshot, VertexSpec


def read_snapshot(store: BlobStore, spec: VertexSpec, name: str) -> Snapshot:
    """Return the snapshot in a checkpoint.

    Raises:
        CorruptCheckpointError: the checkpoint, or a part of it, is missing or damaged.
        NotACutError: the checkpoint has positions only, without state.
    """
    snapshot = read_checkpoint(store, name, spec).snapshot
    if snapshot.replay_from is not None:
        raise NotACutError(str(store.uri), f"the last checkpoint of {spec.id} contains no state")
    return snapshot


def time_of_input(snapshot: Snapshot) -> int:
    """Return the time of the last CTI (watermark) that a vertex's MERGE has released."""
    return int(snapshot.states[0].header.get("last_cti", MIN_TIME))


def reached_by(snapshot: Snapshot) -> int:
    """Return the greatest time of all items that a vertex's MERGE has released."""
    header = snapshot.states[0].header
    return int(max(header["last_cti"], header.get(REACHED, MIN_TIME), *header["times"]))


def time_of_rows(snapshot: Snapshot) -> int:
    """Return the greatest time of all rows and watermarks that a source has read."""
    state = snapshot.states[0]
    books = state.header.get("books")
    parts = [state] if books is None else [part_state(state, str(k)) for k in range(len(books))]
    times = [int(part.header[name]) for part in parts for name in ("max_vs", "last_cti")]
    return max(times, default=int(MIN_TIME))


def unread_from(snapshot: Snapshot) -> int:
    """Return the time from which on the operators of a vertex have received no row.

    A CTI does not show it: a window aggregate delays CTIs to the start of its open window, and may
    receive rows before the source's delay is over.
    """
    is_merge = "times" in snapshot.states[0].header
    found = reached_by(snapshot) if is_merge else time_of_rows(snapshot)
    return found if found in (MIN_TIME, INF_TIME) else found + 1


def whole_since(
    vertex: VertexSpec,
    old: Snapshot | None,
    plan: PhysicalPlan,
    read_old: Callable[[VertexSpec], tuple[VertexSpec, Snapshot] | None],
) -> int:
    """Return the time from which on a vertex misses no row if an operator starts empty.

    Rows are also missing if they were in a state of an earlier vertex that starts empty.
    ``old``: the vertex's snapshot; None: it is new, so it misses all rows that others have read.
    ``read_old``: what a vertex of the new ``plan`` continues.
    """
    found, writers = MIN_TIME if old is None else unread_from(old), plan.writers()
    todo, known = [vertex], {vertex.id}
    while todo:  # ends: each vertex is added once
        for channel in todo.pop().inputs:
            writer = plan.vertex(writers[channel.stream])
            if writer.id in known:
                continue
            todo.append(writer)
            known.add(writer.id)
            former = read_old(writer)
            if former is not None and (old is None or loses_rows(former[0], writer)):
                at = unread_from(former[1])
                # a vertex that has read all of its input holds no row back
                found = found if at == INF_TIME and old is not None else max(found, at)
    return found


def lossy_stages(old: PhysicalPlan, new: PhysicalPlan, links: Mapping[str, str]) -> dict[str, str]:
    """Return by stage of ``new`` the stage before it that loses rows, if any."""
    before, after = ({v.stage: v for v in plan.vertices} for plan in (old, new))
    found: dict[str, str] = {}
    writers = new.writers()
    for stage in dict.fromkeys(new.vertex(v).stage for v in new.topological_order()):
        for channel in after[stage].inputs:
            above = new.vertex(writers[channel.stream]).stage
            former = links.get(above)
            if above in found:
                found.setdefault(stage, found[above])
            elif former is not None and loses_rows(before[former], after[above]):
                found.setdefault(stage, above)
    return found


def loses_rows(old: VertexSpec, new: VertexSpec) -> bool:
    """Return whether rows in the state of ``old`` are lost, apart from rows lost before it."""
    was, is_now = (replace(vertex, operators=chain_of(vertex)) for vertex in (old, new))
    pairs = pairs_of(was, is_now)
    kept = sum(pair.old is not None and pair.verdict != "started empty" for pair in pairs)
    return kept < max(len(pairs), sum(not place.is_stateless for place in places_of(was)))


def last_time(log: DurableLog) -> int | None:
    """Return the time of the last item of a stream; None: it has no segment."""
    segments = log.segments()
    if not segments:
        return None
    cursor = SegmentCursor(log)
    try:
        items = cursor.read(segments[-1].hi - 1, 1)
    finally:
        cursor.close()
    assert items is not None, (log.uri, segments[-1])
    return int(int64_column(items.batch, VS)[-1])


def rest_items(store: BlobStore, rest: Rest) -> list[Items]:
    """Return the items of a channel that its reader had not consumed. ``store``: their store.

    Raises:
        NotACutError: the items were lost with their host.
        ChangeRefusedError: a file of the channel is damaged.
    """
    if rest.is_ended and rest.hi - rest.lo == 1:
        empty = pa.RecordBatch.from_pylist([], schema=event_schema(rest.payload))
        return [Items(rest.lo, to_items(Run(empty, np.array([INF_TIME], np.int64))))]
    reader, rest_batches = open_reader(store, rest.lo), []
    try:
        while reader.next_seq < rest.hi:
            items = reader.read_next(rest.hi - reader.next_seq)
            if items is None:
                raise SequenceLostError(rest.stream, reader.next_seq)
            rest_batches.append(items)
    except (SequenceLostError, SequenceDiscardedError) as error:
        raise NotACutError(rest.uri, f"rows between two vertices are gone ({error})") from error
    except CorruptSegmentError as error:
        reason = f"rows on their way in channel {rest.stream} are damaged ({error})"
        raise ChangeRefusedError(rest.uri, reason) from error
    finally:
        reader.close()
    return rest_batches
