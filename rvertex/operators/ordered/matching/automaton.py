"""Pattern search over rows whose conditions are known in advance: a lazily built automaton.

A *state* is the list of the instructions at which threads wait for a row, in order of preference. A
row moves a state to the next state. Each thread whose variable the row may be mapped to continues,
in order; a thread that matches ends all threads after it. States and steps are cached, so a row
costs one table look-up. The match is known when no thread is left that is preferred to the thread
that matched last. Going back over the states finds which rows were mapped to which variables.

A search from a later start often reaches the states of the previous search at the same row. From
that row on both searches are equal, so it continues where the previous one stopped. So rows are not
read again and again.

Invariants: (1) the match found is the preferred one regardless of batch boundaries, since a search
that lacks rows waits; (2) the cache is emptied when it has ``STATES_MAX`` states, which changes no
result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rstream.types import INF_TIME
from rvertex.operators.ordered.matching.pattern import Accept, Take, closures, compiled, least_rows

if TYPE_CHECKING:
    from rvertex.operators.ordered.matching.pattern import Instruction
    from rvertex.operators.ordered.matching.rows import Found, KeyRows, Searching

#: Most states in the cache.
STATES_MAX = 10_000
_NONE = -1


class State:
    """Threads that wait for a row: their Take instructions, in order of preference."""

    __slots__ = ("steps", "takes")

    def __init__(self, takes: tuple[int, ...]) -> None:
        self.takes = takes
        #: By symbol (the conditions that are true of a row): the transition by the row.
        self.steps: dict[int, Step] = {}


class Step:
    """The transition from a state to the next one by a row."""

    __slots__ = ("accepted", "parents", "state")

    def __init__(self, state: State | None, accepted: int, parents: tuple[int, ...]) -> None:
        #: The next state; None: no thread is left.
        self.state = state
        #: The thread of the previous state that matches with this row; -1: no thread.
        self.accepted = accepted
        #: For each thread: the thread of the previous state that it continues.
        self.parents = parents


class Search:
    """The open search of a key, and the reusable states of previous searches.

    ``trace`` has, by row position, the state before the row. The open search has written the
    positions from its start to ``at``. Positions from ``valid`` on belong to the last search that
    reached the end of ``trace``; its state there is ``end``. ``last``, ``thread``: the last row of
    the match so far, and the thread that matched it. If ``last`` is the position before the start,
    the match is empty; None means no match.
    """

    __slots__ = (
        *("at", "end", "end_last", "end_thread", "is_open", "last"),
        *("state", "thread", "trace", "valid"),
    )

    def __init__(self) -> None:
        self.trace: list[State] = []
        self.valid = 0
        self.end: State | None = None
        self.end_last: int | None = None
        self.end_thread = _NONE
        self.is_open = False
        self.at = 0
        self.state: State | None = None
        self.last: int | None = None
        self.thread = _NONE

    def open(self, begin: int, state: State, last: int | None) -> None:
        """Start at row position ``begin``."""
        self.is_open, self.at, self.state, self.last, self.thread = True, begin, state, last, _NONE
        if begin > len(self.trace):
            self.trace += [state] * (begin - len(self.trace))
        self.valid = max(self.valid, begin)

    def meet(self) -> None:
        """Continue at the end of the previous search, which had the same state at this row."""
        if self.end_last is not None and self.end_last >= self.at:
            self.last, self.thread = self.end_last, self.end_thread
        self.at, self.state = len(self.trace), self.end

    def leave(self, begin: int) -> None:
        """Close the search from ``begin``; keep its states for the next searches."""
        self.is_open = False
        if self.at < len(self.trace):
            self.valid = max(self.valid, self.at)
            return
        self.valid, self.end = begin, self.state
        self.end_last, self.end_thread = self.last, self.thread

    def move(self, rows: int) -> None:
        """Drop the first ``rows`` positions, because these rows are not stored any more."""
        del self.trace[:rows]
        self.at = max(0, self.at - rows)
        self.valid = max(0, self.valid - rows)
        if self.last is not None:
            self.last -= rows
        if self.end_last is not None:
            self.end_last -= rows


class Automaton:
    """Finds matches in the rows of each key."""

    def __init__(self, searching: Searching) -> None:
        self._searching = searching
        self.program = compiled(searching.pattern)
        self.least = least_rows(searching.pattern)
        self._states: dict[tuple[int, ...], State] = {}
        self._after = _closures(self.program)
        begin = closures(self.program, 0)
        accept = next((i for i, at in enumerate(begin) if self._is_accept(at)), None)
        self._matches_empty = accept is not None
        self.start = State(begin if accept is None else begin[:accept])
        #: Bits of the variables with which a match can begin.
        self.first = 0
        for at in self.start.takes:
            self.first |= 1 << self.variable_of(at)

    def variable_of(self, at: int) -> int:
        """Return the variable of the Take instruction ``at``."""
        take = self.program[at]
        assert isinstance(take, Take), take
        return take.variable

    def scan(self, rows: KeyRows, frontier: int, found: list[Found]) -> None:
        """Append the results that are known when no row before ``frontier`` can follow."""
        if rows.search is None:
            rows.search = Search()
        search: Search = rows.search
        while True:  # ends: each round moves the start forward, or returns
            if not search.is_open and not self._open(rows, search, found):
                return
            due = self._last_time(rows)
            if not self._run(rows, search, due) and not self._is_over(rows, frontier, due):
                return
            self._close(rows, search, found)

    def _last_time(self, rows: KeyRows) -> int:
        """Return the latest start of a row that may be in the match of the open search."""
        if self._searching.within_us == INF_TIME:
            return INF_TIME - 1
        return min(rows.times[rows.begin] + self._searching.within_us, INF_TIME - 1)

    @staticmethod
    def _is_over(rows: KeyRows, frontier: int, due: int) -> bool:
        """Return whether all rows up to ``due`` have arrived, and their conditions are known."""
        known = len(rows.symbols)
        return frontier > due and (known == len(rows.times) or rows.times[known] > due)

    def due(self, rows: KeyRows) -> int:
        """Return the time after which an open search ends; INF_TIME: it needs more rows first."""
        due, known = self._last_time(rows), len(rows.symbols)
        return due if known == len(rows.times) or rows.times[known] > due else INF_TIME

    def hold(self, rows: KeyRows) -> int:
        """Return a lower bound of the ends of matches that are not found yet.

        INF_TIME: no such match ends among the stored rows.
        """
        count = len(rows.symbols)
        bound = rows.times[count] if count < len(rows.times) else INF_TIME
        search: Any = rows.search
        if search is None or not search.is_open:
            return bound
        if self._searching.tells_unmatched:
            return rows.times[rows.begin]
        if search.last is not None:
            last_at: int = search.last
            bound = min(bound, rows.times[max(last_at, rows.begin)])
            if self._searching.skip.to == "past":
                return bound
        at = max(rows.second, rows.begin + 1)
        while at < count and not self._may_begin(rows.symbols[at]):
            at += 1
        rows.second = at
        last = at + max(self.least, 1) - 1
        return min(bound, rows.times[last]) if last < count else bound

    def _may_begin(self, symbol: int) -> bool:
        """Return whether a match can begin at a row with this symbol."""
        return self._matches_empty or bool(symbol & self.first)

    def _open(self, rows: KeyRows, search: Search, found: list[Found]) -> bool:
        """Open a search at the next possible start; return whether there is one."""
        begin = self._next_begin(rows, found)
        if begin is None:
            return False
        search.open(begin, self.start, begin - 1 if self._matches_empty else None)
        return True

    def _next_begin(self, rows: KeyRows, found: list[Found]) -> int | None:
        """Return the next row at which a match can begin; None: there is none."""
        symbols, at, count, first = rows.symbols, rows.begin, len(rows.symbols), self.first
        if not self._matches_empty:
            while at < count and not symbols[at] & first:
                if self._searching.tells_unmatched:
                    rows.begin = at
                    self._add_unmatched(rows, found)
                at += 1
        rows.begin = at
        return at if at < count else None

    def _run(self, rows: KeyRows, search: Search, due: int) -> bool:
        """Process rows. Return whether the result is known: a match, or that there is none."""
        symbols, times, trace = rows.symbols, rows.times, search.trace
        at, state, valid = search.at, search.state, search.valid
        count, traced = len(symbols), len(trace)
        while state is not None and state.takes:
            if at < traced and at >= valid and trace[at] is state:
                search.at = at
                search.meet()
                at, state = search.at, search.state
                continue
            if at >= count or times[at] > due:
                break
            symbol = symbols[at]
            step = state.steps.get(symbol) or self.step(state, symbol)
            if at < traced:
                trace[at] = state
            else:
                trace.append(state)
                traced += 1
            if step.accepted >= 0:
                search.last, search.thread = at, step.accepted
            state = step.state
            at += 1
        search.at, search.state = at, state
        return state is None or not state.takes or at < count

    def _close(self, rows: KeyRows, search: Search, found: list[Found]) -> None:
        """End the search and append its result."""
        search.leave(rows.begin)
        takes = [] if search.last is None else self._takes(rows, search)
        self._add_match(rows, search.last, takes, found)

    def _add_match(
        self, rows: KeyRows, last: int | None, takes: list[int], found: list[Found]
    ) -> None:
        """Append the match that was found, and move the start as ``skip`` states."""
        searching = self._searching
        if last is None:
            if searching.tells_unmatched:
                self._add_unmatched(rows, found)
            rows.begin += 1
            return
        rows.matches += 1
        found.append(rows.found(len(takes), takes, searching.context, rows.matches))
        if takes:
            rows.covered = max(rows.covered, rows.numbers[last])
        rows.begin += searching.skip.after(takes, self.variable_of)

    def _add_unmatched(self, rows: KeyRows, found: list[Found]) -> None:
        """Append the start row as unmatched, unless an earlier match contains it."""
        number = rows.numbers[rows.begin]
        if number > rows.covered:
            found.append(rows.found(0, [], self._searching.context, 0)._replace(match=None))

    def _takes(self, rows: KeyRows, search: Search) -> list[int]:
        """Return the instruction that mapped each row of the match."""
        assert search.last is not None
        at, thread, trace = search.last, search.thread, search.trace
        takes: list[int] = []
        while at >= rows.begin:  # ends: at decreases
            takes.append(trace[at].takes[thread])
            at -= 1
            if at >= rows.begin:
                before = trace[at]
                step = before.steps.get(rows.symbols[at]) or self.step(before, rows.symbols[at])
                thread = step.parents[thread]
        takes.reverse()
        return takes

    def step(self, state: State, symbol: int) -> Step:
        """Compute the step of a row, and cache it."""
        takes: list[int] = []
        parents: list[int] = []
        visited: set[int] = set()
        accepted = _NONE
        for thread, at in enumerate(state.takes):
            if not symbol >> self.variable_of(at) & 1:
                continue
            for after in self._after[at]:
                if self._is_accept(after):
                    accepted = thread
                    break
                if after not in visited:
                    visited.add(after)
                    takes.append(after)
                    parents.append(thread)
            if accepted >= 0:
                break
        step = Step(self._state(tuple(takes)), accepted, tuple(parents))
        state.steps[symbol] = step
        return step

    def _state(self, takes: tuple[int, ...]) -> State | None:
        """Return the cached state with these instructions; None: there are none."""
        if not takes:
            return None
        known = self._states.get(takes)
        if known is None:
            if len(self._states) >= STATES_MAX:
                self._states.clear()
                self.start.steps.clear()
            known = self._states[takes] = State(takes)
        return known

    def _is_accept(self, at: int) -> bool:
        return isinstance(self.program[at], Accept)


def _closures(program: tuple[Instruction, ...]) -> dict[int, tuple[int, ...]]:
    """Return, per Take, the Take and Accept instructions that can follow it."""
    takes = (at for at, one in enumerate(program) if isinstance(one, Take))
    return {at: closures(program, at + 1) for at in takes}
