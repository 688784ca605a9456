"""Times in user code: for every input and output type, the same instant or an error.

Not covered: Spark's conversions before and after the batch code (tests/spark).
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, strategies as st

from planner import KeyedContext, KeyedProcess, Stream, Timer, agg, col, event, tumbling, udf
from planner.batch.user_code.processes import process_rows
from planner.errors import EvaluationError
from planner.physical.lower import lower
from rstream.errors import StreamEngineError
from rstream.items.batch import event_schema
from rstream.types import MIN_TIME
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.user_code.code import UserCode
from rvertex.user_code.errors import UserCodeError, UserResultError
from rvertex.user_code.plain_values import arrow_column, plain_list
from rvertex.user_code.result import as_column
from tests.support.plan_runner import answer

DAY_US = 86_400_000_000
#: Type -> nanoseconds in one of its ticks.
TICKS_NS = {
    **{pa.timestamp(u): n for u, n in (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))},
    **{pa.duration(u): n for u, n in (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))},
    **{pa.timestamp(u, "UTC"): n for u, n in (("ms", 10**6), ("ns", 1))},
    pa.date32(): DAY_US * 1_000,
    pa.date64(): 10**6,
    pa.time32("s"): 10**9,
    pa.time32("ms"): 10**6,
    pa.time64("us"): 10**3,
    pa.time64("ns"): 1,
}
KINDS = list(TICKS_NS)
FAILURES = (
    UserCodeError,
    UserResultError,
    EvaluationError,
    pa.ArrowException,
    ValueError,
    TypeError,
)


def raw(column: pa.Array) -> list[int | None]:
    """The integer ticks of an Arrow column."""
    values: list[int | None] = column.view(
        pa.int32() if column.type.bit_width == 32 else pa.int64()
    ).to_pylist()
    return values


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    """Some values of a time type, within two hundred years of 1970."""
    kind = draw(st.sampled_from(KINDS))
    tick = TICKS_NS[kind]
    least, most = -(6 * 10**18) // tick, 6 * 10**18 // tick
    if pa.types.is_time(kind):
        least, most = 0, DAY_US * 1_000 // tick - 1
    round_ns = draw(st.sampled_from([1, 10**3, 10**6, 10**9, DAY_US * 1_000]))
    step = max(1, round_ns // tick)
    if pa.types.is_date64(kind):
        step = DAY_US // 1_000
    ticks = draw(st.lists(st.none() | st.integers(least // step, most // step), max_size=5))
    values = [None if t is None else min(max(t * step, least), most) for t in ticks]
    if pa.types.is_date64(kind):
        values = [None if v is None else v // step * step for v in values]
    return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


def microseconds(column: pa.Array) -> list[int | None]:
    """Return the values that user code must receive."""
    tick = TICKS_NS[column.type]
    return [None if t is None else t * tick // 1_000 for t in raw(column)]


def fits(us: int | None, kind: pa.DataType) -> bool:
    if us is None or pa.types.is_int64(kind):
        return True
    if pa.types.is_time(kind):
        step, limit = max(1, TICKS_NS[kind] // 1_000), DAY_US
        return us % step == 0 and 0 <= us < limit
    step = DAY_US if pa.types.is_date(kind) else max(1, TICKS_NS[kind] // 1_000)
    return us % step == 0


def check(made: Any, column: pa.Array, kind: pa.DataType) -> None:
    """Check that ``made()`` has the instants of ``column`` as ``kind``, or raises if it must."""
    expected = microseconds(column)
    if all(fits(us, kind) for us in expected):
        found = made()
        assert found.type == kind
        ticks = found.to_pylist() if pa.types.is_int64(kind) else microseconds(found)
        assert ticks == expected
    else:
        with pytest.raises(FAILURES):
            made()


OUT = st.sampled_from([*KINDS, pa.int64()])


@given(columns(), OUT)
def test_times_are_read_in_microseconds_and_written_as_declared(
    column: pa.Array, kind: pa.DataType
) -> None:
    seen = plain_list(column)
    assert seen == microseconds(column)
    assert all(value is None or type(value) is int for value in seen)
    check(lambda: arrow_column(seen, kind), column, kind)
    check(lambda: as_column(seen, kind), column, kind)
    check(lambda: as_column(pa.array(seen, pa.int64()), kind), column, kind)
    if seen and None not in seen:
        check(lambda: as_column(np.array(seen), kind), column, kind)


@given(columns(), OUT)
def test_an_arrow_column_keeps_its_times_or_is_rejected(
    column: pa.Array, kind: pa.DataType
) -> None:
    try:
        found = as_column(column, kind)
    except FAILURES:
        is_same_kind = column.type.id == kind.id or pa.types.is_int64(kind)
        exact = [None if t is None else t * TICKS_NS[column.type] for t in raw(column)]
        least = 1_000 if pa.types.is_int64(kind) else TICKS_NS[kind]
        assert not is_same_kind or any(ns is not None and ns % least for ns in exact)
        return
    if pa.types.is_int64(kind):
        assert found.to_pylist() == microseconds(column)
        return
    assert microseconds(found) == microseconds(column)


class Passes(KeyedProcess):
    """Emits the times of its events, unchanged or as a datetime."""

    output = {"t": "int64"}  # noqa: RUF012 - as users write it

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        assert event.t is None or type(event.t) is int
        assert ctx.key is None or type(ctx.key) is int
        ctx.emit(event.t)


def processing(kind: pa.DataType, target: type[KeyedProcess] = Passes) -> KeyedProcessing:
    return KeyedProcessing(("k",), UserCode("p", target), (), pa.schema([("t", kind)]))


@given(columns(), OUT)
def test_a_process_and_its_batch_agree(column: pa.Array, kind: pa.DataType) -> None:
    """The key of the process is also a time, and is returned unchanged."""
    payload = pa.schema([("k", column.type), ("t", column.type)])
    starts = pa.array(range(len(column)), pa.int64())
    arrays = [starts, pa.array(range(1, len(column) + 1), pa.int64()), column, column]
    batch = pa.RecordBatch.from_arrays(arrays, schema=event_schema(payload))
    spec = processing(kind)

    def streamed() -> pa.Array:
        made = spec.open([payload]).process([Run(batch, NO_CTIS)]).events
        assert made.column("k").equals(column)
        return made.column("t")

    def twin() -> pa.Array:
        rows = [process_rows(spec, batch.slice(i, 1), MIN_TIME) for i in range(len(column))]
        table = pa.Table.from_batches(rows, event_schema(pa.schema([payload[0], ("t", kind)])))
        assert table["k"].combine_chunks().equals(column)
        return table["t"].combine_chunks()

    assume(len(column))
    check(streamed, column, kind)
    check(twin, column, kind)


AT = datetime(2013, 1, 1, 5, 30, 0, 250_000, tzinfo=UTC)
AT_US = 1_357_018_200_250_000


def rows(stream: Stream) -> list[dict[str, Any]]:
    return answer(lower(stream.to_parquet(technical_columns=True), root="r")).to_pylist()


def one_event(**payload: Any) -> Stream:
    kinds = {"k": "string", "t": pa.timestamp("ns")}
    return Stream.from_items(kinds, [event(AT, k="a", t=AT.replace(tzinfo=None), **payload)])


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (AT, pa.timestamp("us"), AT.replace(tzinfo=None)),
        (AT.replace(tzinfo=None), pa.timestamp("ms"), AT.replace(tzinfo=None)),
        (AT_US, pa.timestamp("ns"), AT.replace(tzinfo=None)),
        (np.int64(AT_US), pa.timestamp("us"), AT.replace(tzinfo=None)),
        (date(2013, 1, 1), pa.timestamp("ms"), datetime(2013, 1, 1)),  # noqa: DTZ001
        (date(2013, 1, 1), pa.date32(), date(2013, 1, 1)),
        (AT_US // DAY_US * DAY_US, pa.date32(), date(2013, 1, 1)),
        (time(5, 30), pa.time64("us"), time(5, 30)),
        (time(5, 30, 1, 7), pa.time64("us"), time(5, 30, 1, 7)),
        (1_500_000, pa.duration("ms"), timedelta(seconds=1.5)),
        (timedelta(seconds=2), pa.duration("s"), timedelta(seconds=2)),
        (AT, pa.timestamp("s"), None),
        (AT, pa.date32(), None),
        (DAY_US, pa.time64("us"), None),
        (1.5, pa.timestamp("us"), None),
        (1.5, pa.int64(), None),
        (2.0, pa.int64(), 2),
        (True, pa.timestamp("us"), None),
        ("2013-01-01", pa.timestamp("us"), None),
        (timedelta(seconds=2), pa.timestamp("us"), None),
        (AT, pa.duration("us"), None),
    ],
)
def test_values_of_every_kind_are_converted_or_rejected(
    value: Any, kind: pa.DataType, expected: Any
) -> None:
    """Returned values are converted in processes, batches, functions and aggregates."""

    class Says(KeyedProcess):
        output = {"t": kind}  # noqa: RUF012 - as users write it

        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            ctx.emit(value)

    class Result:
        type = kind

        def init(self) -> int:
            return 0

        def add(self, state: int, values: pa.Array) -> int:
            return state + len(values)

        def result(self, state: int) -> Any:
            return value

    stream = one_event()
    makes = [
        stream.group_by("k").process(Says),
        stream.select(t=udf(lambda t: value, returns=kind)(col("t"))),
        stream.apply(lambda batch: {"t": [value] * batch.num_rows}, {"t": kind}),
        stream.group_by("k").window(tumbling("1s")).agg(t=agg.user(Result(), "t")),
    ]
    for made in makes:
        if expected is None:
            with pytest.raises(StreamEngineError):
                rows(made)
        else:
            (row,) = rows(made)
            assert row["t"] == expected


def test_functions_and_mergeable_aggregates_get_microseconds() -> None:
    class Latest:
        type = state_type = pa.timestamp("ms")

        def init(self) -> int:
            return 0

        def add(self, state: int, values: pa.Array) -> int:
            assert type(state) is int
            return max([state, *plain_list(values)])

        def merge(self, state: int, other: int) -> int:
            assert type(state) is type(other) is int
            return max(state, other)

        def result(self, state: int) -> int:
            assert type(state) is int
            return state

    later = udf(lambda t: t + 1_000_000, returns=pa.timestamp("ms"))
    stream = one_event().with_columns(t=later(col("t")))
    windows = stream.group_by("k").window(tumbling("10s"))
    (row,) = rows(windows.agg(t=agg.user(Latest(), "t")))
    assert row["t"] == AT.replace(tzinfo=None) + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("at", "fires_us"),
    [
        ("10m", AT_US + 600_000_000),
        (timedelta(minutes=10), AT_US + 600_000_000),
        (AT + timedelta(minutes=10), AT_US + 600_000_000),
        ("2013-01-01T05:40:00.25", AT_US + 600_000_000),
        (AT_US + 600_000_000, AT_US + 600_000_000),
        (np.int64(AT_US + 600_000_000), AT_US + 600_000_000),
        ("-10m", AT_US),
    ],
)
def test_timers_accept_the_same_times_as_other_interfaces(at: Any, fires_us: int) -> None:
    class Waits(KeyedProcess):
        output = {"at": pa.timestamp("us")}  # noqa: RUF012 - as users write it

        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            ctx.set_timer(at)

        def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
            assert ctx.time == timer.at
            ctx.emit(timer.at, ve="1s")

    (row,) = rows(one_event().group_by("k").process(Waits))
    assert (row["_vs"], row["_ve"]) == (fires_us, fires_us + 1_000_000)
    spec = processing(pa.timestamp("us"), Waits)
    schema = event_schema(pa.schema([("k", pa.string()), ("t", pa.int64())]))
    batch = pa.RecordBatch.from_arrays([[AT_US], [AT_US + 1], ["a"], [1]], schema=schema)
    (found,) = process_rows(spec, batch, MIN_TIME).to_pylist()
    assert (found["_vs"], found["_ve"]) == (fires_us, fires_us + 1_000_000)


def test_times_in_lists_and_structs_are_converted_too() -> None:
    kind = pa.struct([("at", pa.list_(pa.timestamp("ms"))), ("n", pa.int64())])
    value = {"at": [AT.replace(tzinfo=None), None], "n": 1}
    column = pa.array([value, None], kind)
    seen = plain_list(column)
    assert seen == [{"at": [AT_US, None], "n": 1}, None]
    assert arrow_column(seen, kind).equals(column)
    with pytest.raises(ValueError, match="not a whole number of ms"):
        arrow_column([{"at": [AT_US + 1], "n": 1}], kind)


@pytest.mark.parametrize("value", [{"t": 5, "n": 1}, (5, 1), [("t", 5), ("n", 1)]])
def test_a_struct_with_a_time_is_accepted_in_any_form_of_arrow(value: Any) -> None:
    kind = pa.struct([("t", pa.timestamp("us", "UTC")), ("n", pa.int64())])
    assert plain_list(arrow_column([value, None], kind)) == [{"t": 5, "n": 1}, None]


@pytest.mark.parametrize("value", ["abc", 5, (5,), [5], {"t": "abc"}])
def test_invalid_structs_are_rejected(value: Any) -> None:
    """The error names the value. Before, it was an AttributeError within the engine."""
    kind = pa.struct([("t", pa.timestamp("us", "UTC")), ("n", pa.int64())])
    with pytest.raises((TypeError, ValueError)):
        arrow_column([value], kind)


def test_numpy_objects_get_the_declared_type() -> None:
    """Arrow infers lists of pairs, which cannot become a map."""
    values = np.empty(1, object)
    values[0] = [("a", 1)]
    kind = pa.map_(pa.string(), pa.int64())
    assert as_column(values, kind).to_pylist() == [[("a", 1)]]


def test_a_csv_time_of_nanoseconds_stays_in_its_century(tmp_path: Any) -> None:
    (tmp_path / "f.csv").write_text("t,k\n2013-01-01T05:30:00.25,a\n")

    class Says(KeyedProcess):
        output = {"t": "timestamp", "d": "int64"}  # noqa: RUF012 - as users write it

        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            ctx.emit(event.t, event.t - event.vs)

    stream = Stream.from_csv(str(tmp_path / "f.csv"), vs="t")
    assert stream.schema.field("t").type == pa.timestamp("ns")
    (row,) = rows(stream.group_by("k").process(Says))
    assert (row["t"], row["d"]) == (AT, 0)
