"""The expression trees in plans: columns, literals and calls of named functions.

Users write them with :mod:`planner.api.expressions`. Here they are plain frozen data with
structural equality, a stable ``repr`` and no code inside, so they can be pickled, compared and
hashed. A tree is *resolved* against a schema once, at plan time: every node then has its type, and
implicit conversions are explicit calls of ``cast``, so evaluation makes no decisions.

Invariants: (1) ``resolve(n, s).evaluate(b)`` has type ``resolve(n, s).type`` for every batch of
schema ``s``; (2) evaluation is per row and single-threaded, so batch sizes do not change it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from planner.durations import format_us
from planner.errors import (
    EvaluationError,
    ExpressionTypeError,
    InvalidPlanError,
    UnknownColumnError,
)
from planner.expressions.failure import failing_rows, failure, hint_for
from planner.expressions.rows import Needed, Rows, Value as Value, operands
from planner.expressions.types import literal_type, plain
from rstream.items.batch import RESERVED, VE, VS
from rstream.items.dictionaries import is_dictionary, plain_array
from rvertex.state.doing import doing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


LiteralValue = None | bool | int | float | str | bytes | Decimal | datetime | date | timedelta
#: A plain value, a ``pa.DataType`` or a tuple of literals.
OptionValue: TypeAlias = Any
Options = tuple[tuple[str, OptionValue], ...]
#: The name of calls of user functions, which are in the option ``code``.
USER = "user"


#: Sets the type of a call whose arguments are resolved, and adds casts; None: the types are wrong.
Resolver: TypeAlias = "Callable[[Call], Node | None]"
Evaluation: TypeAlias = "Callable[[Sequence[Value], Call], Value]"


@dataclass(frozen=True, slots=True)
class Function:
    """A named function of columns. ``symbol`` is its name in error messages."""

    symbol: str
    resolve: Resolver
    evaluate: Evaluation
    show: Callable[[Call], str]
    #: The rows on which each operand is needed; None: all operands on all rows.
    needed: Needed | None = None
    #: A function that writes the call in Spark SQL, given its arguments in SQL; or a template.
    spark: Callable[..., str] | str = ""
    #: The least and the greatest integer result.
    bounds: tuple[int, int] | None = None
    #: Whether the function fails on some values, besides overflows.
    may_fail: bool = False
    #: The function's names in SQL; see :class:`planner.expressions.entries.family.Sql`.
    sql: tuple[Any, ...] = ()
    python: Any = None
    #: Examples in SQL with their values.
    examples: tuple[tuple[str, Any], ...] = ()


#: The functions by name; the package :mod:`planner.expressions.functions` fills it.
REGISTRY: dict[str, Function] = {}


#: A row without columns, to evaluate constants. Made of bytes, because the first conversion of a
#: Python value lets Arrow import pandas, which commands that show help do not need.
ONE_ROW = pa.RecordBatch.from_arrays(
    [pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(bytes(8))])], names=[VS]
)


class Node:
    """A node of an expression tree; operators use it as their ``Evaluator``."""

    __slots__ = ()
    type: pa.DataType | None

    def value(self, batch: pa.RecordBatch) -> Value:
        """Return the value per row, or a scalar if all rows have the same; the node is resolved."""
        raise NotImplementedError

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Return one value per row of ``batch``; resolve the tree first if it is not resolved."""
        return evaluate_all((self,), batch)[0]

    def evaluate_with(self, others: Sequence[Node], batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the values of this node and of ``others``; common parts are computed once."""
        return evaluate_all((self, *others), batch)

    def failures(self, batch: pa.RecordBatch) -> dict[int, str]:
        """Return the failing rows with their reasons, at about the cost of evaluating the node."""
        tree = self if self.type is not None else resolve(self, batch.schema)
        return failing_rows(tree, batch, function_of)

    def output_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the values over rows of ``schema``.

        Raises:
            UnknownColumnError: a column does not exist.
            ExpressionTypeError: an operator does not take the types of its arguments.
        """
        resolved = resolve(self, schema).type
        assert resolved is not None
        return resolved

    def columns(self) -> tuple[str, ...]:
        """Return the columns that the node reads, in order of first use."""
        names: dict[str, None] = {}
        _collect_columns(self, names)
        return tuple(names)


@dataclass(frozen=True, slots=True)
class Column(Node):
    """A column of the input."""

    name: str
    type: pa.DataType | None = None

    def value(self, batch: pa.RecordBatch) -> Value:
        column = batch.column(self.name)
        is_carried = is_dictionary(column.type) and column.type != self.type
        return plain_array(column) if is_carried else column

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """One value for all rows."""

    literal: LiteralValue
    type: pa.DataType | None = None

    def __eq__(self, other: object) -> bool:
        """Compare type and sign, too: in Python 0.0 equals -0.0, and 1 equals True."""
        if not isinstance(other, Literal):
            return NotImplemented
        return self.type == other.type and repr(self.literal) == repr(other.literal)

    def __hash__(self) -> int:
        return hash((self.literal, self.type))

    def value(self, batch: pa.RecordBatch) -> Value:
        return pa.scalar(self.literal, self.type)

    def __str__(self) -> str:
        if isinstance(self.literal, str):
            return '"' + self.literal.replace('"', '\\"') + '"'
        if isinstance(self.literal, datetime | date):
            return self.literal.isoformat()
        if isinstance(self.literal, timedelta):
            return format_us(self.literal // timedelta(microseconds=1))
        return "null" if self.literal is None else str(self.literal)


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of :data:`planner.expressions.functions.FUNCTIONS` applied to ``args``."""

    function: str
    args: tuple[Node, ...]
    options: Options = ()
    type: pa.DataType | None = None

    def value(self, batch: pa.RecordBatch) -> Value:
        return batch.value_of(self) if isinstance(batch, Rows) else self.computed(batch)

    def computed(self, batch: pa.RecordBatch | Rows) -> Value:
        """Compute the value now, without a cache."""
        function = function_of(self)
        values = self._operands(function, batch)
        doing().expression = self
        try:
            return function.evaluate(values, self)
        except MemoryError:
            raise
        except (pa.ArrowException, OverflowError, EvaluationError) as error:
            if isinstance(batch, Rows) and batch.failing is not None:
                return batch.failing.failed(self, values, error)
            if isinstance(error, EvaluationError):
                raise
            if isinstance(batch, Rows) and batch.is_trial:
                raise EvaluationError(self.function, "") from None
            again = lambda part: function.evaluate(part, self)  # noqa: E731
            reason = failure(error, values, again, batch) + hint_for(self)
            raise EvaluationError(str(self), reason) from None

    def _operands(self, function: Function, batch: Any) -> list[Value]:
        is_trial = isinstance(batch, Rows) and batch.is_trial
        if function.needed is None or is_trial or not _has_call(self.args):
            return [arg.value(batch) for arg in self.args]
        return operands(self, function.needed, batch, calls_user=calls_user(self))

    def option(self, name: str) -> OptionValue:
        """Return the value of an option that the function always has."""
        return dict(self.options)[name]

    def __str__(self) -> str:
        return function_of(self).show(self)


def evaluate_all(nodes: Sequence[Node], batch: pa.RecordBatch) -> list[pa.Array]:
    """Return one array per node, with one value per row; equal calls are computed once."""
    trees = [n if n.type is not None else resolve(n, batch.schema) for n in nodes]
    repeated = _repeated(tuple(trees))
    rows: Any = Rows(batch, repeated) if repeated else batch
    arrays = []
    for tree in trees:
        assert tree.type is not None
        arrays.append(as_array(tree.value(rows), batch.num_rows, tree.type))
    doing().expression = None
    return arrays


@functools.lru_cache(maxsize=1024)
def _repeated(trees: tuple[Node, ...]) -> frozenset[Call]:
    """Return the calls that occur more than once in the trees."""
    visited: set[Call] = set()
    repeated: set[Call] = set()
    todo = list(trees)
    while todo:  # terminates: trees are finite
        node = todo.pop()
        if not isinstance(node, Call):
            continue
        if node in visited:
            repeated.add(node)
        else:
            visited.add(node)
            todo += node.args
    return frozenset(repeated)


def _has_call(nodes: Sequence[Node]) -> bool:
    return any(not isinstance(node, Column | Literal) for node in nodes)


def _has_columns(node: Node) -> bool:
    if isinstance(node, Call):
        return any(map(_has_columns, node.args))
    return not isinstance(node, Literal) and bool(node.columns())


def calls_user(node: Node) -> bool:
    """Return whether the node calls user code."""
    if not isinstance(node, Call):
        return False
    return node.function == USER or any(calls_user(arg) for arg in node.args)


def parts_of(call: Call) -> list[Node]:
    """Return the arguments, and expressions among the options, such as the body of a lambda."""
    return [*call.args, *(value for _, value in call.options if isinstance(value, Node))]


@functools.lru_cache(maxsize=4096)
def _check_constant(call: Call) -> None:
    """Raise for a resolved call of literals that cannot be evaluated. Remember the other calls.

    Raises:
        InvalidPlanError: the call would fail for any data.
    """
    try:
        call.value(ONE_ROW)
    except EvaluationError as error:
        raise InvalidPlanError(str(error)) from None


def function_of(call: Call) -> Function:
    """Return the function that a call names."""
    return REGISTRY[call.function]


def resolve(node: Node, schema: pa.Schema) -> Node:
    """Return ``node`` with types and explicit conversions, over rows of ``schema``.

    Raises:
        UnknownColumnError: a column does not exist.
        ExpressionTypeError: an operator does not take the types of its arguments.
        InvalidPlanError: a part fails for any data, such as a cast of the literal "abc".
    """
    return _resolve(node, schema, node, {})


class _Same:
    """A key of a dictionary: the node itself, not an equal one, because a hash walks the tree."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.node is other.node

    def __hash__(self) -> int:
        return id(self.node)


_Known = dict[_Same, Node]


def _resolve(node: Node, schema: pa.Schema, whole: Node, known: _Known) -> Node:
    """Resolve a node once, even if several calls have it. ``known``: the results."""
    if (found := known.get(_Same(node))) is None:
        found = known[_Same(node)] = _resolve_parts(node, schema, whole, known)
    return found


def _resolve_parts(node: Node, schema: pa.Schema, whole: Node, known: _Known) -> Node:
    if isinstance(node, Column):
        return _resolve_column(node, schema, whole)
    if isinstance(node, Literal):
        return node if node.type is not None else replace(node, type=literal_type(node.literal))
    assert isinstance(node, Call), node
    args = tuple(_resolve(arg, schema, whole, known) for arg in node.args)
    resolved = function_of(node).resolve(replace(node, args=args))
    if resolved is None:
        types = tuple(str(arg.type) for arg in args)
        raise ExpressionTypeError(function_of(node).symbol, types, str(node))
    assert resolved.type is not None, resolved
    has_args = isinstance(resolved, Call) and resolved.args
    if has_args and not _has_columns(resolved) and not calls_user(resolved):
        _check_constant(resolved)
    return resolved


def _nested(name: str, schema: pa.Schema) -> Node | None:
    """Return the struct's field that ``meta.ua`` names; None if there is none."""
    parts = name.split(".")
    for k in range(len(parts) - 1, 0, -1):
        base = ".".join(parts[:k])
        if base not in schema.names:
            continue
        node: Node = Column(base, schema.field(base).type)
        for part in parts[k:]:
            kind = node.type
            assert kind is not None, node
            at = kind.get_field_index(part) if pa.types.is_struct(kind) else -1
            if at < 0:
                return None
            node = Call("field", (node,), (("name", part),), kind.field(at).type)
        return node
    return None


def _resolve_column(node: Column, schema: pa.Schema, whole: Node) -> Node:
    if node.name in (VS, VE):
        return Column(node.name, pa.int64())
    at = schema.get_field_index(node.name)
    nested = _nested(node.name, schema) if at < 0 else None
    if nested is not None:
        return nested
    if at < 0:
        known = tuple(name for name in schema.names if not name.startswith("_"))
        where = "the input" if str(whole) == node.name else str(whole)
        raise UnknownColumnError(node.name, known, where)
    column = Column(node.name, schema.field(at).type)
    if pa.types.is_dictionary(column.type):
        return cast_to(column, plain(column.type))
    return column


def cast_to(node: Node, target: pa.DataType) -> Node:
    """Return the resolved ``node`` converted to ``target``, if its type differs."""
    assert node.type is not None
    if node.type.equals(target):
        return node
    if isinstance(node, Literal) and node.literal is None:
        return Literal(None, target)
    return Call("cast", (node,), (("implicit", True), ("to", target)), target)


def rename_columns(node: Node, names: dict[str, Node]) -> Node:
    """Return ``node`` with each column replaced by its entry in ``names``."""
    if isinstance(node, Column):
        return names.get(node.name, node)
    if isinstance(node, Call):
        return replace(node, args=tuple(rename_columns(arg, names) for arg in node.args))
    return node


def _collect_columns(node: Node, names: dict[str, None]) -> None:
    if isinstance(node, Column):
        names[node.name] = None
    elif isinstance(node, Call):
        for arg in node.args:
            _collect_columns(arg, names)
    elif not isinstance(node, Literal):
        names.update(dict.fromkeys(node.columns()))


def as_array(value: Value, rows: int, type_: pa.DataType) -> pa.Array:
    """Return one value per row."""
    if isinstance(value, pa.Scalar):
        if rows == 0 or not value.is_valid:
            return pa.nulls(rows, type_)
        if pa.types.is_nested(type_):
            return pa.array([value.as_py()], type_).take(pa.nulls(rows, pa.int64()).fill_null(0))
        return pa.repeat(value, rows)
    if isinstance(value, pa.ChunkedArray):
        return value.combine_chunks()
    return value


def checked_name(name: str) -> str:
    """Check a name for a payload column."""
    if not isinstance(name, str):
        raise InvalidPlanError(f"a column's name is text, not {name!r:.80}")
    if name in RESERVED:
        raise InvalidPlanError(f"the column name {name!r} is reserved")
    return name
