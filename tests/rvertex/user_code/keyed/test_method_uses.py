"""What the code of a keyed process uses, and that results do not depend on this analysis.

Not covered: an untested way to reach the event or ``emit``.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rstream.items.batch import event_schema
from rvertex.events.run import Run
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.user_code.code import UserCode
from rvertex.user_code.keyed.method_uses import may_say_times, names_read
from rvertex.user_code.keyed.process import KeyedContext, KeyedProcess, Timer
from rvertex.user_code.keyed.state_fields import state_fields
from tests.support.budget import one_in
from tests.support.builders import Ev, Item, cti, ev, make_run, table_of
from tests.support.operator_harness import assert_cut_invariant

KV = pa.schema([("k", pa.string()), ("x", pa.int64())])


def spec_of(process: type[KeyedProcess], output: pa.Schema) -> KeyedProcessing:
    fields = state_fields(process, KeyedProcess)
    return KeyedProcessing(("k",), UserCode(process.__name__, process), fields, output)


def take(event: Any) -> Any:
    return event.x


def test_names_read_by_a_method_are_known_if_it_does_nothing_else() -> None:
    def reads(self: Any, event: Any, ctx: Any) -> None:
        if event.x:
            ctx.emit(event.x + event.vs)

    def hands_on(self: Any, event: Any, ctx: Any) -> None:
        ctx.emit(take(event))

    def nests(self: Any, event: Any, ctx: Any) -> None:
        ctx.emit([event.x for _ in range(2)])

    def replaces(self: Any, event: Any, ctx: Any) -> None:
        event = ctx.key
        ctx.emit(event.x)

    def chooses(self: Any, event: Any, ctx: Any) -> None:
        ctx.emit((event if self.x else self).x)

    assert names_read(reads) == {"x", "vs"}
    assert [names_read(m) for m in (hands_on, replaces, len)] == [None] * 3
    assert names_read(chooses) in (None, {"x"})
    # Up to Python 3.11 the list has its own function; not all later ones are analysed.
    assert names_read(nests) in ((None,) if sys.version_info < (3, 12) else (None, {"x"}))


def test_a_method_may_pass_times_of_rows_unless_that_can_be_excluded() -> None:
    def plain(self: Any, event: Any, ctx: Any) -> None:
        ctx.emit(1, total=2)
        ctx.set_timer(3, "vs")

    def says(self: Any, event: Any, ctx: Any) -> None:
        ctx.emit(1, vs=2)

    def spreads(self: Any, event: Any, ctx: Any) -> None:
        ctx.emit(1, **event.x)

    def keeps(self: Any, event: Any, ctx: Any) -> None:
        put = ctx.emit
        put(1)

    def hands_on(self: Any, event: Any, ctx: Any) -> None:
        self.tell(ctx)

    assert not may_say_times(plain)
    assert all(may_say_times(method) for method in (says, spreads, keeps, hands_on, len))


def peek() -> Any:
    """Return the event of the calling function, although no code of that function passes it."""
    return sys._getframe(1).f_locals["event"]


def test_an_event_has_attributes_that_its_code_does_not_name() -> None:
    class Hidden(KeyedProcess):
        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            found = peek()
            ctx.emit(found.x, found.k, found.ve - event.vs, repr(found), hasattr(found, "y"))

    kinds = [pa.int64(), pa.string(), pa.int64(), pa.string(), pa.bool_()]
    spec = spec_of(Hidden, pa.schema(list(zip("abcde", kinds, strict=True))))
    items: list[Item] = [ev(0, 7, k="p", x=1), ev(2, 4, k="q", x=None), ev(3, 5, k="p", x=3)]
    told = [
        f"Event(_vs={row.vs}, _ve={row.ve}, k={row.payload['k']!r}, x={row.payload['x']!r})"
        for row in items
        if isinstance(row, Ev)
    ]
    rows = table_of(assert_cut_invariant(spec, [make_run(items, KV)], [KV]))
    assert rows == [
        ev(0, 7, k="p", a=1, b="p", c=7, d=told[0], e=False),
        ev(2, 4, k="q", a=None, b="q", c=2, d=told[1], e=False),
        ev(3, 5, k="p", a=3, b="p", c=2, d=told[2], e=False),
    ]


class Both(KeyedProcess):
    """Emits, in one step, rows for events, rows for timers, and rows with other times."""

    n: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        if event.x != 2:
            ctx.emit(self.n, "event")
        ctx.set_timer(event.vs + event.x)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(self.n, "timer")


class Later(Both):
    """Like Both, with rows that start later."""

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        super().on_event(event, ctx)
        ctx.emit(0, "later", vs=event.vs + 1, ve=event.vs + 4)


@pytest.mark.parametrize("process", one_in(2, [Both, Later]))
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [1, 2, None]),
        (pa.float64(), [0.0, -0.0, float("nan")]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None]),
        (pa.timestamp("us"), [5, 6, None]),
    ],
    ids=str,
)
def test_rows_of_events_and_timers_keep_their_order(
    process: type[KeyedProcess], kind: pa.DataType, values: list[Any]
) -> None:
    payload = pa.schema([("k", kind), ("x", pa.int64())])
    flat = kind.value_type if pa.types.is_dictionary(kind) else kind
    keys = pa.array([values[i] for i in (0, 1, 2, 0, 0, 1, 2, 1)], flat)
    keys = keys.dictionary_encode().cast(kind) if flat != kind else keys
    columns = [pa.array(np.arange(8)), pa.array(np.arange(8) + 3), keys, pa.array([1, 2] * 4)]
    events = pa.RecordBatch.from_arrays(columns, schema=event_schema(payload))
    spec = spec_of(process, pa.schema([("n", pa.int64()), ("what", pa.string())]))
    out = assert_cut_invariant(spec, [Run(events, np.array([3, 6, 20]))], [payload]).events
    assert out.schema.field("k").type == kind
    told = out.column("what").to_pylist()
    assert told.count("event") == 4
    assert told.count("later") == (8 if process is Later else 0)
    if pa.types.is_floating(kind):
        zeros = [v for v in out.column("k").to_pylist() if v == 0]
        assert not np.signbit(zeros).any()


@pytest.mark.parametrize("process", one_in(2, [Both, Later]))
def test_a_dictionary_key_is_accepted_where_plain_text_is_declared(
    process: type[KeyedProcess],
) -> None:
    spec = spec_of(process, pa.schema([("n", pa.int64()), ("what", pa.string())]))
    plain = make_run([ev(t, t + 3, k="ab"[t % 2], x=1 + t % 3) for t in range(8)], KV).events
    carried = plain.set_column(2, "k", plain.column("k").dictionary_encode())
    answers = [
        assert_cut_invariant(spec, [Run(events, np.array([3, 6, 20]))], [KV]).events
        for events in (plain, carried)
    ]
    assert answers[1].schema.field("k").type == pa.string()
    assert answers[1].equals(answers[0])


def test_too_many_values_are_an_error() -> None:
    class Wide(KeyedProcess):
        def on_event(self, event: Any, ctx: KeyedContext) -> None:
            ctx.emit(1, 2)

    spec = spec_of(Wide, pa.schema([("n", pa.int64())]))
    with pytest.raises(Exception, match="positional argument"):
        spec.open([KV]).process([make_run([ev(0, k="a", x=1), cti(1)], KV)])
