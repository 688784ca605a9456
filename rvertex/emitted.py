"""Rows that user code emits, as columns in order of start; those that start later wait.

Invariants: (1) rows leave by (vs, order of emission); (2) a row leaves when nothing before its
start, nor emitted earlier with its start, can come any more.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.dictionaries import join_batches
from rstream.types import INF_TIME
from rvertex.sorted_runs import SortedRuns, empty_batch
from rvertex.user_errors import UserResultError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Rows that are made columns of while they are still in the processor's cache.
GATHERED_MIN = 1 << 12
_INT_BITS = 63
_EXACT_BITS = 53
#: Type -> a test in Python that is enough to know that a value fits; others are tried.
_TESTS = {
    pa.int64(): f"_type({{v}}) is _int and -2**{_INT_BITS} <= {{v}} < 2**{_INT_BITS}",
    pa.float64(): "_type({v}) is _float or _type({v}) is _int and "
    f"-2**{_EXACT_BITS} < {{v}} < 2**{_EXACT_BITS}",
    pa.string(): "_type({v}) is _str",
    pa.binary(): "_type({v}) is _bytes",
    pa.bool_(): "_type({v}) is _bool",
}
#: Under names that no column has.
_TYPES = {"_type": type, "_int": int, "_float": float, "_str": str, "_bytes": bytes, "_bool": bool}
_EMIT = """\
def emit({parameters}*, vs=None, ve=None):
    if vs is None and ve is None:
        vs = _start
        ve = _end
    else:
        vs, ve = _lifetime(vs, ve)
    if not ({tests}):
        _check_row(({given}))
    _add_start(vs)
    _add_end(ve)
    _add_key(_slot._key){adds}
"""


class Rows:
    """Rows as they are emitted, column by column; the lists stay the same objects.

    Plain values in lists, no tuples: nothing here is work for the garbage collector.
    """

    def __init__(self, width: int) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.keys: list[Any] = []
        self.columns: tuple[list[Any], ...] = tuple([] for _ in range(width))

    def __len__(self) -> int:
        return len(self.starts)

    def cut(self, count: int) -> None:
        """Forget all but the first ``count`` rows."""
        for column in (self.starts, self.ends, self.keys, *self.columns):
            del column[count:]


class Emitted:
    """Rows as batches of ``schema``: times, keys, values."""

    def __init__(
        self, schema: pa.Schema, key_columns: Callable[[list[Any]], list[pa.Array]]
    ) -> None:
        self._schema = schema
        self._key_columns = key_columns
        self._waiting = SortedRuns(schema)
        self._gathered: list[pa.RecordBatch] = []

    def gather(self, rows: Rows) -> None:
        """Make columns of ``rows``, which are empty afterwards, if they are worth a batch."""
        if len(rows) >= GATHERED_MIN:
            self._gathered.append(self._batch(rows))
            rows.cut(0)

    def take(self, rows: Rows, frontier: int) -> pa.RecordBatch:
        """Add what was gathered and ``rows``, emitted up to ``frontier``; take what starts by then.

        ``rows`` is empty afterwards.
        """
        batch = join_batches([*self._gathered, self._batch(rows)])
        rows.cut(0)
        self._gathered.clear()
        if self._waiting.rows == 0 and batch.num_rows:
            vs = batch.column(0).to_numpy()
            if vs[-1] <= frontier and (vs[1:] >= vs[:-1]).all():
                return batch
        self._waiting.push(batch)
        return self._waiting.take_below(INF_TIME if frontier == INF_TIME else frontier + 1)

    def table(self) -> pa.Table:
        """What waits, by reference."""
        return self._waiting.table()

    def load(self, table: pa.Table) -> None:
        """Continue with the rows of ``table`` waiting."""
        for batch in table.to_batches():
            self._waiting.push(batch)

    def _batch(self, rows: Rows) -> pa.RecordBatch:
        if not rows.starts:
            return empty_batch(self._schema)
        arrays = [pa.array(times, pa.int64()) for times in (rows.starts, rows.ends)]
        arrays += self._key_columns(rows.keys)
        fields = list(self._schema)[len(arrays) :]
        for f, values in zip(fields, rows.columns, strict=True):
            try:
                arrays.append(pa.array(values, f.type))
            except (pa.ArrowException, ValueError, TypeError) as error:
                raise UserResultError(f"emit({f.name}=...)", str(error)) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def emit_source(schema: pa.Schema, rows: Rows) -> tuple[str, dict[str, Any]]:
    """The function ``emit`` of a context, to be compiled for the columns of ``schema``.

    A parameter per column, and ``vs``, ``ve``. Values are tested for their types in the function
    itself, as calls would cost more than the tests. Returns its text and what it knows by name,
    besides ``_slot``, ``_start`` and ``_end`` at hand and ``_lifetime(vs, ve)`` of a row.
    """
    names = list(schema.names)
    by_name = all(n.isidentifier() and not iskeyword(n) and not n.startswith("_") for n in names)
    if not by_name or {"vs", "ve"} & set(names):
        names, by_name = [f"c{i}" for i in range(len(names))], False
    tests = [
        f"({name} is None or {_TESTS[kind].format(v=name)})" if kind in _TESTS else "False"
        for name, kind in zip(names, schema.types, strict=True)
    ]
    given = "".join(f"{name}, " for name in names)
    body = _EMIT.format(
        parameters=given + ("" if by_name or not names else "/, "),
        given=given,
        tests=" and ".join(tests) or "True",
        adds="".join(f"\n    _add_{i}({name})" for i, name in enumerate(names)),
    )
    scope: dict[str, Any] = {f"_add_{i}": c.append for i, c in enumerate(rows.columns)}
    scope |= {"_add_start": rows.starts.append, "_add_end": rows.ends.append} | _TYPES
    scope |= {"_add_key": rows.keys.append, "_check_row": lambda values: _check(values, schema)}
    return body, scope


def _check(values: Sequence[Any], schema: pa.Schema) -> None:
    """Raise if a value does not become one of its column's type."""
    for value, f in zip(values, schema, strict=True):
        try:
            pa.array([value], f.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            reason = f"column {f.name!r} is {f.type}, not {value!r}"
            raise UserResultError("emit(...)", reason) from None
