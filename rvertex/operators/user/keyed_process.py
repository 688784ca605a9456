"""PROCESS: a user's object per key, with typed state and event-time timers.

:mod:`rvertex.user_code.keyed.process` documents the guarantees to the user. The output has the
keys, then the columns that the process declares. Rows are sorted by start; rows of one start are in
the order in which they were emitted.

Timers fire at CTIs (watermarks), and before an event of the same key. They never fire because of
another key's event, since the plan decides which keys share a vertex. Hence: (1) whether a timer
sees the end of the stream depends only on the CTIs and the key's own events; (2) a row is buffered
until no event and no timer can emit an earlier row; (3) CTIs pass once all timers due have fired.

A call costs no more than plain Python. Columns become Python values in bulk, a key's object is
found in a dictionary, and only changed objects become columns again
(:mod:`rvertex.user_code.keyed.state`).
"""

from __future__ import annotations

import gc
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from rstream.items.batch import VS, event_schema, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import UnknownColumnError
from rvertex.events.lifetime import after, with_times
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import Run
from rvertex.operators.edges.spread import EdgeSpreadOperator, in_order_of_begins
from rvertex.operators.protocol import OperatorState
from rvertex.state.collector import collector_paused
from rvertex.state.doing import calling
from rvertex.state.stored_times import TIMES
from rvertex.user_code.code import (
    NOT_POISON,
    OnError,
    Poison,
    SkipsPoison,
    UserCode,
    dead_letter_outputs,
)
from rvertex.user_code.emitted_rows import Emitted
from rvertex.user_code.errors import (
    RAISED,
    CrowdedTimersError,
    EndlessTimersError,
    UserCodeError,
    UserResultError,
    place_of,
)
from rvertex.user_code.keyed.codegen import Hooks, bind, references
from rvertex.user_code.keyed.events import KeyedEvents
from rvertex.user_code.keyed.process import KeyedContext, KeyedProcess, Timer
from rvertex.user_code.keyed.state import KeyedState
from rvertex.user_code.keyed.state_fields import SlotCode, StateField
from rvertex.user_code.keyed.timers import TimerQueue, timers_of
from rvertex.user_code.plain_values import key_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.events.side_output import SideOutput
    from rvertex.state.memory import StateMemory
    from rvertex.user_code.context import ValueShell, ValueSource

#: Events per bulk load of stored objects; a multiple of the rows of a piece.
RECALLED_ROWS = 1 << 16
#: Most timers that one key may fire one after another after the end of the stream.
FINAL_TIMERS_MAX = 10_000
#: Most timers that one key may fire in a row, up to its next event or a CTI, if they are closer
#: than TIMER_SPACING_MIN_US on average. A process that always sets its next timer 1 us later would
#: run for minutes per second of event time.
TIMERS_MAX = 100_000
TIMER_SPACING_MIN_US = 100


@dataclass(frozen=True, slots=True)
class KeyedProcessing:
    """Runs ``process`` per key. ``output``: the columns that it emits, without the keys."""

    holds_ctis: ClassVar[bool] = False

    keys: tuple[str, ...]
    process: UserCode
    fields: tuple[StateField, ...]
    output: pa.Schema
    on_error: OnError = "fail"
    #: Folder of its dead letters; "": named after the process.
    letters: str = ""

    @property
    def has_ends(self) -> bool:
        """Whether the process is called when events end."""
        return self.process.target.on_end is not KeyedProcess.on_end

    def side_outputs(self, inputs: Sequence[pa.Schema]) -> tuple[SideOutput, ...]:
        """Return the dead letters, if they are kept."""
        return dead_letter_outputs(self.process, self.on_error, self.letters, inputs[0])

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the keys, then the declared columns.

        Raises:
            UnknownColumnError: a key column that the input does not have.
        """
        (payload,) = inputs
        for key in self.keys:
            if key not in payload.names:
                raise UnknownColumnError("process", key, tuple(payload.names))
        return pa.schema([*(payload.field(key) for key in self.keys), *self.output])

    def open(self, inputs: Sequence[pa.Schema]) -> KeyedProcessOperator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return KeyedProcessOperator(self, payload, self.output_schema(inputs))


class KeyedProcessOperator(SkipsPoison):
    """The running operator of :class:`KeyedProcessing`."""

    #: See :mod:`rvertex.state.unverified`.
    verified_when_read: ClassVar = frozenset({"keys", TIMES})

    def __init__(self, spec: KeyedProcessing, payload: pa.Schema, output: pa.Schema) -> None:
        self._spec = spec
        self._code = SlotCode(spec.process.target, spec.fields)
        self._timers = TimerQueue()
        key_types = [payload.field(key).type for key in spec.keys]
        self._state = KeyedState(self._code, key_types, self._timers)
        view = key_view(key_types)
        self.context = KeyedContext(spec.process.name, spec.output, self._timers, view)
        self._emitted = Emitted(event_schema(output), spec.keys, self._state.key_columns)
        self._poison = Poison(spec.process, spec.on_error, payload)
        #: The greatest time so far.
        self._frontier: int = MIN_TIME
        #: The finite CTIs of the current run, and how many of them have been emitted.
        self._ctis: list[int] = []
        self._passed = 0
        #: The events of the current run. A row emitted for an event gets that event's lifetime.
        self._lifetimes = empty_batch(event_schema(payload))
        #: The key columns of the events whose objects must be in memory.
        self._keys_at_hand: list[pa.Array] = []
        #: By key: number of timers fired after the end of the stream.
        self._final: dict[Any, int] = {}
        has_ends = spec.has_ends
        self._events = KeyedEvents(payload.names, spec.keys, spec.process.target, has_ends=has_ends)
        #: Splits events into start and end edges, for a process that is called at ends.
        self._spread = EdgeSpreadOperator(payload) if has_ends else None
        self._timer = Timer(0, "")
        safely = self._call_safely if self._poison.is_passed_over else None
        hooks = Hooks(self._pass_ctis, self._fire_own, self._refuse, safely)
        self._calls = bind(
            self._code, self._state, self._timers, self.context, hooks, self._events, self._timer
        )
        self.context.use(self._calls, self._point_end if has_ends else self._events.end_of)
        self._references = references(self._events.event), references(self._timer)

    def use_values(self, source: ValueSource, shell: ValueShell) -> None:
        """Implement :class:`~rvertex.user_code.context.DrawsValues`."""
        self.context.use_values(source, shell)

    def process(self, ports: Sequence[Run]) -> Run:
        """Call the process for each event and each due timer, in order."""
        (run,) = ports
        # The collector would scan millions of objects, none of them in cycles
        with collector_paused():
            return self._process(run)

    def _process(self, run: Run) -> Run:
        events = given = run.events
        if self._spread is not None:
            given = in_order_of_begins(self._spread.process([run]).events)
            events = with_times(given, ve=after(int64_column(given, VS)))
        self._ctis = times = run.ctis[run.ctis != INF_TIME].tolist()
        self._passed = 0
        self._lifetimes = events
        self._calls.set_next_cti(times[0] if times else INF_TIME)
        try:
            if given.num_rows:
                self._take(given, events)
            if times:
                self._frontier = max(self._frontier, times[-1])
            if self._passed < len(times):
                self._fire(times[-1])
            if len(times) < len(run.ctis):
                self._end()
        except (*NOT_POISON, UserCodeError):
            raise
        except RAISED as error:
            raise self._fatal(error) from error
        self._require_released()
        if not self._state.fit_memory():
            self._state.flush_pending()
        release_bound = min(self._frontier, self._state.least_timer())
        return Run(self._emitted.take(self.context.rows, events, release_bound), run.ctis)

    def held_tables(self) -> dict[str, pa.Table]:
        """Return keys and fields; see :class:`rvertex.operators.protocol.ShowsState`."""
        rows = self._state.rows()
        columns = {name: rows.column(f"key{i}") for i, name in enumerate(self._spec.keys)}
        columns |= {f.name: rows.column(f"field {f.name}") for f in self._code.fields}
        return {"keys": pa.table(columns)}

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        self._state.use_memory(memory)

    def snapshot(self) -> OperatorState:
        """Return the log of the keys, and buffered rows, by reference."""
        tables = {**self._state.save(), "waiting": self._emitted.table()}
        header: dict[str, Any] = {
            "frontier": self._frontier,
            "seq": self._events.seq,
            "poisoned": self._poison.count,
            "drawn": self.context.next_index,
            "timed": self._state.is_timed,
        }
        if self._spread is not None:
            spread = self._spread.snapshot()
            header["spread"] = spread.header
            tables |= {f"spread.{name}": table for name, table in spread.tables.items()}
        return OperatorState(header, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        header = state.header
        self._frontier, self._events.seq = header["frontier"], header["seq"]
        self._poison.count = header["poisoned"]
        self.context.load(header["drawn"])
        self._state.load(state.tables, is_timed=header.get("timed", True))
        self._emitted.load(state.tables["waiting"])
        if self._spread is not None:
            tables = {name.removeprefix("spread."): t for name, t in state.tables.items()}
            self._spread.load(OperatorState(header["spread"], tables))

    def _take(self, given: pa.RecordBatch, events: pa.RecordBatch) -> None:
        """Process events. ``given``: as the process gets them. ``events``: with rows' lifetimes."""
        for at, columns in self._events.pieces(given):
            if at % RECALLED_ROWS == 0:
                self._state.fit_memory()
                at_hand = given.slice(at, RECALLED_ROWS)
                self._keys_at_hand = [at_hand.column(key) for key in self._spec.keys]
                self._state.recall(self._keys_at_hand)
            last_at = columns[0][-1]
            with calling(self._spec.process.target.on_event):
                self._calls.call_events(columns)
            self._frontier = max(self._frontier, last_at)
            self._emitted.gather(self.context.rows, events)
        self._events.end()
        self._keys_at_hand = []

    def _pass_ctis(self, time: int) -> None:
        """Emit the CTIs at or before ``time``, which precede the events of that time."""
        self._passed = passed = bisect_right(self._ctis, time)
        self._calls.set_next_cti(self._ctis[passed] if passed < len(self._ctis) else INF_TIME)
        self._fire(self._ctis[passed - 1])

    def _fire(self, until: int) -> None:
        """Call the process for all timers, of all keys, that are due at or before ``until``."""
        # ends: each round emits a CTI or loads objects, and timers may set only later timers
        while (first := self._state.next_timer_at()) <= until and first != INF_TIME:
            counts: dict[Any, tuple[int, int]] = {}
            count = self._count_final if self.context.at_end else partial(self._count, counts)
            bound = min(until, self._cti_from(first), INF_TIME - 1)
            bound, is_recalled = self._state.recall_due(bound)
            self.context.in_timer = True
            with calling(self._spec.process.target.on_timer):
                self._calls.call_timers(bound, count)
            self.context.in_timer = False
            if is_recalled:
                self._emitted.gather(self.context.rows, self._lifetimes)
                if self._state.fit_memory():
                    self._state.recall(self._keys_at_hand)

    def _fire_own(self, slot: Any, until: int) -> None:
        """Call the process for the due timers of one key."""
        counts: dict[Any, tuple[int, int]] = {}
        self.context.in_timer = True
        for at, name in self._timers.due(slot, until):
            self._calls.call_timer(slot, at, name)
            if slot._next_at <= until:
                self._count(counts, slot, at)
        self.context.in_timer = False

    def _cti_from(self, time: int) -> int:
        """Return the first CTI of this run at or after ``time``, INF_TIME if there is none."""
        k = bisect_left(self._ctis, time)
        return self._ctis[k] if k < len(self._ctis) else INF_TIME

    def _call_safely(self, slot: Any, given: Any, call: Any) -> None:
        """Make a call; if it raises, undo its effects and skip the event."""
        ctx, code = self.context, self._code
        emitted, fields, timers = ctx.rows.mark, code.capture(slot), timers_of(slot)
        try:
            call(given, ctx)
            if not code.fits(slot):
                self._refuse(slot)
        except NOT_POISON:
            raise
        except RAISED as error:
            code.restore(slot, fields)
            ctx.rows.cut(emitted)
            before = dict(timers)
            for name in {**before, **dict(timers_of(slot))}:
                if name in before:
                    self._timers.set(slot, before[name], name)
                else:
                    self._timers.delete(slot, name)
            self._poison.meet(error, self._events.number, *self._given())

    def _point_end(self, _: int) -> int:
        return int(self._calls.at_hand()[1]) + 1

    def _given(self) -> tuple[int, int, tuple[Any, ...] | None]:
        """Return start, end and payload of the current event; for a timer the payload is None."""
        _, start, number = self._calls.at_hand()
        payload = None if self.context.in_timer else self._events.payload(number)
        if payload is None:
            return start, start + 1, None
        return int(self._events.value(0, number)), self._events.end_of(number), payload

    def _fatal(self, error: BaseException) -> UserCodeError:
        return self._poison.fatal(error, self._events.number, *self._given())

    def _refuse(self, slot: Any) -> None:
        """Raise an error for a state that does not fit the declared types."""
        _, time, number = self._calls.at_hand()
        is_event = not self.context.in_timer
        ends = is_event and self._spread is not None and self._events.end_of(number) == time
        called = slot.on_end if ends else slot.on_event if is_event else slot.on_timer
        raise UserResultError(self._spec.process.name, self._code.misfit(slot), place_of(called))

    def _require_released(self) -> None:
        """Raise an error if user code keeps the event or timer: each call overwrites these objects.

        A frame in a reference cycle does not count, so the collector runs first.
        """
        for generation in (0, 2):
            if not self._kept():
                return
            gc.collect(generation)
        if kept := self._kept():
            reason = f"it keeps the {kept} after its call has returned; keep its values instead"
            raise UserResultError(self._spec.process.name, reason)

    def _kept(self) -> str:
        """Return the name of an object with more references than at first; "" if there is none."""
        if references(self._events.event) > self._references[0]:
            return "event"
        return "timer" if references(self._timer) > self._references[1] else ""

    def _end(self) -> None:
        """End the stream: fire all timers, including timers that these calls set."""
        self._final.clear()
        self.context.at_end = True
        self._fire(INF_TIME)
        self._frontier = INF_TIME

    def _count(self, counts: dict[Any, tuple[int, int]], slot: Any, at: int) -> None:
        """Count a timer that fired at ``at``, if its key's next timer is due in this round, too.

        ``counts`` has, by key, the number of timers fired in this round and the time of the first
        timer.
        """
        count, first_at = counts.get(slot._key, (0, at))
        count += 1
        if count >= TIMERS_MAX:
            span_us = slot._next_at - first_at
            if span_us < count * TIMER_SPACING_MIN_US:
                name = self._spec.process.name
                raise CrowdedTimersError(name, repr(slot._key), TIMERS_MAX, span_us)
            count, first_at = 0, slot._next_at
        counts[slot._key] = count, first_at

    def _count_final(self, slot: Any, _: int) -> None:
        """Count a timer that fired after the end of the stream; raise if there are too many."""
        count = self._final.get(slot._key, 0) + 1
        self._final[slot._key] = count
        if count >= FINAL_TIMERS_MAX:
            raise EndlessTimersError(self._spec.process.name, repr(slot._key), FINAL_TIMERS_MAX)
