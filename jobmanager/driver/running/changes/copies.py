"""Builds the state of a job manager for a new generation: a first checkpoint per vertex."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from jobmanager.state.messages import StateCopied, VertexCopy
from jobmanager.state.tracker import CheckpointRef
from rstream.items.batch import Items, cti_batch, item_schema
from rstream.items.digest import StreamDigest
from rstream.store.sync_later import SyncLater
from rstream.types import INF_TIME
from rvertex.checkpoint.journal import INTAKE
from rvertex.messages import Counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from jobmanager.storage.root import JobRoot
    from jobmanager.storage.savepoints import Savepoint
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore
    from rvertex.operators.protocol import OperatorState
    from rvertex.vertex.spec import Snapshot, VertexSpec


Slots = tuple[int, int]


class Draft:
    """A root to which a change writes files that no process reads before a later file exists.

    They are durable after :meth:`synced`, all at once, because the output pauses meanwhile.
    ``final``: the root itself.
    """

    def __init__(self, root: JobRoot) -> None:
        self.final, self._later = root, SyncLater()
        self.root = copy.copy(root)
        self.root.store = self._later.store_like(root.store)
        self.root.open_store = lambda uri: self._later.store_like(root.open_store(uri))

    def synced(self) -> JobRoot:
        """Make all files durable. Return the root of which this is a draft."""
        self._later.sync()
        return self.final


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of an old vertex's work: its operators' states, restricted to a range of key slots."""

    vertex: VertexSpec
    slots: Slots
    states: tuple[OperatorState, ...]
    #: Time of the last CTI that the operators received.
    reached: int
    #: Rows that the operators have emitted, and the vertex has not released yet.
    pending: pa.Table | None


def channels_folder(store: BlobStore, plan: PhysicalPlan, number: int, epoch: int) -> str:
    """Return a new folder for the channels of a generation.

    Each attempt gets its own folder. An attempt that failed before its commit, or that a replaced
    driver (of another ``epoch``) still makes, starts at another cut, so its items must not mix with
    these. ``store``: the store of the generation's root.
    """
    attempts = (f"streams/g{number}-{epoch}.{attempt}" for attempt in count())
    return f"{plan.root}/{next(name for name in attempts if not store.list(name))}"


def state_copied(saved: Savepoint, epoch: int, vertices: Sequence[VertexCopy]) -> StateCopied:
    """Return the job state with which the log of a generation starts."""
    return StateCopied(
        epoch=epoch,
        takeovers=saved.takeovers,
        retain_us=0,
        checkpointed_us=saved.checkpointed_us,
        uncollected=0,
        collected_us=0,
        collected=(),
        is_damaged=False,
        is_finishing=False,
        vertices=tuple(vertices),
    )


def going_on(saved: Savepoint, vertex: VertexSpec, snapshot: Snapshot, name: str) -> VertexCopy:
    """Return the state of a vertex that starts from the checkpoint ``name``."""
    at = snapshot.inputs, snapshot.outputs, snapshot.inputs
    return VertexCopy(
        vertex=vertex.id,
        refs=(CheckpointRef(name, *at, (), saved.checkpointed_us),),
        parts=(),
        is_finished=False,
        finisher=0,
        digests=(),
        ends=(),
        counts=Counts(snapshot.events_in, snapshot.events_out),
    )


def finished(
    vertex: VertexSpec, epoch: int, ends: Sequence[int], digests: Sequence[bytes]
) -> VertexCopy:
    """Return the state of a finished vertex. ``ends``: the ends (seqs) of its streams."""
    return VertexCopy(
        vertex=vertex.id,
        refs=(),
        parts=(),
        is_finished=True,
        finisher=epoch,
        digests=tuple(digests),
        ends=tuple(ends),
        counts=Counts(),
    )


def with_own_journal(
    target: BlobStore, vertex: VertexSpec, state: OperatorState, inputs: tuple[int, ...]
) -> tuple[OperatorState, tuple[int, ...]]:
    """Reset the number of journal entries, because the state already contains their effect."""
    numbers = [int(p.rpartition("/")[2]) for p in target.list(f"{INTAKE}/{vertex.id}")]
    books = [{**book, "entries": 0} for book in state.header["books"]]
    header = {**state.header, "books": books, "blob": max(numbers, default=-1) + 1}
    half = len(inputs) // 2
    return replace(state, header=header), (*inputs[:half], *(0,) * half)


def end_of_stream(payload: pa.Schema) -> Items:
    """Return the first and only item of a channel whose writer has finished."""
    return Items(0, cti_batch(INF_TIME, item_schema(payload)))


def digest_of(items: Sequence[Items]) -> bytes:
    """Return the digest of a stream that has exactly these items so far."""
    digest = StreamDigest()
    for one in items:
        digest.update(one.first_seq, one.batch)
    return digest.to_bytes()
