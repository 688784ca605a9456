"""The time between two rows that a condition allows, checked with all pairs of some times.

Not covered: a bound that is too wide if the condition is also evaluated.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from planner import Stream, col, event, lit, vs, when
from planner.expressions.nodes import resolve
from planner.logical.nodes import IntervalJoin
from planner.logical.time_bounds import Span, span_of
from rstream.items.batch import event_schema

if TYPE_CHECKING:
    from planner.api.expressions import Expr

MS = pa.timestamp("ms", "UTC")
SECOND = pa.timestamp("s", "UTC")
#: Starts of rows, close to where seconds and milliseconds change.
TIMES = [0, 1, 999, 1_000, 1_001, 999_999, 1_000_000, 1_000_001, 1_999_999, 3_000_000, 7_500_000]
ITEMS = [event(t, n=t) for t in TIMES]
ONE = Stream.from_items({"n": "int64"}, ITEMS).with_columns(a=vs())
ONE = ONE.with_columns(a_ms=col("a").cast(MS), a_s=col("a").cast(SECOND)).drop("n")
OTHER = ONE.rename({"a": "b", "a_ms": "b_ms", "a_s": "b_s"})


def us(count: int) -> Expr:
    return lit(timedelta(microseconds=count))


A, B = col("a"), col("b")
SAID: dict[str, tuple[Any, Span | None]] = {
    "at most": (B - us(5) <= A, Span(None, 5, True)),
    "less": (A + us(5) > B, Span(None, 4, True)),
    "greater": (A - us(5) < B, Span(-4, None, True)),
    "between": (B.between(A - us(2), A + us(1000)), Span(-2, 1000, True)),
    "equal": (A == B, Span(0, 0, True)),
    "both": ((B >= A) & (us(7) > B - A), Span(0, 6, True)),
    "not": (~(B < A), Span(0, None, True)),
    "not not": (~~(B < A), Span(None, -1, True)),
    "a difference": ((A - B).between(us(-9), us(3)), Span(-3, 9, True)),
    "sums of lengths": (A + (us(5) + us(7)) * 2 >= B, Span(None, 24, True)),
    "either": ((A + us(1) == B) | (B + us(999) == A), Span(-999, 1)),
    "either, or anything": ((B == A) | (B > A), Span(0, None)),
    "far apart": ((A - B).dt.epoch_us().abs() < 1000, Span(-999, 999, True)),
    "milliseconds": (col("b_ms") == col("a_ms"), None),
    "seconds and microseconds": (col("b_s").between(A, A + us(2_000_000)), None),
    "whole seconds": ((B.dt.epoch_us() // 1_000_000) <= (A.dt.epoch_us() // 1_000_000), None),
    "doubles": (B.dt.epoch_us() / 1e6 - A.dt.epoch_us() / 1e6 <= 0.999999, None),
    "a truncated time": (B.dt.truncate("1s") == A.dt.truncate("1s"), None),
    "the sign matters": (
        when(B >= A).then((B - A).dt.epoch_us() // 1000).otherwise((B - A).dt.epoch_us() // 1000)
        <= 1,
        None,
    ),
    "a sum of times": (A.dt.epoch_us() + B.dt.epoch_us() < 5, Span()),
    "one of them": (A.dt.epoch_us() < 5, Span()),
    "twice the one": (A.dt.epoch_us() * 2 < B.dt.epoch_us(), Span()),
    "not equal": (A != B, Span()),
    "a number": (lit(1) < 2, Span()),
}


@pytest.mark.parametrize("name", SAID)
def test_time_bounds_keep_exactly_the_matching_pairs(name: str) -> None:
    condition, expected = SAID[name]
    pairs = ONE.join(OTHER, within=(0, 0))
    assert isinstance(pairs.plan, IntervalJoin)
    node = resolve(condition.node, pairs.schema)
    span = span_of(pairs.plan, node)
    assert expected is None or span == expected
    starts = [(a, b) for a in TIMES for b in TIMES]
    rows = [
        {"_vs": 0, "_ve": 1, "a": a, "a_ms": a // 1000, "a_s": a // 1_000_000, "b": b}
        | {"b_ms": b // 1000, "b_s": b // 1_000_000}
        for a, b in starts
    ]
    columns = [[row[f.name] for row in rows] for f in event_schema(pairs.schema)]
    arrays = [
        pa.array(column, pa.int64()).cast(f.type)
        for column, f in zip(columns, event_schema(pairs.schema), strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=event_schema(pairs.schema))
    for (a, b), is_true in zip(starts, node.evaluate(batch).to_pylist(), strict=True):
        is_near = (span.lo is None or b - a >= span.lo) and (span.hi is None or b - a <= span.hi)
        assert is_near or not is_true, (a, b)
        assert is_true or not (span.is_exact and is_near), (a, b)
