"""Layouts: which vertex of a stage owns which slots (hash values) of the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream.items.hashing import SLOTS, first_slot

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Layout:
    """The owners of the slot ranges of a stage: ``owners`` has the vertex of each range.

    A vertex that is not in ``owners`` owns nothing. ``starts``: the first slot of each range after
    the first, ascending; empty: all ranges are equally wide.
    """

    vertices: int
    owners: tuple[int, ...]
    starts: tuple[int, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether vertex k owns range k of equal ranges, as in a plan that was never rescaled."""
        return not self.starts and self.owners == tuple(range(self.vertices))

    @property
    def bounds(self) -> tuple[int, ...]:
        """Return the first slot of each range, without the first range."""
        return self.starts or equal_bounds(len(self.owners))

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges ``[lo, hi)``, ascending."""
        return ranges_of(self.bounds)

    def slots_of_vertex(self, vertex: int) -> tuple[tuple[int, int], ...]:
        """Return the ranges that a vertex owns."""
        return tuple(p for p, o in zip(self.ranges, self.owners, strict=True) if o == vertex)


def plain(n: int) -> Layout:
    """Return the layout of ``n`` vertices in a plan that was never rescaled."""
    return Layout(n, tuple(range(n)))


def laid(vertices: int, owners: Sequence[int], bounds: Sequence[int]) -> Layout:
    """Return the layout with these bounds, in a normal form that makes equal layouts equal."""
    assert len(owners) == len(bounds) + 1, (owners, bounds)
    starts = () if tuple(bounds) == equal_bounds(len(owners)) else tuple(bounds)
    return Layout(vertices, tuple(owners), starts)


def equal_bounds(n: int) -> tuple[int, ...]:
    """Return the first slot of each of ``n`` equally wide ranges, without the first range."""
    return tuple(first_slot(k, n) for k in range(1, n))


def ranges_of(bounds: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ranges ``[lo, hi)`` between these bounds; together they cover all slots."""
    return list(zip((0, *bounds), (*bounds, SLOTS), strict=True))


def overlaps(layout: Layout, vertex: int, slots: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the parts of a range of slots that a vertex owns."""
    ranges = [(max(lo, slots[0]), min(hi, slots[1])) for lo, hi in layout.slots_of_vertex(vertex)]
    return [(lo, hi) for lo, hi in ranges if lo < hi]
