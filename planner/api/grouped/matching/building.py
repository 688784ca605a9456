"""Builds the plan of a match: variables become numbers, and values of rows become columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.api import names as naming
from planner.api.agg import Ordering, asc
from planner.api.grouped.aggregation import free_column
from planner.api.grouped.matching.pattern_text import read_pattern
from planner.api.grouped.ordering import ordered
from planner.durations import positive_duration_us
from planner.errors import InvalidPlanError
from planner.expressions.functions.of_rows.row_patterns import ROW_PATTERN
from planner.expressions.nodes import Call, Column, Node, cast_to, checked_name
from planner.logical.event_time import is_start
from planner.logical.nodes import LogicalNode, Match, Project, identity_columns
from rstream.types import INF_TIME
from rvertex.operators.ordered.matching.match import MatchRows
from rvertex.operators.ordered.matching.navigation import Leaf
from rvertex.operators.ordered.matching.pattern import compiled, has_exclusion
from rvertex.operators.ordered.matching.rows import Skip
from rvertex.operators.ordered.matching.spec import Condition, Measure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.api.agg import OrderLike
    from planner.api.expressions import Expr, ExprLike
    from planner.durations import Duration
    from rvertex.operators.ordered.matching.pattern import Pattern
    from rvertex.operators.ordered.matching.spec import Rows

#: For each value of ``rows``: which rows are emitted, and whether empty matches are.
ROWS: dict[str, tuple[Rows, bool]] = {
    "one": ("one", True),
    "all": ("all", True),
    "all_without_empty": ("all", False),
    "all_with_unmatched": ("unmatched", True),
}
_SKIPS = ("past_last_row", "to_next_row", "to_first", "to_last")


@dataclass(frozen=True, slots=True)
class MatchRequest:
    """The arguments of a match; see :meth:`Stream.match`."""

    pattern: str
    keys: Sequence[str]
    order: Sequence[OrderLike]
    define: Mapping[str, Expr]
    measures: Mapping[str, ExprLike]
    rows: str
    after: str
    within: Duration | None
    subset: Mapping[str, Sequence[str]]


def match_node(below: LogicalNode, request: MatchRequest) -> LogicalNode:
    """Return the plan of a match.

    Raises:
        InvalidPlanError: an argument names something that does not exist, or is not possible.
    """
    for key in request.keys:
        naming.require(below.schema, key, "match")
        naming.require_groupable(key, Column(key, below.schema.field(key).type))
    pattern, variables = read_pattern(request.pattern)
    names = _Variables(variables, request.subset)
    plan = _ordered(below, request)
    reading = _Reading(plan, names)
    conditions: list[Condition | None] = [None] * len(variables)
    for name, value in request.define.items():
        conditions[names.defined(name)] = reading.condition(name, value)
    condition_leaves, reading.leaves = tuple(reading.leaves), []
    measures = tuple(reading.measure(name, value) for name, value in request.measures.items())
    rows, shows_empty = _rows_of(request, pattern)
    kept = tuple(request.keys) if rows == "one" else tuple(below.schema.names)
    naming.require_distinct([*kept, *request.measures], "match")
    compiled(pattern)  # raises if the pattern is too large
    spec = MatchRows(
        keys=tuple(request.keys),
        pattern=pattern,
        names=variables,
        conditions=tuple(conditions),
        condition_leaves=condition_leaves,
        measures=measures,
        measure_leaves=tuple(reading.leaves),
        kept=kept,
        rows=rows,
        shows_empty=shows_empty,
        skip=_skip_of(request.after, names),
        within_us=INF_TIME
        if request.within is None
        else positive_duration_us(request.within, what="within"),
    )
    inputs = tuple(reading.inputs.items())
    is_changed = len(inputs) > len(plan.schema)
    made: LogicalNode = Match(
        Project(plan, inputs) if is_changed else plan, spec, " ".join(request.pattern.split())
    )
    return made


def _ordered(below: LogicalNode, request: MatchRequest) -> LogicalNode:
    """Sort the rows: by start, then by ``order_by``, then in the order of the stream."""
    order = list(request.order)
    if order:
        first = order[0] if isinstance(order[0], Ordering) else asc(order[0])
        node = naming.resolved(first.expr, below.schema)
        if not is_start(below, node):
            raise InvalidPlanError(
                f"match(order_by={node}): rows are matched in order of time; list the "
                "stream's time first, or leave it out, then the columns that order rows "
                "of the same time"
            )
        if first.is_descending:
            raise InvalidPlanError(f"match(order_by={node}): the order of time must be ascending")
    return ordered(below, order[1:], tuple(request.keys)) if order[1:] else below


def _rows_of(request: MatchRequest, pattern: Pattern) -> tuple[Rows, bool]:
    if request.rows not in ROWS:
        known = ", ".join(map(repr, ROWS))
        raise InvalidPlanError(f"match(rows={request.rows!r}): choose one of {known}")
    rows, shows_empty = ROWS[request.rows]
    if rows == "unmatched" and has_exclusion(pattern):
        raise InvalidPlanError(
            "match(): a pattern that leaves rows out by {- -} cannot return unmatched rows"
        )
    if not request.measures and not request.keys and rows == "one":
        raise InvalidPlanError("match() returns no columns; add a measure")
    return rows, shows_empty


class _Variables:
    """The variables of a pattern and their subsets."""

    def __init__(self, names: Sequence[str], subsets: Mapping[str, Sequence[str]]) -> None:
        self._numbers: dict[str, tuple[int, ...]] = {
            name: (number,) for number, name in enumerate(names)
        }
        for name, parts in subsets.items():
            if self._known(name) is not None:
                raise InvalidPlanError(f"subset {name!r}: there is already a variable of that name")
            members = sorted({self.defined(part) for part in parts})
            if not members:
                raise InvalidPlanError(f"subset {name!r} has no variables")
            self._numbers[name] = tuple(members)

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return the numbers of a name's variables: one, or those of a subset."""
        known = self._known(name)
        if known is None:
            near = get_close_matches(name, self._numbers, n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise InvalidPlanError(
                f"no variable {name!r} in the pattern{hint} The variables are: "
                f"{', '.join(self._numbers)}"
            )
        return self._numbers[known]

    def defined(self, name: str) -> int:
        """Return the number of a name that is a variable, not a subset."""
        numbers = self.numbers(name)
        if len(numbers) > 1:
            raise InvalidPlanError(f"{name!r} is a subset; define the variables in it")
        return numbers[0]

    def _known(self, name: str) -> str | None:
        """Return the name as the pattern spells it; case is ignored if only one name matches."""
        if name in self._numbers:
            return name
        similar = [known for known in self._numbers if known.upper() == name.upper()]
        return similar[0] if len(similar) == 1 else None


@dataclass
class _Reading:
    """Collects the row values that conditions and measures read; each becomes a *leaf* column."""

    below: LogicalNode
    names: _Variables
    leaves: list[Leaf] = field(default_factory=list)
    inputs: dict[str, Node] = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = dict(identity_columns(self.below.schema))

    def condition(self, name: str, value: Expr) -> Condition:
        """Return the condition of variable ``name``, with leaf columns for the row values."""
        node = naming.resolved(value, self.below.schema)
        if node.type == pa.null():
            node = cast_to(node, pa.bool_())
        if node.type != pa.bool_():
            raise InvalidPlanError(f"define {name}: {node} is {node.type}, not bool")
        test = self._read(node, f"define {name}", is_condition=True)
        used = dict.fromkeys(int(column.removeprefix("leaf")) for column in test.columns())
        return Condition(test, tuple(used))

    def measure(self, name: str, value: ExprLike) -> Measure:
        """Return the measure ``name``, with leaf columns for the row values."""
        checked_name(name)
        node = naming.resolved(value, self.below.schema)
        if node.type is None or pa.types.is_null(node.type):
            raise InvalidPlanError(f"measure {name!r} is always null; cast it to a type")
        read = self._read(node, f"measure {name!r}", is_condition=False)
        return Measure(name, node.type, read)

    def _read(self, node: Node, where: str, *, is_condition: bool) -> Node:
        """Replace each reference to a row's value in an expression by a leaf column."""
        if isinstance(node, Column):
            return self._leaf(Leaf("row", _type_of(node), None, node.name))
        if not isinstance(node, Call):
            return node
        if node.function != ROW_PATTERN:
            args = (self._read(arg, where, is_condition=is_condition) for arg in node.args)
            return replace(node, args=tuple(args))
        options = dict(node.options)
        if is_condition and options.get("semantics") == "final":
            raise InvalidPlanError(
                f"{where}: FINAL is for measures; a condition reads only the rows so far"
            )
        return self._leaf(self._of_call(node, options, where))

    def _of_call(self, node: Call, options: dict[str, object], where: str) -> Leaf:
        kind, type_ = options["kind"], _type_of(node)
        if kind == "match_number":
            return Leaf("match_number", type_)
        variable = options["variable"]
        variables = None if variable is None else self.names.numbers(str(variable))
        is_final = options["semantics"] == "final"
        if kind == "classifier":
            return Leaf("classifier", type_, variables, is_final=is_final)
        column = self._column(node.args[0], where) if node.args else None
        if kind == "row":
            offset, move = options["offset"], options["move"]
            assert isinstance(offset, int), offset
            assert isinstance(move, int), move
            return Leaf(
                *("row", type_, variables, column, bool(options["from_first"])),
                *(offset, move, is_final),
            )
        function, argument = str(options["function"]), options["argument"]
        if node.args:
            naming.require_aggregable(function, where, node.args[0])
        return Leaf(
            *("aggregate", type_, variables, column),
            is_final=is_final,
            function=function,
            argument=argument,  # type: ignore[arg-type]
        )

    def _column(self, node: Node, where: str) -> str:
        """Return the input column with the value of ``node`` per row; add it if it is missing."""
        if _reads_pattern(node):
            raise InvalidPlanError(f"{where}: {node} is nested in another value of a row")
        if isinstance(node, Column):
            return node.name
        known = next((name for name, have in self.inputs.items() if have == node), None)
        if known is None:
            known = free_column("read", [*self.inputs])
            self.inputs[known] = node
        return known

    def _leaf(self, leaf: Leaf) -> Node:
        if leaf not in self.leaves:
            self.leaves.append(leaf)
        return Column(f"leaf{self.leaves.index(leaf)}", leaf.type)


def _skip_of(after: str, names: _Variables) -> Skip:
    words = after.split(maxsplit=1)
    word = words[0].lower() if words else ""
    if word not in _SKIPS or (len(words) == 2) != word.startswith(("to_first", "to_last")):
        raise InvalidPlanError(
            f"match(after_match={after!r}): choose 'past_last_row', 'to_next_row', 'to_first A' or "
            "'to_last A'"
        )
    if len(words) == 1:
        return Skip("past" if word == "past_last_row" else "next")
    name = words[1].strip()
    return Skip(word.removeprefix("to_"), names.numbers(name), name)


def _type_of(node: Column | Call) -> pa.DataType:
    assert node.type is not None, node
    return node.type


def _reads_pattern(node: Node) -> bool:
    if not isinstance(node, Call):
        return False
    return node.function == ROW_PATTERN or any(map(_reads_pattern, node.args))
