"""Compiles the inner loops of one keyed process: over its events, its timers, and ``emit``.

The loops over events and timers, ``emit`` and ``set_timer`` are closures in one generated function,
specialised for the fields, columns and output of the process. They share state in local variables
and do not iterate over field descriptions, because each runs once per event. A *slot* is the object
of a key.

Invariants: (1) ``_slot``, ``_start`` and ``_at`` are key, time and event of the current call; (2)
after a timer, a slot that equals a new slot is dropped, unless an event of its key is being
processed; (3) event and timer are one object each, refilled before every call.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from rstream.types import INF_TIME, MIN_TIME
from rvertex.user_code.emitted_rows import emit_source
from rvertex.user_code.keyed.method_uses import may_say_times
from rvertex.user_code.keyed.state_fields import compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.user_code.keyed.events import KeyedEvents
    from rvertex.user_code.keyed.process import KeyedContext, Timer
    from rvertex.user_code.keyed.state import KeyedState
    from rvertex.user_code.keyed.state_fields import SlotCode
    from rvertex.user_code.keyed.timers import TimerQueue

_SET_TIMER = """\
def set_timer(_ctx, at, name=""):
    if type(at) is not int or not _start < at < never:
        at = timer_time(at)
    s = _slot
    if s._timers is None and (s._next_at is never or s._name == name):
        s._name = name
        s._next_at = at
        if at < s._queued:
            s._queued = at
            if not times or at >= times[-1]:
                add_time(at)
                add_slot(s)
            else:
                push(s, at)
    else:
        set_one(s, at, name)
"""
_CALL_EVENTS = """\
def call_events(columns):
    nonlocal _slot, _start, _at
    for at, {targets}key, number{ended} in zip(*columns):
        if next_cti <= at:
            pass_ctis(at)
        s = find(key)
        if s is None:
            if spare:
                s = take_spare()
                {renew}
            else:
                {make}
            s._key = key
            slots[key] = s
            s._is_dirty = True
            changed(s)
        else:
            if not s._is_dirty:
                s._is_dirty = True
                changed(s)
            if s._next_at <= at:
                call_due(s, at)
        _slot = s
        _start = at
        _at = number
        {on_event}
"""
_CALL_TIMER = """\
def call_timer(s, at, name):
    nonlocal _slot, _start, _at
    _slot = s
    _start = timer.at = at
    _at = -1
    timer.name = name
    if not s._is_dirty:
        s._is_dirty = True
        changed(s)
    {on_timer}
"""
#: Calls ``on_timer`` for all keys up to ``until``. ``count`` is called between timers of one key.
_CALL_TIMERS = """\
def call_timers(until, count):
    nonlocal _slot, _start, _at
    while (times and times[0] <= until) or (others and others[0] <= until):
        if not times or (others and others[0] <= times[0]):
            at = others[0]
            due = take()
        else:
            at = times[0]
            if len(times) > 1 and times[1] == at:
                due = take()
            else:
                drop_time()
                s = take_slot()
                if s._queued != at:
                    continue
                s._queued = never
                if s._timers is None:
                    if s._next_at != at:
                        enqueue(s)
                        continue
                    s._next_at = never
                    _slot = s
                    _start = timer.at = at
                    _at = -1
                    timer.name = s._name
                    {on_timer}
                    if s._next_at <= until:
                        count(s, at)
                    {after_alone}
                    continue
                due = [s]
        for s in due:
            if s._next_at != at:
                enqueue(s)
                continue
            for at, name in due_of(s, at):
                call_timer(s, at, name)
                if s._next_at <= until:
                    count(s, at)
            enqueue(s)
            {after}
"""
_AFTER = """\
if {idle}:
    del slots[s._key]
    if not s._is_dirty:
        if s._row >= 0:
            gone(s._row)
            s._row = -1
        spared(s)
elif not s._is_dirty:
    s._is_dirty = True
    changed(s)"""
_REST = """\
def set_next_cti(at):
    nonlocal next_cti
    next_cti = at

def at_hand():
    return _slot, _start, _at

return Calls(call_events, call_timers, call_timer, set_next_cti, at_hand, emit, set_timer)
"""


@dataclass(frozen=True, slots=True)
class Calls:
    """The functions compiled for one process."""

    #: Calls ``on_event`` for each event. Argument: lists of starts, read columns, keys and numbers.
    call_events: Callable[[list[Any]], None]
    #: Calls ``on_timer`` up to a time below INF_TIME. The second argument is called after a timer
    #: if its slot has more due timers, with the slot and the timer's time.
    call_timers: Callable[[int, Callable[[Any, int], None]], None]
    #: Calls ``on_timer`` for one timer, which was already removed from the queue.
    call_timer: Callable[[Any, int, str], None]
    #: Sets the time of the next CTI. ``pass_ctis`` is called before the first event at or after it.
    set_next_cti: Callable[[int], None]
    #: Returns slot, time, and number in the run (-1: a timer) of the current event.
    at_hand: Callable[[], tuple[Any, int, int]]
    emit: Callable[..., None]
    set_timer: Callable[..., None]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions that compiled code calls rarely."""

    pass_ctis: Callable[[int], None]
    #: Calls the due timers of one slot, before an event of that slot.
    call_due: Callable[[Any, int], None]
    refuse: Callable[[Any], None]
    #: Makes a call that can be rolled back. Arguments: slot, event or timer, method. None: errors
    #: are fatal.
    call_safely: Callable[[Any, Any, Any], None] | None


def bind(
    code: SlotCode,
    state: KeyedState,
    timers: TimerQueue,
    context: KeyedContext,
    hooks: Hooks,
    events: KeyedEvents,
    timer: Timer,
) -> Calls:
    """Compile the calls. ``timer`` and the event of ``events`` are refilled for every call."""
    slot: Any = code.slot
    has_times = any(map(may_say_times, (slot.on_event, slot.on_timer, slot.on_end)))
    emit, scope = emit_source(context.output, context.rows, has_times=has_times)
    filled = {
        "targets": "".join(f"event.{name}, " for name in events.filled),
        "renew": _indented(code.renew_lines, 4),
        "make": _indented(code.make_lines, 4),
        "ended": ", is_end" if events.has_ends else "",
        "on_event": _indented(_event_lines(code, hooks, has_ends=events.has_ends), 2),
    }
    on_timer = _call_lines("timer", code, hooks)
    after = _AFTER.format(idle=code.idle_test).splitlines()
    parts = [
        emit,
        _SET_TIMER,
        _CALL_EVENTS.format(**filled),
        _CALL_TIMER.format(on_timer=_indented(on_timer, 1)),
        _CALL_TIMERS.format(
            on_timer=_indented(on_timer, 5),
            after_alone=_indented(after, 5),
            after=_indented(after, 3),
        ),
        _REST,
    ]
    head = f"_slot, _start, _at, next_cti = None, {MIN_TIME}, -1, {INF_TIME}\n"
    lines = [head, *(line for part in parts for line in part.splitlines())]
    scope |= code.scope | {
        "Calls": Calls, "zip": zip, "ctx": context, "event": events.event, "timer": timer,
        "on_event": slot.on_event, "on_timer": slot.on_timer, "on_end": slot.on_end,
        "slots": state.slots, "find": state.slots.get, "changed": state.changed.append,
        "gone": state.gone.append, "spare": state.spare, "spared": state.spare.append,
        "take_spare": state.spare.pop, "pass_ctis": hooks.pass_ctis, "call_due": hooks.call_due,
        "refuse": hooks.refuse, "call_safely": hooks.call_safely,
        "_lifetime": context.lifetime, "timer_time": context.timer_time,
        "times": timers.times, "others": timers.others,
        "add_time": timers.times.append, "add_slot": timers.slots.append, "push": timers.push,
        "set_one": timers.set, "take": timers.take, "drop_time": timers.times.popleft,
        "take_slot": timers.slots.popleft, "enqueue": timers.enqueue, "due_of": timers.due,
    }  # fmt: skip
    calls: Calls = compiled("calls", ", ".join(scope), lines, {})(**scope)
    return calls


def references(held: Any) -> int:
    """Return the reference count. If user code increases it, the code has kept the object."""
    return getrefcount(held)


def _call_lines(what: str, code: SlotCode, hooks: Hooks) -> list[str]:
    if hooks.call_safely is not None:
        return [f"call_safely(s, {what}, s.on_{what})"]
    return [f"on_{what}(s, {what}, ctx)", f"if not ({code.fits_test}):", "    refuse(s)"]


def _event_lines(code: SlotCode, hooks: Hooks, *, has_ends: bool) -> list[str]:
    lines = _call_lines("event", code, hooks)
    if not has_ends:
        return lines
    own = "s." if hooks.call_safely is not None else ""
    chosen = f"({own}on_end if is_end else {own}on_event)"
    return [lines[0].replace(f"{own}on_event", chosen), *lines[1:]]


def _indented(lines: list[str], depth: int) -> str:
    return ("\n" + "    " * depth).join(lines or ["pass"])
