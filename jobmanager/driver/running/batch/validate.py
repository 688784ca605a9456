"""Batches: :func:`collect_batch`, and the comparison of a stream's result with its batch twin's.

Results are bags: rows are compared regardless of their order. Floats agree up to a relative 1e-9,
because a batch adds them in another order. NaN agrees with NaN, and 0.0 with -0.0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobmanager.config import SPARK_DAEMON, JobConfig
from jobmanager.driver.running.collecting import collect
from jobmanager.options import configured
from planner import Query, Stream
from planner.batch.spark_sql import physical
from planner.cost.parallelism import PARALLELISM
from planner.logical.query import only_output
from planner.logical.traversal import refuse_endless
from rstream.items.batch import VE, VS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.driver.engine import ExecutorName

RELATIVE_TOLERANCE = 1e-9
#: Most rows, equal except for floats, that are paired by search. If there are more, they are paired
#: in order.
_SEARCHED_ROWS_MAX = 1_000
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two results. ``only_in_*``: the first difference, at least one of both."""

    stream_rows: int
    batch_rows: int
    only_in_stream: Row | None = None
    only_in_batch: Row | None = None

    @property
    def is_equal(self) -> bool:
        return self.only_in_stream is None and self.only_in_batch is None

    def __str__(self) -> str:
        if self.is_equal:
            return f"equal, {self.stream_rows} rows"
        lines = [f"different: {self.stream_rows} rows by stream, {self.batch_rows} by batch"]
        for name, row in (("stream", self.only_in_stream), ("batch", self.only_in_batch)):
            lines.append(f"  only in the {name}: {_shown(row)}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison in JSON types. Values that JSON lacks become text."""
        sides = {"only_in_stream": self.only_in_stream, "only_in_batch": self.only_in_batch}
        return {
            "equal": self.is_equal,
            "stream_rows": self.stream_rows,
            "batch_rows": self.batch_rows,
            "first_difference": None
            if self.is_equal
            else {name: None if row is None else _plain(row) for name, row in sides.items()},
        }


def collect_batch(
    stream: Stream | Query, *, master: str | None = None, parallelism: int | None = None
) -> pa.Table:
    """Compute the result of ``stream`` as a batch, with Spark SQL's own operators.

    Columns: ``_vs, _ve`` and the payload, sorted by all of them, nulls first. ``parallelism``: the
    parallelism of the stream job. It decides how sources are divided, and so which rows are late.

    Raises:
        UnsupportedInBatchError: Spark SQL has no exact counterpart of an operator in the plan.
        BatchDataError: a value that the query cannot handle, or an ambiguous ``first`` or ``last``.
    """
    if isinstance(stream, Query):
        only_output(stream, "collect_batch()")
    refuse_endless(stream.plan, "collect_batch()")
    # Imported here, because it starts Java
    from planner.batch.compile import collect as collect_by_spark

    return collect_by_spark(
        stream.plan,
        master=master,
        daemon_module=SPARK_DAEMON,
        parallelism=parallelism or PARALLELISM,
        cti_every_us=stream.cti_every_us if isinstance(stream, Query) else None,
    )


def validate(
    stream: Stream | Query,
    *,
    executor: ExecutorName = "local",
    master: str | None = None,
    parallelism: int | None = None,
    paced: float | None = None,
) -> Comparison:
    """Run ``stream`` as a job and as a batch on its finite sources, and compare the results.

    ``paced``: as for :func:`jobmanager.run`. The plan of session windows depends on it.
    """
    config = configured(JobConfig(), parallelism, None, paced)
    given = _stream_of(stream)
    streamed = collect(
        given, executor=executor, master=master, parallelism=parallelism, config=config
    )
    batch = collect_batch(given, master=master, parallelism=parallelism)
    return compare(streamed, batch)


def _stream_of(query: Stream | Query) -> Stream:
    if isinstance(query, Stream):
        return query
    return Stream(only_output(query, "validate()").plan.input)


def compare(stream: pa.Table, batch: pa.Table) -> Comparison:
    """Compare two results with the same columns as bags of rows.

    The first difference is the first by ``_vs``, ``_ve`` and the columns that are not floats.
    """
    assert stream.schema.equals(batch.schema), (stream.schema, batch.schema)
    exact = [n for n, f in enumerate(stream.schema) if not _has_float(f.type)]
    floats = [n for n, f in enumerate(stream.schema) if _has_float(f.type)]
    left, right = (_grouped(table, exact, floats) for table in (stream, batch))
    for key in sorted(left.keys() | right.keys()):
        ours, other = _unmatched(left.get(key, []), right.get(key, []))
        if ours or other:
            rows = [_row(table, entries) for table, entries in ((stream, ours), (batch, other))]
            return Comparison(stream.num_rows, batch.num_rows, *rows)
    return Comparison(stream.num_rows, batch.num_rows)


#: A row: the values of its float columns, and its index in the table.
_Entry = tuple[tuple[Any, ...], int]
_Groups = dict[tuple[Any, ...], list[_Entry]]


def _grouped(table: pa.Table, exact: Sequence[int], floats: Sequence[int]) -> _Groups:
    """Group rows by their columns without floats. Sort each group by its floats."""
    columns = [column.cast(physical(column.type)).to_pylist() for column in table.columns]
    groups: _Groups = {}
    for at in range(table.num_rows):
        key = tuple(_orderable(columns[n][at]) for n in exact)
        groups.setdefault(key, []).append((tuple(columns[n][at] for n in floats), at))
    for entries in groups.values():
        entries.sort(key=lambda entry: _orderable(entry[0]))
    return groups


def _unmatched(ours: list[_Entry], other: list[_Entry]) -> tuple[list[_Entry], list[_Entry]]:
    """Return the rows of each side without a partner on the other side."""
    pairs = zip(ours, other, strict=False)
    if len(ours) == len(other) and all(_agree(a, b) for (a, _), (b, _) in pairs):
        return [], []
    if max(len(ours), len(other)) > _SEARCHED_ROWS_MAX:
        at = _first_apart(ours, other)
        return ours[at : at + 1], other[at : at + 1]
    left, unpaired = list(other), []
    for values, at in ours:
        match = next((k for k, (theirs, _) in enumerate(left) if _agree(values, theirs)), None)
        if match is None:
            unpaired.append((values, at))
        else:
            del left[match]
    return unpaired, left


def _first_apart(ours: list[_Entry], other: list[_Entry]) -> int:
    pairs = enumerate(zip(ours, other, strict=False))
    return next(
        (k for k, ((a, _), (b, _)) in pairs if not _agree(a, b)), min(len(ours), len(other))
    )


def _agree(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(_agree(v, w) for v, w in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return _agree(list(a.values()), list(b.values()))
    return bool(a == b)


def _orderable(value: Any) -> tuple[Any, ...]:
    """Return a sort key for any value of a column: nulls first, then values, then NaN."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return (1, tuple(_orderable(v) for v in value))
    return (1, value)


def _has_float(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_float(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _row(table: pa.Table, entries: list[_Entry]) -> Row | None:
    if not entries:
        return None
    row = table.slice(entries[0][1], 1)
    return {name: _python(row.column(name)[0]) for name in table.schema.names}


def _python(value: pa.Scalar) -> Any:
    """Return a Python value, or text for a time outside Python's calendar."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return str(value.cast(physical(value.type)))


def _shown(row: Row | None) -> str:
    if row is None:
        return "nothing"
    payload = ", ".join(f"{name}={value!r}" for name, value in row.items() if name not in (VS, VE))
    return f"[{row[VS]}, {row[VE]}) {payload}"


def _plain(row: Row) -> Row:
    return {name: _plain_value(value) for name, value in row.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _plain(value)
    if isinstance(value, list):
        return [_plain_value(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
