"""The keys with stored rows, the end of their searches, and the times that they hold back."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.types import INF_TIME
from rvertex.events.arrays import as_one_array, numbers
from rvertex.operators.ordered.matching.rows import KeyRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rvertex.operators.ordered.matching.automaton import Automaton


class _Earliest:
    """Times by key, with fast access to the earliest."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def set(self, code: int, time: int) -> None:
        """Set the time of a key; INF_TIME: remove it."""
        if time == INF_TIME:
            self._of.pop(code, None)
        elif self._of.get(code) != time:
            self._of[code] = time
            heapq.heappush(self._heap, (time, code))

    def first(self) -> int:
        """The earliest time; INF_TIME if there is none."""
        while self._heap and self._of.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # ends: the heap shrinks
        return self._heap[0][0] if self._heap else INF_TIME

    def take_before(self, time: int) -> Iterator[int]:
        """Remove and yield the keys with times before ``time``."""
        while self.first() < time:  # ends: a key is removed
            _, code = heapq.heappop(self._heap)
            del self._of[code]
            yield code


class OpenKeys:
    """The rows of all keys, when the open searches end, and the lower bound of later matches.

    ``before``: number of rows to keep before the start of a search. ``keeps_all``: also keep keys
    without rows, since their matches are counted.
    """

    def __init__(self, automaton: Automaton, before: int, *, keeps_all: bool) -> None:
        self._automaton = automaton
        self._before, self._keeps_all = before, keeps_all
        self._rows: dict[int, KeyRows] = {}
        self._dues = _Earliest()
        self._holds = _Earliest()

    def rows_of(self, code: int) -> KeyRows:
        """The rows of a key."""
        rows = self._rows.get(code)
        if rows is None:
            rows = self._rows[code] = KeyRows(code)
        return rows

    def all(self) -> list[KeyRows]:
        """The rows of all keys."""
        return list(self._rows.values())

    def due_before(self, time: int) -> list[KeyRows]:
        """Remove and return the keys with an open search that ends before ``time``."""
        return [self._rows[code] for code in self._dues.take_before(time)]

    @property
    def hold(self) -> int:
        """A lower bound of the ends of all matches that are not found yet."""
        return self._holds.first()

    def settle(self, rows: KeyRows) -> None:
        """After a scan of a key: drop rows, or the key, and update its times."""
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

    def numbers(self) -> np.ndarray:
        """The numbers of all stored rows, ascending."""
        kept = [number for rows in self._rows.values() for number in rows.numbers]
        return np.sort(np.array(kept, np.int64))

    def renumber(self) -> np.ndarray:
        """Renumber the keys to 0, 1, ...; return their former codes, ascending."""
        codes = sorted(self._rows)
        self._rows = {new: self._rows[old] for new, old in enumerate(codes)}
        self._dues, self._holds = _Earliest(), _Earliest()
        for new, rows in self._rows.items():
            rows.code = new
            self.settle(rows)
        return np.array(codes, np.int64)

    def save(self) -> dict[str, pa.Table]:
        """Return the rows of all keys."""
        rows = list(self._rows.values())
        of_key = {
            "code": [r.code for r in rows],
            "count": [len(r.numbers) for r in rows],
            "known": [len(r.symbols) for r in rows],
            "begin": [r.begin for r in rows],
            "matches": [r.matches for r in rows],
            "covered": [r.covered for r in rows],
        }
        of_row = {
            "number": [n for r in rows for n in r.numbers],
            "time": [t for r in rows for t in r.times],
        }
        symbols = [s for r in rows for s in r.symbols]
        tables = {"of_key": of_key, "of_row": of_row, "symbols": {"symbol": symbols}}
        return {
            name: pa.table({n: pa.array(c, pa.int64()) for n, c in columns.items()})
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
