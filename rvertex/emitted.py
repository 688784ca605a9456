"""Rows that user code emits, as columns in order of start; those that start later wait.

Invariants: (1) rows leave by (vs, order of emission); (2) a row leaves when nothing before its
start, nor emitted earlier with its start, can come any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.types import INF_TIME
from rvertex.sorted_runs import SortedRuns, empty_batch
from rvertex.user_errors import UserResultError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_INT_BITS = 63
_EXACT_BITS = 53
#: Type -> a test in Python that is enough to know that a value fits; others are tried.
_TESTS = {
    pa.int64(): f"type({{v}}) is int and -2**{_INT_BITS} <= {{v}} < 2**{_INT_BITS}",
    pa.float64(): f"type({{v}}) is float or type({{v}}) is int and abs({{v}}) < 2**{_EXACT_BITS}",
    pa.string(): "type({v}) is str",
    pa.binary(): "type({v}) is bytes",
    pa.bool_(): "type({v}) is bool",
}


@dataclass(slots=True)
class Rows:
    """Rows as they are emitted; ``values`` of one row follow those of the other.

    Lists of plain values, not of tuples: nothing here is work for the garbage collector.
    """

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.starts)

    def cut(self, count: int, width: int) -> None:
        """Forget all but the first ``count`` rows of ``width`` values."""
        for column in (self.starts, self.ends, self.keys):
            del column[count:]
        del self.values[count * width :]


class Emitted:
    """Rows as batches of ``schema``: times, keys, values."""

    def __init__(
        self, schema: pa.Schema, key_columns: Callable[[list[Any]], list[pa.Array]]
    ) -> None:
        self._schema = schema
        self._key_columns = key_columns
        self._waiting = SortedRuns(schema)

    def take(self, rows: Rows, frontier: int) -> pa.RecordBatch:
        """Add ``rows``, emitted up to ``frontier``, and remove those that start by then."""
        batch = self._batch(rows)
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
        arrays = [pa.array(np.array(t, np.int64)) for t in (rows.starts, rows.ends)]
        arrays += self._key_columns(rows.keys)
        fields = list(self._schema)[len(arrays) :]
        for k, f in enumerate(fields):
            try:
                arrays.append(pa.array(rows.values[k :: len(fields)], f.type))
            except (pa.ArrowException, ValueError, TypeError) as error:
                raise UserResultError(f"emit({f.name}=...)", str(error)) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def row_check(schema: pa.Schema) -> Callable[..., str]:
    """A function of one value per column that says which does not fit, and why; "" if all do."""
    names = [f"v{i}" for i in range(len(schema))]
    tests = []
    for name, kind in zip(names, schema.types, strict=True):
        quick = _TESTS.get(kind)
        tests.append(f"({name} is None or {quick.format(v=name)})" if quick else "False")
    condition = " and ".join(tests) or "True"
    given = "".join(f"{name}, " for name in names)
    body = f"def check({given}):\n    return '' if {condition} else tried(({given}))\n"
    scope: dict[str, Any] = {"tried": lambda values: _misfit(values, schema)}
    exec(compile(body, "<keyed state>", "exec"), scope)
    return scope["check"]  # type: ignore[no-any-return]


def _misfit(values: Sequence[Any], schema: pa.Schema) -> str:
    for value, f in zip(values, schema, strict=True):
        try:
            pa.array([value], f.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return f"column {f.name!r} is {f.type}, not {value!r}"
    return ""
