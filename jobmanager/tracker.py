"""SnapshotTracker: which checkpoints each vertex has, in order. Pure.

Invariants: (1) the checkpoints of a vertex are totally ordered, so of two one precedes the other
(two that are incomparable prove that the vertex is not deterministic); (2) the list is never empty:
the initial snapshot, all zeros and no file, stands until a later one makes it needless; (3) none
reads from before the oldest: what it would read may be gone (a replayed vertex that was restarted
may take an earlier checkpoint that reaches less far back). Source: StreamScope NSDI'16,
"implementing rStream" (tracking) and "garbage collection".
"""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.errors import NoCheckpointError, NotDeterministicError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.topology import Topology
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

    def precedes(self, other: CheckpointRef) -> bool:
        """Whether this one is at or before ``other`` on every stream."""
        mine, theirs = (*self.inputs, *self.outputs), (*other.inputs, *other.outputs)
        return all(a <= b for a, b in zip(mine, theirs, strict=True))


class SnapshotTracker:
    """The usable checkpoints of every vertex, oldest first."""

    def __init__(self, topology: Topology) -> None:
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

    def add(self, vertex: str, ref: CheckpointRef) -> None:
        """Put a checkpoint at its place in the order.

        Raises:
            NotDeterministicError: it is incomparable with another one.
        """
        refs = self._refs[vertex]
        for other in refs:
            if not (ref.precedes(other) or other.precedes(ref)):
                raise NotDeterministicError(vertex, str(other), str(ref))
        at = sum(other.precedes(ref) for other in refs)
        refs.insert(at, ref)

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

    def discard(self, vertex: str, name: str) -> None:
        """Forget a checkpoint that turned out to be corrupt or gone.

        Raises:
            NoCheckpointError: it was the only one.
        """
        left = [r for r in self._refs[vertex] if r.name != name or not r.name]
        if not left:
            raise NoCheckpointError(vertex, f"{name}, its only checkpoint, is corrupt or gone")
        self._refs[vertex] = left

    def drop_before(self, vertex: str, keep: CheckpointRef) -> list[CheckpointRef]:
        """Forget all that come before ``keep`` or read from before it; gives those with a file."""
        refs = self._refs[vertex]
        at = refs.index(keep)
        left = [r for r in refs[at:] if all(map(operator.ge, r.reads, keep.reads))]
        self._refs[vertex] = left
        return [r for r in refs if r.name and r not in left]

    def forget(self, vertex: str) -> None:
        """A vertex that never restarts needs none; what it would begin from stands for that."""
        initial = self._refs[vertex][0]
        zeros = (0,) * len(initial.inputs)
        self._refs[vertex] = [CheckpointRef("", zeros, (0,) * len(initial.outputs), zeros)]

    def check(self) -> None:
        """Assert the invariants."""
        for refs in self._refs.values():
            assert refs
            assert all(a.precedes(b) for a, b in itertools.pairwise(refs)), refs
            assert all(all(map(operator.ge, r.reads, refs[0].reads)) for r in refs), refs
