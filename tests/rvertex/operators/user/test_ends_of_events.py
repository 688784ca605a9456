"""Keyed processes with ``on_end``, over intervals and over starts and ends.

Of rows of one key that begin and end together, the order of their ends is not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given

from planner.batch.user_code.processes import process_rows
from rstream.types import INF_TIME
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.user_code.code import UserCode
from rvertex.user_code.errors import UserCodeError
from rvertex.user_code.keyed.process import KeyedContext, KeyedProcess, Timer
from rvertex.user_code.keyed.state_fields import state_fields
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run
from tests.support.edges import (
    PAYLOAD,
    answer_of,
    closed_run,
    edge_run,
    ending,
    some_ctis,
    some_rows,
    sorted_rows,
)
from tests.support.operator_harness import assert_cut_invariant

if TYPE_CHECKING:
    from rvertex.user_code.code import OnError

FOREVER = int(INF_TIME)
OUTPUT = pa.schema([("what", pa.string()), ("x", pa.int64()), ("since", pa.int64())])


class Stays(KeyedProcess):
    """Emits a row when an event starts and ends, and counts those longer than 2 us."""

    living: int = 0
    limit: ClassVar[int] = 2

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.living += 1
        assert event.ve == INF_TIME
        assert event.vs == ctx.time
        ctx.emit("begin", event.x, event.vs)
        ctx.set_timer(ctx.time + self.limit)

    def on_end(self, event: Any, ctx: KeyedContext) -> None:
        self.living -= 1
        assert event.ve == ctx.time
        ctx.emit("end", event.x, event.vs)
        if not self.living:
            ctx.delete_timer()

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit("living", self.living, timer.at)


def spec_of(process: type[KeyedProcess], on_error: OnError = "fail") -> KeyedProcessing:
    fields = state_fields(process, KeyedProcess)
    code = UserCode(process.__name__, process)
    return KeyedProcessing(("k",), code, fields, OUTPUT, on_error)


def test_a_process_is_called_when_events_end() -> None:
    run = make_run([ev(1, 4, k=1, x=7), ev(3, k=1, x=8), ev(4, k=1, x=9), cti(9)], PAYLOAD)
    out = assert_cut_invariant(spec_of(Stays), [run], [PAYLOAD])
    found = [tuple(row.values()) for row in out.events.to_pylist()]
    assert found == [
        (1, 2, 1, "begin", 7, 1),
        (3, 4, 1, "living", 1, 3),
        (3, 4, 1, "begin", 8, 3),
        (4, 5, 1, "end", 7, 1),
        (4, 5, 1, "end", 8, 3),
        (4, 5, 1, "begin", 9, 4),
        (5, 6, 1, "end", 9, 4),
    ]


@examples(8)
@given(some_rows(), some_ctis)
def test_edges_and_intervals_have_the_same_results(rows: list[Any], ctis: list[int]) -> None:
    runs = [edge_run(rows, ending(ctis)), closed_run(rows, ending(ctis))]
    found = [assert_cut_invariant(spec_of(Stays), [run], [PAYLOAD]).events for run in runs]
    edges, intervals = (sorted_rows(pa.Table.from_batches([events])) for events in found)
    assert edges == intervals
    of_batch = []
    for key in {row.k for row in rows}:
        events = closed_run([row for row in rows if row.k == key], []).events
        made = process_rows(spec_of(Stays), events, max(ctis, default=-1))
        of_batch += sorted_rows(pa.Table.from_batches([made]))

    assert sorted(of_batch, key=_null_last) == intervals


class Fails(KeyedProcess):
    """Raises at some ends."""

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        ctx.emit("begin", event.x, event.vs)

    def on_end(self, event: Any, ctx: KeyedContext) -> None:
        ctx.emit("end", 1 // event.x, event.vs)


def test_an_event_whose_on_end_raises_is_skipped() -> None:
    run = make_run([ev(1, 3, k=1, x=0), ev(2, 5, k=1, x=1), cti(9)], PAYLOAD)
    out = assert_cut_invariant(spec_of(Fails, "skip"), [run], [PAYLOAD])
    assert [row["what"] for row in out.events.to_pylist()] == ["begin", "begin", "end"]
    with pytest.raises(UserCodeError, match="ZeroDivisionError"):
        answer_of(spec_of(Fails), [run], [PAYLOAD])


class Wrong(KeyedProcess):
    """Sets a field of another type when an event ends."""

    count: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.count += 1

    def on_end(self, event: Any, ctx: KeyedContext) -> None:
        self.count = "none"  # type: ignore[assignment]


def test_a_wrong_field_is_reported_with_the_method() -> None:
    run = make_run([ev(1, 3, k=1, x=0), cti(9)], PAYLOAD)
    with pytest.raises(UserCodeError, match="on_end"):
        answer_of(spec_of(Wrong), [run], [PAYLOAD])


def _null_last(row: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
    return tuple((value is None, value) for value in row)
