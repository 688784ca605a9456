"""What a match is asked for, as its operator gets it."""

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
#: "one" row per match; "all" rows per match; "all" and rows in no match.
Rows = Literal["one", "all", "unmatched"]


@dataclass(frozen=True, slots=True)
class Condition:
    """What has to be true of a row of a variable: ``test`` over columns ``leaf<i>``."""

    test: Evaluator
    leaves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of the result: ``value`` over columns ``leaf<i>``."""

    name: str
    type: pa.DataType
    value: Evaluator


@dataclass(frozen=True, slots=True)
class MatchParts:
    """A pattern per key, and what its matches give."""

    keys: tuple[str, ...]
    pattern: Pattern
    #: The variables by number, and the condition of each; None: any row.
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
        """How many rows before and behind a row are read."""
        moves = [leaf.move for leaf in (*self.condition_leaves, *self.measure_leaves)]
        return max([0, *(-move for move in moves)]), max([0, *moves])

    @property
    def asking(self) -> frozenset[int]:
        """The variables whose conditions look at more than the row and its neighbours."""
        found = set()
        for variable, condition in enumerate(self.conditions):
            leaves = () if condition is None else condition.leaves
            if not all(self.condition_leaves[i].is_of_row(variable) for i in leaves):
                found.add(variable)
        return frozenset(found)
