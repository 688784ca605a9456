"""``bisect``: finds the first input item, or first version of a query, that makes a wrong result.

Theory of operation. The items of all sources are sorted by the greatest time that their source has
reached. This keeps the row order of each source. For each k, a run over the first k items of this
order, followed by the end of the input, either emits a wrong row or not. Bisection finds a k such
that k items emit one and k - 1 items do not. Both runs are made, so the result is certain. If wrong
rows appear and disappear at more than one k, the found k is one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jobmanager.replay.errors import NoSuchRowError
from jobmanager.replay.newcode import planned_again
from jobmanager.replay.recorded import Recorded
from jobmanager.replay.rows.answer_rows import AnswerCondition
from jobmanager.replay.rows.slices import Rows, SliceRuns, sinks_of
from jobmanager.replay.rows.whys import shown_rows
from jobmanager.storage.root import JobRoot
from rstream.errors import UsageError
from rstream.items.batch import VS, int64_column
from rstream.items.json_text import plain_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from jobmanager.replay.rows.slices import Slice
    from planner import Query
    from planner.physical.plan import PhysicalPlan


@dataclass(frozen=True, slots=True)
class Bisection:
    """The first input item with which the result is wrong."""

    #: The source vertex that reads the item, and the item as a row with its row number.
    source: str
    item: pa.Table
    #: The number of items before it, over all sources.
    before: int
    #: The first wrong row.
    row: pa.Table
    runs: int

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "source": self.source,
            "item": next(plain_rows(self.item)),
            "before": self.before,
            "row": next(plain_rows(self.row)),
            "runs": self.runs,
        }


class Wrong:
    """Decides which result rows are wrong: rows that satisfy ``row``, or not ``expect``."""

    def __init__(self, row: str | None, expect: str | None) -> None:
        """Raises UsageError unless exactly one is given."""
        if (row is None) == (expect is None):
            raise UsageError("bisect needs either a condition on the wrong row or what to expect")
        self._text, self._is_expected = row or expect or "", row is None

    def first(self, runs: SliceRuns, plan: PhysicalPlan, rows: Slice | None) -> pa.Table | None:
        """Run a slice; its first wrong output row, or None."""
        condition = AnswerCondition(plan, self._text)
        for _, events in runs.events(rows):
            mask = condition.mask(events)
            wrong = np.flatnonzero(~mask if self._is_expected else mask)
            if len(wrong):
                return condition.shown(events.slice(int(wrong[0]), 1))
        return None


def bisect(
    root: str, *, row: str | None = None, expect: str | None = None, trust: bool = False
) -> Bisection:
    """Find the first input item with which a job's result has a wrong row.

    ``row`` is a SQL condition that wrong rows satisfy, ``expect`` one that right rows satisfy.

    Raises:
        NoSuchRowError: no result row is wrong.
        CannotReplayError: the query cannot run on a part of its input.
    """
    recorded = Recorded(JobRoot(root, trust=trust))
    plan, wrong = recorded.plan, Wrong(row, expect)
    runs = SliceRuns(plan, sinks_of(plan), recorded.store)
    rows = runs.load()
    order = _Order(rows)
    if wrong.first(runs, plan, rows) is None:
        raise NoSuchRowError("a run over all recorded input gives no wrong row")
    right, bad = 0, len(order)
    if wrong.first(runs, plan, order.prefix(0)) is not None:
        raise NoSuchRowError("the answer is wrong without any input")
    while bad - right > 1:
        middle = (right + bad) // 2
        if wrong.first(runs, plan, order.prefix(middle)) is None:
            right = middle
        else:
            bad = middle
    found = wrong.first(runs, plan, order.prefix(bad))
    assert found is not None
    source, item = order.item(right)
    return Bisection(source, shown_rows(item), right, found, runs.count)


def first_wrong_version(
    root: str,
    versions: Sequence[Query],
    *,
    row: str | None = None,
    expect: str | None = None,
    trust: bool = False,
) -> int:
    """Find the first version of a query whose result has a wrong row, by bisection.

    Raises:
        NoSuchRowError: the last version has no wrong row, or the first version has one.
    """
    recorded, wrong = Recorded(JobRoot(root, trust=trust)), Wrong(row, expect)

    def is_wrong(version: int) -> bool:
        plan = planned_again(recorded, versions[version])
        return wrong.first(SliceRuns(plan, sinks_of(plan), recorded.store), plan, None) is not None

    right, bad = 0, len(versions) - 1
    if not is_wrong(bad):
        raise NoSuchRowError("the last version gives no wrong row")
    if is_wrong(right):
        raise NoSuchRowError("the first version gives a wrong row, too: name an older one")
    while bad - right > 1:
        middle = (right + bad) // 2
        right, bad = (right, middle) if is_wrong(middle) else (middle, bad)
    return bad


class _Order:
    """One order of the rows of all sources that keeps the row order of each source."""

    def __init__(self, rows: Slice) -> None:
        self._rows, self._names = rows, list(rows)
        reached = [_reached(found) for found in rows.values()]
        which = np.concatenate([np.full(len(r), k) for k, r in enumerate(reached)])
        times = np.concatenate(reached)
        #: By position in the order: the index of the row's source.
        self._sources = which[np.lexsort((which, times))]

    def __len__(self) -> int:
        return len(self._sources)

    def prefix(self, count: int) -> Slice:
        """The first ``count`` rows."""
        taken = np.bincount(self._sources[:count], minlength=len(self._names))
        return {
            name: _head(self._rows[name], int(n))
            for name, n in zip(self._names, taken, strict=True)
        }

    def item(self, place: int) -> tuple[str, Rows]:
        """The source and the row at a position of the order."""
        source = int(self._sources[place])
        at = int((self._sources[:place] == source).sum())
        rows = self._rows[self._names[source]]
        return self._names[source], Rows(rows.numbers[at : at + 1], rows.batch.slice(at, 1))


def _head(rows: Rows, count: int) -> Rows:
    return Rows(rows.numbers[:count], rows.batch.slice(0, count))


def _reached(rows: Rows) -> np.ndarray:
    """For each row the greatest time up to and including it, int64[n]."""
    return np.maximum.accumulate(int64_column(rows.batch, VS))
