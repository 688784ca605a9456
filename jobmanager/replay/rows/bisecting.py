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
from jobmanager.replay.rows.slices import Rows, SliceRuns
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
    """The item after which the answer is wrong."""

    #: The source vertex that reads it, and the item as a row with its number.
    source: str
    item: pa.Table
    #: How many items of all sources come before it.
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
    """Which rows are wrong: rows that satisfy a condition, or rows that do not."""

    def __init__(self, row: str | None, expect: str | None) -> None:
        """Raises UsageError unless exactly one is given."""
        if (row is None) == (expect is None):
            raise UsageError("bisect needs either a condition on the wrong row or what to expect")
        self._text, self._is_expected = row or expect or "", row is None

    def first(self, runs: SliceRuns, plan: PhysicalPlan, rows: Slice | None) -> pa.Table | None:
        """The first wrong row that a slice gives."""
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
    """Find the first input item after which the answer of a job has a wrong row.

    ``row`` is a SQL condition that wrong rows satisfy, ``expect`` one that right rows satisfy.

    Raises:
        NoSuchRowError: no row of the answer is wrong.
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
    """Find the first version of a query whose answer has a wrong row, by halving.

    Raises:
        NoSuchRowError: the last one has none, or the first one has one.
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


def sinks_of(plan: PhysicalPlan) -> list[str]:
    """The vertices that write the answer."""
    return [v.id for v in plan.vertices if any(edge.is_sink for edge in v.outputs)]


class _Order:
    """The rows of all sources in one order that keeps the order of each."""

    def __init__(self, rows: Slice) -> None:
        self._rows, self._names = rows, list(rows)
        reached = [_reached(found) for found in rows.values()]
        which = np.concatenate([np.full(len(r), k) for k, r in enumerate(reached)])
        times = np.concatenate(reached)
        #: By place in the order, the index of the source.
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
        """The row at a place, with its source."""
        source = int(self._sources[place])
        at = int((self._sources[:place] == source).sum())
        rows = self._rows[self._names[source]]
        return self._names[source], Rows(rows.numbers[at : at + 1], rows.batch.slice(at, 1))


def _head(rows: Rows, count: int) -> Rows:
    return Rows(rows.numbers[:count], rows.batch.slice(0, count))


def _reached(rows: Rows) -> np.ndarray:
    """The greatest time of each row and all before it, int64[n]."""
    return np.maximum.accumulate(int64_column(rows.batch, VS))
