"""Partitionings: which columns decide the vertex that a row is in.

A hash of some columns decides the vertex, so rows that are equal in all hashed columns are in one
vertex. Steps may rename or copy a column. A *partitioning* lists the present names of each hashed
column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Partitioning:
    """For each hashed column its present names. None: unknown. Empty: all rows in one vertex."""

    keys: tuple[frozenset[str], ...] | None

    @property
    def is_single(self) -> bool:
        return self.keys == ()

    def covers(self, group: tuple[str, ...]) -> bool:
        """Return whether rows that are equal in the columns of ``group`` are in one vertex."""
        return self.keys is not None and all(names & set(group) for names in self.keys)

    def positions(self, keys: tuple[str, ...]) -> tuple[int, ...] | None:
        """Return the positions in ``keys`` of the hashed columns; None: a column is missing."""
        if not self.keys:
            return None
        positions = [[i for i, key in enumerate(keys) if key in names] for names in self.keys]
        return tuple(at[0] for at in positions) if all(positions) else None

    def through(self, outputs: Mapping[str, frozenset[str]]) -> Partitioning:
        """Return the partitioning after a renaming; ``outputs``: new names of input columns."""
        if self.keys is None:
            return UNKNOWN
        after: list[frozenset[str]] = []
        for names in self.keys:
            now = frozenset[str]().union(*(outputs.get(name, frozenset()) for name in names))
            if not now:
                return UNKNOWN
            after.append(now)
        return Partitioning(tuple(after))


UNKNOWN = Partitioning(None)
SINGLE = Partitioning(())


def by_keys(keys: tuple[str, ...]) -> Partitioning:
    """Return the partitioning of a hash exchange on ``keys``; without keys, all in one vertex."""
    return Partitioning(tuple(frozenset([key]) for key in keys))


def common(branches: Sequence[Partitioning]) -> Partitioning:
    """Return the partitioning that all branches of a union have, position by position."""
    known = [branch.keys for branch in branches if branch.keys]
    if len(known) < len(branches) or len({len(keys) for keys in known}) != 1:
        return UNKNOWN
    shared = [frozenset.intersection(*names) for names in zip(*known, strict=True)]
    return Partitioning(tuple(shared)) if all(shared) else UNKNOWN
