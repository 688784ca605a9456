"""SnapshotTracker: the ordered checkpoints of each vertex. Pure.

Invariants: (1) the checkpoints of a vertex are totally ordered: of two, one precedes the other (two
incomparable ones prove that the vertex is not deterministic); (2) the list is never empty: the
initial snapshot, all zeros and no file, stays until a later one makes it obsolete; (3) of two, the
later one reads from at or after the earlier one. Two instances of a replayed vertex may break (3),
as each rebuilds its state from a different place; then the tracker refuses the one that is
announced second (ADR 22). A job manager and a successor that replays its log refuse the same
checkpoints, though the successor's list may begin later: it is a suffix of the first one's. Source:
StreamScope NSDI'16, "implementing rStream" (tracking) and "garbage collection".
"""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jobmanager.errors import NoCheckpointError, NotDeterministicError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.state.topology import Topology
    from rvertex.messages import CheckpointTaken


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """A checkpoint by name and sequence numbers; an empty name is the initial snapshot.

    ``reads``: input seqs from which a restart reads. ``parts``: the blobs that it names.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    reads: tuple[int, ...]
    parts: tuple[str, ...] = ()
    #: Wall time, us UTC.
    taken_us: int = 0

    @classmethod
    def announced(cls, notice: CheckpointTaken) -> CheckpointRef:
        """The checkpoint that an instance has announced."""
        n = notice
        return cls(n.name, n.inputs, n.outputs, n.reads, n.parts, n.taken_us)

    def padded(self, log_partitions: int) -> CheckpointRef:
        """The checkpoint of a vertex that reads so many live logs by now: of new ones nothing."""
        inputs, reads = padded(self.inputs, log_partitions), padded(self.reads, log_partitions)
        return replace(self, inputs=inputs, reads=reads)

    def precedes(self, other: CheckpointRef) -> bool:
        """Whether this one is at or before ``other`` on every stream."""
        mine, theirs = (*self.inputs, *self.outputs), (*other.inputs, *other.outputs)
        return all(a <= b for a, b in zip(mine, theirs, strict=True))


def padded(inputs: tuple[int, ...], log_partitions: int) -> tuple[int, ...]:
    """Input seqs of a vertex that reads so many live logs by now: of new ones it has read nothing.

    They are a position of each log, then a number of entries of each.
    """
    had = len(inputs) // 2
    more = (0,) * (log_partitions - had)
    return (*inputs[:had], *more, *inputs[had:], *more)


class SnapshotTracker:
    """The usable checkpoints of every vertex, oldest first."""

    def __init__(self, topology: Topology) -> None:
        #: They read several logs, each instance in turns of its own.
        self._live = {v.id: v.log_partitions for v in topology.vertices.values() if v.is_live}
        self._refs: dict[str, list[CheckpointRef]] = {
            v.id: [CheckpointRef("", zeros, (0,) * len(v.outputs), zeros)]
            for v in topology.vertices.values()
            for zeros in [(0,) * v.input_count]
        }

    def refs(self, vertex: str) -> Sequence[CheckpointRef]:
        """Oldest first."""
        return self._refs[vertex]

    def newest(self, vertex: str) -> CheckpointRef:
        """The last one."""
        return self._refs[vertex][-1]

    def add(self, vertex: str, ref: CheckpointRef) -> bool:
        """Put a checkpoint at its place in the order; whether it is kept.

        It is not if it precedes the oldest, which no restart reaches behind, or if what it reads
        does not lie between what its neighbours read: the inputs before may be gone. Nor is one of
        a vertex of live logs that has read more of one partition and less of another than a
        predecessor had: its outputs are a prefix all the same (ADR 32).

        Raises:
            NotDeterministicError: it is incomparable with another one.
        """
        refs, ref = self._refs[vertex], self._of_now(vertex, ref)
        for other in refs:
            if not (ref.precedes(other) or other.precedes(ref)):
                if vertex in self._live and _outputs_are_ordered(ref, other):
                    return False
                raise NotDeterministicError(vertex, str(other), str(ref))
        at = sum(other.precedes(ref) for other in refs)
        if at == 0 or not _reads_no_later(refs[at - 1], ref):
            return False
        if at < len(refs) and not _reads_no_later(ref, refs[at]):
            return False
        refs.insert(at, ref)
        return True

    def usable(
        self, vertex: str, limits: Sequence[int | None], consumed: Sequence[int] | None = None
    ) -> CheckpointRef | None:
        """The newest checkpoint with every output seq at or below its limit (None: no limit).

        With ``consumed``: and that reads from at or below those.
        """
        for ref in reversed(self._refs[vertex]):
            rows = zip(ref.outputs, limits, strict=True)
            if not all(limit is None or seq <= limit for seq, limit in rows):
                continue
            if consumed is None or all(map(operator.le, ref.reads, consumed)):
                return ref
        return None

    def held(
        self, vertex: str, needed: CheckpointRef, *, before_us: int | None, names: Sequence[str]
    ) -> CheckpointRef:
        """The oldest of: ``needed``, those of these names, the newest before a time (None: now)."""
        refs = self._refs[vertex]
        at = [refs.index(needed), *(k for k, ref in enumerate(refs) if ref.name in names)]
        if before_us is not None:
            at.append(max((k for k, r in enumerate(refs) if r.taken_us <= before_us), default=0))
        return refs[min(at)]

    def discard(self, vertex: str, name: str, *, may_begin_anew: bool = False) -> None:
        """Forget a checkpoint that turned out to be corrupt or gone.

        ``may_begin_anew``: the initial snapshot takes its place if it was the only one.

        Raises:
            NoCheckpointError: it was the only one.
        """
        left = [r for r in self._refs[vertex] if r.name != name or not r.name]
        if not left and may_begin_anew:
            left = [self.initial(vertex)]
        if not left:
            raise NoCheckpointError(vertex, f"{name}, its only checkpoint, is corrupt or gone")
        self._refs[vertex] = left

    def discard_beyond(self, vertex: str, index: int, seq: int) -> bool:
        """Forget what rests on an output's items from ``seq`` on, which are lost; whether any did.

        The initial snapshot takes the place of all others.
        """
        refs = self._refs[vertex]
        left = [r for r in refs if r.outputs[index] <= seq]
        self._refs[vertex] = left or [self.initial(vertex)]
        return len(left) < len(refs)

    def restore(self, vertex: str, refs: Sequence[CheckpointRef]) -> None:
        """These are known, and no others."""
        assert refs, vertex
        self._refs[vertex] = [self._of_now(vertex, ref) for ref in refs]

    def _of_now(self, vertex: str, ref: CheckpointRef) -> CheckpointRef:
        """The checkpoint as it is with the logs that the vertex reads now."""
        logs = self._live.get(vertex, 0)
        return ref.padded(logs) if len(ref.inputs) < 2 * logs else ref

    def widen(self, vertex: str, log_partitions: int) -> None:
        """A vertex reads so many live logs from now on, also from checkpoints that it has."""
        self._live[vertex] = log_partitions
        self.restore(vertex, self._refs[vertex])

    def begin_anew(self, vertex: str) -> CheckpointRef:
        """The initial snapshot stands before all others again."""
        ref = self.initial(vertex)
        if ref not in self._refs[vertex]:
            self._refs[vertex].insert(0, ref)
        return ref

    def initial(self, vertex: str) -> CheckpointRef:
        """The initial snapshot: nothing consumed, nothing written."""
        one = self._refs[vertex][0]
        zeros = (0,) * len(one.inputs)
        return CheckpointRef("", zeros, (0,) * len(one.outputs), zeros)

    def drop_before(self, vertex: str, keep: CheckpointRef) -> list[CheckpointRef]:
        """Forget all that come before ``keep``; gives those with a file."""
        refs = self._refs[vertex]
        at = refs.index(keep)
        self._refs[vertex] = refs[at:]
        return [r for r in refs[:at] if r.name]

    def forget(self, vertex: str) -> None:
        """A vertex that never restarts needs none; what it would begin from stands for that."""
        self._refs[vertex] = [self.initial(vertex)]

    def check(self) -> None:
        """Assert the invariants."""
        for refs in self._refs.values():
            assert refs
            for one, other in itertools.pairwise(refs):
                assert one.precedes(other), refs
                assert _reads_no_later(one, other), refs


def _reads_no_later(one: CheckpointRef, other: CheckpointRef) -> bool:
    """Whether a restart from ``one`` reads, on every input, from at or before where the other does.

    Transitive, so neighbours stand for all.
    """
    return all(map(operator.le, one.reads, other.reads))


def _outputs_are_ordered(one: CheckpointRef, other: CheckpointRef) -> bool:
    rows = list(zip(one.outputs, other.outputs, strict=True))
    return all(a <= b for a, b in rows) or all(a >= b for a, b in rows)
