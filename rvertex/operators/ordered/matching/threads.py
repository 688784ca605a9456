"""Searches for a pattern some of whose conditions look at the rows mapped so far.

As :mod:`rvertex.operators.ordered.matching.automaton`, but two threads at one instruction may have
mapped rows differently, so both go on, each with its rows. The conditions of all keys' next rows
are evaluated together, in rounds: a round takes one row of each key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rvertex.errors import OperatorTypeError
from rvertex.operators.ordered.matching.automaton import Automaton

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from rvertex.operators.ordered.matching.rows import Found, KeyRows, Searching

#: Threads of one search; each is another way to map the same rows.
THREADS_MAX = 10_000
#: The rows of a thread: those before, how many there are and the instruction that mapped the last.
Link = tuple[Any, int, int]


class Question(NamedTuple):
    """Whether the last row of ``link`` may be mapped as its instruction says."""

    rows: KeyRows
    link: Link


class _Search:
    """The threads of a search, the preferred first, and the match so far."""

    __slots__ = ("at", "best", "is_open", "last", "threads")

    def __init__(self) -> None:
        self.is_open = False
        self.at = 0
        #: ``(instruction, rows so far)``
        self.threads: list[tuple[int, Link | None]] = []
        self.last: int | None = None
        self.best: Link | None = None

    def move(self, rows: int) -> None:
        """Count places from a row that is ``rows`` later."""
        self.at -= rows
        if self.last is not None:
            self.last -= rows


class Threads(Automaton):
    """Finds matches in the rows of keys, asking for conditions."""

    def __init__(self, asked: Searching, asks: frozenset[int]) -> None:
        """``asks``: the variables whose conditions look at the rows so far."""
        super().__init__(asked)
        self._asks = asks

    def scan_all(
        self,
        keys: Sequence[KeyRows],
        frontier: int,
        found: list[Found],
        answer: Callable[[Sequence[Question]], Sequence[bool]],
    ) -> None:
        """Find what is known in the rows of each key."""
        open_searches = [self._follow(rows, frontier, found) for rows in keys]
        begun = [(search, next(search, None)) for search in open_searches]
        asked = [(search, questions) for search, questions in begun if questions is not None]
        while asked:  # ends: each round takes a row of every key
            answers = iter(answer([one for _, questions in asked for one in questions]))
            going = []
            for search, questions in asked:
                told = [next(answers) for _ in questions]
                try:
                    going.append((search, search.send(told)))
                except StopIteration:
                    continue
            asked = going

    def _follow(
        self, rows: KeyRows, frontier: int, found: list[Found]
    ) -> Generator[list[Question], list[bool], None]:
        if rows.search is None:
            rows.search = _Search()
        search: _Search = rows.search
        while True:  # ends: each round goes on behind the start, or returns
            if not search.is_open and not self._open_threads(rows, search, found):
                return
            due = self._last_time(rows)
            while search.threads and search.at < len(rows.symbols):
                if rows.times[search.at] > due:
                    break
                yield from self._take(rows, search)
            is_known = not search.threads or search.at < len(rows.symbols)
            if not is_known and not self._is_over(rows, frontier, due):
                return
            self._close_threads(rows, search, found)

    def _open_threads(self, rows: KeyRows, search: _Search, found: list[Found]) -> bool:
        begin = self._next_begin(rows, found)
        if begin is None:
            return False
        search.is_open, search.at, search.best = True, begin, None
        search.last = begin - 1 if self._matches_empty else None
        search.threads = [(at, None) for at in self._start.takes]
        return True

    def _take(self, rows: KeyRows, search: _Search) -> Generator[list[Question], list[bool], None]:
        """Give the next row to all threads."""
        symbol = rows.symbols[search.at]
        going: list[tuple[int, Link]] = []
        questions: list[Question] = []
        for at, link in search.threads:
            variable = self.variable_of(at)
            if symbol >> variable & 1:
                going.append((at, (link, search.at - rows.begin + 1, at)))
                if variable in self._asks:
                    questions.append(Question(rows, going[-1][1]))
        answers = iter((yield questions) if questions else ())
        threads: list[tuple[int, Link | None]] = []
        for at, link in going:
            if self.variable_of(at) in self._asks and not next(answers):
                continue
            has_matched = False
            for after in self._after[at]:
                if self._is_accept(after):
                    search.last, search.best = search.at, link
                    has_matched = True
                    break
                threads.append((after, link))
            if has_matched:
                break
        if len(threads) > THREADS_MAX:
            raise OperatorTypeError(
                "match",
                f"there are more than {THREADS_MAX:,} ways to map the rows of one match; make the "
                "conditions exclude each other, or bound the match by WITHIN",
            )
        search.threads = threads
        search.at += 1

    def _close_threads(self, rows: KeyRows, search: _Search, found: list[Found]) -> None:
        takes: list[int] = []
        link = search.best
        while link is not None:  # ends: a link is a finite list
            takes.append(link[2])
            link = link[0]
        takes.reverse()
        self._tell(rows, search.last, takes, found)
        search.is_open, search.threads, search.best = False, [], None
