"""The new rows of a join step, and the pairs among them.

Pairs of two new rows are found in one of two ways. If no key has many rows on the smaller side,
each row of the larger side is compared with all rows of its key there; whether two lifetimes
overlap does not depend on which row is later. Otherwise both sides are sorted together by (key,
merged order). Then the rows of the other side that precede a row are a range, and a tree of maxima
finds those still alive.

Invariants: (1) both ways find the same pairs, in different orders (a join sorts its output); (2) a
step takes time in its rows and its pairs, times :data:`_COMPARED_MAX`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rstream.items.batch import VE, VS, int64_column
from rvertex.events.group_scan import group_start, heads_of
from rvertex.events.ordering import stable_order
from rvertex.keys.key_index import null_keys
from rvertex.operators.joins.max_tree import MaxTree

if TYPE_CHECKING:
    import pyarrow as pa

    from rvertex.keys.code_map import CodeMap
    from rvertex.operators.joins.stored_rows import StoredRows

#: Up to this number of rows per key on the smaller side, rows are compared one by one.
_COMPARED_MAX = 8


class NewRows:
    """The rows of one port in this step."""

    def __init__(
        self, events: pa.RecordBatch, on: tuple[str, ...], stored: pa.Schema, first_ordinal: int
    ) -> None:
        self.on = on
        self.vs, self.ve = int64_column(events, VS), int64_column(events, VE)
        self.stored = events.select(stored.names)
        self.keys = [events.column(name) for name in on]
        self.null_keys = null_keys(self.keys)
        self.first_ordinal = first_ordinal
        self.codes = np.empty(0, np.int64)
        #: The position of each row in the merged order of this step.
        self.rank = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.vs)

    def known_rows(self) -> np.ndarray:
        return np.flatnonzero(self.codes >= 0)


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of a batch, by position."""

    rows: pa.RecordBatch | StoredRows
    at: np.ndarray


@dataclass(frozen=True, slots=True)
class Pairs:
    """Matches of new rows with one batch of earlier rows."""

    sources: tuple[Source, Source]
    rank: np.ndarray
    ordinal: np.ndarray
    vs: np.ndarray
    ve: np.ndarray


def pairs_of(
    new: NewRows,
    later: np.ndarray,
    old: Source,
    ordinal: np.ndarray,
    ends: np.ndarray,
    other: int,
) -> Pairs:
    """Return the pairs of ``later`` rows of ``new`` with ``old`` rows of side ``other``."""
    recent = Source(new.stored, later)
    sources = (old, recent) if other == 0 else (recent, old)
    return Pairs(sources, new.rank.take(later), ordinal, new.vs.take(later), ends)


def within_batch(left: NewRows, right: NewRows, scratch: CodeMap) -> list[Pairs]:
    """Return the pairs of two new rows.

    ``scratch`` must be empty; it is cleared before the function returns.
    """
    small = 0 if len(left) < len(right) else 1
    keyed = _ByKey((left, right)[small])
    if keyed.longest > _COMPARED_MAX:
        return by_sorting(left, right, scratch)
    return _by_comparing((left, right), small, keyed, scratch)


class _ByKey:
    """The rows of a side by key: key ``codes[i]`` has ``rows[starts[i]:starts[i + 1]]``."""

    def __init__(self, new: NewRows) -> None:
        rows = new.known_rows()
        codes = new.codes.take(rows)
        order = stable_order(codes)
        if order is not None:
            rows, codes = rows.take(order), codes.take(order)
        self.rows = rows
        self.starts = np.append(np.flatnonzero(heads_of(codes)), len(rows))
        self.codes = codes.take(self.starts[:-1])
        self.longest = int(np.diff(self.starts).max(initial=0))


def _by_comparing(
    news: tuple[NewRows, NewRows], small: int, keyed: _ByKey, scratch: CodeMap
) -> list[Pairs]:
    """Compare each row of the larger side with all rows of its key on the smaller side."""
    few, many = news[small], news[1 - small]
    rows = many.known_rows()
    scratch.put(keyed.codes, np.arange(len(keyed.codes), dtype=np.int32))
    group = scratch.get(many.codes if len(rows) == len(many) else many.codes.take(rows))
    scratch.clear(keyed.codes)
    hits = np.flatnonzero(group >= 0)
    rows, group = rows.take(hits), group.take(hits)
    first = keyed.starts.take(group)
    if keyed.longest > 1:
        lengths = keyed.starts.take(group + 1) - first
        ends = np.cumsum(lengths)
        first = np.arange(int(lengths.sum())) + np.repeat(first - ends + lengths, lengths)
        rows = np.repeat(rows, lengths)
    partners = keyed.rows.take(first)
    overlap = few.vs.take(partners) < many.ve.take(rows)
    overlap &= many.vs.take(rows) < few.ve.take(partners)
    kept = np.flatnonzero(overlap)
    rows, partners = rows.take(kept), partners.take(kept)
    is_later = many.rank.take(rows) > few.rank.take(partners)
    pairs = []
    for side, chosen in ((small, is_later), (1 - small, ~is_later)):
        at = np.flatnonzero(chosen)
        if len(at):
            places = (rows.take(at), partners.take(at))
            later, earlier = places if side == small else places[::-1]
            pairs.append(_new_pairs(news[1 - side], later, news[side], earlier, side))
    return pairs


def _new_pairs(
    new: NewRows, later: np.ndarray, old: NewRows, earlier: np.ndarray, other: int
) -> Pairs:
    """Return the pairs of ``later`` rows of ``new`` with ``earlier`` rows of ``old``.

    ``old`` has the rows of side ``other``.
    """
    ends = np.minimum(new.ve.take(later), old.ve.take(earlier))
    source = Source(old.stored, earlier)
    return pairs_of(new, later, source, old.first_ordinal + earlier, ends, other)


def by_sorting(left: NewRows, right: NewRows, scratch: CodeMap) -> list[Pairs]:
    """Return the same pairs as :func:`within_batch`, for any number of rows per key."""
    at = _common_rows(left, right, scratch)
    if len(at[0]) == 0 or len(at[1]) == 0:
        return []
    news = (left, right)
    codes = np.concatenate([left.codes[at[0]], right.codes[at[1]]])
    rank = np.concatenate([left.rank[at[0]], right.rank[at[1]]])
    order = np.argsort(rank, kind="stable")
    by_code = stable_order(codes[order])
    order = order if by_code is None else order[by_code]
    codes, is_right = codes[order], order >= len(at[0])
    group = group_start(heads_of(codes))
    pairs = []
    for other, is_other in ((1, is_right), (0, ~is_right)):
        # In this order the rows [lo, hi) of the other side have the same key and precede the row.
        before = np.cumsum(is_other) - is_other
        probes = np.flatnonzero(~is_other)
        lo, hi = before[group[probes]], before[probes]
        new, old = news[1 - other], news[other]
        later = _rows_of(at, order[probes], 1 - other)
        earlier = _rows_of(at, order[np.flatnonzero(is_other)], other)
        probe, place = MaxTree(old.ve[earlier]).above(lo, hi, new.vs[later])
        if len(probe) == 0:
            continue
        pairs.append(_new_pairs(new, later[probe], old, earlier[place], other))
    return pairs


def _rows_of(at: tuple[np.ndarray, np.ndarray], places: np.ndarray, side: int) -> np.ndarray:
    """Return the row numbers of one side, given positions in the concatenation of both."""
    rows: np.ndarray = at[0][places] if side == 0 else at[1][places - len(at[0])]
    return rows


def _common_rows(left: NewRows, right: NewRows, scratch: CodeMap) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of each side whose key occurs on the other side."""
    rows = [left.known_rows(), right.known_rows()]
    for i, new in ((0, left), (1, right)):
        other = (right, left)[i].codes[rows[1 - i]]
        scratch.put(other, np.zeros(len(other), np.int32))
        rows[i] = rows[i][scratch.get(new.codes[rows[i]]) >= 0]
        scratch.clear(other)
    return rows[0], rows[1]
