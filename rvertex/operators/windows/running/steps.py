"""The windows of running aggregates: until the next step of the key, or within a session.

A *step* is a key and a time at which events of it start; each step opens a window. An
:class:`Endless` window lasts until the next step of its key, the last one forever. A window
:class:`OfSessions` lasts until the next step of its session or the session's end, and the first
step of a session ignores earlier steps.

Invariant: where windows end, and which steps begin a session, depends only on the earlier steps,
not on batch boundaries. The same holds for the time that closes a window: the window's end or, if a
step ended it, 1 us after that step's start, when all events of that start have arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from rstream.types import INF_TIME
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.events.group_scan import heads_of
from rvertex.operators.windows.session import SessionColumns, SessionStarts

if TYPE_CHECKING:
    from rvertex.operators.windows.window_log import WindowLog


@dataclass(frozen=True, slots=True)
class Numbered:
    """New steps. Per step: whether it begins a session, and the number of its key or session."""

    begins: np.ndarray
    belongs: np.ndarray


class Steps(Protocol):
    """Opens the windows of steps in the log, and sets the ends of earlier windows."""

    def number(
        self, code: np.ndarray, time: np.ndarray, ve: np.ndarray, keys: int, log: WindowLog
    ) -> Numbered:
        """Open the windows of steps, sorted by (time, code). ``ve``: greatest ends of events."""

    def needed(self, promise: int) -> np.ndarray | None:
        """Return a mask of the keys that matter if no event before ``promise`` follows.

        None: all keys matter.
        """

    def keep(self, codes: np.ndarray) -> None:
        """Renumber key ``codes[i]`` to i and drop all other keys."""

    def going_on(self) -> np.ndarray | None:
        """Return the numbers of sessions to which later steps may belong.

        None means that every key has one such session.
        """

    def save(self) -> pa.Table:
        """Return the state by key code, by reference."""

    def restore(self, table: pa.Table) -> None:
        """Restore the state that ``save`` returned."""


class Endless:
    """Stores, by key, the window of its last step."""

    def __init__(self) -> None:
        self._window = GroupArray(np.int64, -1)

    def number(
        self, code: np.ndarray, time: np.ndarray, ve: np.ndarray, keys: int, log: WindowLog
    ) -> Numbered:
        """Implement :class:`Steps`."""
        by_key = np.lexsort((time, code))
        window = self._window.writable(keys)
        new = log.add(time)
        log.set_ends(new, np.full(len(new), INF_TIME), np.full(len(new), INF_TIME))
        key, step = code[by_key], new[by_key]
        heads = heads_of(key)
        before = np.where(heads, window[key], np.concatenate([[-1], step[:-1]]))
        ended = before >= 0
        ends = time[by_key][ended]
        log.set_ends(before[ended], ends, ends + 1)
        last = np.append(heads[1:], True)
        window[key[last]] = step[last]
        return Numbered(np.zeros(len(code), bool), code)

    def needed(self, promise: int) -> np.ndarray | None:
        """Implement :class:`Steps`: every key is needed."""
        return None

    def keep(self, codes: np.ndarray) -> None:
        raise AssertionError("keys are never dropped here")

    def going_on(self) -> np.ndarray | None:
        """Implement :class:`Steps`."""
        return None

    def save(self) -> pa.Table:
        return pa.table({"window": self._window.shared()})

    def restore(self, table: pa.Table) -> None:
        self._window.adopt(numbers(as_one_array(table.column(0))))


class OfSessions(SessionColumns):
    """Stores, per key, the window of the last step and the number of its session's first step."""

    def __init__(self, gap: int, longest: int | None) -> None:
        self._window = GroupArray(np.int64, -1)
        self._session = GroupArray(np.int64, -1)
        self._starts = SessionStarts(gap, longest)

    def number(
        self, code: np.ndarray, time: np.ndarray, ve: np.ndarray, keys: int, log: WindowLog
    ) -> Numbered:
        """Implement :class:`Steps`."""
        window, session = self._window.writable(keys), self._session.writable(keys)
        starts = self._starts.follow(code, time, ve, keys, window >= 0)
        step, belongs = np.empty(len(starts.key), np.int64), np.full(len(starts.key), -1)
        new = log.add(time)
        place = starts.order - starts.carried
        is_event = starts.is_event
        step[is_event] = new[place[is_event]]
        step[~is_event] = window[starts.key[~is_event]]
        belongs[~is_event] = session[starts.key[~is_event]]
        fresh = starts.begins & is_event
        belongs[fresh] = step[fresh]
        belongs = belongs[starts.first]
        ends = starts.ends(self._starts.longest)[is_event]
        log.set_ends(step[is_event], ends, ends)
        goes_on = np.flatnonzero(is_event & ~starts.begins)  # rows that continue a session
        upto = starts.time[goes_on]
        log.set_ends(step[goes_on - 1], upto, upto + 1)
        window[starts.key[starts.is_last]] = step[starts.is_last]
        session[starts.key[starts.is_last]] = belongs[starts.is_last]
        begins, of_step = np.empty(len(code), bool), np.empty(len(code), np.int64)
        begins[place[is_event]] = starts.begins[is_event]
        of_step[place[is_event]] = belongs[is_event]
        return Numbered(begins, of_step)

    def going_on(self) -> np.ndarray | None:
        """Implement :class:`Steps`. Returns the last session of each key."""
        return self._session.read()

    @property
    def _columns(self) -> tuple[GroupArray, ...]:
        return (self._window, self._session, self._starts.start, self._starts.active)
