"""Sums and means of integers and decimals against Python's exact numbers, in every window.

Values are near the limits of their types, so that sums leave them and return. ``top_k``, which
keeps all values, shows the contents of a window.

Not covered: rows in the wrong group, which the naive evaluators detect.
"""

from __future__ import annotations

import itertools
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, strategies as st

from rstream.items.batch import VS
from rstream.types import INF_TIME
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.exact_sums import ExactSum, WordSums, exact_means, span_of
from rvertex.aggregates.spec import AggregateSpec
from rvertex.errors import SumOverflowError
from rvertex.events.run import Run
from rvertex.operators.windows import sliding
from rvertex.operators.windows.count import CountWindowAggregate
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.operators.windows.session import SessionAggregate
from rvertex.operators.windows.session_phases import FinalSession, PartialSession
from rvertex.operators.windows.snapshots.window import SnapshotAggregate
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run
from tests.support.cut_runs import run_cut

if TYPE_CHECKING:
    from rvertex.operators.protocol import OperatorSpec

KINDS = [
    *(pa.int64(), pa.uint64(), pa.int8()),
    *(pa.decimal128(38, 2), pa.decimal128(5, 2), pa.decimal256(76, 3)),
]
WIDE = Context(prec=400)
ALL = (AggregateSpec("top_k", "x", "all", 10_000),)
SUMS = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("sum", "x", "total"),
    AggregateSpec("mean", "x", "mean"),
)
MEANS = SUMS[2:]


def limits(kind: pa.DataType) -> tuple[int, int]:
    """The least and greatest value, in units of the last digit."""
    if pa.types.is_decimal(kind):
        return -(10**kind.precision - 1), 10**kind.precision - 1
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Mostly near the limits; nulls, too."""
    low, high = limits(kind)
    edge = st.sampled_from([low, high, low + 1, high - 1, low // 2, high // 2, 0])
    number = edge | st.integers(low, high) | st.integers(max(low, -9), min(high, 9))
    if not pa.types.is_decimal(kind):
        return st.none() | number
    return st.none() | number.map(lambda n: Decimal(n).scaleb(-kind.scale, WIDE))


def exact(number: int | Decimal) -> Fraction:
    return Fraction(number)


def room_of(kind: pa.DataType) -> tuple[Fraction, Fraction]:
    """Return the bounds of a sum of values of a type."""
    if not pa.types.is_decimal(kind):
        return exact(-(2**63)), exact(2**63 - 1)
    digits = 76 if pa.types.is_decimal256(kind) else 38
    most = Fraction(10**digits - 1, 10**kind.scale)
    return -most, most


def assert_sum(kind: pa.DataType, got: Any, carry: int, members: list[Any]) -> None:
    """The value and carry of a partial sum equal the sum."""
    if not members:
        assert got is None
        assert carry == 0
        return
    unit = 10 ** getattr(kind, "scale", 0)
    assert exact(got) + Fraction(carry * span_of(kind), unit) == sum(map(exact, members))
    low, high = room_of(kind)
    assert (carry == 0) == (low <= sum(map(exact, members)) <= high)


#: Small high words, and a sum of the low words that brings them below 38 digits.
AT_THE_BOTTOM = [(0, Decimal(n)) for n in (-((10**38 >> 64) - 1) << 64, *[1 - 2**63] * 10)]

CASES = st.sampled_from(KINDS).flatmap(
    lambda kind: st.tuples(
        st.just(kind), st.lists(st.tuples(st.integers(0, 2), values(kind)), max_size=12)
    )
)


@examples(38)
@given(CASES, st.lists(st.integers(0, 12), max_size=3), st.integers(0, 12))
@example((pa.decimal128(38, 0), [(0, Decimal("9" * 38))] * 2), [1], 1)
@example((pa.int64(), [(0, 2**63 - 1)] * 3 + [(0, -(2**63))] * 3), [2, 3], 4)
@example((pa.decimal128(38, 0), AT_THE_BOTTOM), [], 0)
def test_the_sum_is_exact_for_any_batches_and_partial_sums(
    case: tuple[pa.DataType, list[tuple[int, Any]]], cuts: list[int], split: int
) -> None:
    """Pieces with a restore between them, and merged partial sums of two parts."""
    kind, table = case
    lane = _lane(kind)

    def batch(rows: list[tuple[int, Any]]) -> Rows:
        rows = [*((group, None) for group in range(3)), *rows]  # no group without a row
        column = pa.array([value for _, value in rows], kind)
        codes = np.array([code for code, _ in rows], np.int64)
        return Rows(codes, 3, pa.RecordBatch.from_arrays([column], names=["x"]))

    def summed(rows: list[tuple[int, Any]], *cuts: int) -> ExactSum:
        made = ExactSum("x", lane)
        made.update(batch([]))
        bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
        for lo, hi in itertools.pairwise(bounds):
            made.update(batch(rows[lo:hi]))
            again = ExactSum("x", lane)
            again.restore([pa.chunked_array([c]) for c in made.save()])
            made = again
        return made

    members = [[v for code, v in table if code == group and v is not None] for group in range(3)]
    merged = ExactSum("sum", lane, "carry")
    for part in (table[:split], table[split:]):
        columns = summed(part).columns()
        rows = pa.RecordBatch.from_arrays(columns, names=["sum", "carry"])
        merged.update(Rows(np.arange(3), 3, rows))
    for made in (summed(table), summed(table, *cuts), merged):
        sums, carries = made.columns()
        assert sums.type == lane
        for group, found in enumerate(members):
            assert_sum(lane, sums[group].as_py(), carries[group].as_py(), found)
        counts = pa.array([len(found) for found in members])
        means = [float(sum(map(exact, f)) / len(f)) if f else None for f in members]
        assert exact_means(sums, carries, counts).to_pylist() == means


def _lane(kind: pa.DataType) -> pa.DataType:
    if not pa.types.is_decimal(kind):
        return pa.int64()
    wide = pa.types.is_decimal256(kind)
    return pa.decimal256(76, kind.scale) if wide else pa.decimal128(38, kind.scale)


def windows(name: str, aggregates: tuple[AggregateSpec, ...]) -> list[OperatorSpec]:
    """One operator, or two phases."""
    match name:
        case "window":
            return [WindowAggregate(("k",), 10, 5, aggregates, points=True)]
        case "phases" | "sliding":
            size, every = (10, 5) if name == "phases" else (40, 2)
            return [
                PartialAggregate(("k",), size, every, aggregates, points=True),
                FinalAggregate(("k",), size, every, aggregates, points=True),
            ]
        case "sessions":
            return [
                PartialSession(("k",), 4, aggregates, any_order=False),
                FinalSession(("k",), 4, aggregates),
            ]
        case "session":
            return [SessionAggregate(("k",), 4, None, aggregates)]
        case "count":
            return [CountWindowAggregate(("k",), 3, aggregates)]
        case _:
            return [SnapshotAggregate(("k",), aggregates)]


def ran(
    specs: list[OperatorSpec],
    run: Run,
    payload: pa.Schema,
    *,
    parts: int,
    cuts: tuple[int, ...] = (),
) -> pa.RecordBatch:
    """The first phase in this number of vertices, which share the events; then the second.

    Each is restored at the cuts.
    """
    for spec in specs:
        count = parts if spec is specs[0] and len(specs) > 1 else 1
        outputs = []
        for p in range(count):
            share = np.arange(p, run.events.num_rows, count)
            mine = Run(run.events.take(pa.array(share, pa.int64())), run.ctis)
            pieces = run_cut(spec, [mine], [payload], cuts, restore=True)
            outputs += [piece.events for piece in pieces]
        together = pa.concat_batches(outputs)
        order = np.argsort(together.column(VS).to_numpy(), kind="stable")
        run, payload = Run(together.take(pa.array(order)), run.ctis), spec.output_schema([payload])
    return run.events


@pytest.fixture(autouse=True)
def slides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make windows slide even with few rows."""
    monkeypatch.setattr(sliding, "_ROWS_MIN", 0)


NAMES = ["window", "phases", "sliding", "sessions", "session", "count", "snapshot"]


@pytest.mark.parametrize("name", NAMES)
@examples(4)
@given(st.data())
def test_every_window_is_exact(name: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    cuts = tuple(sorted(data.draw(st.lists(st.integers(0, 14), max_size=3))))
    payload = pa.schema([("k", pa.int64()), ("x", kind)])
    row = st.tuples(st.integers(0, 30), st.integers(0, 1), values(kind))
    rows = sorted(data.draw(st.lists(row, min_size=1, max_size=14)), key=lambda r: r[0])
    items = [*(ev(t, k=k, x=x) for t, k, x in rows), cti(INF_TIME)]
    run = make_run(items, payload)
    kept = ran(windows(name, ALL), run, payload, parts=1).to_pylist()
    means = ran(windows(name, MEANS), run, payload, parts=2, cuts=cuts).to_pylist()
    low, high = room_of(kind)
    fits = True
    for all_of, mean in zip(kept, means, strict=True):
        members = [exact(v) for v in all_of["all"] or ()]
        assert mean["mean"] == (float(sum(members) / len(members)) if members else None)
        fits &= low <= sum(members) <= high
    if not fits:
        with pytest.raises(SumOverflowError, match="total: the sum of column 'x' does not fit"):
            ran(windows(name, SUMS), run, payload, parts=2)
        return
    for parts in (1, 2, 3):
        made = ran(windows(name, SUMS), run, payload, parts=parts, cuts=cuts)
        found = made.to_pylist()
        for all_of, row_of in zip(kept, found, strict=True):
            wanted = [exact(v) for v in all_of["all"] or ()]
            total = None if row_of["total"] is None else exact(row_of["total"])
            assert total == (sum(wanted) if wanted else None)


def test_sliding_over_partial_sums_that_overflow() -> None:
    """The sum of a pane leaves int64, and the sum of the window returns into it."""
    specs = windows("sliding", SUMS)
    payload = pa.schema([("k", pa.int64()), ("x", pa.int64())])
    big, pairs = 2**62, []
    for step in range(0, 200, 2):
        sign = 1 if step % 4 == 0 else -1
        pairs += [(step, sign * big)] * 3
    run = make_run([*(ev(t, k=0, x=x) for t, x in pairs), cti(INF_TIME)], payload)
    means = ran(windows("sliding", MEANS), run, payload, parts=1)
    assert any(mean == 0.0 for mean in means.column("mean").to_pylist())
    with pytest.raises(SumOverflowError):
        ran(specs, run, payload, parts=1)  # at its ends there are windows with one pane


def test_an_overflow_names_the_aggregate() -> None:
    payload = pa.schema([("k", pa.int64()), ("x", pa.decimal128(38, 2))])
    most = Decimal("9" * 36 + ".99")
    run = make_run([ev(0, k=1, x=most), ev(1, k=1, x=most), cti(INF_TIME)], payload)
    with pytest.raises(SumOverflowError) as caught:
        run_cut(windows("window", SUMS)[0], [run], [payload], ())
    told = str(caught.value)
    assert told.startswith("total: the sum of column 'x' does not fit into decimal128(38, 2)")
    assert "cast the column to float64" in told


@pytest.mark.parametrize("is_restored", [False, True])
def test_the_low_words_of_very_many_rows_are_carried(is_restored: bool) -> None:
    """Each row adds up to 2**32 to the low half of its group, which 2**31 rows would overflow."""
    low, rows = 2**63 - 2**32, 3
    sums = WordSums()
    sums.restore(np.array([low, 5]), pa.array([7, -1]))
    for _ in range(rows):
        sums.add(np.array([0, 1]), np.array([-1, 2**63 - 1]), 2)
        if is_restored:
            saved = sums.save()
            sums = WordSums()
            sums.restore(*saved)
    value, carry = sums.parts()
    found = [int(v) + 2**64 * int(c) for v, c in zip(value, carry, strict=True)]
    assert found == [7 * 2**32 + low - rows, 5 - 2**32 + rows * (2**63 - 1)]
