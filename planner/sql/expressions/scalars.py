"""Compiles scalar expressions of SQL to the fluent interface, and types them.

Every part is resolved against its stream, so a type error points at the innermost part that has it.
Names of columns are case-sensitive; names of functions and keywords are not.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, coalesce, col, list_of, lit
from planner.expressions.functions.texts.json_paths import json_operand
from planner.expressions.nodes import Literal
from planner.expressions.types import is_number
from planner.sql.expressions import functions, patterns, times
from planner.sql.expressions.containers import between, nth
from planner.sql.expressions.engines import of_engine
from planner.sql.expressions.engines.brackets import bracket
from planner.sql.expressions.engines.lambdas import with_lambda
from planner.sql.expressions.engines.shapes import shaped
from planner.sql.expressions.refusals import EXISTS, SUBQUERY, not_supported
from planner.sql.expressions.windowing import OVER
from planner.sql.reading.aggregate_calls import AROUND
from planner.sql.reading.literals import (
    data_type,
    fraction_of,
    interval,
    literal_member,
    plain_value,
    time_literal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planner.sql.expressions.scope import Scope
    from planner.sql.reading.parsing import SqlText

_BINARY: dict[type[exp.Expr], Callable[[Expr, Expr], Expr]] = {
    exp.Add: Expr.__add__,
    exp.Sub: Expr.__sub__,
    exp.Mul: Expr.__mul__,
    exp.Div: Expr.__truediv__,
    exp.IntDiv: Expr.__floordiv__,
    exp.Mod: Expr.__mod__,
    exp.EQ: Expr.__eq__,
    exp.NEQ: Expr.__ne__,
    exp.LT: Expr.__lt__,
    exp.LTE: Expr.__le__,
    exp.GT: Expr.__gt__,
    exp.GTE: Expr.__ge__,
    exp.And: Expr.__and__,
    exp.Or: Expr.__or__,
}
_LIKES = (exp.Like, exp.ILike)
_ZONELESS = (
    "AT TIME ZONE of a time without a zone: write CAST(t AS TIMESTAMP WITH TIME ZONE) AT TIME ZONE "
    "'zone' for the wall clock there of a time in UTC, or TO_UTC_TIMESTAMP(t, 'zone') for the "
    "time in UTC of a wall clock there"
)
AGGREGATE_NEEDS_GROUP = (
    "an aggregate needs GROUP BY with a window, as GROUP BY user, TUMBLE('5 seconds')"
)


@dataclass
class Expressions:
    """Compiles expressions over the columns of ``scope``."""

    text: SqlText
    scope: Scope
    #: The user's functions, by name in lower case.
    functions: Mapping[str, Callable[..., Expr]]
    #: Tried first: returns keys and aggregates of a grouped query, None for other nodes.
    special: Callable[[exp.Expr], Expr | None] = field(default=lambda _node: None)

    def compile(self, node: exp.Expr) -> Expr:
        """Return the expression; its types are checked against the stream.

        Raises:
            SqlError: a type does not fit, or there is no such function.
        """
        made = self.special(node)
        if made is None:
            made = self._build(node)
            made = ~made if node.args.get("negate") else made
        with self.text.located(node):
            made.output_type(self.schema)
        return made

    def column(self, node: exp.Expr) -> Expr:
        """Compile a column of a result, which must have a type."""
        made = self.compile(node)
        if made.output_type(self.schema) == pa.null():
            reason = "this is always null; cast it to a type: CAST(NULL AS BIGINT)"
            raise self.text.error(node, reason)
        return made

    def _build(self, node: exp.Expr) -> Expr:
        binary = _BINARY.get(type(node))
        if type(node) in (exp.Add, exp.Sub):
            months = times.interval_months(node.args["expression"])
            if months is not None:
                with self.text.located(node):
                    moved = months if type(node) is exp.Add else -months
                    time = self.compile(node.this)
                    later = time.dt.add_months(moved)
                    is_day = pa.types.is_date(time.output_type(self.schema))
                    keeps_days = is_day and self.text.engine.name in ("flink", "spark")
                    return later.cast("date") if keeps_days else later
        fraction = fraction_of(node, self.text)
        if fraction is not None:
            return lit(fraction)
        if binary is not None:
            left, right = self.compile(node.this), self.compile(node.args["expression"])
            left, right = of_engine.compared_lists(node, left, right, self.schema)
            other = of_engine.arithmetic(node, left, right, self.schema, self.text.engine)
            return binary(left, right) if other is None else other
        if isinstance(node, (exp.AggFunc, *AROUND)):
            raise self.text.error(node, AGGREGATE_NEEDS_GROUP)
        method = self._METHODS.get(type(node), Expressions._function)
        made: Expr = method(self, node)
        return made

    def _function(self, node: exp.Expr) -> Expr:
        own = self._own(node)
        own = with_lambda(node, self) if own is None else own
        if own is not None:
            return own
        if type(node) in functions.CALLS:
            names, build = functions.CALLS[type(node)]
            functions.reject_others(node, names, self.text)
            values = [self.compile(part) for part in functions.parts_of(node, names)]
            try:
                inspect.signature(build).bind(*values)
            except TypeError:
                spelling = self.text.spelled(node)
                reason = f"{spelling} does not take {len(values)} arguments"
                raise self.text.error(node, reason) from None
            with self.text.located(node):
                return of_engine.built(node, build, values, self)
        if isinstance(node.this, exp.Expr) and functions.takes_literals(node):
            value = self.compile(node.this)
            return functions.with_literals(node, value, self.text)
        raise not_supported(node, self.text)

    @property
    def schema(self) -> pa.Schema:
        return self.scope.stream.schema

    def knowing(
        self, types: Mapping[str, pa.DataType], special: Callable[[exp.Expr], Expr | None]
    ) -> Expressions:
        """Return a compiler with more columns (lambda parameters); it tries ``special`` first."""
        shown = {name: Expr(Literal(None, kind)) for name, kind in types.items()}
        scope = self.scope.with_stream(self.scope.stream.with_columns(**shown))

        def first(node: exp.Expr) -> Expr | None:
            made = special(node)
            return self.special(node) if made is None else made

        return replace(self, scope=scope, special=first)

    def _own(self, node: exp.Expr) -> Expr | None:
        """Compile a function of the user, or one without a node in sqlglot."""
        if not isinstance(node, exp.Func):
            return None
        name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
        build = self.functions.get(name)
        if build is None and isinstance(node, exp.Anonymous):
            build = functions.NAMED.get(name)
        if build is None:
            return None
        given = node.expressions if isinstance(node, exp.Anonymous) else functions.arguments(node)
        values = [self.compile(part) for part in given]
        of_number = times.OF_NUMBERS.get(name)
        if of_number is not None and values and name not in self.functions:
            kind = values[0].output_type(self.schema)
            build = of_number if is_number(kind) else build
        try:
            inspect.signature(build).bind(*values)
        except TypeError:
            raise self.text.error(node, f"{name}() does not take {len(values)} arguments") from None
        with self.text.located(node):
            return of_engine.built(node, build, values, self)

    def _column(self, node: exp.Column) -> Expr:
        if isinstance(node.this, exp.Star):
            raise self.text.error(node, "* is a list of columns, not a value")
        base, fields = self.scope.parts(node)
        expr = col(self.scope.column(base, self.text))
        for name in fields:
            expr = expr.field(name)
        return expr

    def _literal(self, node: exp.Expr) -> Expr:
        with self.text.located(node):
            return lit(plain_value(node, self.text))

    def _cast(self, node: exp.Cast) -> Expr:
        to = data_type(node.to, node, self.text)
        moment = None if type(node) is exp.TryCast else time_literal(node, to, self.text)
        if moment is not None:
            return of_engine.shortened(node.to, lit(moment), self.text.engine)
        return of_engine.cast(node, to, self)

    def _case(self, node: exp.Case) -> Expr:
        of = None if node.this is None else self.compile(node.this)
        chain = None
        for branch in node.args["ifs"]:
            tested = self.compile(branch.this)
            condition = tested if of is None else of == tested
            start = when(condition) if chain is None else chain.when(condition)
            chain = start.then(self.compile(branch.args["true"]))
        assert chain is not None, node
        default = node.args.get("default")
        return chain.otherwise(None if default is None else self.compile(default))

    def _in(self, node: exp.In) -> Expr:
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise self.text.error(
                node,
                "IN takes a list of values here; IN (SELECT ...) belongs in WHERE: for "
                "HAVING put the GROUP BY in a subquery in FROM",
            )
        if not node.expressions:
            raise self.text.error(node, "IN () lists no values: nothing is in it; write FALSE")
        value = self.compile(node.this)
        literals: list[Any] = []
        tests: list[Expr] = []
        for part in node.expressions:
            member = literal_member(part, self.text)
            if member is None:
                with self.text.located(node):
                    tests.append(value == self.compile(part))
            else:
                literals.append(member)
        if literals:
            with self.text.located(node):
                tests.insert(0, value.is_in(literals))
        return reduce(Expr.__or__, tests)

    def _is(self, node: exp.Is) -> Expr:
        value, what = self.compile(node.this), node.args["expression"]
        if isinstance(what, exp.Null):
            return value.is_null()
        if isinstance(what, exp.Boolean):
            return (value == bool(what.this)).fill_null(False)
        raise self.text.error(node, "IS takes NULL, TRUE or FALSE")

    def _not(self, node: exp.Not) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Is) and isinstance(inner.args["expression"], exp.Null):
            return self.compile(inner.this).is_not_null()
        return ~self.compile(inner)

    def _between(self, node: exp.Between) -> Expr:
        low, high = self.compile(node.args["low"]), self.compile(node.args["high"])
        value = self.compile(node.this)
        made = value.between(low, high)
        return made | value.between(high, low) if node.args.get("symmetric") else made

    def _extract(self, node: exp.Extract) -> Expr:
        value = self.compile(node.args["expression"])
        is_length = pa.types.is_duration(value.output_type(self.schema))
        if is_length:
            functions.check_length(node, self.text)
        other = functions.other_part(node.this.name, value, self.text, is_length=is_length)
        if other is not None:
            return other
        return functions.extract(node.this.name, value, node, self.text)

    def _escape(self, node: exp.Escape) -> Expr:
        like, escape = node.this, plain_value(node.args["expression"], self.text)
        if (
            type(like) not in (exp.Like, exp.ILike)
            or not isinstance(escape, str)
            or len(escape) > 1
        ):
            raise self.text.error(node, "write s LIKE 'pattern' ESCAPE '!', with one character")
        made = self._like(like, escape, node)
        return ~made if like.args.get("negate") else made

    def _like(self, node: exp.Expr, escape: str | None = None, at: exp.Expr | None = None) -> Expr:
        value, pattern = self.compile(node.this), self.compile(node.args["expression"])
        build = patterns.ilike if type(node) is exp.ILike else patterns.like_any
        with self.text.located(at or node):
            return build(value, pattern, self.text.engine.escape if escape is None else escape)

    def _trim(self, node: exp.Expr) -> Expr:
        functions.reject_others(node, ("this", "expression", "position"), self.text)
        given = node.args.get("expression")
        characters = None if given is None else self.compile(given)
        with self.text.located(node):
            return patterns.trim(self.compile(node.this), characters, node.args.get("position"))

    def _json(self, node: exp.Expr) -> Expr:
        """Compile JSON arrows: ``s ->> '$.a'`` and ``s ->> 'a.b'`` as text, ``s -> 0`` as JSON."""
        path, value = plain_value(node.args["expression"], self.text), self.compile(node.this)
        kind = value.output_type(self.schema)
        if pa.types.is_struct(kind) or pa.types.is_map(kind):
            name = str(path).removeprefix("$.")
            return (value.item if pa.types.is_map(kind) else value.field)(name)
        is_operator = "only_json_types" in node.args
        with self.text.located(node):
            is_text = type(node) is exp.JSONExtractScalar
            if not isinstance(path, str):
                if path < 0:
                    value = nth(value.str.json_elements(), lit(int(path)))
                path = "$" if path < 0 else f"$[{path}]"
            elif is_operator or self.text.engine.name == "duckdb":
                path = json_operand(path, self.text.engine.name)
            return (value.str.json_value if is_text else value.str.json_extract)(path)

    def _at_zone(self, node: exp.Expr) -> Expr:
        time = self.compile(node.this)
        kind = time.output_type(self.schema)
        is_instant = self.text.engine.name in ("postgres", "duckdb")
        if pa.types.is_timestamp(kind) and kind.tz is None and not is_instant:
            raise self.text.error(node, _ZONELESS)
        with self.text.located(node):
            return time.dt.at_zone(plain_value(node.args["zone"], self.text))

    def _dot(self, node: exp.Dot) -> Expr:
        """Compile ``list[1].field``."""
        name = node.expression
        if type(name) is not exp.Identifier:
            raise not_supported(node, self.text)
        held = self.compile(node.this)
        kind = held.output_type(self.schema)
        if pa.types.is_map(kind) and self.text.engine.name == "duckdb":
            return held.item(name.name)
        if not pa.types.is_struct(kind):
            raise not_supported(node, self.text)
        if kind.get_field_index(name.name) < 0:
            fields = ", ".join(kind.field(at).name for at in range(kind.num_fields))
            raise self.text.error(node, f"no field {name.name!r}; the fields are: {fields}")
        return held.field(name.name)

    def _list(self, node: exp.Array) -> Expr:
        if not node.expressions:
            raise self.text.error(node, "ARRAY[] has no type; ARRAY[a, b] takes at least one value")
        values = [self.compile(part) for part in node.expressions]
        with self.text.located(node):
            return list_of(*values)

    def _exists(self, node: exp.Expr) -> Expr:
        made = shaped(node, self)
        if made is None:
            raise self.text.error(node, EXISTS)
        return made

    def _misplaced(self, node: exp.Expr) -> Expr:
        is_over = isinstance(node, exp.Window)
        raise self.text.error(node, OVER if is_over else SUBQUERY)

    #: By exact class of node: a subclass means something else.
    _METHODS: ClassVar[dict[type[exp.Expr], Callable[..., Expr]]] = {
        exp.Paren: lambda self, node: self.compile(node.this),
        exp.Column: _column,
        **dict.fromkeys((exp.Literal, exp.Boolean), _literal),
        exp.Null: lambda _self, _node: lit(None),
        exp.Neg: lambda self, node: (
            self._literal(node)
            if isinstance(node.this, exp.Literal) and not node.this.is_string
            else -self.compile(node.this)
        ),
        exp.Interval: lambda self, node: lit(interval(node, self.text)),
        **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
        exp.Case: _case,
        exp.In: _in,
        exp.Is: _is,
        exp.Not: _not,
        exp.Between: _between,
        exp.Extract: _extract,
        exp.Coalesce: lambda self, node: coalesce(*map(self.compile, functions.arguments(node))),
        exp.Escape: _escape,
        **dict.fromkeys(_LIKES, _like),
        **dict.fromkeys((exp.Subquery, exp.Select, exp.Window), _misplaced),
        exp.Trim: _trim,
        exp.Exists: _exists,
        **dict.fromkeys((exp.JSONExtractScalar, exp.JSONExtract), _json),
        exp.AtTimeZone: _at_zone,
        exp.Bracket: lambda self, node: bracket(node, self, nth, between),
        exp.Dot: _dot,
        exp.Array: _list,
    }
