"""Fences: from which seq on the segments of earlier generations of a job do not count.

A change of a job starts a new generation, which continues the output at some seq. A host of the
former generation that was suspended meanwhile may still write segments beyond that seq. No check
before its write can prevent that, since it may be suspended after the check. Therefore each segment
carries the generation of its writer in its name. Before a change is committed, it puts a file
``_fence-<seq>-<generation>-<epoch>`` into the folder. One listing shows segments and fences.

A job manager that was suspended may put its fences after a successor has given up the change. So
each attempt voids the fences of earlier job managers for the same generation, before it starts:
with a file ``_void-fences-<generation>-<epoch>``.

Invariant: an item at ``seq`` counts only if no fence of a later generation that is not void is at
or below ``seq``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rstream.store.segment_names import parse_segment_name
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rstream.store.protocol import BlobStore

_FENCE = re.compile(r"_fence-(\d{20})-(\d{6})-(\d+)")
_VOID = re.compile(r"_void-fences-(\d{6})-(\d+)")


class Fence(NamedTuple):
    """Segments of generations before ``generation`` end at ``seq``.

    ``epoch``: epoch of the job manager that put the fence.
    """

    seq: int
    generation: int
    epoch: int

    @property
    def name(self) -> str:
        """The name of the fence's file."""
        return f"_fence-{self.seq:020d}-{self.generation:06d}-{self.epoch}"


def fences_in(names: Iterable[str]) -> list[Fence]:
    """Return the fences among the names of a folder, without void ones."""
    names = list(names)
    voids = [tuple(map(int, m.groups())) for m in map(_VOID.fullmatch, names) if m]
    return [f for f in _all(names) if not any(f.generation == g and f.epoch < e for g, e in voids)]


def _all(names: Iterable[str]) -> list[Fence]:
    matches = (_FENCE.fullmatch(name) for name in names)
    return [Fence(*map(int, match.groups())) for match in matches if match]


def valid_segments(names: Iterable[str], *, before: int = 10**6) -> dict[SeqRange, SeqRange]:
    """Return the segments that count: by the range that counts, the range in the file's name.

    ``before``: ignore fences of this generation and later ones.
    """
    names = list(names)
    fences = [fence for fence in fences_in(names) if fence.generation < before]
    counted: dict[SeqRange, SeqRange] = {}
    for file in (seqs for name in names if (seqs := parse_segment_name(name)) is not None):
        later = (fence.seq for fence in fences if fence.generation > file.generation)
        hi = min((file.hi, *later))
        if file.lo < hi:
            valid = SeqRange(file.lo, hi, file.generation)
            if valid not in counted or valid == file:
                counted[valid] = file
    return counted


def put_fence(store: BlobStore, fence: Fence) -> None:
    """Write a fence, from which on segments of earlier generations are ignored. It may exist."""
    store.put(fence.name, b"\n")


def remove_fences(store: BlobStore, generation: int, epoch: int) -> None:
    """Remove the fences of a generation that was not committed.

    ``epoch`` is the epoch of the caller, which may have been replaced by now. Fences of later job
    managers remain, because they may be committed. Fences that an earlier job manager puts later
    are void.
    """
    names, void = store.list(), f"_void-fences-{generation:06d}-{epoch}"
    own = [f.name for f in _all(names) if f.generation >= generation and f.epoch <= epoch]
    for name in own:
        store.delete(name)
    if own or void not in names:
        store.put(void, b"\n")  # syncs the folder, and so the deletions


def reaches_beyond(store: BlobStore, fence: Fence) -> bool:
    """Return whether a segment of an earlier generation already reaches beyond the fence."""
    valid = valid_segments(store.list(), before=fence.generation)
    return any(s.hi > fence.seq and s.generation < fence.generation for s in valid)


def remove_invalid(store: BlobStore, names: Iterable[str]) -> int:
    """Delete the segments among these names that fences make invalid; return their number."""
    names = list(names)
    counting = set(valid_segments(names).values())
    invalid = [n for n in names if (s := parse_segment_name(n)) is not None and s not in counting]
    for name in invalid:
        store.delete(name)
    return len(invalid)
