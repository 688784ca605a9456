"""Row patterns in a batch, over all rows of a key: backtracking, one row and condition at a time.

It shares only the program of a pattern and the expressions with the stream. A path is followed as
far as possible, the preferred one first, and abandoned when it fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.items.batch import VS, event_schema
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.spec import AggregateSpec
from rvertex.operators.ordered.matching.pattern import Accept, Fork, Take, compiled
from rvertex.operators.windows.hopping import gathering

if TYPE_CHECKING:
    from rvertex.operators.ordered.matching.match import MatchRows
    from rvertex.operators.ordered.matching.navigation import Leaf

#: The variable of each row of a match, and whether it is excluded.
Mapped = list[tuple[int, bool]]


def match_rows(spec: MatchRows, events: pa.RecordBatch) -> pa.RecordBatch:
    """Return the output rows of all matches in the rows of a key, in the order of their rows."""
    key = _Key(spec, events)
    key.search()
    payload = pa.schema(list(events.schema)[2:])
    schema = event_schema(spec.output_schema([payload]))
    columns = list(zip(*key.rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Key:
    def __init__(self, spec: MatchRows, events: pa.RecordBatch) -> None:
        self._spec, self._events = spec, events
        self._program = compiled(spec.pattern)
        self._times: list[int] = events.column(VS).to_pylist()
        self._payload = pa.schema(list(events.schema)[2:])
        self._matches = 0
        self.rows: list[list[Any]] = []

    def search(self) -> None:
        """Look for matches from the first row on."""
        covered = at = 0
        while at < len(self._times):  # terminates: ``at`` grows
            mapped = self._best(at)
            if mapped is None:
                if at >= covered and self._spec.rows == "unmatched":
                    self._emit(at, at, [None] * len(self._spec.measures))
                at += 1
                continue
            self._matches += 1
            self._add_match(at, mapped)
            covered = max(covered, at + len(mapped))
            takes = [variable for variable, _ in mapped]
            at += self._spec.skip.after(takes, lambda variable: variable)

    def _best(self, start: int) -> Mapped | None:
        paths: list[tuple[int, Mapped, frozenset[int]]] = [(0, [], frozenset())]
        while paths:  # terminates: a path maps one more row, and repeats no loop
            at, mapped, visited = paths.pop()
            match self._program[at]:
                case Accept():
                    return mapped
                case Fork(targets) if at not in visited:
                    paths += [(to, mapped, visited | {at}) for to in reversed(targets)]
                case Take(variable, is_excluded):
                    longer = [*mapped, (variable, is_excluded)]
                    if self._fits(start, longer):
                        paths.append((at + 1, longer, frozenset()))
                case _:
                    pass
        return None

    def _fits(self, start: int, mapped: Mapped) -> bool:
        last = start + len(mapped) - 1
        if last >= len(self._times):
            return False
        if self._times[last] - self._times[start] > self._spec.within_us:
            return False
        condition = self._spec.conditions[mapped[-1][0]]
        if condition is None:
            return True
        leaves = {i: self._spec.condition_leaves[i] for i in condition.leaves}
        row = self._row(leaves, start, mapped, len(mapped), self._matches + 1)
        return condition.test.evaluate(row)[0].as_py() is True

    def _add_match(self, start: int, mapped: Mapped) -> None:
        spec = self._spec
        last = start + max(len(mapped) - 1, 0)
        if spec.rows == "one":
            ends = [len(mapped)]
        else:
            ends = [i + 1 for i, (_, is_excluded) in enumerate(mapped) if not is_excluded]
            ends = ends if mapped or not spec.shows_empty else [0]
        for end in ends:
            leaves = dict(enumerate(spec.measure_leaves))
            row = self._row(leaves, start, mapped, end, self._matches)
            values = [measure.value.evaluate(row)[0] for measure in spec.measures]
            at = start if spec.rows == "one" else start + max(end - 1, 0)
            self._emit(last, at, values)

    def _emit(self, last: int, at: int, values: list[Any]) -> None:
        time = self._times[last]
        kept = [self._events.column(name)[at] for name in self._spec.kept]
        self.rows.append([time, time + 1, *kept, *values])

    def _row(
        self, leaves: dict[int, Leaf], start: int, mapped: Mapped, end: int, match: int
    ) -> pa.RecordBatch:
        """Return the row values ``leaves`` of expressions over a match's first ``end`` rows."""
        made: dict[str, pa.Array] = {}
        for i, leaf in leaves.items():
            upto = len(mapped) if leaf.is_final else end
            made[f"leaf{i}"] = self._leaf(leaf, start, mapped, upto, match)
        arrays = [*made.values(), pa.nulls(1)]
        return pa.RecordBatch.from_arrays(arrays, names=[*made, "count"])

    def _leaf(self, leaf: Leaf, start: int, mapped: Mapped, end: int, match: int) -> pa.Array:
        if leaf.kind == "match_number":
            return pa.array([match], leaf.type)
        places = [
            start + i
            for i, (variable, _) in enumerate(mapped[:end])
            if leaf.variables is None or variable in leaf.variables
        ]
        if leaf.kind == "aggregate":
            return self._aggregated(leaf, places)
        places = places if leaf.from_first else places[::-1]
        if leaf.offset >= len(places):
            return pa.nulls(1, leaf.type)
        at = places[leaf.offset]
        if leaf.kind == "classifier":
            return pa.array([self._spec.names[mapped[at - start][0]]], leaf.type)
        at += leaf.move
        if not 0 <= at < len(self._times):
            return pa.nulls(1, leaf.type)
        return self._events.column(leaf.column).slice(at, 1)

    def _aggregated(self, leaf: Leaf, places: list[int]) -> pa.Array:
        if not places:
            is_count = leaf.function in ("count", "count_distinct")
            return pa.array([0 if is_count else None], leaf.type)
        spec = AggregateSpec(leaf.function, leaf.column, "made", leaf.argument)
        grouping, needed, _, finish = gathering((), (spec,), self._payload)
        rows = self._events.select(needed.names).take(pa.array(places))
        lanes: list[pa.Array] = []
        for accumulator in grouping.accumulators():
            accumulator.update(Rows(pa.array([0] * len(places)).to_numpy(), 1, rows))
            lanes += accumulator.columns()
        return finish(lanes)[0]
