"""Window aggregates: any cuts, equal to a naive evaluation, one phase equal to two.

Not covered: a mistake that needs more than a few dozen rows, or other merges of first phases.
"""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VS, event_schema, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.errors import (
    InvalidWindowError,
    OperatorTypeError,
    SumOverflowError,
    UnboundedLifetimeError,
    UnknownColumnError,
)
from rvertex.events.run import Run
from rvertex.operators.protocol import in_pieces
from rvertex.operators.windows import gather
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.state.key_runs import key_ranges
from tests.support.budget import examples, one_in
from tests.support.builders import cti, ev, make_run, table_of
from tests.support.exact import assert_same_items
from tests.support.naive import output_ctis, window_aggregate
from tests.support.operator_harness import assert_cut_invariant, check_output
from tests.support.strategies import PAYLOAD, ctis, events, runs, splits, times

if TYPE_CHECKING:
    from collections.abc import Sequence

AGGREGATES = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("count", "n", "ns"),
    AggregateSpec("sum", "n", "total"),
    AggregateSpec("sum", "x", "x_total"),
    AggregateSpec("mean", "x", "x_mean"),
    AggregateSpec("mean", "n", "n_mean"),
    AggregateSpec("min", "x", "x_min"),
    AggregateSpec("max", "x", "x_max"),
    AggregateSpec("min", "s", "s_min"),
    AggregateSpec("max", "s", "s_max"),
    AggregateSpec("first", "s", "s_first"),
    AggregateSpec("last", "x", "x_last"),
)
SIZES = st.sampled_from([(4, 4), (1, 1), (6, 2), (7, 3), (5, 4), (2, 5), (3, 7), (12, 1)])
KEYS = st.sampled_from([(), ("k",), ("s",), ("k", "s"), ("x",), ("s", "x", "k")])


def _plain(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in which NaN equals NaN and -0.0 equals 0.0."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return "nan" if math.isnan(value) else value + 0.0
        return value

    return [{name: plain(value) for name, value in row.items()} for row in rows]


def _assert_naive(spec: WindowAggregate, run: Run, out: Run) -> None:
    """All windows closed by a CTI are there, and none that a later event could change."""

    def expected(until: int) -> list[dict[str, Any]]:
        rows = window_aggregate(
            run.events.to_pylist(),
            keys=spec.keys,
            size=spec.size_us,
            every=spec.every_us,
            aggregates=[(a.function, a.column, a.output) for a in spec.aggregates],
            until=until,
            pane=math.gcd(spec.size_us, spec.every_us) if spec.points else None,
        )
        return _plain(rows)

    last_cti = int(run.ctis[-1]) if len(run.ctis) else MIN_TIME
    last_vs = int(int64_column(run.events, VS)[-1]) if run.events.num_rows else MIN_TIME
    rows = _plain(out.events.to_pylist())
    assert rows == expected(max(last_cti, last_vs))[: len(rows)]
    assert len(rows) >= len(expected(last_cti))
    assert out.ctis.tolist() == output_ctis(
        run.ctis.tolist(), size=spec.size_us, every=spec.every_us
    )


def _assert_two_phases(spec: WindowAggregate, run: Run, out: Run) -> None:
    partial, final = spec.phases
    middle = partial.open([PAYLOAD]).process([run])
    check_output([middle], partial.output_schema([PAYLOAD]))
    result = final.open([partial.output_schema([PAYLOAD])]).process([middle])
    assert_same_items(result.events, out.events, "two phases")
    assert result.ctis.tolist() == out.ctis.tolist()


@examples(8)
@given(run=runs(), cuts=splits(), keys=KEYS, window=SIZES)
def test_windows_of_points_equal_the_naive_rows(
    run: Run, cuts: list[int], keys: tuple[str, ...], window: tuple[int, int]
) -> None:
    spec = WindowAggregate(keys, *window, AGGREGATES, points=True)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    _assert_naive(spec, run, out)
    _assert_two_phases(spec, run, out)


@examples(8)
@given(run=runs(duration_max=20), cuts=splits(), keys=KEYS, window=SIZES)
def test_windows_of_intervals_equal_the_naive_rows(
    run: Run, cuts: list[int], keys: tuple[str, ...], window: tuple[int, int]
) -> None:
    spec = WindowAggregate(keys, *window, AGGREGATES, points=False)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    _assert_naive(spec, run, out)
    _assert_two_phases(spec, run, out)


EDGES = st.one_of(
    st.integers(MIN_TIME, MIN_TIME + 30),
    st.integers(INF_TIME - 30, INF_TIME - 2),
    st.integers(-5, 5),
    st.integers(MIN_TIME, INF_TIME - 2),
)
EDGE_SIZES = st.sampled_from(
    [(4, 4), (7, 3), (2, 5), (1, 1), (10, 1), (2**62, 2**61), (2**61, 2**62), (2**63 - 1, 7)]
)


@examples(15)
@given(
    table=events(times=EDGES, max_size=8),
    ctis=ctis(times=EDGES),
    cuts=splits(10),
    window=EDGE_SIZES,
    points=st.booleans(),
)
def test_times_at_the_ends_of_the_time_axis(
    table: list[Any], ctis: np.ndarray, cuts: list[int], window: tuple[int, int], points: bool
) -> None:
    if window[0] > 2**60 and window[1] < 2**60:
        points = True
        table = []  # A tumbling window over endless events; only its CTIs matter.
    run = Run(make_run(table, PAYLOAD).events, ctis)
    spec = WindowAggregate(("k",), *window, AGGREGATES[:5], points=points)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    _assert_naive(spec, run, out)


@examples(5)
@given(
    run=runs(times=times(-8, 8), distinct_keys=2, max_size=8),
    cuts=splits(),
    window=SIZES,
    points=st.booleans(),
)
def test_each_phase_alone_does_not_depend_on_batch_boundaries(
    run: Run, cuts: list[int], window: tuple[int, int], points: bool
) -> None:
    spec = WindowAggregate(("k",), *window, AGGREGATES, points=points)
    partial, final = spec.phases
    middle = assert_cut_invariant(partial, [run], [PAYLOAD], cuts)
    assert_cut_invariant(final, [middle], [partial.output_schema([PAYLOAD])], cuts)


@examples(40)
@given(
    tables=st.tuples(events(times=times(-8, 8)), events(times=times(-8, 8))),
    ctis=ctis(times=times(-8, 8)),
    window=SIZES,
    points=st.booleans(),
)
def test_two_first_phases_equal_one(
    tables: tuple[list[Any], list[Any]],
    ctis: np.ndarray,
    window: tuple[int, int],
    points: bool,
) -> None:
    """All except float sums, which two first phases add in another order."""
    exact = tuple(a for a in AGGREGATES if a.output not in ("x_total", "x_mean"))
    spec = WindowAggregate(("k",), *window, exact, points=points)
    partial, final = spec.phases
    ctis = np.append(ctis[ctis < INF_TIME], INF_TIME)
    whole = Run(_merged([make_run(t, PAYLOAD).events for t in tables]), ctis)
    parts = [
        partial.open([PAYLOAD]).process([Run(make_run(t, PAYLOAD).events, ctis)]) for t in tables
    ]
    middle = Run(_merged([p.events for p in parts]), parts[0].ctis)
    out = final.open([partial.output_schema([PAYLOAD])]).process([middle])
    expected = spec.open([PAYLOAD]).process([whole])
    assert _plain(out.events.to_pylist()) == _plain(expected.events.to_pylist())
    assert out.ctis.tolist() == expected.ctis.tolist()


def _merged(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the output of MERGE: ordered by (vs, input index, seq)."""
    both = pa.concat_batches(batches)
    return both.take(pa.array(np.argsort(int64_column(both, VS), kind="stable")))


def test_windows_return_the_rows_computed_by_hand() -> None:
    run = make_run(
        [ev(-1, k=1, n=5), ev(0, k=None, n=1), ev(3, k=1, n=None), ev(9, k=2, n=7), cti(4), cti(9)],
        PAYLOAD,
    )
    spec = WindowAggregate(
        ("k",), 8, 4, (AggregateSpec("count", None, "c"), AggregateSpec("sum", "n", "t")), True
    )
    out = spec.open([PAYLOAD]).process([run])
    assert table_of(out) == [
        ev(-8, 0, k=1, c=1, t=5),
        ev(-4, 4, k=1, c=2, t=5),
        ev(-4, 4, k=None, c=1, t=1),
        cti(0),
        ev(0, 8, k=1, c=1, t=None),
        ev(0, 8, k=None, c=1, t=1),
        cti(4),
    ]


def test_a_restored_phase_does_not_repeat_its_cti() -> None:
    run = make_run([cti(1), cti(2), ev(2, k=1), cti(3), cti(4), cti(5)], PAYLOAD)
    for points in (True, False):
        spec = WindowAggregate(("k",), 4, 4, AGGREGATES, points=points)
        partial, final = spec.phases
        middle = assert_cut_invariant(partial, [run], [PAYLOAD], [1])
        assert middle.ctis.tolist() == [0, 4]
        fine = Run(middle.events, np.array([0, 1, 4, 5]))
        assert_cut_invariant(final, [fine], [partial.output_schema([PAYLOAD])], [1])


def test_many_panes_and_ctis_in_one_batch() -> None:
    """Ten thousand panes with a CTI each, in one call and in many."""
    rng = np.random.default_rng(7)
    n = 30_000
    vs = np.sort(rng.integers(-50_000, 50_000, n))
    columns = {
        "_vs": vs,
        "_ve": vs + 1,
        "k": rng.integers(0, 5, n),
        "x": rng.standard_normal(n) * 10.0 ** rng.integers(-12, 12, n),
    }
    events = pa.RecordBatch.from_pydict(
        columns, schema=pa.schema([("_vs", pa.int64()), ("_ve", pa.int64()), *_KX])
    )
    run = Run(events, np.arange(-50_000, 50_000, 10))
    spec = WindowAggregate(("k",), 10, 10, AGGREGATES[3:5], points=True)
    schema = pa.schema(_KX)
    whole = spec.open([schema]).process([run])
    operator = spec.open([schema])
    pieces = []
    for lo in range(0, n, 1_000):
        piece = events.slice(lo, 1_000)
        first, last = (MIN_TIME if lo == 0 else vs[lo - 1]), int64_column(piece, VS)[-1]
        inside = (run.ctis > first) & (run.ctis <= last)
        pieces.append(operator.process([Run(piece, run.ctis[inside])]))
    emitted = pa.concat_batches([p.events for p in pieces])
    assert_same_items(emitted, whole.events.slice(0, emitted.num_rows), "cut into thousands")
    assert emitted.num_rows >= whole.events.num_rows - 5
    assert len(whole.ctis) == 10_000


_KX = [("k", pa.int64()), ("x", pa.float64())]

TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, None, False]),
    (pa.int8(), [3, None, -128]),
    (pa.uint64(), [3, None, 2**40]),
    (pa.float32(), [1.5, None, -2.5]),
    (pa.date32(), [3, None, 1]),
    (pa.timestamp("us", "UTC"), [3, None, 1]),
    (pa.duration("ms"), [3, None, 1]),
    (pa.time32("s"), [3, None, 1]),
    (pa.decimal128(10, 2), [Decimal("1.25"), None, Decimal("-3.50")]),
    (pa.large_string(), ["b", None, "a"]),
    (pa.binary(), [b"b", None, b"a"]),
    (pa.dictionary(pa.int32(), pa.string()), ["b", None, "a"]),
]


@pytest.mark.parametrize(("kind", "values"), TYPES, ids=lambda v: str(v) if v is not list else "")
@pytest.mark.parametrize("points", one_in(2, [True, False]))
def test_every_type_has_an_order_and_a_key(
    kind: pa.DataType, values: list[Any], points: bool
) -> None:
    payload = pa.schema([("v", kind)])
    table = [ev(t, v=v) for t, v in enumerate([*values, *values[:2], values[2]])]
    run = make_run([*table, cti(INF_TIME)], payload)
    functions = ["min", "max", "first", "last", "count"]
    numeric = pa.types.is_decimal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    functions += ["sum", "mean"] if numeric else []
    specs = tuple(AggregateSpec(f, "v", f) for f in functions)
    spec = WindowAggregate((), 4, 2, specs, points=points)
    out = assert_cut_invariant(spec, [run], [payload], [2, 5])
    rows = run.events.to_pylist()
    expected = window_aggregate(
        rows,
        keys=(),
        size=4,
        every=2,
        aggregates=[(f, "v", f) for f in functions],
        until=INF_TIME,
    )
    for row in expected:
        if row.get("mean") is not None:
            row["mean"] = float(row["mean"])
    assert out.events.to_pylist() == expected
    keyed = WindowAggregate(("v",), 4, 2, (AggregateSpec("count", None, "c"),), points=points)
    out = assert_cut_invariant(keyed, [run], [payload], [2, 5])
    counts = [("count", None, "c")]
    assert out.events.to_pylist() == window_aggregate(
        rows, keys=("v",), size=4, every=2, aggregates=counts, until=INF_TIME
    )


def test_each_aggregate_has_its_output_type() -> None:
    payload = pa.schema(
        [("i", pa.int32()), ("f", pa.float32()), ("d", pa.decimal128(5, 2)), ("s", pa.string())]
    )
    specs = tuple(
        AggregateSpec(f, c, f"{f}_{c}")
        for f, c in [
            ("count", None),
            ("count", "s"),
            ("sum", "i"),
            ("sum", "f"),
            ("sum", "d"),
            ("mean", "i"),
            ("min", "i"),
            ("max", "s"),
            ("first", "d"),
        ]
    )
    schema = WindowAggregate(("s",), 1, 1, specs, points=True).output_schema([payload])
    assert [str(f.type) for f in schema] == [
        "string",
        "int64",
        "int64",
        "int64",
        "double",
        "decimal128(38, 2)",
        "double",
        "int32",
        "string",
        "decimal128(5, 2)",
    ]


def _one(aggregate: AggregateSpec, *keys: str) -> WindowAggregate:
    return WindowAggregate(keys, 4, 4, (aggregate,), points=True)


def test_mistakes_are_named() -> None:
    with pytest.raises(OperatorTypeError, match="sum: column 's' is string, not a number"):
        _one(AggregateSpec("sum", "s", "t")).output_schema([PAYLOAD])
    with pytest.raises(UnknownColumnError, match="aggregate: there is no column 'zz'"):
        _one(AggregateSpec("sum", "zz", "t")).output_schema([PAYLOAD])
    with pytest.raises(UnknownColumnError, match="group_by: there is no column 'zz'"):
        _one(AggregateSpec("count", None, "c"), "zz").output_schema([PAYLOAD])
    with pytest.raises(OperatorTypeError, match="two output columns are named 'k'"):
        _one(AggregateSpec("count", None, "k"), "k").output_schema([PAYLOAD])
    with pytest.raises(OperatorTypeError, match="no aggregate 'median'"):
        AggregateSpec("median", "x", "m")
    with pytest.raises(OperatorTypeError, match="sum needs a column"):
        AggregateSpec("sum", None, "m")
    with pytest.raises(InvalidWindowError, match="size must be at least 1 microsecond, got 0"):
        PartialAggregate((), 0, 1, (), points=True).open([PAYLOAD])


def test_an_endless_lifetime_is_rejected() -> None:
    spec = WindowAggregate((), 4, 4, (AggregateSpec("count", None, "c"),), points=False)
    run = make_run([ev(1, INF_TIME)], PAYLOAD)
    with pytest.raises(UnboundedLifetimeError, match=r"\.clip\(\.\.\.\) or \.set_duration"):
        spec.open([PAYLOAD]).process([run])


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("size", [1_000, 2_000])
def test_many_rows_far_apart_are_in_few_windows_each(size: int, points: bool) -> None:
    """Each row is in few enough windows, although all rows together are in many."""
    every, rows = 1_000, 4_200
    vs = np.arange(rows) * 1_000_000
    payload = pa.schema([("k", pa.int64())])
    columns = {"_vs": vs, "_ve": vs + (1 if points else 10), "k": np.arange(rows) % 2}
    events = pa.RecordBatch.from_pydict(columns, schema=event_schema(payload))
    spec = WindowAggregate(("k",), size, every, (AggregateSpec("count", None, "c"),), points)
    starts = (vs[:, None] + np.arange(every - size, 1, every)).ravel()
    for cut in (0, 50):
        operator = spec.open([payload])
        first = operator.process([Run(events.slice(0, cut), vs[:0])]).events
        rest = operator.process([Run(events.slice(cut), np.array([INF_TIME]))]).events
        found = pa.concat_batches([first, rest])
        assert int64_column(found, VS).tolist() == starts.tolist()
        assert found.column("k").to_pylist() == np.repeat(columns["k"], size // every).tolist()
        assert set(found.column("c").to_pylist()) == {1}


@pytest.mark.parametrize("cut", [False, True])
def test_a_sum_beyond_int64_is_an_error_unless_it_returns(cut: bool) -> None:
    spec = WindowAggregate((), 10, 10, (AggregateSpec("sum", "n", "t"),), points=True)
    big = 2**63 - 1

    def total(*values: int) -> int:
        table = [ev(t, n=v) for t, v in enumerate(values)]
        operator = spec.open([PAYLOAD])
        pieces = [[e] for e in table] if cut else [table]
        for piece in pieces:
            operator.process([make_run(piece, PAYLOAD)])
            state = operator.snapshot()
            operator = spec.open([PAYLOAD])
            operator.load(state)
        (row,) = operator.process([make_run([cti(INF_TIME)], PAYLOAD)]).events.to_pylist()
        return int(row["t"])

    assert total(big, 5, -7, 1) == big - 1
    assert total(-big, -5, 7) == -big + 2
    with pytest.raises(SumOverflowError, match="column 'n' does not fit into int64"):
        total(big, 1)


def test_the_final_phase_reads_the_columns_of_the_partial_phase() -> None:
    partial = PartialAggregate(("k",), 6, 2, AGGREGATES, points=True)
    final = FinalAggregate(("k",), 6, 2, AGGREGATES, points=True)
    whole = WindowAggregate(("k",), 6, 2, AGGREGATES, points=True)
    middle = partial.output_schema([PAYLOAD])
    assert final.output_schema([middle]) == whole.output_schema([PAYLOAD])
    assert whole.phases == (partial, final)


@examples(15)
@given(run=runs(duration_max=30), keys=KEYS, pairs_max=st.sampled_from([1, 2, 5]))
def test_many_pairs_are_emitted_in_parts(run: Run, keys: tuple[str, ...], pairs_max: int) -> None:
    """Results are emitted in parts, regardless of the number of rows in one window."""
    for window in ((12, 1), (30, 30)):
        spec = WindowAggregate(keys, *window, AGGREGATES, points=False)
        whole = spec.open([PAYLOAD]).process([run])
        with patch.object(gather, "_PAIRS_MAX", pairs_max):
            parts = spec.open([PAYLOAD]).process([run])
        assert_same_items(parts.events, whole.events, "in parts")


@pytest.mark.parametrize("window", [(10, 10), (12, 5), (7, 9)])
def test_windows_at_the_ends_of_the_time_axis_are_emitted(window: tuple[int, int]) -> None:
    for at in (MIN_TIME, MIN_TIME + 25, INF_TIME - 25, INF_TIME - 2):
        run = make_run([ev(at, k=1, n=1, x=1.0, s="a"), cti(INF_TIME)], PAYLOAD)
        for points in (False, True):
            spec = WindowAggregate(("k",), *window, AGGREGATES[:5], points=points)
            _assert_naive(spec, run, spec.open([PAYLOAD]).process([run]))


@pytest.mark.parametrize("planted", [None, "reversed", "lost", "fence"])
def test_rows_ordered_by_key_are_merged_range_by_range(planted: str | None) -> None:
    """Partial rows of three first phases, one after the other, each sorted by key."""
    aggregates = (AggregateSpec("sum", "x", "x"), AggregateSpec("last", "x", "last"))
    payload = pa.schema([("k", pa.int64()), ("x", pa.float64())])
    partial = PartialAggregate(("k",), 10, 10, aggregates, points=True)
    final = FinalAggregate(("k",), 10, 10, aggregates, points=True)
    (schema,) = [partial.output_schema([payload])]
    draw = np.random.default_rng(5)
    parts = []
    for _ in range(3):
        keys, x = draw.integers(0, 50, 90), draw.choice([0.1, 1e17, -1e17, 3.0], 90)
        columns = [np.zeros(90, np.int64), np.ones(90, np.int64), keys, x]
        rows = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], ["_vs", "_ve", "k", "x"])
        parts.append(partial.open([payload]).process([Run(rows, np.array([10]))]).events)
    table = pa.Table.from_batches(parts).combine_chunks()
    runs = [Run(rows, np.empty(0, np.int64)) for rows in table.to_batches(max_chunksize=7)]

    def closed() -> list[Run]:
        operator = final.open([schema])
        for run in runs:
            assert operator.process([run]).events.num_rows == 0
        end = Run(table.to_batches()[0].slice(0, 0), np.array([10]))
        return [piece for piece in in_pieces([operator], [end]) if piece is not None]

    (expected,) = closed()
    plans = {
        None: key_ranges,
        "reversed": lambda found, rows: key_ranges(found[::-1], rows),
        "lost": lambda found, rows: itertools.islice(key_ranges(found, rows), 1, None),
        "fence": lambda found, rows: (
            ([b[:-1] for b in piece], end) for piece, end in key_ranges(found, rows)
        ),
    }
    limits = {"_MANY_ROWS": 2, "_LONG_ROWS": 3, "_RANGE_ROWS": 20, "key_ranges": plans[planted]}
    with patch.multiple(gather, **limits):
        pieces = closed()
    assert len(pieces) > 3
    found = pa.Table.from_batches([piece.events for piece in pieces]).combine_chunks()
    assert found.equals(pa.Table.from_batches([expected.events])) == (planted is None)
    assert [len(piece.ctis) for piece in pieces[:-1]] == [0] * (len(pieces) - 1)
