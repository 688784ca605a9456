"""The function ``count_distinct``: distinct values per group, in 8 bytes per value and group.

Values get codes. A *word* packs three things into 64 bits: the group, the value's code and, if
several columns share the lane, one bit for each column that has the value. Words are kept in sorted
runs of growing length. An update sorts only its own rows. A run is merged with the next runs when
they are about as long, so a word is copied a logarithmic number of times. Columns that are one
column with several filters cost no more than one column: each row is one word.

Invariants: (1) counts are exact: 0.0 equals -0.0, NaN equals NaN; (2) a run has each pair of group
and value once, in ascending order, and is never changed; (3) a lane column depends only on the sets
of values, since its lists are ascending.

``sum_distinct`` and ``mean_distinct`` need all values of a window at once. Each distinct value is
added once, as ``sum`` adds it; doubles are added in order of first appearance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.batch import VS
from rvertex.aggregates import sums
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.function import (
    AN_ORDER,
    AggregateFunction,
    Lane,
    LaneKind,
    Merged,
    has_order,
    is_number,
)
from rvertex.aggregates.holistic import Holistic, no_partial_rows
from rvertex.aggregates.value_codes import CODE_BITS, ValueCodes
from rvertex.errors import TooManyGroupsError, TooManyValuesError
from rvertex.events.arrays import numbers
from rvertex.events.group_scan import heads_of
from rvertex.keys.sort_keys import numbered_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rvertex.aggregates.accumulators import Accumulator, Saved
    from rvertex.aggregates.function import Argument

#: Most columns that may share a lane: each needs a bit of every word.
COLUMNS_MAX = 4
_WORD_BITS = 63
_WORD_BYTES = 8
#: Longest list: Arrow's list offsets are int32.
_LISTED_MAX = 2**31 - 1
#: Rows that an update processes at once. Bounds its memory besides the runs.
_PIECE_MAX_ROWS = 1 << 18


def kept_together(kind: pa.DataType) -> pa.DataType:
    """Return the element type of a shared lane: a value, and a bit for each column that has it."""
    return pa.struct([("value", kind), ("seen", pa.uint8())])


def counted(lane: pa.Array, place: int) -> pa.Array:
    """Return the number of distinct values of the ``place``-th column of a lane, int64."""
    kind = lane.type
    if pa.types.is_integer(kind):
        return lane
    if pa.types.is_struct(kind):
        return pc.struct_field(lane, place)
    if not pa.types.is_struct(kind.value_type):
        return pc.list_value_length(lane).cast(pa.int64())
    flags = pc.struct_field(lane.values, 1).to_numpy()
    before = np.concatenate([[0], np.cumsum(flags >> place & 1, dtype=np.int64)])
    return pa.array(np.diff(before[lane.offsets.to_numpy()]))


class Distinct:
    """Collects the distinct values of each group. The result is a list per group, or its length.

    It is the length if ``lane`` is given, that is, if lists of partial results are merged. With
    several ``columns`` the list elements are :func:`kept_together`, and the lengths are a struct.
    """

    def __init__(self, columns: Sequence[str], kind: pa.DataType, lane: str | None = None) -> None:
        """Collect ``columns`` of type ``kind``.

        ``lane``: the list column to merge; None: read events.
        """
        assert 1 <= len(columns) <= COLUMNS_MAX, columns
        self._columns = tuple(columns)
        self._lane = lane
        self._codes = ValueCodes(kind)
        self._groups = 0
        self._flag_bits = len(columns) if len(columns) > 1 else 0
        self._groups_max = 1 << (_WORD_BITS - CODE_BITS - self._flag_bits)
        self._runs: list[np.ndarray] = []
        self._is_shared = False

    def update(self, rows: Rows) -> None:
        self._groups = rows.groups
        if rows.groups >= self._groups_max:
            raise TooManyGroupsError("count_distinct", self._groups_max)
        for codes, values, flags in self._found(rows):
            words = codes << np.int64(CODE_BITS)
            words |= self._codes_of(values)
            if flags is not None:
                words <<= np.int64(self._flag_bits)
                words |= flags
            self._push(_unique([words], self._flag_bits))

    def columns(self) -> list[pa.Array]:
        """Return the result column and free the state; no update may follow."""
        bounds = np.arange(self._groups + 1) << np.int64(CODE_BITS + self._flag_bits)
        words = self._merged_runs()
        offsets = np.searchsorted(words, bounds)
        if self._lane is not None:
            return [self._counts(words, offsets)]
        if len(words) > _LISTED_MAX:
            raise TooManyValuesError("different values of count_distinct", _LISTED_MAX)
        if self._is_shared:
            words = words.copy()
        self._runs = []
        self._rank(words)
        return [self._lists(words, offsets)]

    def save(self) -> list[Saved]:
        self._is_shared = True
        words = pa.chunked_array([pa.array(run) for run in self._runs], pa.int64())
        return [words, *self._codes.save(), pa.array([self._groups])]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        words, values, base, groups = state
        self._codes.restore(values, base)
        # Storage may have changed the chunks, so they are not necessarily the runs.
        runs = [numbers(chunk) for chunk in words.chunks]
        self._runs = [_unique(runs, self._flag_bits)] if runs else []
        self._groups = groups[0].as_py()

    def _found(self, rows: Rows) -> Iterator[tuple[np.ndarray, pa.Array, np.ndarray | None]]:
        """Yield groups, values and column bits of the rows, piece by piece."""
        if self._lane is not None:
            for codes, elements in _elements(*rows.valid(self._lane)):
                yield (codes, *_parted(elements, self._flag_bits))
            return
        for codes, values, flags in self._given(rows):
            for at in range(0, len(codes), _PIECE_MAX_ROWS):
                part = slice(at, at + _PIECE_MAX_ROWS)
                piece = values.slice(at, _PIECE_MAX_ROWS)
                yield codes[part], piece, None if flags is None else flags[part]

    def _given(self, rows: Rows) -> Iterator[tuple[np.ndarray, pa.Array, np.ndarray | None]]:
        """Yield groups, values and column bits of events.

        If the columns are one column with several filters, each row is yielded once.
        """
        if not self._flag_bits:
            yield (*rows.valid(self._columns[0]), None)
            return
        columns = [rows.column(name) for name in self._columns]
        base = pc.coalesce(*columns) if columns[0].null_count else columns[0]
        if all(column is base or _is_part_of(column, base) for column in columns):
            flags = np.zeros(len(base), np.uint8)
            for place, column in enumerate(columns):
                flags |= column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8) << place
            some = flags > 0
            if base.null_count:
                yield rows.codes[some], base.drop_null(), flags[some]
            else:
                yield rows.codes, base, flags
            return
        for place, name in enumerate(self._columns):
            codes, values = rows.valid(name)
            yield codes, values, np.full(len(codes), 1 << place, np.uint8)

    def _push(self, run: np.ndarray) -> None:
        merged, rows = [run], len(run)
        while self._runs and len(self._runs[-1]) <= 2 * rows:
            merged.append(self._runs.pop())
            rows += len(merged[-1])
        self._runs.append(run if len(merged) == 1 else _unique(merged, self._flag_bits))

    def _merged_runs(self) -> np.ndarray:
        if len(self._runs) > 1:
            runs, self._runs = self._runs, []
            self._runs, self._is_shared = [_unique(runs, self._flag_bits)], False
        return self._runs[0] if self._runs else np.empty(0, np.int64)

    def _codes_of(self, values: pa.Array) -> np.ndarray:
        """Return the codes of values. If distances no longer fit, recode all words first."""
        codes = self._codes.of(values)
        if codes is None:
            self._codes.give_up_distances()
            runs, self._runs = self._runs, []
            for run in runs:
                words = run.copy()
                self._recode(words, self._codes.again)
                self._push(_unique([words], self._flag_bits))
            codes = self._codes.of(values)
        assert codes is not None
        return codes

    def _rank(self, words: np.ndarray) -> None:
        """Sort ``words`` by group and value, in place."""
        ranks = self._codes.ranks()
        if ranks is not None:
            self._recode(words, ranks.take)
            words.sort()

    def _recode(self, words: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Replace each value code in ``words`` by ``change[code]``."""
        bits, codes = np.int64(self._flag_bits), np.int64(((1 << CODE_BITS) - 1) << self._flag_bits)
        for at in range(0, len(words), _PIECE_MAX_ROWS):
            piece = words[at : at + _PIECE_MAX_ROWS]
            changed = change((piece & codes) >> bits) << bits
            piece &= ~codes
            piece |= changed

    def _lists(self, words: np.ndarray, offsets: np.ndarray) -> pa.Array:
        """Return lists of the values of ``words``; overwrites ``words``."""
        flags = np.empty(len(words) if self._flag_bits else 0, np.uint8)
        for at in range(0, len(flags), _PIECE_MAX_ROWS):
            piece = slice(at, at + _PIECE_MAX_ROWS)
            flags[piece] = words[piece] & np.int64((1 << self._flag_bits) - 1)
        words >>= np.int64(self._flag_bits)
        words &= np.int64((1 << CODE_BITS) - 1)
        elements = self._codes.values(words)
        if self._flag_bits:
            fields = list(kept_together(elements.type))
            elements = pa.StructArray.from_arrays([elements, pa.array(flags)], fields=fields)
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), elements)

    def _counts(self, words: np.ndarray, offsets: np.ndarray) -> pa.Array:
        """Count the words of each group; for several columns a struct of one count per column."""
        if not self._flag_bits:
            return pa.array(np.diff(offsets))
        counts = np.zeros((self._flag_bits, self._groups), np.int64)
        for at in range(0, len(words), _PIECE_MAX_ROWS):
            piece = words[at : at + _PIECE_MAX_ROWS]
            groups = piece >> np.int64(CODE_BITS + self._flag_bits)
            first = groups[0]
            groups -= first
            for place, count in enumerate(counts):
                found = np.bincount(groups[(piece & np.int64(1 << place)) > 0])
                count[first : first + len(found)] += found
        return pa.StructArray.from_arrays(list(counts), names=list(map(str, range(len(counts)))))


def _parted(elements: pa.Array, flag_bits: int) -> tuple[pa.Array, np.ndarray | None]:
    """Split the elements of a lane into values and column bits."""
    if not flag_bits:
        return elements, None
    return pc.struct_field(elements, 0), pc.struct_field(elements, 1).to_numpy()


def _elements(codes: np.ndarray, lists: pa.Array) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """Yield the elements of lists piece by piece, each with the code of its list."""
    offsets, values = lists.offsets.to_numpy(), lists.values
    for at in range(int(offsets[0]), int(offsets[-1]), _PIECE_MAX_ROWS):
        end = min(at + _PIECE_MAX_ROWS, int(offsets[-1]))
        first = int(np.searchsorted(offsets, at, side="right")) - 1
        last = int(np.searchsorted(offsets, end))
        lengths = np.diff(np.clip(offsets[first : last + 1], at, end))
        yield np.repeat(codes[first:last], lengths), values.slice(at, end - at)


def _is_part_of(column: pa.Array, base: pa.Array) -> bool:
    """Return whether each value of ``column`` is null or equal to the value in ``base``."""
    try:
        same = pc.equal(column, base)
    except pa.ArrowNotImplementedError:
        return False
    return bool(pc.all(same, min_count=0).as_py()) and same.null_count == column.null_count


def _unique(parts: list[np.ndarray], flag_bits: int) -> np.ndarray:
    """Merge ``parts`` to ascending words, one per pair of group and value; ``parts`` is emptied.

    The memory is that of Arrow's pool, so it can be returned to the system when freed.
    """
    memory = pa.allocate_buffer(_WORD_BYTES * sum(map(len, parts)), resizable=True)
    words = np.frombuffer(memory, np.int64)
    np.concatenate(parts, out=words)
    parts.clear()
    words.sort()
    kept = _fold_equal(words, flag_bits)
    del words  # shrinking may move the memory, so no array may still refer to it
    memory.resize(_WORD_BYTES * kept, shrink_to_fit=True)
    return np.frombuffer(memory, np.int64)


def _fold_equal(words: np.ndarray, flag_bits: int) -> int:
    """Move the distinct words to the front and combine their column bits; return their number."""
    kept = 0
    for at in range(0, len(words), _PIECE_MAX_ROWS):
        piece = words[at : at + _PIECE_MAX_ROWS]
        pairs = piece >> np.int64(flag_bits)
        first = heads_of(pairs)
        # The last kept word may have the same group and value as the first word of this piece.
        first[0] = not kept or words[kept - 1] >> np.int64(flag_bits) != pairs[0]
        if not first.all():
            starts = np.flatnonzero(first)
            goes_on = int(starts[0]) if len(starts) else len(piece)
            if goes_on:
                words[kept - 1] |= np.bitwise_or.reduce(piece[:goes_on])
            piece = np.bitwise_or.reduceat(piece, starts) if len(starts) else piece[:0]
        words[kept : kept + len(piece)] = piece
        kept += len(piece)
    return kept


def _opened(lane: Lane, merged: str | None) -> Accumulator:
    """Open the accumulator of a lane.

    ``merged``: the column of partial results; None: read events.
    """
    value = lane.type.value_type
    return Distinct(lane.columns, value.field(0).type if lane.others else value, merged)


_LANES = LaneKind(
    "distinct",
    lane_type=lambda kind, _: pa.list_(kind),
    accumulator=lambda lane: _opened(lane, None),
    merger=lambda lane: _opened(lane, lane.name),
    merges_again=False,
    columns_max=COLUMNS_MAX,
    shared_type=lambda kind: pa.list_(kept_together(kind.value_type)),
)
_PLAIN = {function.name: function for function in sums.FUNCTIONS}


class OfDistinct(Holistic):
    """Computes the function ``name`` over the distinct values of each group."""

    def __init__(self, column: str, kind: pa.DataType, name: str) -> None:
        super().__init__(column, kind)
        self._function = _PLAIN[name]

    def made(self, rows: Rows) -> pa.Array:
        codes, values = rows.valid(self._column)
        number = numbered_keys((values.type,), [values], len(values)).codes
        order = np.lexsort((number, codes))
        first = np.sort(order[heads_of(codes[order], number[order])])
        codes, values = codes[first], values.take(pa.array(first))
        times = pa.array(np.zeros(len(codes), np.int64))
        once = Rows(codes, rows.groups, pa.record_batch([times, values], [VS, self._column]))
        lanes = []
        for kind in self._function.lanes:
            lane = Lane(kind, self._column, kind.lane_type(values.type, None))
            accumulator = lane.accumulator()
            accumulator.update(once)
            lanes.append(tuple(accumulator.columns()))
        merged = Merged(tuple(lanes), self._column, self._column, None)
        empty = pa.array(np.bincount(codes, minlength=rows.groups) == 0)
        results = self._function.finish(merged)
        return pc.if_else(empty, pa.scalar(None, results.type), results)


def _function_of(name: str) -> AggregateFunction:
    plain = _PLAIN[name]

    def result_type(kind: pa.DataType, argument: Argument) -> pa.DataType:
        return plain.result_type(plain.lanes[0].lane_type(kind, argument), argument)

    lane = LaneKind(
        f"{name}_distinct",
        lane_type=result_type,
        accumulator=lambda lane: OfDistinct(lane.only_column, lane.type, name),
        merger=no_partial_rows,
    )
    return AggregateFunction(
        f"{name}_distinct",
        (lane,),
        takes=is_number,
        needs=plain.needs,
        is_holistic=lambda _: True,
        adds_booleans=True,
    )


FUNCTIONS = (
    AggregateFunction(
        "count_distinct",
        (_LANES,),
        takes=has_order,
        needs=AN_ORDER,
        result_type=lambda *_: pa.int64(),
        finish=lambda merged: counted(merged.value, merged.place),
    ),
    _function_of("sum"),
    _function_of("mean"),
)
