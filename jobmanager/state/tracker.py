"""SnapshotTracker: the ordered checkpoints of each vertex. Pure.

Invariants: (1) the checkpoints of a vertex are totally ordered: of two, one precedes the other (two
incomparable ones prove that the vertex is not deterministic); (2) the list is never empty: the
initial snapshot, all zeros and no file, stays until a later one makes it obsolete; (3) a later
checkpoint never reads from before the reads of an earlier one.

Two instances of a replayed vertex may break (3), because each rebuilds its state from a different
position. Then the tracker rejects the checkpoint that is announced second (ADR 22). A job manager
and a successor that replays its log reject the same checkpoints, although the successor's list may
be a suffix of its predecessor's. Source: StreamScope NSDI'16, "implementing rStream" (tracking) and
"garbage collection".
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
    """A checkpoint: its name and sequence numbers. The initial snapshot has an empty name.

    ``inputs`` and ``outputs``: the vertex's seqs at the checkpoint. ``reads``: the input seqs from
    which a restart reads. ``parts``: names of the files that belong to it.
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
        """Return the checkpoint that an instance has announced."""
        n = notice
        return cls(n.name, n.inputs, n.outputs, n.reads, n.parts, n.taken_us)

    def padded(self, log_partitions: int) -> CheckpointRef:
        """Return the checkpoint with zeros for log partitions that the vertex got later."""
        inputs, reads = padded(self.inputs, log_partitions), padded(self.reads, log_partitions)
        return replace(self, inputs=inputs, reads=reads)

    def precedes(self, other: CheckpointRef) -> bool:
        """Return whether this one is at or before ``other`` on every stream."""
        own, others = (*self.inputs, *self.outputs), (*other.inputs, *other.outputs)
        return all(a <= b for a, b in zip(own, others, strict=True))


def padded(inputs: tuple[int, ...], log_partitions: int) -> tuple[int, ...]:
    """Return input seqs of a vertex with zeros for log partitions that it got later.

    The seqs are a position per log partition, then a number of journal entries per partition.
    ``log_partitions``: the present number of partitions.
    """
    had = len(inputs) // 2
    more = (0,) * (log_partitions - had)
    return (*inputs[:had], *more, *inputs[had:], *more)


class SnapshotTracker:
    """The usable checkpoints of every vertex, oldest first."""

    def __init__(self, topology: Topology) -> None:
        #: The number of log partitions per vertex with a live source. Instances of such a vertex
        #: read partitions in different orders, so of two checkpoints each may be ahead of the other
        #: in some partition.
        self._live = {v.id: v.log_partitions for v in topology.vertices.values() if v.is_live}
        self._refs: dict[str, list[CheckpointRef]] = {
            v.id: [CheckpointRef("", zeros, (0,) * len(v.outputs), zeros)]
            for v in topology.vertices.values()
            for zeros in [(0,) * v.input_count]
        }

    def refs(self, vertex: str) -> Sequence[CheckpointRef]:
        """Return the checkpoints of a vertex, oldest first."""
        return self._refs[vertex]

    def newest(self, vertex: str) -> CheckpointRef:
        """Return the newest checkpoint of a vertex."""
        return self._refs[vertex][-1]

    def add(self, vertex: str, ref: CheckpointRef) -> bool:
        """Insert a checkpoint in the order of positions. Return whether it was kept.

        It is rejected in three cases. First, it precedes the oldest checkpoint, so no restart needs
        it. Second, its reads are not between its neighbours' reads, so its inputs may be deleted.
        Third, the vertex reads live logs, and compared with another checkpoint it has read more of
        one partition and less of another. That is no error, because the outputs are equal (ADR 32).

        Raises:
            NotDeterministicError: of this and another checkpoint, neither precedes the other.
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
        """Return the newest checkpoint whose output seqs are all at or below ``limits``.

        A limit of None is no limit. With ``consumed``, its reads must also be at or below those
        seqs.
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
        """Return the oldest of: ``needed``, the named checkpoints, the newest before ``before_us``.

        ``before_us``: us UTC; None: age keeps no checkpoint.
        """
        refs = self._refs[vertex]
        at = [refs.index(needed), *(k for k, ref in enumerate(refs) if ref.name in names)]
        if before_us is not None:
            at.append(max((k for k, r in enumerate(refs) if r.taken_us <= before_us), default=0))
        return refs[min(at)]

    def discard(self, vertex: str, name: str, *, may_start_over: bool = False) -> None:
        """Forget a checkpoint that was found damaged or missing.

        ``may_start_over``: whether the initial snapshot replaces it if there is no other one.

        Raises:
            NoCheckpointError: there is no other one, and the initial snapshot must not replace it.
        """
        left = [r for r in self._refs[vertex] if r.name != name or not r.name]
        if not left and may_start_over:
            left = [self.initial(vertex)]
        if not left:
            raise NoCheckpointError(vertex, f"{name}, its only checkpoint, is corrupt or gone")
        self._refs[vertex] = left

    def discard_beyond(self, vertex: str, index: int, seq: int) -> bool:
        """Forget checkpoints that include lost items: items of output ``index`` from ``seq`` on.

        Return whether there were any. If none remains, the initial snapshot replaces them.
        """
        refs = self._refs[vertex]
        left = [r for r in refs if r.outputs[index] <= seq]
        self._refs[vertex] = left or [self.initial(vertex)]
        return len(left) < len(refs)

    def restore(self, vertex: str, refs: Sequence[CheckpointRef]) -> None:
        """Replace the checkpoints of a vertex by these, or by the initial snapshot if none."""
        restored = [self._of_now(vertex, ref) for ref in refs]
        self._refs[vertex] = restored or [self.initial(vertex)]

    def _of_now(self, vertex: str, ref: CheckpointRef) -> CheckpointRef:
        """Return the checkpoint, padded to the log partitions that the vertex reads now."""
        logs = self._live.get(vertex, 0)
        return ref.padded(logs) if len(ref.inputs) < 2 * logs else ref

    def widen(self, vertex: str, log_partitions: int) -> None:
        """Set the number of log partitions of a vertex, and pad its checkpoints to it."""
        self._live[vertex] = log_partitions
        self.restore(vertex, self._refs[vertex])

    def start_over(self, vertex: str) -> CheckpointRef:
        """Insert the initial snapshot before all checkpoints, and return it."""
        ref = self.initial(vertex)
        if ref not in self._refs[vertex]:
            self._refs[vertex].insert(0, ref)
        return ref

    def initial(self, vertex: str) -> CheckpointRef:
        """Return the initial snapshot: no item consumed, none written."""
        one = self._refs[vertex][0]
        zeros = (0,) * len(one.inputs)
        return CheckpointRef("", zeros, (0,) * len(one.outputs), zeros)

    def drop_before(self, vertex: str, keep: CheckpointRef) -> list[CheckpointRef]:
        """Forget all checkpoints before ``keep``. Return the forgotten ones that have a file."""
        refs = self._refs[vertex]
        at = refs.index(keep)
        self._refs[vertex] = refs[at:]
        return [r for r in refs[:at] if r.name]

    def forget(self, vertex: str) -> None:
        """Forget all checkpoints of a vertex that never restarts. The initial one stays."""
        self._refs[vertex] = [self.initial(vertex)]

    def check(self) -> None:
        """Assert the invariants."""
        for refs in self._refs.values():
            assert refs
            for one, other in itertools.pairwise(refs):
                assert one.precedes(other), refs
                assert _reads_no_later(one, other), refs


def _reads_no_later(one: CheckpointRef, other: CheckpointRef) -> bool:
    """Return whether ``one`` reads every input from at or before the reads of ``other``.

    The relation is transitive, so checking neighbours is enough.
    """
    return all(map(operator.le, one.reads, other.reads))


def _outputs_are_ordered(one: CheckpointRef, other: CheckpointRef) -> bool:
    rows = list(zip(one.outputs, other.outputs, strict=True))
    return all(a <= b for a, b in rows) or all(a >= b for a, b in rows)
