"""Keyed processes: order of events and timers, atomic calls, any cuts and restores.

Not covered: a promise of docs/USERCODE.md that no process here uses.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import event_schema
from rstream.types import INF_TIME
from rvertex.events.run import NO_CTIS, Run
from rvertex.events.side_output import side_outputs_of
from rvertex.operators.user import keyed_process
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.user_code import emitted_rows as emitted
from rvertex.user_code.code import OnError, UserCode
from rvertex.user_code.context import Drawn, ValueJournal
from rvertex.user_code.errors import (
    CrowdedTimersError,
    EndlessTimersError,
    NoLoggedValuesError,
    UserCodeError,
    UserResultError,
)
from rvertex.user_code.keyed import events as keyed_events
from rvertex.user_code.keyed.process import KeyedContext, KeyedProcess, Timer
from rvertex.user_code.keyed.state_fields import state_fields
from tests.support.budget import examples, one_in
from tests.support.builders import Ev, Item, cti, ev, make_run, table_of
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from collections.abc import Sequence

KV = pa.schema([("k", pa.string()), ("x", pa.int64())])


def spec_of(
    process: type[KeyedProcess],
    output: pa.Schema,
    keys: tuple[str, ...] = ("k",),
    on_error: OnError = "fail",
) -> KeyedProcessing:
    fields = state_fields(process, KeyedProcess)
    return KeyedProcessing(keys, UserCode(process.__name__, process), fields, output, on_error)


def run_items(spec: KeyedProcessing, items: Sequence[Item], payload: pa.Schema = KV) -> list[Item]:
    run = make_run(items, payload)
    return table_of(assert_cut_invariant(spec, [run], [payload]))


class Sessions(KeyedProcess):
    """Counts per key until it is quiet for 5; each event moves the timer."""

    count: int = 0
    first: int | None

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.count += 1
        if self.first is None:
            self.first = event.vs
        ctx.set_timer(event.vs + 5)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(self.count, self.first, vs=timer.at)
        self.count = 0
        self.first = None


SESSIONS = spec_of(Sessions, pa.schema([("n", pa.int64()), ("first", pa.int64())]))


def test_a_timer_moves_and_fires_when_its_time_has_passed() -> None:
    items: list[Item] = [
        *(ev(0, k="a", x=1), ev(3, k="a", x=1), ev(4, k="b", x=1), ev(8, k="a", x=1)),
        *(cti(9), cti(20)),
    ]
    # a: 0, 3; 8 starts over, since the timer at 8 comes before the event at 8.
    assert run_items(SESSIONS, items) == [
        ev(8, k="a", n=2, first=0),
        cti(9),
        ev(9, k="b", n=1, first=4),
        ev(13, k="a", n=1, first=8),
        cti(20),
    ]


def test_a_timer_fires_only_for_its_key_and_rows_wait_for_it() -> None:
    class Late(Sessions):
        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            super().on_event(event, ctx)
            ctx.emit(-1, None)

        def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
            ctx.emit(int(ctx.at_end), timer.at)

    spec = spec_of(Late, SESSIONS.output)
    items: list[Item] = [
        *(ev(0, k="a"), ev(1, k="b"), ev(2, k="c"), ev(9, k="b"), cti(10), ev(20, k="c")),
    ]
    operator = spec.open([KV])
    found = [table_of(operator.process([make_run([item], KV)])) for item in items]
    assert found == [
        *([ev(t, k=k, n=-1, first=None)] for t, k in ((0, "a"), (1, "b"), (2, "c"))),
        [],
        [
            *(ev(5, k="a", n=0, first=5), ev(6, k="b", n=0, first=6), ev(7, k="c", n=0, first=7)),
            *(ev(9, k="b", n=-1, first=None), cti(10)),
        ],
        [],
    ]
    last = run_items(spec, [*items, cti(INF_TIME)])[-4:]
    assert last == [
        *(ev(14, k="b", n=1, first=14), ev(20, k="c", n=-1, first=None)),
        *(ev(25, k="c", n=1, first=25), cti(INF_TIME)),
    ]


def test_equal_timers_fire_by_key_nulls_last_then_by_name() -> None:
    class Named(KeyedProcess):
        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            ctx.set_timer(10, "z")
            ctx.set_timer(10, "b")
            ctx.set_timer(11, "gone")
            ctx.delete_timer("gone")

        def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
            ctx.emit(timer.name)

    spec = spec_of(Named, pa.schema([("name", pa.string())]))
    items: list[Item] = [ev(0, k="b"), ev(1, k=None), ev(2, k="a"), cti(INF_TIME)]
    rows = [row.payload for row in run_items(spec, items) if isinstance(row, Ev)]
    named = [(row["k"], row["name"]) for row in rows]
    assert named == [(k, name) for k in ("a", "b", None) for name in ("b", "z")]


@pytest.mark.parametrize("keys", [("x",), ("x", "k")])
def test_equal_timers_of_float_keys_fire_by_number_then_nan_then_null(
    keys: tuple[str, ...],
) -> None:
    class Once(KeyedProcess):
        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            ctx.set_timer(50)

        def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
            ctx.emit(1)

    nan = float("nan")
    schema = pa.schema([("x", pa.float64()), ("k", pa.string())])
    spec = spec_of(Once, pa.schema([("m", pa.int64())]), keys)
    values = [3.0, nan, 1.0, None, float("inf"), -2.0, nan, 0.0, 2.0]
    items: list[Item] = [ev(t, x=x, k="a") for t, x in enumerate(values)]
    rows = run_items(spec, [*items, cti(INF_TIME)], schema)
    found = [repr(row.payload["x"]) for row in rows if isinstance(row, Ev)]
    assert found == ["-2.0", "0.0", "1.0", "2.0", "3.0", "inf", "nan", "None"]


def test_rows_that_start_later_wait_and_the_past_is_rejected() -> None:
    class Later(KeyedProcess):
        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            ctx.emit(1, vs=event.vs + 3, ve=event.vs + 9)
            ctx.emit(2)
            if event.x == 9:
                ctx.emit(3, vs=event.vs - 1)

    spec = spec_of(Later, pa.schema([("m", pa.int64())]))
    items: list[Item] = [ev(0, 7, k="a"), cti(1), ev(2, k="a"), cti(9)]
    assert run_items(spec, items) == [
        ev(0, 7, k="a", m=2),
        cti(1),
        ev(2, k="a", m=2),
        ev(3, 9, k="a", m=1),
        ev(5, 11, k="a", m=1),
        cti(9),
    ]
    with pytest.raises(UserCodeError, match=r"emit\(vs=-1\) at 0: rows cannot start in the past"):
        run_items(spec, [ev(0, k="a", x=9)])


class Everything(KeyedProcess):
    """All types of state, timers that set timers, rows in the future."""

    n: int = 0
    total: float = 0.5
    text: str
    raw: bytes = b"r"
    flag: bool
    last: float | None
    seen: list[int]
    words: list[str]

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        self.total = self.total * 0.7 + (event.x if event.x is not None else 0.1)
        self.text = (self.text + (event.s or "-"))[-3:]
        self.raw = self.text.encode()
        self.flag = not self.flag
        self.last = event.x
        self.seen.append(event.vs)
        self.words.append(self.text)
        del self.seen[:-2], self.words[:-2]
        ctx.set_timer(event.vs + (event.n or 0) % 7, self.text[-1:])
        if self.n % 3 == 0:
            ctx.delete_timer("a")
            ctx.emit(repr((self.total, self.raw, self.flag, self.last)), vs=ctx.time + 4)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(f"{timer.name} {self.n} {self.seen} {self.words} {ctx.key}")
        if self.n > 4:
            self.n, self.text, self.flag, self.last = 0, "", False, None
            self.total, self.raw = 0.5, b"r"
            self.seen.clear()
            self.words = []
        elif not ctx.at_end:
            ctx.set_timer(timer.at + 2, timer.name)


@pytest.mark.parametrize("keys", [("k",), ("k", "s"), ("x",)])
@given(run=runs(duration_max=4), cuts=splits())
@examples(3)
def test_batches_and_restores_do_not_change_the_output(
    run: Run, cuts: list[int], keys: tuple[str, ...]
) -> None:
    spec = spec_of(Everything, pa.schema([("what", pa.string())]), keys)
    assert_cut_invariant(spec, [run], [PAYLOAD], cuts)


def test_no_row_waits_for_a_timer_that_has_fired() -> None:
    """The timers of a spilled key are in memory with its next event."""
    spec = spec_of(Everything, pa.schema([("what", pa.string())]), ("x",))
    assert_cut_invariant(spec, [make_run([ev(0), ev(2)], PAYLOAD)], [PAYLOAD], [1])


@given(run=runs(duration_max=4))
@examples(8)
def test_the_size_of_pieces_does_not_change_the_output(run: Run) -> None:
    spec = spec_of(Everything, pa.schema([("what", pa.string())]))
    with pytest.MonkeyPatch.context() as patch:
        expected = table_of(spec.open([PAYLOAD]).process([run]))
        patch.setattr(keyed_events, "PIECE_ROWS", 2)
        patch.setattr(emitted, "GATHERED_MIN", 2)
        assert table_of(spec.open([PAYLOAD]).process([run])) == expected


def test_a_few_rows_are_collected_before_they_become_columns() -> None:
    """A column costs as much as many rows."""
    schema = event_schema(pa.schema([("k", pa.string()), ("x", pa.int64())]))
    waiting, rows = emitted.Emitted(schema, ["k"], lambda keys: [pa.array(keys)]), emitted.Rows(1)
    events = pa.RecordBatch.from_pylist([], schema=schema)
    for n in range(3):
        rows.numbers.append(-1)
        rows.starts.append(n)
        rows.keys.append("a")
        rows.columns[0].append(n)
        waiting.gather(rows, events)
        assert len(rows) == n + 1
    assert waiting.take(rows, events, 9).column("x").to_pylist() == [0, 1, 2]


KEYS: dict[pa.DataType, list[Any]] = {
    pa.timestamp("us", "UTC"): [1, 2],
    pa.timestamp("ns"): [1, 2],
    pa.date32(): [1, 2],
    pa.duration("us"): [1, 2],
    pa.time32("s"): [1, 2],
    pa.bool_(): [True, False],
    pa.decimal128(5, 2): [Decimal("1.10"), Decimal("2.20")],
    pa.binary(): [b"a", b"b"],
    pa.large_string(): ["a", "b"],
    pa.uint64(): [1, 2**63 + 5],
    pa.float32(): [float("nan"), 0.5],
    pa.dictionary(pa.int32(), pa.string()): ["a", "b"],
}


@pytest.mark.parametrize("kind", one_in(3, KEYS), ids=str)
def test_keys_of_any_type(kind: pa.DataType) -> None:
    a, b = KEYS[kind]
    payload = pa.schema([("k", kind), ("x", pa.int64())])
    flat = kind.value_type if pa.types.is_dictionary(kind) else kind
    keys = pa.array([a, b, None, a, None], flat).cast(kind)
    columns = [*map(pa.array, (range(5), range(1, 6))), keys, pa.nulls(5, pa.int64())]
    events = pa.RecordBatch.from_arrays(columns, schema=event_schema(payload))
    out = assert_cut_invariant(SESSIONS, [Run(events, np.array([20]))], [payload]).events
    assert out.schema.field("k").type == kind
    assert sorted(zip(out["first"].to_pylist(), out["n"].to_pylist(), strict=True)) == [
        *((0, 2), (1, 1), (2, 2)),
    ]
    first = out.filter(pc.equal(out["first"], 0)).column("k").cast(flat)
    assert first.equals(pa.array([a], flat)) or a != a


class Touchy(KeyedProcess):
    """Changes all state, and raises on odd numbers and in timers with a certain name."""

    n: int = 0
    seen: list[int]

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        self.seen.append(event.x or 0)
        ctx.emit(self.n)
        ctx.set_timer(event.vs + 3, "odd" if self.n % 2 else "even")
        ctx.delete_timer("first")
        if event.x is not None and event.x % 2:
            raise ValueError(f"odd: {event.x}")
        ctx.set_timer(event.vs + 9, "first")

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        self.seen.append(-1)
        ctx.emit(100 + len(self.seen))
        if timer.name == "odd":
            raise RuntimeError("odd timer")


N = pa.schema([("n", pa.int64())])
ODD = pa.schema([("k", pa.int64()), ("x", pa.int64())])


@pytest.mark.parametrize("on_error", ["skip", "dead_letter"])
@given(run=runs(ODD), cuts=splits())
@examples(3)
def test_a_call_that_raised_changes_nothing(run: Run, cuts: list[int], on_error: Any) -> None:
    assert_cut_invariant(spec_of(Touchy, N, on_error=on_error), [run], [ODD], cuts)


def test_poison_is_counted_and_kept() -> None:
    spec = spec_of(Touchy, N, on_error="dead_letter")
    (side,) = side_outputs_of(spec, [ODD])
    assert side.name == "dead_letters/Touchy"
    operator = spec.open([ODD])
    run = make_run([ev(1, k=1, x=2), ev(2, 5, k=1, x=3), cti(4)], ODD)
    out = operator.process([run])
    assert table_of(out) == [ev(1, k=1, n=1), cti(4)]
    out = operator.process([Run(run.events.slice(0, 0), np.array([5]))])
    assert operator.poisoned_events == 2
    (letters,) = operator.drain_side_outputs()
    first, second = letters.to_pylist()
    line = first.pop("error")
    assert first == {"_vs": 2, "_ve": 5, "seq": 1, "k": 1, "x": 3}
    assert line.startswith("ValueError: odd: 3 at ")
    assert "raise ValueError" in line
    assert (second["seq"], second["k"], second["_vs"]) == (2, None, 4)
    assert second["error"].startswith("RuntimeError: odd timer at ")
    assert operator.drain_side_outputs()[0].num_rows == 0
    again = spec.open([ODD])
    again.load(operator.snapshot())
    assert again.poisoned_events == 2


@given(run=runs(ODD), cuts=splits())
@examples(10)
def test_dead_letters_do_not_depend_on_batch_boundaries(run: Run, cuts: list[int]) -> None:
    def letters(pieces: list[Run]) -> list[Any]:
        operator = spec_of(Touchy, N, on_error="dead_letter").open([ODD])
        for piece in pieces:
            operator.process([piece])
        (found,) = operator.drain_side_outputs()
        return list(found.to_pylist())

    ends = sorted({min(cut, run.events.num_rows) for cut in [*cuts, run.events.num_rows]})
    last = run.ctis[-1:]
    pieces = [
        Run(run.events.slice(lo, hi - lo), NO_CTIS)
        for lo, hi in zip([0, *ends], ends, strict=False)
    ]
    at_end = Run(run.events.slice(0, 0), last)
    assert letters([*pieces, at_end]) == letters([Run(run.events, NO_CTIS), at_end])


def test_on_error_fail_shows_the_event_and_the_line() -> None:
    with pytest.raises(UserCodeError) as raised:
        run_items(spec_of(Touchy, N), [ev(1, k="a", x=2), ev(2, k="a", x=3)])
    text = str(raised.value)
    assert text.startswith("Touchy raised ValueError: odd: 3 at ")
    assert "in on_event: raise ValueError" in text
    assert "on event 1 of its input, lifetime [2, 3): k='a', x=3" in text
    assert 'on_error="skip"' in text


def test_on_error_fail_shows_times_in_the_form_that_the_code_gets() -> None:
    payload = pa.schema({"k": pa.string(), "x": pa.timestamp("ns", "UTC")})
    at = datetime(1970, 1, 1, 0, 0, 7, 1, tzinfo=UTC)
    with pytest.raises(UserCodeError, match=r"odd: 7000001 at .*\n.* k='a', x=7000001\n"):
        run_items(spec_of(Touchy, N), [ev(1, k="a", x=at)], payload)


def test_state_fields_have_their_declared_type() -> None:
    class Wrong(KeyedProcess):
        total: float = 0.0
        seen: list[int]

        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            if event.x == 1:
                self.total = 1
            elif event.x == 2:
                self.seen.append(True)
            elif event.x == 3:
                self.seen = 5
            else:
                self.total = [1.5]

    spec = spec_of(Wrong, pa.schema([]))
    with pytest.raises(UserCodeError, match="'total' is float, not 1") as raised:
        run_items(spec, [ev(0, k="a", x=1)])
    assert raised.value.line.startswith(__file__)
    assert raised.value.line.endswith("when on_event had returned")
    with pytest.raises(UserCodeError, match=r"'seen' is list\[int\], but has True in it"):
        run_items(spec, [ev(0, k="a", x=2)])
    with pytest.raises(UserCodeError, match=r"'seen' is list\[int\], not 5"):
        run_items(spec, [ev(0, k="a", x=3)])
    with pytest.raises(UserCodeError, match=r"'total' is float, not \[1.5\]"):
        run_items(spec, [ev(0, k="a", x=4)])


def test_events_and_timers_cannot_be_stored() -> None:
    class Keeps(KeyedProcess):
        kept: ClassVar[list[Any]] = []

        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            if event.x == 1:
                self.kept[:] = [event]
            ctx.set_timer(event.vs + 1)

        def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
            assert list(timer) == [timer.at, timer.name]
            self.kept[:] = [timer]

    spec = spec_of(Keeps, pa.schema([]))
    with pytest.raises(UserResultError, match="it keeps the event after its call has returned"):
        run_items(spec, [ev(0, k="a", x=1)])
    with pytest.raises(UserResultError, match="it keeps the timer after its call"):
        run_items(spec, [ev(0, k="a", x=2), cti(5)])


def test_an_uncollected_reference_cycle_keeps_no_event() -> None:
    class Cyclic(KeyedProcess):
        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            def count(n: int) -> int:
                return event.x if n == 0 else count(n - 1)

            ctx.emit(count(2))

    assert run_items(spec_of(Cyclic, N), [ev(0, k="a", x=1)]) == [ev(0, k="a", n=1)]


def test_columns_may_have_any_names() -> None:
    class Named(KeyedProcess):
        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            assert (event._value0, getattr(event, "a b"), event.vs) == (event.x, event.x, "vs")
            ctx.emit(type=event.x, start=event.x + 1, slot=event._vs)

    names = ("type", "start", "slot")
    spec = spec_of(Named, pa.schema([(name, pa.int64()) for name in names]))
    text = ("k", "vs")
    payload = pa.schema([*((c, pa.string()) for c in text), *((c, pa.int64()) for c in WEIRD)])
    found = run_items(spec, [ev(3, k="a", vs="vs", **dict.fromkeys(WEIRD, 7))], payload)
    assert found == [ev(3, k="a", type=7, start=8, slot=3)]


WEIRD = ("x", "_value0", "a b")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ctx: ctx.emit(), r"emit\(\) missing 1 required positional argument: 'n'"),
        (lambda ctx: ctx.emit(1, 2), "takes 1 positional argument but 2"),
        (lambda ctx: ctx.emit("a"), "column 'n' is int64, not 'a'"),
        (lambda ctx: ctx.emit(2**63), "column 'n' is int64"),
        (lambda ctx: ctx.emit(1, m=1), "got an unexpected keyword argument 'm'"),
        (lambda ctx: ctx.emit(1, ve=0), "needs vs < ve"),
        (lambda ctx: ctx.set_timer(1.5), "1.5 is no time"),
        (lambda ctx: ctx.set_timer("soon"), "write it like"),
        (lambda ctx: ctx.set_timer(INF_TIME), "after the last possible time"),
        (lambda ctx: ctx.now(), r"ctx.now\(\) was called where values are not recorded"),
    ],
)
def test_a_wrong_call_of_the_context_names_the_mistake(call: Any, message: str) -> None:
    class Calls(KeyedProcess):
        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            call(ctx)

    with pytest.raises((UserCodeError, NoLoggedValuesError), match=message):
        run_items(spec_of(Calls, N), [ev(0, k="a")])


def test_timers_set_by_timers_are_later_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(KeyedProcess):
        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            ctx.set_timer(event.vs + 1)

        def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
            ctx.emit()
            ctx.set_timer(timer.at + (1 if ctx.key == "a" else 0))

    spec = spec_of(Endless, pa.schema([]))
    assert run_items(spec, [ev(0, k="a"), cti(3)]) == [
        *(ev(1, k="a"), ev(2, k="a"), cti(3), ev(3, k="a")),
    ]
    monkeypatch.setattr(keyed_process, "FINAL_TIMERS_MAX", 5)
    with pytest.raises(
        EndlessTimersError, match=r"'a' has set 5 timers .* do not set timers if ctx"
    ):
        run_items(spec, [ev(0, k="a"), cti(INF_TIME)])
    with pytest.raises(UserCodeError, match="on_timer can only set timers for later times"):
        run_items(spec, [ev(0, k="b"), cti(3)])


class Hasty(KeyedProcess):
    """Its timers follow each other at the event's distance."""

    period: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.period = event.x
        ctx.set_timer(event.vs + self.period)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.set_timer(timer.at + self.period)


def test_timers_that_hardly_advance_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_process, "TIMERS_MAX", 50)
    spec = spec_of(Hasty, pa.schema([]))

    def fire(period: int) -> None:
        operator = spec.open([KV])
        events = make_run([ev(0, k="a", x=period)], KV).events
        operator.process([Run(events, np.array([1_000_000]))])

    with pytest.raises(
        CrowdedTimersError, match=r"Hasty: 50 timers of key 'a' fired in one step, within 50 us"
    ):
        fire(1)
    fire(100)


def test_the_limit_on_timers_does_not_depend_on_batch_boundaries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyed_process, "TIMERS_MAX", 50)
    ctis = np.arange(1, 6) * 40
    for cuts in ([ctis], [ctis[:2], ctis[2:]], [ctis[k : k + 1] for k in range(5)]):
        operator = spec_of(Hasty, pa.schema([])).open([KV])
        operator.process([make_run([ev(0, k="a", x=1)], KV)])
        for times in cuts:
            operator.process([Run(make_run([], KV).events, times)])


def test_the_limit_on_timers_does_not_depend_on_other_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Named(Hasty):
        """Like Hasty, but each timer has another name, and the first two are set at once."""

        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            super().on_event(event, ctx)
            ctx.set_timer(event.vs, "now")

        def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
            if timer.name != "now":
                ctx.set_timer(timer.at + self.period, str(timer.at))

    def fire(process: type[KeyedProcess], timers: int, others: int, *, own: bool) -> None:
        operator = spec_of(process, pa.schema([])).open([KV])
        keys = ["a", *(f"b{n}" for n in range(others))]
        events = [ev(0, k=key, x=1) for key in keys]
        if own:
            run = make_run([*events, *(ev(timers, k=key, x=1000) for key in keys)], KV)
        else:
            run = Run(make_run(events, KV).events, np.array([timers]))
        operator.process([run])

    monkeypatch.setattr(keyed_process, "TIMERS_MAX", 50)
    for others in (0, 1, 7):
        for own in (False, True):
            fire(Hasty, 50, others, own=own)
            fire(Named, 49, others, own=own)
            for process, timers in ((Hasty, 51), (Named, 50)):
                with pytest.raises(CrowdedTimersError, match="50 timers of key 'a'"):
                    fire(process, timers, others, own=own)


def test_a_forgotten_key_leaves_no_row() -> None:
    operator = SESSIONS.open([KV])
    for t in range(0, 100, 10):
        operator.process([Run(make_run([ev(t, k=f"k{t}", x=1)], KV).events, NO_CTIS)])
        if t == 50:
            assert operator.snapshot().tables["keys"].num_rows == 1
        operator.process([Run(make_run([], KV).events, np.array([t + 6]))])
    assert operator._state._log.next_number == 1, "t = 50"
    assert operator.snapshot().tables["keys"].num_rows == 0
    assert len(operator._state) == 0


def test_keys_without_state_are_forgotten() -> None:
    operator = SESSIONS.open([KV])
    for t in range(0, 100, 10):
        events = make_run([ev(t, k=f"k{t}", x=1)], KV).events
        operator.process([Run(events, np.array([t + 6]))])
        state = operator.snapshot()
        assert state.tables["keys"].num_rows <= 2
    assert len(operator._state) == 0


class Outside:
    def __init__(self) -> None:
        self.drawn = 0

    def now_us(self) -> int:
        self.drawn += 1
        return 1000 + self.drawn

    def random(self) -> float:
        return 0.25


def test_logged_values_are_repeated() -> None:
    class Stamped(KeyedProcess):
        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            ctx.emit(ctx.now())

    spec = spec_of(Stamped, N)
    run = make_run([ev(t, k="a") for t in range(6)], KV)
    outside, journal = Outside(), ValueJournal()
    operator = spec.open([KV])
    operator.use_values(journal, outside)
    operator.process([Run(run.events.slice(0, 2), NO_CTIS)])
    state = operator.snapshot()
    whole = operator.process([Run(run.events.slice(2, 4), NO_CTIS)])
    first, drawn = journal.take_fresh()
    assert (first, len(drawn), drawn[2]) == (0, 6, Drawn("now", "", 1003))
    again = spec.open([KV])
    again.use_values(ValueJournal(drawn[2:], first_index=2), outside)
    again.load(state)
    assert again.process([Run(run.events.slice(2, 4), NO_CTIS)]).events.equals(whole.events)
    assert outside.drawn == 6
    lost = spec.open([KV])
    with pytest.raises(NoLoggedValuesError):
        lost.load(state)


class Count(KeyedProcess):
    """Counts events; a zero resets the count."""

    count: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.count = 0 if event.x == 0 else self.count + 1


@given(st.data())
@examples(20)
def test_the_log_of_changes_equals_a_dictionary(data: st.DataObject) -> None:
    spec = spec_of(Count, pa.schema([]))
    operator = spec.open([KV])
    naive: dict[str, int] = {}
    for t in range(8):
        rows = data.draw(
            st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 3)), max_size=6)
        )
        operator.process([Run(make_run([ev(t, k=k, x=x) for k, x in rows], KV).events, NO_CTIS)])
        for k, x in rows:
            naive[k] = 0 if x == 0 else naive.get(k, 0) + 1
        if data.draw(st.booleans()):
            state = operator.snapshot()
            operator = spec.open([KV])
            operator.load(state)
    operator.snapshot()
    found = {k: slot.count for k, slot in operator._state.slots.items()}
    assert found == {k: n for k, n in naive.items() if n}


class EmitsTwice(KeyedProcess):
    """Emits a row with positional values, and one with another time."""

    def on_event(self, event: Any, ctx: Any) -> None:
        ctx.emit(event.vs)
        ctx.emit(event.vs, vs=event.vs + 1)


@pytest.mark.parametrize("name", ["a b", "class", "_x", "vs", "ve", "x-1", "1", "", "None"])
def test_columns_may_be_called_anything(name: str) -> None:
    output = pa.schema([(name, pa.int64())])
    code = UserCode("EmitsTwice", EmitsTwice)
    spec = KeyedProcessing(("k",), code, state_fields(EmitsTwice, KeyedProcess), output)
    schema = pa.schema([("k", pa.int64())])
    out = spec.open([schema]).process([make_run([ev(1, k=7), cti(9)], schema)])
    assert out.events.select(["k"]).to_pydict() == {"k": [7, 7]}
    assert out.events.column(out.events.num_columns - 1).to_pylist() == [1, 1]
