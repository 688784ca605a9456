"""Pattern search in many keys at once: the automaton of one key, in numpy over all keys.

Each round moves the search of every key by one row, with one look-up in a table of the automaton's
steps. A failed search starts again at the next row that may begin a match, so rows may be read
again. Keys that cost too many rounds are searched one by one, as are the last few keys.

Invariants: (1) it finds the same matches as :class:`Automaton`; (2) the number of rounds is bounded
by the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rstream.types import INF_TIME
from rvertex.operators.ordered.matching.pool import ranges

if TYPE_CHECKING:
    from rvertex.operators.ordered.matching.automaton import Automaton, State
    from rvertex.operators.ordered.matching.pool import Segments
    from rvertex.operators.ordered.matching.spec import MatchParts

#: Fewest keys for this search, in a run and in a round.
KEYS_MIN = 512
GOING_MIN = 16
#: A search stops when its rounds have read this multiple of all rows.
_READS_MAX = 6
_VARIABLES_MAX = 8
_STATES_MAX = 1000
_DEAD, _UNKNOWN = -1, -2
_GROWTH = 2


def suits(spec: MatchParts) -> bool:
    """Return whether the search of many keys can find these matches.

    Conditions read the row and rows before it; results are matches that do not overlap.
    """
    reads_number = any(
        leaf.kind == "match_number" for leaf in (*spec.condition_leaves, *spec.measure_leaves)
    )
    return (
        not spec.asking
        and not reads_number
        and spec.rows != "unmatched"
        and spec.skip.to == "past"
        and spec.context[1] == 0
        and len(spec.names) <= _VARIABLES_MAX
    )


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches in segments: first and last rows, and the instruction of each of their rows."""

    key: np.ndarray
    first: np.ndarray
    last: np.ndarray
    takes: np.ndarray


@dataclass(slots=True)
class Ends:
    """How the search of each key has ended.

    ``begin``: the row at which it starts again. ``is_open``: it waits for more rows. ``due`` and
    ``hold`` are as in :class:`Automaton`. ``is_left``: the key must be searched alone from there.
    """

    begin: np.ndarray
    is_open: np.ndarray
    due: np.ndarray
    hold: np.ndarray
    is_left: np.ndarray


class Lockstep:
    """Searches in the rows of many keys."""

    def __init__(self, automaton: Automaton, variables: int, within_us: int) -> None:
        self._automaton, self._within_us = automaton, within_us
        self._steps = _Steps(automaton, 1 << variables)

    def search(self, rows: Segments, frontier: int) -> tuple[Matches, Ends]:
        """Find the matches that are known when no row before ``frontier`` can follow."""
        return _Searching(rows, frontier, self._automaton, self._steps, self._within_us).result()


class _Searching:
    """One search. Rows are identified by their index in all segments."""

    def __init__(
        self, rows: Segments, frontier: int, automaton: Automaton, steps: _Steps, within_us: int
    ) -> None:
        self._rows, self._frontier, self._steps = rows, frontier, steps
        self._within_us, self._least = within_us, automaton.least
        self._start = rows.start
        self._end = self._start + rows.sizes
        count = len(rows.numbers)
        may_begin = np.where((rows.symbols & automaton.first) != 0, np.arange(count), count)
        #: For each row, the next row at which a match may begin.
        self._next = np.append(np.minimum.accumulate(may_begin[::-1])[::-1], count)
        self._trace = np.zeros(count, np.int64)
        keys = len(rows.codes)
        self._ends = Ends(
            self._end.copy(),
            np.zeros(keys, bool),
            np.full(keys, INF_TIME),
            np.full(keys, INF_TIME),
            np.zeros(keys, bool),
        )
        self._found: list[tuple[np.ndarray, ...]] = []

    def result(self) -> tuple[Matches, Ends]:
        """Search; return the matches and the ends."""
        self._run()
        none = np.zeros(0, np.int64)
        parts = zip(*self._found, strict=True)
        key, first, last, thread = map(np.concatenate, parts) if self._found else [none] * 4
        order = np.argsort(first, kind="stable")
        key, first, last, thread = (part[order] for part in (key, first, last, thread))
        takes = self._steps.takes_of(self._trace, self._rows.symbols, first, last, thread)
        return Matches(key, first, last, takes), self._ends

    def _due(self, begin: np.ndarray) -> np.ndarray:
        """Return the latest start of a row in a match from ``begin`` on."""
        if self._within_us == INF_TIME:
            return np.full(len(begin), INF_TIME - 1)
        times = self._rows.times[begin]
        limit = INF_TIME - 1 - self._within_us
        return np.where(times >= limit, INF_TIME - 1, times + self._within_us)

    def _run(self) -> None:
        rows, steps = self._rows, self._steps
        end = self._end
        begin = np.minimum(self._next[self._start + rows.begin], end)
        key = np.flatnonzero(begin < end)
        begin, end = begin[key], end[key]
        at, state, due = begin, np.zeros(len(key), np.int64), self._due(begin)
        last = np.full(len(key), -1)
        thread = last
        left = _READS_MAX * len(rows.numbers)
        while len(key) >= GOING_MIN and left > 0 and steps.are_few():  # ends: left decreases
            left -= len(key)
            self._trace[at] = state
            state, accepted = steps.step(state, rows.symbols[at])
            has_matched = accepted >= 0
            last = np.where(has_matched, at, last)
            thread = np.where(has_matched, accepted, thread)
            at = at + 1
            is_dead = state < 0
            is_last = at >= end
            is_over = is_last & (self._frontier > due)
            if self._within_us != INF_TIME:
                is_over |= ~is_last & (rows.times[np.minimum(at, len(rows.times) - 1)] > due)
            is_closed = is_dead | is_over
            waits = is_last & ~is_closed
            if waits.any():
                self._wait(key[waits], begin[waits], last[waits], end[waits], due[waits])
            stays = ~waits
            if is_closed.any():
                is_match = is_closed & (last >= 0)
                self._found.append(
                    (key[is_match], begin[is_match], last[is_match], thread[is_match])
                )
                again = np.where(last >= 0, last, begin) + 1
                begin = np.where(is_closed, np.minimum(self._next[again], end), begin)
                at = np.where(is_closed, begin, at)
                state = np.where(is_closed, 0, state)
                last = np.where(is_closed, -1, last)
                stays &= at < end
                if self._within_us != INF_TIME:
                    due = self._due(np.minimum(begin, len(rows.times) - 1))
            if not stays.all():
                key, begin, at, state, last, thread, end, due = (
                    part[stays] for part in (key, begin, at, state, last, thread, end, due)
                )
        self._ends.begin[key] = begin
        self._ends.is_left[key] = True

    def _wait(
        self,
        key: np.ndarray,
        begin: np.ndarray,
        last: np.ndarray,
        end: np.ndarray,
        due: np.ndarray,
    ) -> None:
        """Leave the searches of keys open, because their stored rows have ended."""
        times, ends = self._rows.times, self._ends
        second = np.minimum(self._next[begin + 1], end) + max(self._least, 1) - 1
        ends_later = times[np.minimum(second, len(times) - 1)]
        hold = np.where(second < end, ends_later, INF_TIME)
        ends.begin[key], ends.is_open[key] = begin, True
        ends.hold[key] = np.where(last >= 0, times[last], hold)
        ends.due[key] = INF_TIME if self._within_us == INF_TIME else due


class _Steps:
    """The steps of the automaton as arrays, computed as they are needed."""

    def __init__(self, automaton: Automaton, symbols: int) -> None:
        self._automaton, self._symbols = automaton, symbols
        self._numbers: dict[tuple[int, ...], int] = {}
        self._states: list[State] = []
        self._next = np.full(0, _UNKNOWN)
        self._accepted = np.full(0, -1)
        #: Where the threads of each state begin in ``_takes``, and the parents of each step.
        self._takes_at: list[int] = []
        self._takes: list[int] = []
        self._parents_at = np.zeros(0, np.int64)
        self._parents: list[int] = []
        self._number(automaton.start)

    def are_few(self) -> bool:
        """Return whether the automaton is small enough."""
        return len(self._states) <= _STATES_MAX

    def step(self, state: np.ndarray, symbol: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the next states, -1 for none, and the threads that match, -1 for none."""
        cell = state * self._symbols + symbol
        to = self._next[cell]
        if (to == _UNKNOWN).any():
            for one in np.unique(cell[to == _UNKNOWN]).tolist():
                self._add(one)
            to = self._next[cell]
        return to, self._accepted[cell]

    def takes_of(
        self,
        trace: np.ndarray,
        symbols: np.ndarray,
        first: np.ndarray,
        last: np.ndarray,
        thread: np.ndarray,
    ) -> np.ndarray:
        """Return the instruction of each row of the matches, one match after another."""
        sizes = last - first + 1
        place = np.cumsum(sizes) - 1
        found = np.zeros(int(sizes.sum()), np.int64)
        takes_at, takes, parents = map(np.array, (self._takes_at, self._takes, self._parents))
        at = last
        while len(at):  # ends: at decreases
            found[place] = takes[takes_at[trace[at]] + thread]
            goes_on = at > first
            at, first, place, thread = (
                part[goes_on] for part in (at - 1, first, place - 1, thread)
            )
            cell = trace[at] * self._symbols + symbols[at]
            thread = parents[self._parents_at[cell] + thread]
        return found

    def _number(self, state: State) -> int:
        """Return the number of a state; it gets one if it has none."""
        known = self._numbers.get(state.takes)
        if known is not None:
            return known
        number = self._numbers[state.takes] = len(self._states)
        self._states.append(state)
        self._takes_at.append(len(self._takes))
        self._takes += state.takes
        cells = len(self._states) * self._symbols
        if cells > len(self._next):
            more = _GROWTH * cells - len(self._next)
            self._next = np.append(self._next, np.full(more, _UNKNOWN))
            self._accepted = np.append(self._accepted, np.full(more, -1))
            self._parents_at = np.append(self._parents_at, np.zeros(more, np.int64))
        return number

    def _add(self, cell: int) -> None:
        """Compute the step of a cell (a state and a symbol)."""
        number, symbol = divmod(cell, self._symbols)
        state = self._states[number]
        step = state.steps.get(symbol) or self._automaton.step(state, symbol)
        to = _DEAD if step.state is None or not step.state.takes else self._number(step.state)
        self._next[cell], self._accepted[cell] = to, step.accepted
        self._parents_at[cell] = len(self._parents)
        self._parents += step.parents


def with_context(matches: Matches, start: np.ndarray, before: int) -> tuple[np.ndarray, ...]:
    """Return the rows of each match after ``before`` rows of its key, and the number of rows.

    A row that does not exist is -1.
    """
    sizes = matches.last - matches.first + 1 + before
    rows = ranges(matches.first - before, sizes)
    return np.where(rows >= np.repeat(start[matches.key], sizes), rows, -1), sizes
