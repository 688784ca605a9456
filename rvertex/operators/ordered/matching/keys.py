"""The keys with stored rows: when their searches end, and how far they hold back the output.

Keys that are searched together have their rows in arrays (:mod:`pool`), the others in lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.types import INF_TIME
from rvertex.events.arrays import as_one_array, numbers
from rvertex.operators.ordered.matching.earliest import Earliest
from rvertex.operators.ordered.matching.pool import RowPool, Segments
from rvertex.operators.ordered.matching.rows import KeyRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rvertex.operators.ordered.matching.automaton import Automaton
    from rvertex.operators.ordered.matching.lockstep import Ends

#: A key in arrays has at most this many rows, since a search of many keys reads all of them.
POOL_ROWS_MAX = 64


class OpenKeys:
    """The rows of all keys, the times when open searches end, and the earliest time of new matches.

    ``before``: number of rows to keep before the start of a search. ``keeps_all``: also keep keys
    without rows, since their matches are counted.
    """

    def __init__(self, automaton: Automaton, before: int, *, keeps_all: bool) -> None:
        self._automaton = automaton
        self._before, self._keeps_all = before, keeps_all
        self._rows: dict[int, KeyRows] = {}
        self.pool = RowPool()
        self._dues = Earliest()
        self._holds = Earliest()

    def rows_of(self, code: int) -> KeyRows:
        """Return a key's rows in lists; from now on the key is searched alone."""
        rows = self._rows.get(code)
        if rows is None:
            rows = self._rows[code] = KeyRows(code)
            if self.pool.has(code):
                taken = self.pool.take(np.array([code]))
                rows.extend(taken.numbers.tolist(), taken.times.tolist())
                rows.symbols += taken.symbols.tolist()
                rows.begin = int(taken.begin[0])
        return rows

    def alone(self) -> list[KeyRows]:
        """Return the rows of all keys that are in lists."""
        return list(self._rows.values())

    def is_alone(self, codes: np.ndarray) -> np.ndarray:
        """Return whether the rows of each key are in lists."""
        known = self._rows
        return np.array([code in known for code in codes.tolist()], bool)

    def codes(self) -> np.ndarray:
        """Return the codes of all keys."""
        return np.union1d(np.array(list(self._rows), np.int64), self.pool.codes())

    def due_before(self, time: int) -> np.ndarray:
        """Remove and return the keys with an open search that ends before ``time``."""
        return self._dues.take_before(time)

    @property
    def hold(self) -> int:
        """Return a lower bound of the ends of all matches that are not found yet."""
        return self._holds.first()

    def settle(self, rows: KeyRows) -> None:
        """Drop rows of a scanned key, or the key itself, and update the key's times."""
        dropped = rows.trim(self._before)
        search = rows.search
        is_open = search is not None and search.is_open
        if dropped and search is not None:
            if is_open:
                search.move(dropped)
            else:
                rows.search = None
        self._dues.set(rows.code, self._automaton.due(rows) if is_open else INF_TIME)
        self._holds.set(rows.code, self._automaton.hold(rows))
        is_done = rows.begin >= len(rows.numbers)
        if is_done and not rows.numbers and not self._keeps_all:
            del self._rows[rows.code]

    def settle_all(self, rows: Segments, ends: Ends) -> tuple[list[KeyRows], np.ndarray]:
        """Store the rows that are still needed after a search of many keys, and update times.

        Returns the keys that must be searched alone, and the numbers of the other stored rows.
        """
        start = rows.start
        low = np.maximum(ends.begin - self._before, start)
        sizes = start + rows.sizes - low
        is_alone = ends.is_left | (sizes > POOL_ROWS_MAX)
        kept = rows.cut(low - start, ends.begin - low)
        alone = [self._in_lists(kept.picked(np.array([key]))) for key in np.flatnonzero(is_alone)]
        pooled = kept.picked(~is_alone & (sizes > 0)) if is_alone.any() else kept
        self.pool.put(pooled)
        together = ~is_alone
        self._dues.set_all(rows.codes[together], ends.due[together])
        self._holds.set_all(rows.codes[together], ends.hold[together])
        return alone, pooled.numbers

    def _in_lists(self, one: Segments) -> KeyRows:
        """Store the rows of one key in lists."""
        rows = self._rows[int(one.codes[0])] = KeyRows(
            int(one.codes[0]),
            one.numbers.tolist(),
            one.times.tolist(),
            one.symbols.tolist(),
            int(one.begin[0]),
        )
        return rows

    def to_pool(self, keys: Sequence[KeyRows]) -> None:
        """Move the rows of keys into arrays, except keys with many rows."""
        moved = [rows for rows in keys if rows.code in self._rows]
        moved = [rows for rows in moved if len(rows.numbers) <= POOL_ROWS_MAX]
        for rows in moved:
            del self._rows[rows.code]
        self.pool.put(_segments(moved))

    def numbers(self) -> np.ndarray:
        """Return the numbers of all stored rows, ascending."""
        kept = [number for rows in self._rows.values() for number in rows.numbers]
        return np.sort(np.append(np.array(kept, np.int64), self.pool.numbers()))

    def renumber(self) -> np.ndarray:
        """Renumber the keys to 0, 1, ...; return their former codes, ascending."""
        codes = self.codes()
        news = {old: new for new, old in enumerate(codes.tolist()) if old in self._rows}
        self._rows = {new: self._rows[old] for old, new in news.items()}
        for new, rows in self._rows.items():
            rows.code = new
        self.pool.keep(codes)
        self._dues, self._holds = self._dues.picked(codes), self._holds.picked(codes)
        return codes

    def save(self) -> dict[str, pa.Table]:
        """Return the rows of all keys."""
        rows, pooled = list(self._rows.values()), self.pool.of(self.pool.codes())
        none = np.zeros(len(pooled.codes), np.int64)
        of_key = {
            "code": ([r.code for r in rows], pooled.codes),
            "count": ([len(r.numbers) for r in rows], pooled.sizes),
            "known": ([len(r.symbols) for r in rows], pooled.sizes),
            "begin": ([r.begin for r in rows], pooled.begin),
            "matches": ([r.matches for r in rows], none),
            "covered": ([r.covered for r in rows], none - 1),
        }
        of_row = {
            "number": ([n for r in rows for n in r.numbers], pooled.numbers),
            "time": ([t for r in rows for t in r.times], pooled.times),
        }
        symbols = {"symbol": ([s for r in rows for s in r.symbols], pooled.symbols)}
        tables = {"of_key": of_key, "of_row": of_row, "symbols": symbols}
        return {
            name: pa.table(
                {n: np.append(np.array(own, np.int64), more) for n, (own, more) in columns.items()}
            )
            for name, columns in tables.items()
        }

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the state that ``save`` returned; open searches restart at their first row."""
        of_key = [numbers(as_one_array(c)).tolist() for c in tables["of_key"].columns]
        kept, times = (numbers(as_one_array(c)).tolist() for c in tables["of_row"].columns)
        symbols = numbers(as_one_array(tables["symbols"].column(0))).tolist()
        row = symbol = 0
        for code, count, known, begin, matches, covered in zip(*of_key, strict=True):
            self._rows[code] = KeyRows(
                code,
                kept[row : row + count],
                times[row : row + count],
                symbols[symbol : symbol + known],
                begin,
                matches,
                covered,
            )
            row, symbol = row + count, symbol + known


def _segments(keys: Sequence[KeyRows]) -> Segments:
    """Convert the rows of keys from lists to arrays."""
    columns = (
        [rows.code for rows in keys],
        [len(rows.numbers) for rows in keys],
        [rows.begin for rows in keys],
        [number for rows in keys for number in rows.numbers],
        [time for rows in keys for time in rows.times],
        [symbol for rows in keys for symbol in rows.symbols],
    )
    return Segments(*(np.array(column, np.int64) for column in columns))
