"""Entries of functions: one declaration gives Python, SQL, Spark, failure analysis and docs.

A family is a class of methods that users call, and a table of functions. A method decorated with
:meth:`Family.function` is one entry: its name, parameters and docstring serve Python, and
the decorator adds the rest. Parameters of type ``object`` are arguments. Others are options:
``Text`` and ``Whole`` may also be expressions, which :mod:`.varying` evaluates; the rest are plain.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from planner.errors import InvalidPlanError
from planner.expressions.entries.signature import method, text_of, typed
from planner.expressions.nodes import Call, Function, Literal, Node, OptionValue

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from planner.expressions.nodes import Evaluation, Resolver

E = TypeVar("E")
M = TypeVar("M", bound="Callable[..., Any]")
#: The name of the function in which options may be columns; see :mod:`.varying`.
VARYING = "varying"


class Operand(Protocol):
    """An expression."""

    @property
    def node(self) -> Node: ...


#: Types of options that may differ from row to row.
Text: TypeAlias = str | Operand
Whole: TypeAlias = int | Operand
#: From the name of an option's type to the plain Python type of its values.
VARYING_KINDS = {"Text": str, "Text | None": str, "Whole": int, "Whole | None": int}


def operand_node(value: object) -> Node | None:
    """Return the tree of an expression; None for a plain value."""
    node = value if isinstance(value, Node) else getattr(value, "node", None)
    return node if isinstance(node, Node) else None


def plain_value(value: Any) -> Any:
    """Return the value of a literal expression, or the value itself."""
    node = operand_node(value)
    return node.literal if isinstance(node, Literal) else value


def at_least_zero(count: Any) -> Any:
    """Return a number of characters; 0 instead of a negative number."""
    value = plain_value(count)
    if isinstance(value, int):
        return max(0, value)
    node = operand_node(value)
    if node is None:
        raise InvalidPlanError(f"{value!r} is not a number of characters")
    is_negative = Call("less", (node, Literal(0)))
    return type(value)(Call("when", (is_negative, Literal(0), node)))


@dataclass(frozen=True, slots=True)
class Functions(Generic[E]):
    """Builds calls on ``node``; ``wrap`` makes them expressions.

    ``as_node`` converts an expression, or a plain value, to a tree.
    """

    node: Node
    wrap: Callable[[Node], E]
    as_node: Callable[[object], Node]

    def _call(self, function: str, *args: object, **options: OptionValue) -> E:
        operands = (self.node, *map(self.as_node, args))
        return self.wrap(call_of(function, operands, options))


def call_of(function: str, args: tuple[Node, ...], options: dict[str, Any]) -> Call:
    """Return a call; options that are expressions become arguments."""
    options = {name: plain_value(value) for name, value in sorted(options.items())}
    varying = {name: node for name, v in options.items() if (node := operand_node(v)) is not None}
    if not varying:
        return Call(function, args, tuple(options.items()))
    fixed = tuple((name, v) for name, v in options.items() if name not in varying)
    described = (("fixed", fixed), ("function", function), ("names", tuple(varying)))
    return Call(VARYING, (*args, *varying.values()), described)


@dataclass(frozen=True, slots=True)
class Sql:
    """Names in SQL, and how a call is built from compiled arguments; None: by the method."""

    names: str
    build: Callable[..., Any] | None = None
    #: The sqlglot class of the call, if its name differs, and the parts that are arguments.
    node: str = ""
    parts: tuple[str, ...] = ()


def of_texts(result: pa.DataType | None) -> Resolver:
    """Return the typing rule of a function of texts whose result has a fixed type."""

    def resolve(call: Call) -> Node | None:
        import pyarrow as pa

        assert result is not None, call
        if not all(text_of(arg) for arg in call.args):
            return None
        return typed(call, result, *[pa.string()] * len(call.args))

    return resolve


@dataclass(frozen=True, slots=True)
class Family:
    """The functions of a namespace of ``Expr``: ``str``, ``dt``, ``list``, ``map`` or none."""

    namespace: str
    #: Given the type of the result: checks the arguments of a call and sets their types.
    resolver: Callable[[pa.DataType | None], Resolver]
    functions: dict[str, Function] = field(default_factory=dict)

    def function(
        self,
        result: pa.DataType | None,
        evaluate: Evaluation,
        *,
        spark: Callable[..., str] | str,
        sql: str | Sql | tuple[str | Sql, ...] = (),
        name: str = "",
        examples: dict[str, Any] | None = None,
        **more: Any,
    ) -> Callable[[M], M]:
        """Register the function that the decorated method calls.

        ``name``: its name in plans, unless it is the method's. ``more``: ``resolve``, ``show``,
        ``bounds``, ``may_fail`` and ``needed`` of :class:`Function`.
        """

        def entered(made: M) -> M:
            shown = f"{self.namespace}.{made.__name__}".lstrip(".")
            spellings = (sql,) if isinstance(sql, str | Sql) else sql
            self.functions[name or made.__name__] = Function(
                shown,
                _checked(more.pop("resolve", None) or self.resolver(result), made),
                evaluate,
                more.pop("show", None) or method(shown, *_options(made)),
                spark=spark,
                sql=tuple(Sql(s) if isinstance(s, str) else s for s in spellings),
                python=made,
                examples=tuple((examples or {}).items()),
                **more,
            )
            return made

        return entered


def _checked(resolve: Resolver, made: Callable[..., Any]) -> Resolver:
    """Return a check that raises for options of another type than declared, then ``resolve``."""
    kinds = {
        name: (VARYING_KINDS[str(parameter.annotation)], str(parameter.annotation))
        for name, parameter in inspect.signature(made).parameters.items()
        if str(parameter.annotation) in VARYING_KINDS
    }

    def resolved(call: Call) -> Node | None:
        for name, value in call.options:
            kind, declared = kinds.get(name, (None, ""))
            if kind is None or (value is None and declared.endswith("None")):
                continue
            if not isinstance(value, kind) or isinstance(value, bool):
                what = "a text" if kind is str else "a whole number"
                raise InvalidPlanError(f"{call}: the {name} {value!r} is not {what}")
        return resolve(call)

    return resolved


def _options(made: Callable[..., Any]) -> list[str]:
    """Return the options that ``explain`` shows: the positional ones."""
    return [
        name
        for name, parameter in inspect.signature(made).parameters.items()
        if name != "self" and parameter.annotation != "object" and parameter.kind is not _BY_NAME
    ]


_BY_NAME = inspect.Parameter.KEYWORD_ONLY
