"""Parses calls whose arguments are not a list of values."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

_MODES = ("lax ", "strict ")
#: Functions whose first argument is a unit, not a column.
_OF_UNIT = ("TIMESTAMPDIFF", "TIMESTAMPADD", "TIMESTAMPSUB", "DATEADD", "DATESUB", "DATEDIFF")


def bracket(arguments: list[exp.Expr]) -> exp.Expr:
    """``ELEMENT_AT(a, b)`` is ``a[b]``."""
    held, place = arguments
    return exp.Bracket(this=held, expressions=[place], offset=1)


def with_unit(node: exp.Expr | None) -> exp.Expr | None:
    """Return the call, with its unit as a text."""
    has_unit = isinstance(node, exp.Anonymous) and node.name.upper() in _OF_UNIT
    if node is not None and has_unit and len(node.expressions) > 2:
        unit, *others = node.expressions
        is_word = isinstance(unit, exp.Column) and not unit.table
        if is_word and not unit.name.startswith("@"):  # of a template
            text = exp.Literal.string(unit.name)
            text.meta.update(unit.this.meta)
            node.set("expressions", [text, *others])
    return node


def json_value(parser: Any) -> exp.Expr:
    """Parse ``JSON_VALUE(s, path RETURNING type DEFAULT x ON EMPTY)``.

    With RETURNING it is a cast that gives NULL where it fails.
    """
    given = [parser._parse_assignment()]
    if given[0] is None:
        parser.raise_error("JSON_VALUE takes a text and a path")
    while parser._match(TokenType.COMMA):  # ends: each turn reads a token
        given.append(parser._parse_assignment())
    is_strict = True  # as Flink reads a path without a mode
    if len(given) == 2 and isinstance(given[1], exp.Literal):
        path = str(given[1].this)
        is_strict = not path.startswith(_MODES[0])
        for mode in _MODES:
            path = path.removeprefix(mode)
        given[1].set("this", path)
    made: exp.Expr = exp.Anonymous(this="JSON_VALUE", expressions=given)
    kind = parser._parse_types() if parser._match_text_seq("RETURNING") else None
    others: dict[str, exp.Expr | None] = {"EMPTY": None, "ERROR": None}
    for _ in range(len(others)):
        _read_other(parser, others)
    if any(others.values()):
        ends: list[exp.Expr | None] = [others["EMPTY"], others["ERROR"]]
        if kind is not None:  # the values are texts up to the cast
            ends = [None if end is None else exp.cast(end, "VARCHAR") for end in ends]
        made = _with_others(made, *ends, is_strict=is_strict)
    if kind is not None:
        value, made = made, exp.TryCast(this=made, to=kind, safe=True)
        other = others["ERROR"]
        if other is not None:  # a value that the type does not take
            fails = exp.And(
                this=exp.Is(this=made.copy(), expression=exp.Null()),
                expression=exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())),
            )
            default = exp.TryCast(this=exp.cast(other.copy(), "VARCHAR"), to=kind.copy(), safe=True)
            made = exp.Case(ifs=[exp.If(this=fails, true=default)], default=made)
    found: exp.Expr = parser.expression(made)
    return found


def _read_other(parser: Any, others: dict[str, exp.Expr | None]) -> None:
    """Parse ``NULL ON EMPTY``, ``DEFAULT x ON ERROR`` and the like."""
    value = None
    if parser._match_text_seq("DEFAULT"):
        value = parser._parse_unary()
    elif not parser._match_text_seq("NULL"):
        return
    if not parser._match(TokenType.ON):
        parser.raise_error("write NULL ON EMPTY, or DEFAULT x ON ERROR")
    word = parser._curr.text.upper() if parser._curr else ""
    if word not in others:
        parser.raise_error("write NULL ON EMPTY, or DEFAULT x ON ERROR")
    parser._advance()
    others[word] = value


def _with_others(
    call: exp.Expr, empty: exp.Expr | None, error: exp.Expr | None, *, is_strict: bool
) -> exp.Expr:
    """Return the value, or ``empty`` or ``error`` instead.

    In strict mode ``empty`` is for a JSON null, ``error`` for an object, list, missing path or no
    JSON. In lax mode ``empty`` is for all of these.
    """
    held, path = call.expressions

    def is_null(value: exp.Expr) -> exp.Is:
        return exp.Is(this=value.copy(), expression=exp.Null())

    def case(condition: exp.Expr, value: exp.Expr | None) -> exp.If:
        return exp.If(this=condition, true=exp.Null() if value is None else value.copy())

    exists, nested = (
        exp.Anonymous(this=name, expressions=[held.copy(), path.copy()])
        for name in ("JSON_EXISTS", "JSON_QUERY")
    )
    is_nested = exp.Not(this=is_null(nested))
    ifs = [
        case(is_null(held), None),
        case(exp.Not(this=exists), error if is_strict else empty),
        case(is_nested, error if is_strict else empty),
        case(is_null(call), empty),
    ]
    return exp.Case(ifs=ifs, default=call)
