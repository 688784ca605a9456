"""Sliding windows: the same results as gathering all panes, with any cuts and restores.

Not covered: a choice between sliding and gathering that costs more than the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import event_schema
from rvertex.aggregates.spec import AggregateSpec
from rvertex.errors import SumOverflowError
from rvertex.events.run import Run
from rvertex.operators.windows import sliding
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.operators.windows.sliding import SlidingWindows
from tests.support.budget import examples
from tests.support.exact import assert_same_items
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from collections.abc import Iterator

EXACT = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("count", "n", "ns"),
    AggregateSpec("sum", "n", "total"),
    AggregateSpec("mean", "n", "mean"),
    AggregateSpec("min", "n", "least"),
    AggregateSpec("max", "n", "most"),
)
WINDOWS = st.sampled_from([(4, 1), (12, 1), (13, 3), (20, 4), (30, 2)])
KEYS = st.sampled_from([(), ("k",), ("s",), ("k", "s"), ("x",)])
ALWAYS, NEVER = 0, 1 << 62


@pytest.fixture
def taken() -> Iterator[list[int]]:
    """The number of windows per close of :class:`SlidingWindows`, which always slides here."""
    made: list[int] = []
    close = SlidingWindows.close

    def counted(*args: object) -> object:
        found = close(*args)  # type: ignore[arg-type]
        closed = None if found is None else list(found)
        made.append(-1 if closed is None else len(closed))
        return closed

    with patch.object(SlidingWindows, "close", counted), patch.object(sliding, "_ROWS_MIN", ALWAYS):
        yield made


@examples(5)
@given(run=runs(), cuts=splits(), keys=KEYS, window=WINDOWS)
def test_sliding_equals_recomputing(
    run: Run, cuts: list[int], keys: tuple[str, ...], window: tuple[int, int]
) -> None:
    spec = WindowAggregate(keys, *window, EXACT, points=True)
    with patch.object(sliding, "_ROWS_MIN", NEVER):
        gathered = spec.open([PAYLOAD]).process([run])
    with patch.object(sliding, "_ROWS_MIN", ALWAYS):
        slid = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    assert_same_items(slid.events, gathered.events, "sliding")
    assert slid.ctis.tolist() == gathered.ctis.tolist()


def points(vs: np.ndarray, keys: np.ndarray, values: pa.Array) -> Run:
    """Point events with columns ``k`` and ``n``."""
    columns = [pa.array(vs), pa.array(vs + 1), pa.array(keys), values]
    schema = event_schema(pa.schema([("k", pa.int64()), ("n", values.type)]))
    return Run(pa.RecordBatch.from_arrays(columns, schema=schema), np.arange(10, 500, 10))


def both(run: Run, aggregates: tuple[AggregateSpec, ...], steps: int) -> None:
    """The output step by step, and that of gathering all at once."""
    payload = pa.schema(list(run.events.schema)[2:])
    spec = WindowAggregate(("k",), 100, 10, aggregates, points=True)
    with patch.object(sliding, "_ROWS_MIN", NEVER):
        expected = spec.open([payload]).process([run]).events
    whole = pa.Table.from_batches(in_steps(spec, run, steps)).combine_chunks().to_batches()[0]
    assert_same_items(whole, expected, f"in steps of {steps}")


def in_steps(spec: WindowAggregate, run: Run, steps: int) -> list[pa.RecordBatch]:
    """Return the output for the rows and CTIs, step by step."""
    operator = spec.open([pa.schema(list(run.events.schema)[2:])])
    vs = run.events.column(0).to_numpy()
    found = []
    for lo in range(0, 500, steps):
        at, until = np.searchsorted(vs, [lo, lo + steps])
        ctis = run.ctis[(run.ctis >= lo) & (run.ctis < lo + steps)]
        found.append(operator.process([Run(run.events.slice(at, until - at), ctis)]).events)
    return found


@pytest.mark.parametrize("steps", [7, 64])
@pytest.mark.parametrize("kind", ["int64", "int16", "bool", "timestamp[us]", "date32", "uint64"])
def test_keys_appear_and_disappear(taken: list[int], steps: int, kind: str) -> None:
    """Nulls appear late, keys are dropped, and there is a gap longer than a window."""
    draw = np.random.default_rng(5)
    vs = np.sort(np.concatenate([draw.integers(0, 180, 3_000), draw.integers(320, 500, 3_000)]))
    keys = vs // 3 * 40 + draw.integers(0, 60, len(vs))
    nulls = (vs > 90) & (draw.random(len(vs)) < 0.7)
    numbers = draw.integers(0, 2 if kind == "bool" else 1_000, len(vs))
    plain = pa.array(numbers.astype(np.int32 if kind == "date32" else np.int64), mask=nulls)
    values = plain.cast(pa.type_for_alias(kind))
    functions = ("count", "min", "max", *(("sum",) if "int" in kind else ()))
    aggregates = tuple(AggregateSpec(f, "n", f) for f in functions)
    with patch.object(sliding, "_KEYS_MIN", 16):
        both(points(vs, keys, values), aggregates, steps)
    assert max(taken) > 0


def test_sums_that_may_exceed_int64_are_recomputed(taken: list[int]) -> None:
    """They fit, or are an error, as before."""
    vs, keys = np.array([1, 12, 23, 34, 45]), np.zeros(5, np.int64)
    sums = (AggregateSpec("sum", "n", "total"),)
    both(points(vs, keys, pa.array([2**62, -(2**62), 2**62, -(2**62), 7])), sums, 10)
    assert min(taken) == -1
    spec = WindowAggregate(("k",), 100, 10, sums, points=True)
    for large in (
        [2**62, 2**62, -(2**62), -(2**62), 7],
        [2**61] * 5,
        [-(2**61), -1] * 2 + [-(2**63)],
    ):
        with pytest.raises(SumOverflowError):  # from an operator that only slides
            in_steps(spec, points(vs, keys, pa.array(large)), 10)


def test_aggregates_that_depend_on_row_order_do_not_slide(taken: list[int]) -> None:
    payload = pa.schema([("k", pa.int64()), ("x", pa.float64())])
    for aggregate in (AggregateSpec("sum", "x", "o"), AggregateSpec("first", "x", "o")):
        partial = PartialAggregate(("k",), 100, 10, (aggregate,), points=True)
        final = FinalAggregate(("k",), 100, 10, (aggregate,), points=True)
        run = points(np.arange(50), np.zeros(50, np.int64), pa.array(np.arange(50.0)))
        operator = partial.open([payload])
        renamed = run.events.rename_columns([*run.events.schema.names[:3], "x"])
        middle = operator.process([Run(renamed, run.ctis)])
        final.open([partial.output_schema([payload])]).process([middle])
    assert taken == []
