"""The parameters of a match, as its operator gets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rstream.types import INF_TIME
from rvertex.operators.ordered.matching.rows import Skip

if TYPE_CHECKING:
    import pyarrow as pa

    from rvertex.operators.ordered.matching.navigation import Leaf
    from rvertex.operators.ordered.matching.pattern import Pattern
    from rvertex.operators.protocol import Evaluator

PAST_LAST_ROW = Skip()
#: The output: "one" row per match, "all" rows of a match, or "unmatched": all rows, and rows in no
#: match.
Rows = Literal["one", "all", "unmatched"]


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a variable: ``test`` over columns ``leaf<i>``."""

    test: Evaluator
    leaves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """An output column: ``value`` over columns ``leaf<i>``."""

    name: str
    type: pa.DataType
    value: Evaluator


@dataclass(frozen=True, slots=True)
class MatchParts:
    """What to match in the rows of each key, and what to emit for a match."""

    keys: tuple[str, ...]
    pattern: Pattern
    #: The variables' names and conditions, by variable number. None: the condition is always true.
    names: tuple[str, ...]
    conditions: tuple[Condition | None, ...]
    condition_leaves: tuple[Leaf, ...]
    measures: tuple[Measure, ...]
    measure_leaves: tuple[Leaf, ...]
    kept: tuple[str, ...]
    rows: Rows = "one"
    shows_empty: bool = True
    skip: Skip = PAST_LAST_ROW
    within_us: int = INF_TIME

    @property
    def context(self) -> tuple[int, int]:
        """How many rows before and after a row the leaves (row values in expressions) read."""
        moves = [leaf.move for leaf in (*self.condition_leaves, *self.measure_leaves)]
        return max([0, *(-move for move in moves)]), max([0, *moves])

    @property
    def asking(self) -> frozenset[int]:
        """The variables, by number, whose conditions read more than the row and its neighbours."""
        variables = set()
        for variable, condition in enumerate(self.conditions):
            leaves = () if condition is None else condition.leaves
            if not all(self.condition_leaves[i].is_of_row(variable) for i in leaves):
                variables.add(variable)
        return frozenset(variables)
