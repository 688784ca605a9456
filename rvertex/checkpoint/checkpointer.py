"""Decides when an instance takes a checkpoint, stores it and announces it.

A checkpoint is due after a time or a number of input bytes, whichever is reached first, or on
request. The replicas of one vertex take checkpoints in turn: each has a slot, and waits as many
intervals as there are slots. The host's thread takes the snapshot, by reference. Background tasks
upload it, one part per task, so that flushes of streams run in between.

Invariants: (1) at most one checkpoint is in progress; (2) a checkpoint is announced only when it is
stored and the outputs of durable streams are durable up to it; (3) its name is never used again;
(4) a closed instance starts no further upload.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rstream.errors import OperatingError
from rvertex.checkpoint.codec import (
    CheckpointWriter,
    WrittenCheckpoint,
    checkpoint_path,
    load_checkpoint,
    parts_bytes,
)
from rvertex.errors import CorruptCheckpointError
from rvertex.messages import CheckpointTaken
from rvertex.state.memory import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import pyarrow as pa

    from rstream.clock import Clock
    from rstream.log.background import Background
    from rstream.store.protocol import BlobStore
    from rvertex.checkpoint.codec import LoadedCheckpoint
    from rvertex.messages import HostNotice
    from rvertex.state.memory import StateMemory
    from rvertex.vertex.spec import Snapshot, VertexSpec

#: Number of consecutive failed checkpoints that are retried; the next one fails the instance.
FAILURES_MAX = 3


class AttachedFiles(Protocol):
    """Files of a vertex that are deleted together with an old checkpoint.

    A file may be deleted with the last checkpoint that needs it.
    """

    def names(self) -> tuple[str, ...]:
        """Return the files that are not needed from the current position on."""

    def announced(self, names: tuple[str, ...]) -> None:
        """Record that a checkpoint with these files was announced."""


class AllAttached:
    """Combines several :class:`AttachedFiles` into one."""

    def __init__(self, *parts: AttachedFiles) -> None:
        self._parts = parts
        self._counts: list[int] = []

    def names(self) -> tuple[str, ...]:
        """Implement :class:`AttachedFiles`; only one checkpoint is in progress at a time."""
        found = [part.names() for part in self._parts]
        self._counts = [len(names) for names in found]
        return tuple(name for names in found for name in names)

    def announced(self, names: tuple[str, ...]) -> None:
        """Implement :class:`AttachedFiles`."""
        for part, count in zip(self._parts, self._counts, strict=True):
            part.announced(names[:count])
            names = names[count:]


class CheckpointLimits(Protocol):
    """The limits of a host that concern checkpoints."""

    @property
    def checkpoint_interval_s(self) -> float | None:
        """Seconds between two checkpoints; None: no checkpoints by time."""

    @property
    def checkpoint_bytes_max(self) -> int | None:
        """Bytes of input after which a checkpoint is due; None: no checkpoints by input."""

    @property
    def checkpoint_inline_bytes_max(self) -> int:
        """State pieces up to this size, in bytes, are stored inside the manifest."""


class CheckpointContext(Protocol):
    """The services of its host that a checkpointer uses."""

    store: BlobStore
    background: Background
    clock: Clock
    notify: Callable[[HostNotice], None]
    #: Call it to make the host's thread poll again.
    wake: Callable[[], None]

    @property
    def limits(self) -> CheckpointLimits:
        """The host's limits."""


@dataclass(frozen=True, slots=True)
class CheckpointSlot:
    """A replica's turn to take checkpoints: replica ``number`` of ``count``."""

    number: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class _Pending:
    name: str
    snapshot: Snapshot
    is_requested: bool
    is_whole: bool
    is_last: bool
    taken_us: int
    written: Future[WrittenCheckpoint]
    attached_files: tuple[str, ...]


class Checkpointer:
    """Takes a snapshot when one is due, uploads it, and announces the checkpoint."""

    def __init__(
        self,
        spec: VertexSpec,
        epoch: int,
        env: CheckpointContext,
        *,
        get_snapshot: Callable[[bool], Snapshot],
        is_durable: Callable[[tuple[int, ...], bool, bool], bool],
        slot: CheckpointSlot,
        loaded: LoadedCheckpoint | None,
        positions: tuple[int, ...],
        attached_files: AttachedFiles | None = None,
    ) -> None:
        """Continue after the checkpoint ``loaded``; ``positions`` have been consumed since.

        ``get_snapshot``: called with whether it must contain the whole state. ``is_durable``: with
        output seqs, whether to flush now, and whether it means volatile streams, too.
        """
        self._spec, self._epoch, self._env = spec, epoch, env
        self._get_snapshot, self._is_durable = get_snapshot, is_durable
        self._folder = f"checkpoints/{spec.id}"
        inline_bytes_max = env.limits.checkpoint_inline_bytes_max
        self._writer = CheckpointWriter(self._folder, epoch, inline_bytes_max=inline_bytes_max)
        if loaded is not None:
            self._writer.adopt(loaded)
        self._attached_files = attached_files
        self._slots = slot.count
        #: Number of intervals until the next checkpoint.
        self._wait = slot.number + 1
        self._taken_s = env.clock.monotonic_s()
        self._input_bytes = 0
        self._count = self._failures = 0
        self._last_positions = positions
        self._is_requested = self._is_whole = self._is_last = self._is_closed = False
        #: Whether only requests start a checkpoint: any other one would delay the last one of a
        #: job.
        self.only_requested = False
        self._pending: _Pending | None = None

    def request(self, *, whole: bool = False, last: bool = False) -> None:
        """Take a checkpoint as soon as no other is in progress.

        ``whole``: for a savepoint. ``last``: the vertex is at the cut at which the job stops.
        """
        self._is_requested = True
        self._is_whole, self._is_last = self._is_whole or whole, self._is_last or last

    def note_input(self, nbytes: int) -> None:
        """Add ``nbytes`` to the input since the last checkpoint."""
        self._input_bytes += nbytes

    def poll(self, positions: tuple[int, ...]) -> None:
        """Start a checkpoint if one is due, or complete the pending one.

        Raises:
            OperatingError: the store failed more than FAILURES_MAX times in a row.
        """
        if self._pending is not None:
            self._complete(self._pending)
        elif self._is_requested or (positions != self._last_positions and self._is_due()):
            self._start()

    def close(self) -> None:
        """Start no further upload."""
        self._is_closed = True

    def _is_due(self) -> bool:
        if self.only_requested:
            return False
        limits = self._env.limits
        interval_s, bytes_max = limits.checkpoint_interval_s, limits.checkpoint_bytes_max
        if bytes_max is not None and self._input_bytes >= bytes_max * self._wait:
            return True
        waited_s = self._env.clock.monotonic_s() - self._taken_s
        return interval_s is not None and waited_s >= interval_s * self._wait

    def _start(self) -> None:
        snapshot = self._get_snapshot(self._is_whole)
        self._taken_s, self._input_bytes = self._env.clock.monotonic_s(), 0
        self._count += 1
        name = checkpoint_path(self._folder, self._epoch, self._count)
        steps = self._writer.write(snapshot, self._count, self._env.store.put)
        now_us = self._env.clock.now_us()
        others = () if self._attached_files is None else self._attached_files.names()
        request = self._is_requested, self._is_whole, self._is_last
        self._pending = _Pending(name, snapshot, *request, now_us, self._run(steps), others)
        if self._is_requested:  # flush the outputs while the checkpoint is uploaded
            self._is_durable(snapshot.outputs, True, self._is_whole)
        self._is_requested = self._is_whole = self._is_last = False

    def _run(self, steps: Generator[None, None, WrittenCheckpoint]) -> Future[WrittenCheckpoint]:
        """Run the steps as separate background tasks, so that other tasks run in between."""
        done: Future[WrittenCheckpoint] = Future()
        done.add_done_callback(lambda _: self._env.wake())

        def step() -> None:
            if self._is_closed:
                return
            try:
                next(steps)
            except StopIteration as end:
                self._delete(end.value.obsolete)
                done.set_result(end.value)
            except Exception as error:  # the future raises it in the host's thread
                done.set_exception(error)
            else:
                self._env.background.submit(step)

        self._env.background.submit(step)
        return done

    def _delete(self, obsolete: tuple[str, ...]) -> None:
        for path in obsolete:
            with contextlib.suppress(OperatingError):
                self._env.store.delete(path)

    def _complete(self, pending: _Pending) -> None:
        if not pending.written.done():
            return
        error = pending.written.exception()
        if error is not None:
            self._fail(pending, error)
        elif self._is_durable(
            pending.snapshot.outputs, pending.is_requested or self._is_requested, pending.is_whole
        ):
            self._pending, self._failures = None, 0
            self._last_positions, self._wait = pending.snapshot.inputs, self._slots
            self._announce(pending, pending.written.result())

    def _fail(self, pending: _Pending, error: BaseException) -> None:
        """Record a failure. The next checkpoint retries; the vertex's state is not affected."""
        self._pending = None
        self._is_requested = self._is_requested or pending.is_requested
        self._is_whole = self._is_whole or pending.is_whole
        self._is_last = self._is_last or pending.is_last
        self._failures += 1
        if self._failures > FAILURES_MAX or not isinstance(error, OperatingError):
            raise error

    def _announce(self, pending: _Pending, written: WrittenCheckpoint) -> None:
        snapshot = pending.snapshot
        if self._attached_files is not None:
            self._attached_files.announced(pending.attached_files)
        self._env.notify(
            CheckpointTaken(
                self._spec.id,
                self._epoch,
                pending.name,
                snapshot.inputs,
                snapshot.outputs,
                written.uploaded_bytes,
                reads=snapshot.reads,
                parts=written.parts + pending.attached_files,
                taken_us=pending.taken_us,
                asked=pending.is_requested,
                state_bytes=written.size_bytes,
                is_whole=pending.is_whole,
                is_last=pending.is_last,
            )
        )


def read_checkpoint(
    store: BlobStore,
    name: str,
    spec: VertexSpec,
    memory: StateMemory = UNLIMITED,
    *,
    verifies_later: bool = False,
) -> LoadedCheckpoint:
    """Read the checkpoint ``name`` of a vertex; its parts are read concurrently.

    If the parts exceed the budget of ``memory``, parts on the same disk as the scratch folder are
    memory-mapped in place, and others are copied to scratch. ``verifies_later``: the caller
    verifies the values of mapped parts before it uses them.

    Raises:
        CorruptCheckpointError: the checkpoint or a part of it is missing or damaged.
        CheckpointFormatError: a release with another format wrote it.
        SnapshotSchemaError: it belongs to another plan.
    """
    try:
        data = store.get(name)
    except FileNotFoundError as error:
        raise CorruptCheckpointError(name, "the file is gone") from error
    root = store.uri.removeprefix("file://") if store.uri.startswith("file://") else None
    state_bytes = parts_bytes(data, name) if root else 0

    def fetch(paths: Sequence[str]) -> Sequence[bytes | pa.Buffer | None]:
        mapped = [memory.mapped(f"{root}/{path}", state_bytes) for path in paths]
        if root is None or any(part is None for part in mapped):
            return store.get_many(paths)
        return mapped

    schema = spec.state_schema
    return load_checkpoint(
        data,
        name=name,
        state_schema=schema,
        fetch=fetch,
        place=memory.placed,
        verifies_later=verifies_later,
    )
