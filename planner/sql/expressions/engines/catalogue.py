"""The functions of the catalogue under their names in SQL.

An entry without a builder calls its Python method: arguments are expressions, options are values of
literals. Options that may differ from row to row may also be columns.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from planner.errors import InvalidPlanError
from planner.expressions.entries.family import VARYING_KINDS
from planner.expressions.functions import FUNCTIONS
from planner.expressions.nodes import Literal
from planner.sql.reading.grammar import StreamParser

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.expressions import Expr
    from planner.expressions.entries.family import Sql
    from planner.expressions.nodes import Function

_KINDS: dict[str, type] = {"str": str, "str | None": str, "int": int, "float": float}
_WORDS = {str: "a text", int: "a whole number", float: "a number"}


def _method(function: Function) -> Callable[..., Expr]:
    """Return a function that calls the Python method, with the same parameters."""
    made = function.python
    namespace = function.symbol.rpartition(".")[0]
    (_, *parameters) = inspect.signature(made).parameters.values()

    @functools.wraps(made)
    def build(first: Expr, *given: Expr) -> Expr:
        target: Any = getattr(first, namespace) if namespace else first
        pairs = zip(parameters, given, strict=False)
        taken = [_taken(p, value) for p, value in pairs]
        expr: Expr = getattr(target, made.__name__)(*taken)
        return expr

    return build


def _taken(parameter: inspect.Parameter, value: Expr) -> Any:
    """Return an argument in the method's form: an expression, or the value of a literal."""
    kind = VARYING_KINDS.get(str(parameter.annotation)) or _KINDS.get(str(parameter.annotation))
    node = value.node
    if kind is None or (not isinstance(node, Literal) and parameter.annotation not in _KINDS):
        return value
    wanted = (int, float) if kind is float else kind
    if isinstance(node, Literal) and isinstance(node.literal, wanted):
        return node.literal
    name = parameter.name
    raise InvalidPlanError(f"the {name} must be {_WORDS[kind]}")


def _spelled(function: Function, spelling: Sql) -> tuple[Callable[..., Expr], list[str]]:
    return spelling.build or _method(function), spelling.names.split()


#: By sqlglot's node: the parts that are compiled, and the function that builds the expression.
CALLS: dict[type[exp.Expr], tuple[tuple[str, ...], Callable[..., Expr]]] = {}
#: The functions of the catalogue by their SQL name in lower case.
NAMED: dict[str, Callable[..., Expr]] = {}
#: Every name in SQL, in upper case.
NAMES: dict[str, Function] = {}

for _function in FUNCTIONS.values():
    for _spelling in _function.sql:
        _build, _names = _spelled(_function, _spelling)
        for _name in _names:
            NAMES[_name] = _function
            _is_read = _name in StreamParser.FUNCTIONS
            _node = exp.FUNCTION_BY_NAME.get(_name) if _is_read else None
            if _spelling.node:
                _node = getattr(exp, _spelling.node)
            if _node is not None:
                CALLS[_node] = (_spelling.parts or ("this",), _build)
            NAMED[_name.lower()] = _build
