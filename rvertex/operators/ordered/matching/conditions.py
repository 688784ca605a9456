"""Evaluates which variables each row may be mapped to: bits of one integer, the row's *symbol*.

Conditions on a row and its neighbours alone are evaluated for all rows of a run at once. Conditions
on earlier rows of the match depend on the search. Their bits are always set, and they are evaluated
when a search reaches the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.events.arrays import as_one_array
from rvertex.operators.ordered.matching.navigation import Reader, Spans
from rvertex.operators.ordered.matching.pattern import VARIABLES_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rvertex.operators.ordered.matching.automaton import Automaton
    from rvertex.operators.ordered.matching.navigation import Leaf
    from rvertex.operators.ordered.matching.pool import Segments
    from rvertex.operators.ordered.matching.rows import KeyRows
    from rvertex.operators.ordered.matching.spec import Condition, MatchParts
    from rvertex.operators.ordered.matching.store import RowStore
    from rvertex.operators.ordered.matching.threads import Link, Question


class Conditions:
    """The conditions of a pattern's variables."""

    def __init__(
        self,
        spec: MatchParts,
        asking: frozenset[int],
        automaton: Automaton,
        rows: pa.Schema,
        store: RowStore,
    ) -> None:
        assert len(spec.names) <= VARIABLES_MAX, spec.names
        self._spec, self._store, self._variable_of = spec, store, automaton.variable_of
        known = [
            (variable, condition)
            for variable, condition in enumerate(spec.conditions)
            if condition is not None and variable not in asking
        ]
        self._known: list[tuple[int, Condition]] = known
        self._always = (1 << len(spec.names)) - 1 - sum(1 << variable for variable, _ in known)
        of_known = {i for _, condition in known for i in condition.leaves}
        self._leaves = {i: spec.condition_leaves[i] for i in sorted(of_known)}
        moves = [0, *(leaf.move for leaf in self._leaves.values())]
        #: How many rows before a row these conditions read, and how many rows after it any
        #: expression reads.
        self._before, self._behind = -min(moves), spec.context[1]
        #: Whether these conditions read only the row itself.
        self.is_by_row = not self._behind and not self._before
        payload = pa.schema(list(rows)[2:])
        self._readers = {
            variable: Reader(_picked(spec, variable), spec.names, payload) for variable in asking
        }

    def of_fresh(self, rows: pa.RecordBatch, order: np.ndarray) -> np.ndarray | None:
        """Return the symbols of new rows, in this order; None: a condition reads neighbours."""
        if not self.is_by_row:
            return None
        columns = {i: rows.column(leaf.column) for i, leaf in self._leaves.items()}
        symbols: np.ndarray = self._symbols(columns, rows.num_rows)[order]
        return symbols

    def add_symbols(self, rows: Segments, fresh: np.ndarray) -> None:
        """Compute the symbols of the rows ``fresh`` of segments, unless :meth:`of_fresh` did it."""
        if not self.is_by_row and len(fresh):
            first = np.repeat(rows.start, rows.sizes)
            rows.symbols[fresh] = self._symbols(self._moved(rows.numbers, first, fresh), len(fresh))

    def know(self, keys: Collection[KeyRows], *, is_end: bool) -> None:
        """Compute the symbols of rows whose neighbours have arrived. ``is_end``: no more arrive."""
        if self.is_by_row:
            return
        numbers: list[int] = []
        first: list[int] = []
        fresh: list[int] = []
        changed: list[tuple[KeyRows, int]] = []
        for rows in keys:
            known = len(rows.symbols)
            upto = len(rows.numbers) if is_end else len(rows.numbers) - self._behind
            if upto <= known:
                continue
            begin = max(0, known - self._before)
            at = len(numbers)
            numbers += rows.numbers[begin:]
            first += [at] * (len(rows.numbers) - begin)
            fresh += range(at + known - begin, at + upto - begin)
            changed.append((rows, upto - known))
        if not fresh:
            return
        arrays = (np.array(values, np.int64) for values in (numbers, first, fresh))
        symbols = self._symbols(self._moved(*arrays), len(fresh)).tolist()
        at = 0
        for rows, count in changed:
            rows.symbols += symbols[at : at + count]
            at += count

    def answers(self, questions: Sequence[Question]) -> list[bool]:
        """Evaluate the condition of each question."""
        answers = [False] * len(questions)
        by_variable: dict[int, list[int]] = {}
        for i, question in enumerate(questions):
            by_variable.setdefault(self._variable_of(question.link[2]), []).append(i)
        for variable, places in by_variable.items():
            condition = self._spec.conditions[variable]
            assert condition is not None, variable
            spans = self._spans([questions[i] for i in places])
            batch = self._readers[variable].columns(spans, self._store)
            names = [*(f"leaf{i}" for i in condition.leaves), "count"]
            renamed = pa.RecordBatch.from_arrays(batch.columns, names=names)
            true = _is_true(condition.test.evaluate(renamed))
            for i, answer in zip(places, true.tolist(), strict=True):
                answers[i] = answer
        return answers

    def _spans(self, questions: Sequence[Question]) -> Spans:
        """Return, per question, the rows of its thread as a span."""
        before, behind = self._spec.context
        numbers: list[int] = []
        labels: list[int] = []
        low: list[int] = []
        high: list[int] = []
        match: list[int] = []
        for rows, link in questions:
            first, last = rows.begin, rows.begin + link[1] - 1
            mapped: list[int] = []
            at: Link | None = link
            while at is not None:  # ends: a link leads to earlier rows, and there are finitely many
                mapped.append(self._variable_of(at[2]))
                at = at[0]
            lo, hi = first - before, last + 1 + behind
            known = rows.numbers[max(lo, 0) : hi]
            known = [-1] * max(-lo, 0) + known
            numbers += known + [-1] * (hi - lo - len(known))
            labels += [-1] * before
            low.append(len(labels))
            labels += reversed(mapped)
            high.append(len(labels))
            labels += [-1] * behind
            match.append(rows.matches + 1)
        ends = np.array(high, np.int64)
        return Spans(
            np.array(numbers, np.int64),
            np.array(labels, np.int64),
            np.array(low, np.int64),
            ends,
            ends,
            np.array(match, np.int64),
        )

    def _moved(
        self, numbers: np.ndarray, starts: np.ndarray, at: np.ndarray
    ) -> dict[int, pa.Array]:
        """Return the columns that the conditions read, for the rows at positions ``at``."""
        places = self._store.places(numbers)
        table = self._store.table()
        columns: dict[int, pa.Array] = {}
        for i, leaf in self._leaves.items():
            moved = at + leaf.move
            is_there = (moved >= 0) & (moved < len(places))
            moved = np.where(is_there, moved, 0)
            is_there &= starts[moved] == starts[at]
            taken = table.column(leaf.column).take(pa.array(places[moved], mask=~is_there))
            columns[i] = as_one_array(taken)
        return columns

    def _symbols(self, columns: dict[int, pa.Array], rows: int) -> np.ndarray:
        """Evaluate the conditions that are known in advance, and return the symbols."""
        symbols = np.full(rows, self._always, np.int64)
        names = [*(f"leaf{i}" for i in columns), "count"]
        batch = pa.RecordBatch.from_arrays([*columns.values(), pa.nulls(rows)], names=names)
        for variable, condition in self._known:
            symbols |= _is_true(condition.test.evaluate(batch)).astype(np.int64) << variable
        return symbols


def _picked(spec: MatchParts, variable: int) -> list[Leaf]:
    """Return the row values (leaves) that the condition of ``variable`` reads."""
    condition = spec.conditions[variable]
    assert condition is not None, variable
    return [spec.condition_leaves[i] for i in condition.leaves]


def _is_true(values: pa.Array) -> np.ndarray:
    """Return whether each value is true; null is not."""
    filled = pc.fill_null(values, False)
    is_true: np.ndarray = filled.to_numpy(zero_copy_only=False)
    return is_true.astype(bool)
