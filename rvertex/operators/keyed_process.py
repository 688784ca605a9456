"""PROCESS: a user's object per key, with typed state and event-time timers.

What it promises to the user is in :mod:`rvertex.keyed`. Output: the keys, then the columns that the
process declares, in order of start, rows of one start in the order in which they were emitted.

Timers fire at CTIs, and before an event of their own key: never on account of another key's event,
as which keys share a vertex is the plan's choice. Hence (1) what is known of the end when a timer
fires follows from the CTIs and the key's own events; (2) a row waits until no event, and no timer
that is set, can put out one that starts before it; (3) CTIs pass: all that is due has fired.

A call costs plain Python: columns become Python values in bulk, a key's object is found in a
dictionary, and only changed objects become columns again (:mod:`rvertex.keyed_state`).
"""

from __future__ import annotations

import contextlib
import gc
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.batch import VE, VS, event_schema, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.emitted import Emitted
from rvertex.errors import UnknownColumnError
from rvertex.keyed import KeyedContext, Timer
from rvertex.keyed_fields import SlotCode, StateField
from rvertex.keyed_state import KeyedState
from rvertex.operators.protocol import OperatorState
from rvertex.plain_values import event_class, plain_keys, plain_list
from rvertex.run import Run
from rvertex.timers import TimerQueue, timers_of
from rvertex.user_code import NOT_POISON, OnError, Poison, UserCode, letter_sides
from rvertex.user_errors import (
    CrowdedTimersError,
    EndlessTimersError,
    UserCodeError,
    UserResultError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rvertex.aside import Side
    from rvertex.context import ValueShell, ValueSource

#: Timers that one key may set, one after the other, when the stream has ended.
FINAL_TIMERS_MAX = 10_000
#: Timers of one key that may come due in one go (up to the next event or CTI), unless they are
#: further apart than TIMER_SPACING_MIN_US: a process that sets its next timer one microsecond later
#: would run for minutes before event time had moved by a second.
TIMERS_MAX = 100_000
TIMER_SPACING_MIN_US = 100
#: Timers of all keys in one go before those of each are counted.
TIMERS_UNCOUNTED = 20_000


_timer = partial(tuple.__new__, Timer)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """No search for cycles among millions of slots, of which none is in a cycle, during a step.

    Whoever switched the collector off switches it on, so steps of other threads do not matter.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(frozen=True, slots=True)
class KeyedProcessing:
    """Runs ``process`` per key. ``output`` has the columns that it emits, without the keys."""

    keys: tuple[str, ...]
    process: UserCode
    fields: tuple[StateField, ...]
    output: pa.Schema
    on_error: OnError = "fail"
    #: Folder of its dead letters; "" for the name of the process.
    letters: str = ""

    def sides(self, inputs: Sequence[pa.Schema]) -> tuple[Side, ...]:
        """The dead letters, if they are kept."""
        return letter_sides(self.process, self.on_error, self.letters, inputs[0])

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Keys, then the declared columns.

        Raises:
            UnknownColumnError: a key column that the input does not have.
        """
        (payload,) = inputs
        for key in self.keys:
            if key not in payload.names:
                raise UnknownColumnError("process", key, tuple(payload.names))
        return pa.schema([*(payload.field(key) for key in self.keys), *self.output])

    def open(self, inputs: Sequence[pa.Schema]) -> KeyedProcessOperator:
        """No key yet."""
        (payload,) = inputs
        return KeyedProcessOperator(self, payload, self.output_schema(inputs))


class KeyedProcessOperator:
    """See :class:`KeyedProcessing`."""

    def __init__(self, spec: KeyedProcessing, payload: pa.Schema, output: pa.Schema) -> None:
        self._spec = spec
        self._columns = payload.names
        self._event = event_class(payload.names)
        self._code = SlotCode(spec.process.target, spec.fields)
        self._fits = self._code.fits
        self._timers = TimerQueue()
        key_types = [payload.field(key).type for key in spec.keys]
        self._state = KeyedState(self._code, key_types, self._timers)
        self.context = KeyedContext(spec.process.name, spec.output, self._timers)
        self._emitted = Emitted(event_schema(output), self._state.key_columns)
        self._poison = Poison(spec.process, spec.on_error, payload)
        #: The greatest time seen.
        self._frontier: int = MIN_TIME
        #: The number of the event at hand, or of the next, in a list that the loop changes.
        self._at = [0]
        #: The finite CTIs of the run at hand, and the first that has not passed; INF_TIME: none.
        self._ctis: list[int] = []
        self._next_cti: list[int] = [INF_TIME]
        self._loop = self._code.caller(
            find=self._state.slots.get,
            add=self._state.add,
            changed=self._state.changed,
            next_cti=self._next_cti,
            pass_ctis=self._pass_ctis,
            fire_own=self._fire_own,
            refuse=self._refuse,
            ctx=self.context,
        )

    @property
    def poisoned_events(self) -> int:
        """Calls that raised and were passed over."""
        return self._poison.count

    def take_aside(self) -> Sequence[pa.RecordBatch]:
        """The dead letters since the last call."""
        return self._poison.take_aside()

    def use_values(self, source: ValueSource, shell: ValueShell) -> None:
        """See :class:`~rvertex.context.DrawsValues`."""
        self.context.use_values(source, shell)

    def process(self, ports: Sequence[Run]) -> Run:
        """Call the process for each event and each timer that is due, in order."""
        (run,) = ports
        with _collector_paused():
            return self._process(run)

    def _process(self, run: Run) -> Run:
        self._ctis = times = run.ctis[run.ctis != INF_TIME].tolist()
        self._next_cti[0] = times[0] if times else INF_TIME
        if run.events.num_rows:
            self._take(run.events)
        if times:
            self._frontier = max(self._frontier, times[-1])
        if self._next_cti[0] != INF_TIME:
            self._fire(times[-1])
        if len(times) < len(run.ctis):
            self._end()
        self._state.settle()
        settled = min(self._frontier, self._timers.least())
        return Run(self._emitted.take(self.context._rows, settled), run.ctis)

    def snapshot(self) -> OperatorState:
        """The log of the keys, and rows that wait, by reference."""
        header = {
            "frontier": self._frontier,
            "seq": self._at[0],
            "poisoned": self._poison.count,
            "drawn": self.context.next_index,
        }
        return OperatorState(header, {"keys": self._state.save(), "waiting": self._emitted.table()})

    def load(self, state: OperatorState) -> None:
        """Make an object for each key that is in the log."""
        header = state.header
        self._frontier, self._at[0] = header["frontier"], header["seq"]
        self._poison.count = header["poisoned"]
        self.context.load(header["drawn"])
        self._state.load(state.tables["keys"])
        self._emitted.load(state.tables["waiting"])

    def _take(self, events: pa.RecordBatch) -> None:
        by_name = {name: plain_list(events.column(name)) for name in events.schema.names}
        keys = [plain_keys(events.column(key)) for key in self._spec.keys]
        of_row = keys[0] if len(keys) == 1 else zip(*keys, strict=True)
        columns = [by_name[name] for name in (VS, VE, *self._columns)]
        rows = map(self._event, zip(*columns, strict=True))
        called = self._call_safely if self._poison.is_passed_over else self._call
        called(rows, of_row, by_name[VS])
        self._frontier = max(self._frontier, int(int64_column(events, VS)[-1]))

    def _call(self, rows: Any, keys: Any, times: list[int]) -> None:
        """One call per event; what it raises is fatal."""
        try:
            self._loop(rows, keys, times, self._at)
        except (*NOT_POISON, UserCodeError):
            raise
        except Exception as error:
            row = self.context._current
            raise self._poison.fatal(error, self._at[0], row[0], row[1], row[2:]) from error

    def _call_safely(self, rows: Any, keys: Any, times: list[int]) -> None:
        """One call per event; one that raises is undone and passed over."""
        state = self._state
        for row, key, time in zip(rows, keys, times, strict=True):
            if self._next_cti[0] <= time:
                self._pass_ctis(time)
            slot = state.slots.get(key)
            if slot is None:
                slot = state.add(key)
            elif slot._next_at <= time:
                self._fire_own(slot, time)
            if not slot._is_dirty:
                state.note(slot)
            error = self._undone(slot, row, slot.on_event)
            if error is not None:
                self._poison.meet(error, self._at[0], row[0], row[1], row[2:])
            self._at[0] += 1

    def _pass_ctis(self, time: int) -> None:
        """The CTIs at or before ``time``, which come before its events."""
        passed = bisect_right(self._ctis, time)
        self._next_cti[0] = self._ctis[passed] if passed < len(self._ctis) else INF_TIME
        self._fire(self._ctis[passed - 1])

    def _fire(self, until: int) -> None:
        """Call the process for the timers of all keys that are due at or before ``until``."""
        if self._timers.next_at <= until:
            self._call_timers(self._timers.pop(until))

    def _fire_own(self, slot: Any, until: int) -> None:
        """The same for the timers of one key."""
        self._call_timers(self._timers.pop_own(slot, until))

    def _call_timers(self, popped: Iterator[tuple[int, Any, str]]) -> None:
        ctx = self.context
        ctx._in_timer = True
        if self._poison.is_passed_over:
            for slot in self._due(popped):
                self._fire_safely(slot)
        else:
            self._fire_all(popped)
        ctx._in_timer = False

    def _due(self, popped: Iterator[tuple[int, Any, str]]) -> Iterator[Any]:
        """The slots of the timers that are due, each with its timer at hand."""
        ctx, note = self.context, self._state.note
        counts: dict[int, tuple[int, int]] = {}
        fired = 0
        go_end: int = MIN_TIME
        for at, slot, name in popped:
            if at > go_end:  # several CTIs may pass at once
                fired, go_end = 0, self._cti_from(at)
                counts.clear()
            if not slot._is_dirty:
                note(slot)
            if ctx.at_end:
                self._count_final(slot)
            elif fired >= TIMERS_UNCOUNTED:
                self._count_crowded(slot, at, counts)
            fired += 1
            ctx._current, ctx._slot = _timer((at, name)), slot
            yield slot

    def _cti_from(self, time: int) -> int:
        """The first CTI of this run at or after ``time``, INF_TIME if there is none."""
        k = bisect_left(self._ctis, time)
        return self._ctis[k] if k < len(self._ctis) else INF_TIME

    def _fire_all(self, popped: Iterator[tuple[int, Any, str]]) -> None:
        """Call for every timer; what it raises is fatal."""
        ctx, fits = self.context, self._fits
        try:
            for slot in self._due(popped):
                slot.on_timer(ctx._current, ctx)
                if not fits(slot):
                    self._refuse(slot)
        except NOT_POISON:
            raise
        except Exception as error:
            at = ctx._current[0]
            raise self._poison.fatal(error, self._at[0], at, at + 1, None) from error

    def _fire_safely(self, slot: Any) -> None:
        """Call for the timer at hand; if it raises, it is undone and passed over."""
        timer = self.context._current
        error = self._undone(slot, timer, slot.on_timer)
        if error is not None:
            self._poison.meet(error, self._at[0], timer[0], timer[0] + 1, None)

    def _undone(self, slot: Any, current: Any, call: Any) -> Exception | None:
        """Make a call; if it raises, everything is as before, and what it raised is returned."""
        ctx, code = self.context, self._code
        ctx._current, ctx._slot = current, slot
        emitted, fields, timers = len(ctx._rows), code.capture(slot), timers_of(slot)
        try:
            call(current, ctx)
            if not code.fits(slot):
                self._refuse(slot)
        except NOT_POISON:
            raise
        except Exception as error:
            code.restore(slot, fields)
            ctx._rows.cut(emitted)
            before = dict(timers)
            for name in {**before, **dict(timers_of(slot))}:
                if name in before:
                    self._timers.set(slot, before[name], name)
                else:
                    self._timers.delete(slot, name)
            return error
        return None

    def _refuse(self, slot: Any) -> None:
        raise UserResultError(self._spec.process.name, self._code.misfit(slot))

    def _end(self) -> None:
        """The stream has ended: all timers come due, and those that they set."""
        self._final: dict[int, int] = {}
        self.context.at_end = True
        self._fire(INF_TIME)
        self._frontier = INF_TIME

    def _count_crowded(self, slot: Any, at: int, counts: dict[int, tuple[int, int]]) -> None:
        """``counts``: by slot, how many have come due in this go and when the first was."""
        count, first_at = counts.get(slot._number, (0, at))
        counts[slot._number] = count + 1, first_at
        if count >= TIMERS_MAX:
            span_us = at - first_at
            if span_us < count * TIMER_SPACING_MIN_US:
                name = self._spec.process.name
                raise CrowdedTimersError(name, repr(slot._key), TIMERS_MAX, span_us)
            counts[slot._number] = 0, at

    def _count_final(self, slot: Any) -> None:
        count = self._final.get(slot._number, 0) + 1
        self._final[slot._number] = count
        if count > FINAL_TIMERS_MAX:
            raise EndlessTimersError(self._spec.process.name, repr(slot._key), FINAL_TIMERS_MAX)
