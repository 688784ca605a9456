"""Which vertices of a stage own which slots of the key."""

from __future__ import annotations

from dataclasses import dataclass

from rstream.items.hashing import first_slot


@dataclass(frozen=True, slots=True)
class Layout:
    """The owners of equally wide slot ranges: ``owners`` has the vertex of each range.

    A vertex that is not in ``owners`` owns nothing.
    """

    vertices: int
    owners: tuple[int, ...]

    @property
    def is_plain(self) -> bool:
        """Whether vertex k owns range k, as in a plan that was never rescaled."""
        return self.owners == tuple(range(self.vertices))

    @property
    def bounds(self) -> tuple[int, ...]:
        """Return the first slot of each range, without the first range."""
        n = len(self.owners)
        return tuple(first_slot(k, n) for k in range(1, n))

    def slots_of_vertex(self, vertex: int) -> tuple[tuple[int, int], ...]:
        """Return the ranges that a vertex owns."""
        n = len(self.owners)
        pairs = [(first_slot(k, n), first_slot(k + 1, n)) for k in range(n)]
        return tuple(p for p, owner in zip(pairs, self.owners, strict=True) if owner == vertex)


def plain(n: int) -> Layout:
    """The layout of ``n`` vertices in a plan that was never rescaled."""
    return Layout(n, tuple(range(n)))


def overlaps(layout: Layout, vertex: int, slots: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the parts of a range of slots that a vertex owns."""
    ranges = [(max(lo, slots[0]), min(hi, slots[1])) for lo, hi in layout.slots_of_vertex(vertex)]
    return [(lo, hi) for lo, hi in ranges if lo < hi]
