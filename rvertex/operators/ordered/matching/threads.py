"""Pattern search for conditions that read the rows mapped so far.

It works as :mod:`rvertex.operators.ordered.matching.automaton`. But two threads at one instruction
may have mapped rows differently, so both continue, each with its own rows. Conditions are evaluated
for all keys together, in rounds: a round processes one row of each key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rvertex.errors import OperatorTypeError
from rvertex.operators.ordered.matching.automaton import Automaton

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from rvertex.operators.ordered.matching.rows import Found, KeyRows, Searching

#: Most threads of one search; each maps the same rows in a different way.
THREADS_MAX = 10_000
#: The rows of a thread: the previous link, the number of rows, and the last row's instruction.
Link = tuple[Any, int, int]


class Question(NamedTuple):
    """Asks for the condition under which the last row of ``link`` may be mapped."""

    rows: KeyRows
    link: Link


class _Search:
    """The threads of a search, by preference, and the match so far."""

    __slots__ = ("at", "best", "is_open", "last", "threads")

    def __init__(self) -> None:
        self.is_open = False
        self.at = 0
        #: Per thread: ``(instruction, link of the rows so far)``.
        self.threads: list[tuple[int, Link | None]] = []
        self.last: int | None = None
        self.best: Link | None = None

    def move(self, rows: int) -> None:
        """Drop the first ``rows`` positions, because these rows are not stored any more."""
        self.at -= rows
        if self.last is not None:
            self.last -= rows


class Threads(Automaton):
    """Finds matches in the rows of each key if conditions depend on the rows mapped so far."""

    def __init__(self, searching: Searching, asks: frozenset[int]) -> None:
        """Search with ``searching``.

        ``asks``: variables whose conditions read rows mapped so far.
        """
        super().__init__(searching)
        self._asks = asks

    def scan_all(
        self,
        keys: Sequence[KeyRows],
        frontier: int,
        found: list[Found],
        answer: Callable[[Sequence[Question]], Sequence[bool]],
    ) -> None:
        """Append the results that are known for each key; ``answer`` evaluates conditions."""
        open_searches = [self._follow(rows, frontier, found) for rows in keys]
        begun = [(search, next(search, None)) for search in open_searches]
        open_questions = [
            (search, questions) for search, questions in begun if questions is not None
        ]
        while open_questions:  # ends: each round processes one row of every key
            answers = iter(answer([one for _, questions in open_questions for one in questions]))
            going = []
            for search, questions in open_questions:
                own_answers = [next(answers) for _ in questions]
                try:
                    going.append((search, search.send(own_answers)))
                except StopIteration:
                    continue
            open_questions = going

    def _follow(
        self, rows: KeyRows, frontier: int, found: list[Found]
    ) -> Generator[list[Question], list[bool], None]:
        """Scan one key. Yields the questions of each row, and receives their results."""
        if rows.search is None:
            rows.search = _Search()
        search: _Search = rows.search
        while True:  # ends: each round moves the start forward, or returns
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
        """Open a search at the next possible start; return whether there is one."""
        begin = self._next_begin(rows, found)
        if begin is None:
            return False
        search.is_open, search.at, search.best = True, begin, None
        search.last = begin - 1 if self._matches_empty else None
        search.threads = [(at, None) for at in self.start.takes]
        return True

    def _take(self, rows: KeyRows, search: _Search) -> Generator[list[Question], list[bool], None]:
        """Process the next row in all threads."""
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
        """End the search and append its result."""
        takes: list[int] = []
        link = search.best
        while link is not None:  # ends: a link leads to earlier rows, and there are finitely many
            takes.append(link[2])
            link = link[0]
        takes.reverse()
        self._add_match(rows, search.last, takes, found)
        search.is_open, search.threads, search.best = False, [], None
