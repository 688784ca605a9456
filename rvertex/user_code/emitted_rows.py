"""Converts rows that user code emits to columns, in order of start; buffers later rows.

Invariants: (1) rows are released by (vs, order of emission); (2) a row is released once no row can
follow that starts earlier.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS
from rstream.items.dictionaries import join_batches, plain_array
from rstream.types import INF_TIME
from rvertex.events.reorder_buffer import SortedRuns, empty_batch
from rvertex.user_code.errors import UserResultError
from rvertex.user_code.plain_values import arrow_column, plain_keys, raw_column
from rvertex.user_code.times import holds_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Number of rows that are converted to columns together, small enough for the processor's cache.
GATHERED_MIN = 1 << 12
_INT_BITS = 63
_EXACT_BITS = 53
#: Bits of the integers that Python compares fastest.
_DIGIT_BITS = 30
#: By type: a Python test that a value fits. Types without a test are tested by a conversion.
_TESTS = {
    pa.int64(): f"_type({{v}}) is _int and (-2**{_DIGIT_BITS} < {{v}} < 2**{_DIGIT_BITS} or "
    f"-2**{_INT_BITS} <= {{v}} < 2**{_INT_BITS})",
    pa.float64(): "_type({v}) is _float or _type({v}) is _int and "
    f"-2**{_EXACT_BITS} < {{v}} < 2**{_EXACT_BITS}",
    pa.string(): "_type({v}) is _str",
    pa.binary(): "_type({v}) is _bytes",
    pa.bool_(): "_type({v}) is _bool",
}
#: Names in the generated code; no column has one of them.
_TYPES = {"_type": type, "_int": int, "_float": float, "_str": str, "_bytes": bytes, "_bool": bool}
#: Key types whose columns are used unchanged. In other types, equal keys may look different.
_PLAIN = (
    pa.types.is_integer, pa.types.is_string, pa.types.is_binary, pa.types.is_boolean,
    pa.types.is_timestamp, pa.types.is_date, pa.types.is_time, pa.types.is_duration,
)  # fmt: skip
_EMIT = """\
def emit(_ctx, {parameters}*, vs=None, ve=None):
    if vs is not None or ve is not None:
        vs, ve = _lifetime(vs, ve)
    if not ({tests}):
        _check_row(({given}))
    if vs is None and _at >= 0:
        _add_number(_at)
    else:
        _add_number(-1)
        _add_key(_slot._key)
        if vs is None:
            _add_start(_start)
        else:
            if ve != vs + 1:
                _ends[_len(_starts)] = ve
            _add_start(vs){adds}
"""
#: The function ``emit`` for classes that never pass ``vs`` or ``ve``.
_EMIT_AT_HAND = """\
def emit(_ctx{parameters}):
    if not ({tests}):
        _check_row(({given}))
    _add_number(_at)
    if _at < 0:
        _add_key(_slot._key)
        _add_start(_start){adds}
"""


class Rows:
    """Emitted rows, column by column; the lists are never replaced.

    The lists contain plain values, no tuples, so the garbage collector does not track them.
    """

    def __init__(self, width: int) -> None:
        #: Per row: the number, in the run, of the event whose time and key the row has. -1: the row
        #: has its own.
        self.numbers: list[int] = []
        #: For rows with their own time: start, key, and the end (unless it is ``vs + 1``).
        self.starts: list[int] = []
        self.keys: list[Any] = []
        self.ends: dict[int, int] = {}
        self.columns: tuple[list[Any], ...] = tuple([] for _ in range(width))

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def mark(self) -> tuple[int, int]:
        """Return the number of rows, and the number of rows with their own times."""
        return len(self.numbers), len(self.starts)

    def cut(self, mark: tuple[int, int]) -> None:
        """Drop the rows that were added after :meth:`mark` returned ``mark``."""
        for column in (self.numbers, *self.columns):
            del column[mark[0] :]
        for column in (self.starts, self.keys):
            del column[mark[1] :]
        for at in [at for at in self.ends if at >= mark[1]]:
            del self.ends[at]


class Emitted:
    """Rows as batches of ``schema``: times, keys, values."""

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        key_columns: Callable[[list[Any]], list[pa.Array]],
    ) -> None:
        self._schema = schema
        self._keys = list(keys)
        self._key_columns = key_columns
        self._waiting = SortedRuns(schema)
        self._gathered: list[pa.RecordBatch] = []

    def gather(self, rows: Rows, events: pa.RecordBatch) -> None:
        """Convert ``rows`` to columns and clear them, if they are enough for a batch."""
        if len(rows) >= GATHERED_MIN:
            self._gathered.append(self._batch(rows, events))
            rows.cut((0, 0))

    def take(self, rows: Rows, events: pa.RecordBatch, frontier: int) -> pa.RecordBatch:
        """Add ``rows``, emitted up to ``frontier``; remove and return all rows that start by then.

        ``events``: the events of the run. ``rows`` is cleared.
        """
        batch = join_batches([*self._gathered, self._batch(rows, events)])
        rows.cut((0, 0))
        self._gathered.clear()
        if self._waiting.rows == 0 and batch.num_rows:
            vs = batch.column(0).to_numpy()
            if vs[-1] <= frontier and (vs[1:] >= vs[:-1]).all():
                return batch
        self._waiting.push(batch)
        return self._waiting.take_below(INF_TIME if frontier == INF_TIME else frontier + 1)

    def table(self) -> pa.Table:
        """Return the buffered rows, by reference."""
        return self._waiting.table()

    def load(self, table: pa.Table) -> None:
        """Restore the buffered rows."""
        for batch in table.to_batches():
            self._waiting.push(batch)

    def _batch(self, rows: Rows, events: pa.RecordBatch) -> pa.RecordBatch:
        if not rows.numbers:
            return empty_batch(self._schema)
        numbers = pa.array(rows.numbers, pa.int64()).to_numpy()
        arrays = self._given(numbers, events) if len(rows.starts) < len(numbers) else []
        if rows.starts:
            arrays = _mixed(numbers >= 0, arrays, self._own(rows))
        fields = list(self._schema)[len(arrays) :]
        for f, values in zip(fields, rows.columns, strict=True):
            try:
                # ``emit`` has checked values of other types
                write = arrow_column if holds_times(f.type) else raw_column
                arrays.append(write(values, f.type))
            except MemoryError:
                raise
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                raise UserResultError(f"emit({f.name}=...)", str(error)) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _given(self, numbers: np.ndarray, events: pa.RecordBatch) -> list[pa.Array]:
        """Return the times and keys of the events with these numbers."""
        at = numbers[numbers >= 0]
        first, last = int(at[0]), int(at[-1])
        columns = [events.column(name) for name in (VS, VE, *self._keys)]
        if last - first + 1 == len(at) and bool((at[1:] > at[:-1]).all()):
            columns = [column.slice(first, len(at)) for column in columns]
        else:
            columns = [column.take(pa.array(at)) for column in columns]
        if all(map(_is_plain, columns)):
            pairs = zip(columns, self._schema.types, strict=False)
            return [c if c.type.equals(kind) else plain_array(c) for c, kind in pairs]
        keys = [plain_keys(column) for column in columns[2:]]
        chosen = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
        return columns[:2] + self._key_columns(chosen)

    def _own(self, rows: Rows) -> list[pa.Array]:
        """Return the times and keys of rows that have their own."""
        starts = pa.array(rows.starts, pa.int64()).to_numpy()
        ends = starts + 1
        if rows.ends:
            ends[list(rows.ends)] = list(rows.ends.values())
        return [pa.array(starts), pa.array(ends), *self._key_columns(rows.keys)]


def _is_plain(column: pa.Array) -> bool:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return any(test(kind) for test in _PLAIN)


def _mixed(is_given: np.ndarray, given: list[pa.Array], own: list[pa.Array]) -> list[pa.Array]:
    """Merge both kinds of rows in the order of emission."""
    if not given:
        return own
    at = np.empty(len(is_given), np.int64)
    count = len(given[0])
    at[is_given] = np.arange(count)
    at[~is_given] = np.arange(count, len(at))
    places = pa.array(at)
    return [pa.concat_arrays(pair).take(places) for pair in zip(given, own, strict=True)]


def emit_source(schema: pa.Schema, rows: Rows, *, has_times: bool) -> tuple[str, dict[str, Any]]:
    """Return the source of a context's ``emit`` for the columns of ``schema``, and its globals.

    It has a parameter per column. With ``has_times`` it also has ``vs`` and ``ve``, keyword-only,
    which makes every call slower. The function itself tests the types of values, because calls
    would cost more than the tests. The caller also defines ``_slot``, ``_start``, ``_at`` and
    ``_lifetime(vs, ve)``.
    """
    names = list(schema.names)
    by_name = all(n.isidentifier() and not iskeyword(n) and not n.startswith("_") for n in names)
    if not by_name or {"vs", "ve"} & set(names):
        names, by_name = [f"c{i}" for i in range(len(names))], False
    tests = [
        f"({name} is None or {test.format(v=name)})" if test else "False"
        for name, test in zip(names, map(_test_of, schema.types), strict=True)
    ]
    given = "".join(f"{name}, " for name in names)
    parameters = given + ("" if by_name or not names else "/, ")
    body = (_EMIT if has_times else _EMIT_AT_HAND).format(
        parameters=parameters if has_times else f", {parameters}".removesuffix(", "),
        given=given,
        tests=" and ".join(tests) or "True",
        adds="".join(f"\n    _add_{i}({name})" for i, name in enumerate(names)),
    )
    scope: dict[str, Any] = {f"_add_{i}": c.append for i, c in enumerate(rows.columns)}
    scope |= {"_add_number": rows.numbers.append, "_add_start": rows.starts.append} | _TYPES
    scope |= {"_add_key": rows.keys.append, "_starts": rows.starts, "_ends": rows.ends}
    scope["_len"] = len
    scope["_check_row"] = lambda values: _check(values, schema)
    return body, scope


def _test_of(kind: pa.DataType) -> str:
    """Return the test of values that need no conversion; empty if there is none."""
    is_in_us = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    return _TESTS.get(pa.int64() if is_in_us and kind.unit == "us" else kind, "")


def _check(values: Sequence[Any], schema: pa.Schema) -> None:
    """Raise UserResultError if a value cannot be converted to its column's type."""
    for value, f in zip(values, schema, strict=True):
        try:
            arrow_column([value], f.type)
        except MemoryError:
            raise
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise UserResultError("emit(...)", misfit(f, value, error)) from None


def misfit(field: pa.Field, value: Any, error: Exception) -> str:
    """Return the message that a value does not fit its column."""
    reason = f"column {field.name!r} is {field.type}, not {value!r}"
    return f"{reason}: {error}" if holds_times(field.type) else reason
