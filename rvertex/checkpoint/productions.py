"""Strong productions: a step's input positions, state and outputs, durable in one entry.

Theory of operation. After each step of a strong vertex, its snapshot and its outputs become one
entry of the journal ``productions/<vertex>``. Until the entry is durable, the outputs are held and
the vertex makes no further step. So it never computes visible output twice, regardless of the
user's code. Large tables of the state are stored before the entry, as separate parts, and only if
they changed. A new instance starts from the newest entry, even if it was ordered to start from an
older checkpoint. It writes the outputs of the entries after that checkpoint again, and the streams
drop the items that are already durable.

Invariants: (1) entries are numbered from 0 without gaps, and only one instance can create the next;
(2) outputs are written only from durable entries; (3) some entries are announced as checkpoints. A
checkpoint names the entries since the previous one, so these are deleted with it; (4) the last
entry of a finished vertex is never announced, so it stays and stops instances that start too late.
Source: MillWheel VLDB'13, "strong productions".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from rstream.items.batch import Items
from rvertex.checkpoint.chunks import aligned
from rvertex.checkpoint.codec import (
    CheckpointWriter,
    LoadedCheckpoint,
    checkpoint_path,
    load_checkpoint,
)
from rvertex.checkpoint.journal import PRODUCTIONS, STATES, Journal
from rvertex.errors import CorruptCheckpointError, CorruptJournalError
from rvertex.messages import CheckpointTaken
from rvertex.vertex.rvertex import StepResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from rstream.store.protocol import BlobStore
    from rvertex.checkpoint.checkpointer import CheckpointContext
    from rvertex.vertex.spec import Snapshot, VertexSpec

_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Production:
    """A durable entry. ``parts``: the parts of its state."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    parts: tuple[str, ...]
    size_bytes: int
    is_final: bool


@dataclass(frozen=True, slots=True)
class History:
    """The newest entry at start, and the entries since the checkpoint in the start order."""

    next_number: int
    loaded: LoadedCheckpoint | None
    since: tuple[Production, ...]
    #: Outputs to write again, in order; the first starts at ``output_seqs``.
    again: tuple[StepResult, ...]
    output_seqs: tuple[int, ...]


class Productions:
    """Writes the entries of one instance, and announces some of them as checkpoints."""

    def __init__(
        self,
        spec: VertexSpec,
        env: CheckpointContext,
        epoch: int,
        history: History,
        *,
        get_snapshot: Callable[[], Snapshot],
        is_durable: Callable[[tuple[int, ...], bool, bool], bool],
    ) -> None:
        self._spec, self._env, self._epoch = spec, env, epoch
        self._get_snapshot, self._is_durable = get_snapshot, is_durable
        self._journal = Journal(env.store, f"{PRODUCTIONS}/{spec.id}")
        inline_bytes_max = env.limits.checkpoint_inline_bytes_max
        self._folder = f"{STATES}/{spec.id}"
        self._writer = CheckpointWriter(self._folder, epoch, inline_bytes_max=inline_bytes_max)
        if history.loaded is not None:
            self._writer.adopt(history.loaded)
        self._next = history.next_number
        self._since = list(history.since)
        self._output_seqs = get_snapshot().outputs
        self._written: Future[Production] | None = None
        #: Number of entries of ``_since`` that belong to the checkpoint being announced.
        self._announcing = 0
        self._taken_us = 0
        self._taken_s = env.clock.monotonic_s()
        self._input_bytes = 0
        self._is_requested = self._is_last = self._is_closed = False

    def hold(self, result: StepResult) -> Future[Production]:
        """Store the step that emitted ``result``. Its outputs must not be written before that.

        The future raises OvertakenError if another instance has stored this step.
        """
        snapshot, number, before = self._get_snapshot(), self._next, self._output_seqs
        self._next, self._output_seqs = number + 1, snapshot.outputs
        self._written = self._env.background.submit(
            lambda: self._store(number, snapshot, before, result)
        )
        return self._written

    #: See :class:`Checkpointer`. It has no effect here, since an announcement takes no time.
    only_requested = False

    def request(self, *, whole: bool = False, last: bool = False) -> None:
        """Announce the next entry as a checkpoint. ``whole`` has no effect."""
        del whole
        self._is_requested, self._is_last = True, self._is_last or last

    def note_input(self, nbytes: int) -> None:
        """Count bytes of input of the vertex."""
        self._input_bytes += nbytes

    def poll(self, positions: tuple[int, ...]) -> None:
        """Announce a checkpoint if one is due and the outputs up to it are durable."""
        if self._written is not None:
            self._since.append(self._written.result())
            self._written = None
        if not self._announcing and self._since and (self._is_requested or self._is_due()):
            self._begin()
        if self._announcing and self._is_durable(
            self._since[self._announcing - 1].outputs, self._is_requested, False
        ):
            self._announce()

    @property
    def lacks_entry(self) -> bool:
        """Whether a checkpoint is requested, and no step was stored since the last one."""
        return self._is_requested and not self._since and self._written is None

    def close(self) -> None:
        """Store no further entries."""
        self._is_closed = True

    def _is_due(self) -> bool:
        limits = self._env.limits
        interval_s, bytes_max = limits.checkpoint_interval_s, limits.checkpoint_bytes_max
        if bytes_max is not None and self._input_bytes >= bytes_max:
            return True
        waited_s = self._env.clock.monotonic_s() - self._taken_s
        return interval_s is not None and waited_s >= interval_s

    def _begin(self) -> None:
        if self._since[-1].is_final:
            return
        self._announcing = len(self._since)
        self._taken_s, self._input_bytes = self._env.clock.monotonic_s(), 0
        self._taken_us = self._env.clock.now_us()

    def _announce(self) -> None:
        announced, self._since = self._since[: self._announcing], self._since[self._announcing :]
        self._announcing = 0
        *earlier, newest = announced
        is_last = self._is_last and not self._since  # else a later entry is the last one
        parts = dict.fromkeys([p.name for p in earlier])
        parts |= dict.fromkeys(part for production in announced for part in production.parts)
        self._env.notify(
            CheckpointTaken(
                self._spec.id,
                self._epoch,
                newest.name,
                newest.inputs,
                newest.outputs,
                sum(production.size_bytes for production in announced),
                reads=newest.inputs,
                parts=tuple(parts),
                taken_us=self._taken_us,
                asked=self._is_requested,
                is_last=is_last,
            )
        )
        self._is_requested = self._is_last = self._is_last and not is_last

    def _store(
        self, number: int, snapshot: Snapshot, before: tuple[int, ...], result: StepResult
    ) -> Production:
        """Store the parts of the state, then the entry. Runs in the background."""
        path = checkpoint_path(self._folder, self._epoch, number)
        manifest = b""

        def put(name: str, data: pa.Buffer | bytes) -> None:
            nonlocal manifest
            if name == path:
                manifest = bytes(data)
            elif not self._is_closed:
                self._env.store.put(name, data)

        steps = self._writer.write(snapshot, number, put)
        while True:  # ends with the last part of the state
            try:
                next(steps)
            except StopIteration as end:
                written = end.value
                break
        data = _encode(manifest, written.parts, snapshot, before, result)
        if self._is_closed:
            raise RuntimeError(f"{self._spec.id}: its instance is closed")
        name = self._journal.append(number, data)
        return _production(name, snapshot, written.parts, len(data))


def open_history(spec: VertexSpec, checkpoint: str, store: BlobStore) -> History:
    """Read the productions that earlier instances have stored.

    Raises:
        CorruptJournalError: an entry or a part of the newest state is damaged or missing.
        SnapshotSchemaError: the newest entry belongs to another plan.
    """
    journal = Journal(store, f"{PRODUCTIONS}/{spec.id}")
    newest = int(checkpoint.rpartition("/")[2]) if checkpoint else 0
    numbers = [number for number in journal.numbers() if number >= newest]
    if not numbers:
        if checkpoint:
            raise CorruptJournalError(checkpoint, "the file is gone")
        return History(0, None, (), (), (0,) * len(spec.output_streams))
    for following, number in enumerate(numbers, newest):
        if number != following:
            raise CorruptJournalError(journal.name(following), "the file is gone")
    names = [journal.name(number) for number in numbers]
    entries = [_Entry(name, data) for name, data in zip(names, journal.read(numbers), strict=True)]
    return History(
        numbers[-1] + 1,
        _load(entries[-1], spec, store),
        tuple(entry.production for entry in (entries[1:] if checkpoint else entries)),
        tuple(entry.result() for entry in entries),
        entries[0].before,
    )


def parts_of_entries(store: BlobStore, names: Sequence[str]) -> set[str]:
    """Return the state parts that these entries name."""
    data = zip(names, store.get_many(names), strict=True)
    entries = (_Entry(name, blob) for name, blob in data if blob is not None)
    return {part for entry in entries for part in entry.production.parts}


class _Header(msgspec.Struct):
    """The header of an entry. Every new field needs a default."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    before: tuple[int, ...]
    is_final: bool
    parts: tuple[str, ...]
    #: Length of the manifest, bytes.
    manifest: int
    #: For each output: the first seq and the size in bytes of its items; None: no items.
    result: list[tuple[int, int] | None]


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Header)


class _Entry:
    """A decoded entry."""

    def __init__(self, name: str, data: bytes) -> None:
        length = int.from_bytes(data[:_LENGTH_BYTES], "little")
        start = _LENGTH_BYTES + length
        try:
            self._header = header = _DECODER.decode(data[_LENGTH_BYTES:start])
        except msgspec.DecodeError as error:
            raise CorruptJournalError(name, f"its header: {error}") from error
        self._body = pa.py_buffer(data).slice(start)
        self.before = header.before
        self.production = Production(
            name,
            header.inputs,
            header.outputs,
            header.parts,
            len(data),
            header.is_final,
        )

    @property
    def manifest(self) -> bytes:
        """The encoded snapshot after the step."""
        return self._body.slice(0, self._header.manifest).to_pybytes()  # type: ignore[no-any-return]

    def result(self) -> StepResult:
        """Decode the outputs of the step."""
        offset = self._header.manifest
        outputs: list[Items | None] = []
        for placed in self._header.result:
            if placed is None:
                outputs.append(None)
                continue
            seq, size = placed
            data = aligned(self._body.slice(offset, size))
            batch = pa.ipc.open_stream(data).read_next_batch()
            outputs.append(Items(seq, batch))
            offset += size
        return StepResult(tuple(outputs))


def _load(entry: _Entry, spec: VertexSpec, store: BlobStore) -> LoadedCheckpoint:
    name = entry.production.name
    try:
        return load_checkpoint(
            entry.manifest, name=name, state_schema=spec.state_schema, fetch=store.get_many
        )
    except CorruptCheckpointError as error:  # no older state fits visible outputs
        raise CorruptJournalError(name, str(error)) from error


def _production(
    name: str, snapshot: Snapshot, parts: tuple[str, ...], size_bytes: int
) -> Production:
    where = snapshot.inputs, snapshot.outputs
    return Production(name, *where, parts, size_bytes, snapshot.is_final)


def _encode(
    manifest: bytes,
    parts: tuple[str, ...],
    snapshot: Snapshot,
    before: tuple[int, ...],
    result: StepResult,
) -> bytes:
    """Encode an entry: header length, msgpack header, manifest, outputs as Arrow IPC."""
    blobs = [None if items is None else _ipc(items.batch) for items in result.outputs]
    rows = zip(result.outputs, blobs, strict=True)
    header = _ENCODER.encode(
        _Header(
            inputs=snapshot.inputs,
            outputs=snapshot.outputs,
            before=before,
            is_final=snapshot.is_final,
            parts=parts,
            manifest=len(manifest),
            result=[
                None if items is None or blob is None else (items.first_seq, blob.size)
                for items, blob in rows
            ],
        )
    )
    length = len(header).to_bytes(_LENGTH_BYTES, "little")
    rest = [blob.to_pybytes() for blob in blobs if blob is not None]
    return b"".join([length, header, manifest, *rest])


def _ipc(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
