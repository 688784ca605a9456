"""The stored rows of many keys in a few arrays, so that they are read and replaced together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rvertex.events.group_arrays import GroupArray

_ROWS_MIN = 4096


@dataclass(frozen=True, slots=True)
class Segments:
    """The rows of keys, one key after another.

    ``codes``, ``sizes``, ``begin`` int64[k]: the keys, their numbers of rows, and the position in
    the key's rows at which the search starts. ``numbers``, ``times``, ``symbols`` int64[n]: the
    rows.
    """

    codes: np.ndarray
    sizes: np.ndarray
    begin: np.ndarray
    numbers: np.ndarray
    times: np.ndarray
    symbols: np.ndarray

    @property
    def start(self) -> np.ndarray:
        """The position of the first row of each key."""
        starts: np.ndarray = np.cumsum(self.sizes) - self.sizes
        return starts

    def cut(self, skipped: np.ndarray, begin: np.ndarray) -> Segments:
        """Return the segments without the first ``skipped`` rows of each key."""
        sizes = self.sizes - skipped
        rows = ranges(self.start + skipped, sizes)
        return Segments(
            self.codes, sizes, begin, self.numbers[rows], self.times[rows], self.symbols[rows]
        )

    def joined(self, later: Segments) -> tuple[Segments, np.ndarray]:
        """Return each key's rows followed by its ``later`` rows, and the later rows' positions.

        ``later`` has some of the keys. Both are sorted by code.
        """
        more = np.zeros(len(self.codes), np.int64)
        more[np.searchsorted(self.codes, later.codes)] = later.sizes
        sizes = self.sizes + more
        start = np.cumsum(sizes) - sizes
        before, after = ranges(start, self.sizes), ranges(start + self.sizes, more)
        columns = []
        for earlier, new in (
            (self.numbers, later.numbers),
            (self.times, later.times),
            (self.symbols, later.symbols),
        ):
            column = np.empty(len(earlier) + len(new), np.int64)
            column[before], column[after] = earlier, new
            columns.append(column)
        return Segments(self.codes, sizes, self.begin, *columns), after

    def picked(self, keys: np.ndarray) -> Segments:
        """Return the rows of some keys, by their index or a mask."""
        codes, sizes, begin = self.codes[keys], self.sizes[keys], self.begin[keys]
        rows = ranges(self.start[keys], sizes)
        return Segments(
            codes, sizes, begin, self.numbers[rows], self.times[rows], self.symbols[rows]
        )


class RowPool:
    """Stores the rows of keys by code. Replaced rows stay until they outnumber the others."""

    def __init__(self) -> None:
        self._at, self._sizes, self._begin = (GroupArray(np.int64, 0) for _ in range(3))
        self._rows = [GroupArray(np.int64, 0) for _ in range(3)]
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def has(self, code: int) -> bool:
        """Return whether there are rows of a key."""
        return code < len(self._sizes) and bool(self._sizes.read()[code])

    def codes(self) -> np.ndarray:
        """Return the keys with rows, ascending."""
        return np.flatnonzero(self._sizes.read())

    def numbers(self) -> np.ndarray:
        """Return the numbers of all rows, in any order."""
        return self.of(self.codes()).numbers

    def of(self, codes: np.ndarray) -> Segments:
        """Return the rows of ``codes``. A key may have no rows."""
        self._make_room(codes)
        at, sizes, begin = (a.read()[codes] for a in (self._at, self._sizes, self._begin))
        rows = ranges(at, sizes)
        numbers, times, symbols = (column.read()[rows] for column in self._rows)
        return Segments(codes, sizes, begin, numbers, times, symbols)

    def _make_room(self, codes: np.ndarray) -> None:
        groups = int(codes.max(initial=-1)) + 1
        if groups > len(self._sizes):
            for array in (self._at, self._sizes, self._begin):
                array.writable(groups)

    def take(self, codes: np.ndarray) -> Segments:
        """Remove and return the rows of ``codes``; each key occurs once."""
        taken = self.of(codes)
        self._sizes.writable(len(self._sizes))[codes] = 0
        self._live -= len(taken.numbers)
        return taken

    def put(self, segments: Segments) -> None:
        """Store the rows of keys that have none."""
        codes = segments.codes
        if not len(codes):
            return
        self._make_room(codes)
        count = len(self._rows[0])
        self._at.writable(len(self._at))[codes] = count + segments.start
        self._sizes.writable(len(self._sizes))[codes] = segments.sizes
        self._begin.writable(len(self._begin))[codes] = segments.begin
        columns = (segments.numbers, segments.times, segments.symbols)
        for stored, column in zip(self._rows, columns, strict=True):
            stored.writable(count + len(column))[count:] = column
        self._live += len(segments.numbers)
        if len(self._rows[0]) > 2 * self._live + _ROWS_MIN:
            self.keep(self.codes(), renumber=False)

    def keep(self, codes: np.ndarray, *, renumber: bool = True) -> None:
        """Drop all keys except ``codes``. ``renumber``: these get the codes 0, 1, ..."""
        kept = self.of(codes)
        if renumber:
            self._at, self._sizes, self._begin = (GroupArray(np.int64, 0) for _ in range(3))
            codes = np.arange(len(codes))
            self._make_room(codes)
        self._at.writable(len(self._at))[codes] = kept.start
        self._sizes.writable(len(self._sizes))[codes] = kept.sizes
        self._begin.writable(len(self._begin))[codes] = kept.begin
        for stored, column in zip(
            self._rows, (kept.numbers, kept.times, kept.symbols), strict=True
        ):
            stored.adopt(column)
        self._live = len(kept.numbers)


def ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return ``start, start + 1, ...`` for each start, ``size`` numbers each, in one array."""
    if not len(sizes):
        return np.zeros(0, np.int64)
    first = np.cumsum(sizes) - sizes
    places: np.ndarray = np.arange(first[-1] + sizes[-1]) + np.repeat(starts - first, sizes)
    return places
