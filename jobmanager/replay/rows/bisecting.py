"""``bisect``: finds the input items, or the first version of a query, that make a wrong result.

Theory of operation. The items of all sources are sorted by the greatest time that their source has
reached. This keeps the row order of each source. A prefix of this order, followed by the end of the
input, has an answer. Its rows can be incomplete: a window without its later items, or a row of an
outer join without its partner. So a row of a prefix counts as wrong only if the whole answer has a
wrong row with the same start and keys. A row of one point in time does not grow, so all its columns
must be the same.

For one wrong row of the whole answer, bisection finds a k such that the row is wrong after k + 1
items and not after k. Both prefixes were run, so the result is certain. Rows that become wrong with
the same item have the same cause. The search continues with another wrong row. If a row is wrong,
right and wrong again, the found item is one of those with which it becomes wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from jobmanager.replay.errors import NoSuchRowError
from jobmanager.replay.newcode import planned_again
from jobmanager.replay.recorded import Recorded
from jobmanager.replay.rows.answer_rows import AnswerCondition
from jobmanager.replay.rows.slices import Rows, SliceRuns, sinks_of
from jobmanager.replay.rows.whys import shown_rows
from jobmanager.storage.root import JobRoot
from rstream.errors import UsageError
from rstream.items.batch import VE, VS, int64_column
from rstream.items.dictionaries import plain_array
from rstream.items.digest import content_hashes
from rstream.items.json_text import plain_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobmanager.replay.rows.slices import Slice
    from planner import Query
    from planner.physical.plan import PhysicalPlan

#: The most causes that one bisection searches.
CAUSES_MAX = 5


@dataclass(frozen=True, slots=True)
class Cause:
    """An input item with which rows of the answer become wrong."""

    #: The source vertex that reads the item, and the item as a row with its row number.
    source: str
    item: pa.Table
    #: The number of items before it, over all sources.
    before: int
    #: The first row that is wrong with it and not without it, and the number of such rows.
    row: pa.Table
    rows: int

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "source": self.source,
            "item": next(plain_rows(self.item)),
            "before": self.before,
            "row": next(plain_rows(self.row)),
            "rows": self.rows,
        }


@dataclass(frozen=True, slots=True)
class Bisection:
    """The input items with which the result becomes wrong."""

    #: In input order, at least one and at most ``causes_max``.
    causes: tuple[Cause, ...]
    #: The number of wrong rows of the answer.
    wrong_rows: int
    runs: int

    @property
    def unexplained(self) -> int:
        """The number of wrong rows that belong to none of the causes."""
        return self.wrong_rows - sum(cause.rows for cause in self.causes)

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON: the first cause, and all of them."""
        causes = [cause.to_json() for cause in self.causes]
        more = {"causes": causes, "wrong_rows": self.wrong_rows, "unexplained": self.unexplained}
        return {**causes[0], **more, "runs": self.runs}


class Wrong:
    """Decides which result rows are wrong: rows that satisfy ``row``, or not ``expect``."""

    def __init__(self, row: str | None, expect: str | None) -> None:
        """Take the condition. Raises UsageError unless exactly one is given."""
        if (row is None) == (expect is None):
            raise UsageError("bisect needs a condition on wrong rows, or one on right rows")
        self._text, self._is_expected = row or expect or "", row is None

    def rows(self, runs: SliceRuns, plan: PhysicalPlan, rows: Slice | None) -> Iterator[WrongRows]:
        """Run a slice of the input. Return the wrong rows of its result."""
        condition = AnswerCondition(plan, self._text)
        for _, events in runs.events(rows):
            wrong = pa.array(condition.mask(events, not_=self._is_expected))
            if wrong.true_count:
                wrong_rows = events.filter(wrong)
                yield WrongRows(condition.shown(wrong_rows), _names_of(plan, wrong_rows))


@dataclass(frozen=True, slots=True)
class WrongRows:
    """Wrong rows as the user reads them. ``names``: see :func:`_names_of`."""

    shown: pa.Table
    names: np.ndarray


def bisect(
    root: str,
    *,
    row: str | None = None,
    expect: str | None = None,
    output: str | None = None,
    causes_max: int = CAUSES_MAX,
    trust: bool = False,
) -> Bisection:
    """Find the input items with which a job's result has wrong rows.

    ``row`` is a SQL condition that wrong rows satisfy, ``expect`` one that right rows satisfy.

    Raises:
        NoSuchRowError: no result row is wrong.
        CannotReplayError: the query cannot run on a part of its input.
    """
    recorded = Recorded(JobRoot(root, trust=trust)).of_output(output)
    plan, wrong = recorded.plan, Wrong(row, expect)
    return _Search(plan, SliceRuns(plan, sinks_of(plan), recorded), wrong).found(causes_max)


class _Search:
    """Searches the causes of the wrong rows of one answer."""

    def __init__(self, plan: PhysicalPlan, runs: SliceRuns, wrong: Wrong) -> None:
        """Run the whole input. Raises NoSuchRowError: no row of the result is wrong."""
        self._plan, self._runs, self._wrong = plan, runs, wrong
        self._order = _Order(runs.load())
        whole = [rows.names for rows in wrong.rows(runs, plan, self._order.prefix(self._end))]
        if not whole:
            raise NoSuchRowError("a run over all recorded input returns no wrong row")
        self._all = np.concatenate(whole)

    @property
    def _end(self) -> int:
        return len(self._order)

    def found(self, causes_max: int) -> Bisection:
        """Return the causes of wrong rows, at most ``causes_max``."""
        causes: dict[int, Cause] = {}
        explained = np.empty(0, np.uint64)
        for _ in range(causes_max):
            left = self._all[~np.isin(self._all, explained)]
            if not len(left):
                break
            right = self._before(left[0])
            names = np.setdiff1d(self._wrong_after(right + 1), self._wrong_after(right))
            names = np.setdiff1d(names, explained)
            causes[right] = self._cause(right, names)
            explained = np.union1d(explained, names)
        ordered = tuple(causes[at] for at in sorted(causes))
        return Bisection(ordered, len(self._all), self._runs.count)

    def _before(self, name: np.uint64) -> int:
        """Return a number of items after which the row is right; with one more it is wrong."""
        right, bad = 0, self._end
        if self._is_wrong(name, right):
            raise NoSuchRowError("the result has this wrong row even without input")
        while bad - right > 1:
            middle = (right + bad) // 2
            if self._is_wrong(name, middle):
                bad = middle
            else:
                right = middle
        return right

    def _is_wrong(self, name: np.uint64, count: int) -> bool:
        """Run a prefix up to this row. Return whether the row is then wrong."""
        wrong_rows = self._wrong.rows(self._runs, self._plan, self._order.prefix(count))
        return any(name in rows.names for rows in wrong_rows)

    def _wrong_after(self, count: int) -> np.ndarray:
        """Run a prefix. Return its rows that are wrong in the whole result as well."""
        wrong_rows = self._wrong.rows(self._runs, self._plan, self._order.prefix(count))
        names = [rows.names for rows in wrong_rows]
        return np.intersect1d(np.concatenate([np.empty(0, np.uint64), *names]), self._all)

    def _cause(self, right: int, names: np.ndarray) -> Cause:
        source, item = self._order.item(right)
        for rows in self._wrong.rows(self._runs, self._plan, self._order.prefix(right + 1)):
            places = np.flatnonzero(np.isin(rows.names, names))
            if len(places):
                count = int(np.isin(self._all, names).sum())
                row = rows.shown.slice(int(places[0]), 1)
                return Cause(source, shown_rows(item), right, row, count)
        raise AssertionError(f"no wrong row after {right + 1} items")


def _names_of(plan: PhysicalPlan, events: pa.RecordBatch) -> np.ndarray:
    """Return a hash per row, uint64[n], of its start and partition keys.

    For a point in time it is the hash of all columns.
    """
    keys = {name for names in plan.partitioning.keys or () for name in names}
    kept = [VS, *(name for name in plan.schema.names if name in keys)]
    columns = [plain_array(events.column(name)) for name in kept]
    named = content_hashes(pa.RecordBatch.from_arrays(columns, names=kept))
    is_point = int64_column(events, VE) - int64_column(events, VS) == 1
    return np.where(is_point, content_hashes(events), named)


def first_wrong_version(
    root: str,
    versions: Sequence[Query],
    *,
    row: str | None = None,
    expect: str | None = None,
    output: str | None = None,
    trust: bool = False,
) -> int:
    """Find the first version of a query whose result has a wrong row, by bisection.

    Raises:
        NoSuchRowError: the last version has no wrong row, or the first version has one.
    """
    recorded, wrong = Recorded(JobRoot(root, trust=trust), to_run=False), Wrong(row, expect)

    def is_wrong(version: int) -> bool:
        plan = planned_again(recorded, versions[version], output)
        runs = SliceRuns(plan, sinks_of(plan), recorded)
        return any(True for _ in wrong.rows(runs, plan, None))

    right, bad = 0, len(versions) - 1
    if not is_wrong(bad):
        raise NoSuchRowError("the last version of the query returns no wrong row")
    if is_wrong(right):
        raise NoSuchRowError(
            "the first version of the query returns a wrong row, too: name an older one"
        )
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
        #: the source of the row at each position of the order
        self._sources = which[np.lexsort((which, times))]

    def __len__(self) -> int:
        return len(self._sources)

    def prefix(self, count: int) -> Slice:
        """Return the first ``count`` rows."""
        taken = np.bincount(self._sources[:count], minlength=len(self._names))
        return {
            name: _head(self._rows[name], int(n))
            for name, n in zip(self._names, taken, strict=True)
        }

    def item(self, place: int) -> tuple[str, Rows]:
        """Return the source and the row at this position of the order."""
        source = int(self._sources[place])
        at = int((self._sources[:place] == source).sum())
        rows = self._rows[self._names[source]]
        return self._names[source], Rows(rows.numbers[at : at + 1], rows.batch.slice(at, 1))


def _head(rows: Rows, count: int) -> Rows:
    return Rows(rows.numbers[:count], rows.batch.slice(0, count))


def _reached(rows: Rows) -> np.ndarray:
    """Return for each row the greatest time up to and including it, int64[n]."""
    return np.maximum.accumulate(int64_column(rows.batch, VS))
