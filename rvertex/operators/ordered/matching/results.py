"""Computes the output rows of matches: kept columns and measures, as points in time."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, event_schema
from rvertex.events.arrays import as_one_array, numbers
from rvertex.operators.ordered.matching.lockstep import with_context
from rvertex.operators.ordered.matching.navigation import Reader, Spans
from rvertex.operators.ordered.matching.pattern import Take
from rvertex.operators.protocol import evaluate_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.ordered.matching.automaton import Automaton
    from rvertex.operators.ordered.matching.lockstep import Matches
    from rvertex.operators.ordered.matching.pool import Segments
    from rvertex.operators.ordered.matching.rows import Found
    from rvertex.operators.ordered.matching.spec import MatchParts
    from rvertex.operators.ordered.matching.store import RowStore

#: Sort columns of results at one time: last row, first row, and position in the match.
ORDER = ("\0end", "\0start", "\0place")


class Results:
    """Computes output rows. ``schema``: schema of the output, plus :data:`ORDER`."""

    def __init__(
        self,
        spec: MatchParts,
        automaton: Automaton,
        rows: pa.Schema,
        store: RowStore,
        output: pa.Schema,
    ) -> None:
        self._spec, self._store = spec, store
        takes = [one if isinstance(one, Take) else Take(0, False) for one in automaton.program]
        self._variables = np.array([take.variable for take in takes], np.int64)
        self._excluded = np.array([take.is_excluded for take in takes], bool)
        self._reader = Reader(spec.measure_leaves, spec.names, pa.schema(list(rows)[2:]))
        orders = [(name, pa.int64()) for name in ORDER]
        self.schema = pa.schema([*event_schema(output), *orders])

    def of(self, found: Sequence[Found]) -> pa.RecordBatch:
        """Return the output rows of matches whose rows are in the store."""
        lengths = np.array([len(one.takes) for one in found], np.int64)
        sizes = np.array([len(one.numbers) for one in found], np.int64)
        rows = np.fromiter(chain.from_iterable(one.numbers for one in found), np.int64)
        takes = np.fromiter(chain.from_iterable(one.takes for one in found), np.int64)
        at = np.array([one.at for one in found], np.int64)
        match = np.array([one.match or 0 for one in found], np.int64)
        is_unmatched = np.array([one.match is None for one in found], bool)
        return self._of(rows, sizes, takes, lengths, at, match, is_unmatched)

    def of_segments(self, keys: Segments, matches: Matches) -> pa.RecordBatch:
        """Return the output rows of matches in segments."""
        before, _ = self._spec.context
        rows, sizes = with_context(matches, keys.start, before)
        numbers = np.where(rows < 0, -1, keys.numbers[rows])
        at, none = keys.numbers[matches.first], np.zeros(len(sizes), np.int64)
        return self._of(numbers, sizes, matches.takes, sizes - before, at, none, none.astype(bool))

    def _of(
        self,
        rows: np.ndarray,
        sizes: np.ndarray,
        takes: np.ndarray,
        lengths: np.ndarray,
        at: np.ndarray,
        match: np.ndarray,
        is_unmatched: np.ndarray,
    ) -> pa.RecordBatch:
        """Return the output rows of matches whose rows, with context, are ``rows``."""
        low = np.cumsum(sizes) - sizes + self._spec.context[0]
        end = low + lengths
        places = np.repeat(low, lengths) + _within(lengths)
        labels = np.full(len(rows), -1, np.int64)
        labels[places] = self._variables[takes]
        last = np.where(lengths > 0, rows[np.maximum(end - 1, 0)], at)
        if self._spec.rows == "one":
            of, row, high = np.arange(len(at)), at, end
        else:
            of, row, high = self._all_rows(rows, takes, lengths, places, low, at, is_unmatched)
        spans = Spans(rows, labels, low[of], high, end[of], match[of])
        order = (last[of], at[of], high - low[of])
        return self._batch(spans, row, order, is_unmatched[of])

    def _all_rows(
        self,
        rows: np.ndarray,
        takes: np.ndarray,
        lengths: np.ndarray,
        places: np.ndarray,
        low: np.ndarray,
        at: np.ndarray,
        is_unmatched: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the output rows if all rows of a match are emitted, except excluded rows.

        Empty matches and unmatched rows yield one row each. Returns, per output row, its match, its
        row, and the end of its span.
        """
        kept = ~self._excluded[takes]
        of = np.repeat(np.arange(len(lengths)), lengths)[kept]
        alone = lengths == 0
        if not self._spec.shows_empty:
            alone &= is_unmatched
        (single,) = np.nonzero(alone)
        inner = places[kept]
        return (
            np.concatenate([of, single]),
            np.concatenate([rows[inner], at[single]]),
            np.concatenate([inner + 1, low[single]]),
        )

    def _batch(
        self,
        spans: Spans,
        row: np.ndarray,
        order: tuple[np.ndarray, np.ndarray, np.ndarray],
        is_unmatched: np.ndarray,
    ) -> pa.RecordBatch:
        """Compute the columns of the output rows."""
        table = self._store.table()
        ends = table.column(VS).take(pa.array(self._store.places(order[0])))
        starts = numbers(as_one_array(ends))
        place = pa.array(self._store.places(row))
        kept = [as_one_array(table.column(name).take(place)) for name in self._spec.kept]
        leaves = self._reader.columns(spans, self._store)
        made = evaluate_all([measure.value for measure in self._spec.measures], leaves)
        if is_unmatched.any():
            present = pa.array(np.arange(len(row)), mask=is_unmatched)
            made = [column.take(present) for column in made]
        times = [pa.array(starts), pa.array(starts + 1)]
        columns = [*times, *kept, *made, *map(pa.array, order)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _within(lengths: np.ndarray) -> np.ndarray:
    """Return 0, 1, ... for each of the lengths, in one array."""
    places: np.ndarray = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return places
