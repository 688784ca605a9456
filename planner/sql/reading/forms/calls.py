"""Parses calls whose arguments are not a list of values."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.reading.forms.queries.parsed_calls import without_mode

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODES = ("lax ", "strict ")
#: Key in ``meta`` of an UNNEST: positions count from 0.
FROM_ZERO = "from_zero"
#: The function for JSON_QUERY with a wrapper. No query can contain this name, which has blanks.
WRAPPED = "JSON_QUERY WITH WRAPPER"
#: Functions whose first argument is a unit, not a column.
_OF_UNIT = (
    "TIMESTAMPDIFF",
    "TIMESTAMPADD",
    "TIMESTAMPSUB",
    "DATEADD",
    "DATESUB",
    "DATEDIFF",
    "DATE_DIFF",
)


def bracket(arguments: list[exp.Expr]) -> exp.Expr:
    """Return ``a[b]`` for ``ELEMENT_AT(a, b)``."""
    held, place = arguments
    return exp.Bracket(this=held, expressions=[place], offset=1)


def with_unit(node: exp.Expr | None) -> exp.Expr | None:
    """Return the call, with its unit as a text."""
    has_unit = isinstance(node, exp.Anonymous) and node.name.upper() in _OF_UNIT
    if node is not None and has_unit and len(node.expressions) > 2:
        unit, *others = node.expressions
        is_word = isinstance(unit, exp.Column) and not unit.table
        # a plain word such as ``DAY``; ``@1`` is an argument of a template
        if is_word and not unit.name.startswith("@"):
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
    while parser._match(TokenType.COMMA):  # terminates: each pass reads a token
        given.append(parser._parse_assignment())
    is_strict = True  # Flink's mode of a path without the word LAX or STRICT
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
        if kind is not None:  # texts, cast to the type of RETURNING later
            ends = [None if end is None else exp.cast(end, "VARCHAR") for end in ends]
        made = _with_others(made, *ends, is_strict=is_strict)
    if kind is not None:
        value, made = made, exp.TryCast(this=made, to=kind, safe=True)
        other = others["ERROR"]
        if other is not None:  # ON ERROR also covers a value that the type cannot have
            fails = exp.And(
                this=exp.Is(this=made.copy(), expression=exp.Null()),
                expression=exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())),
            )
            default = exp.TryCast(this=exp.cast(other.copy(), "VARCHAR"), to=kind.copy(), safe=True)
            made = exp.Case(ifs=[exp.If(this=fails, true=default)], default=made)
    call: exp.Expr = parser.expression(made)
    return call


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

    In strict mode ``empty`` replaces a JSON null, and ``error`` replaces an object, a list, a
    missing path and invalid JSON. In lax mode ``empty`` replaces all of these.
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


def json_query(parser: Any) -> exp.Expr:
    """Parse ``JSON_QUERY(s, path WITH WRAPPER EMPTY ARRAY ON EMPTY NULL ON ERROR)``."""
    given = [parser._parse_assignment()]
    while parser._match(TokenType.COMMA):  # terminates: each pass reads a token
        given.append(parser._parse_assignment())
    given = [part for part in given if part is not None]
    plain: exp.Expr = exp.Anonymous(this="JSON_QUERY", expressions=given)
    if parser._match_text_seq("RETURNING"):
        return _list_of_texts(parser, given)
    wrapper = _wrapper(parser)
    others: dict[str, exp.Expr] = {}
    for word, value in (("ARRAY", "[]"), ("OBJECT", "{}")) * 2:
        if parser._match_text_seq("EMPTY", word, "ON"):
            others[_end_word(parser)] = exp.Literal.string(value)
        elif parser._match_text_seq("NULL", "ON"):
            others.pop(_end_word(parser), None)
    if not wrapper and not others:
        for part in given[1:2]:
            without_mode(part)
        return parser.expression(plain)  # type: ignore[no-any-return]
    if len(given) != 2 or not isinstance(given[1], exp.Literal) or "*" in given[1].name:
        parser.raise_error("write a path without * before WRAPPER, ON EMPTY and ON ERROR")
    held, path = given
    empty, error = (others.get(word, exp.Null()) for word in ("EMPTY", "ERROR"))
    missing = empty if path.name.startswith(_MODES[0]) else error
    path.set("this", path.name.removeprefix(_MODES[0]).removeprefix(_MODES[1]))

    def call(name: str) -> exp.Expr:
        return exp.Anonymous(this=name, expressions=[held.copy(), path.copy()])

    ends = [exp.Literal.string(end) for end in "[]"]
    found = exp.DPipe(
        this=exp.DPipe(this=ends[0], expression=call("JSON_EXTRACT")), expression=ends[1]
    )
    wrapped = exp.Coalesce(this=call(WRAPPED), expressions=[found])
    made = {"": plain, "ALWAYS": found}.get(wrapper, wrapped)
    nothing = exp.EQ(
        this=exp.Coalesce(this=call("JSON_EXTRACT"), expressions=[exp.Literal.string("null")]),
        expression=exp.Literal.string("null"),
    )
    ifs = [
        exp.If(this=exp.Is(this=held.copy(), expression=exp.Null()), true=exp.Null()),
        exp.If(this=exp.Not(this=call("JSON_EXISTS")), true=missing),
        exp.If(this=nothing, true=empty.copy()),
    ]
    default = exp.Coalesce(this=made, expressions=[error.copy()])
    return parser.expression(exp.Case(ifs=ifs, default=default))  # type: ignore[no-any-return]


def _list_of_texts(parser: Any, given: list[exp.Expr]) -> exp.Expr:
    """Parse the type of ``JSON_QUERY(s, path RETURNING ARRAY<STRING>)``."""
    kind = parser._parse_types()
    if len(given) != 2 or not kind or kind.sql() != "ARRAY<TEXT>":
        parser.raise_error("write RETURNING ARRAY<STRING>")
    without_mode(given[1])
    called = exp.Anonymous(this="JSON_QUERY", expressions=given)
    each = exp.to_identifier("e")
    read = exp.Anonymous(this="JSON_VALUE", expressions=[each.copy(), exp.Literal.string("$")])
    listed = exp.Anonymous(this="JSON_ELEMENTS", expressions=[called])
    made = exp.Anonymous(
        this="LIST_TRANSFORM", expressions=[listed, exp.Lambda(this=read, expressions=[each])]
    )
    return parser.expression(made)  # type: ignore[no-any-return]


def _end_word(parser: Any) -> str:
    """Parse EMPTY or ERROR behind ON."""
    word = parser._curr.text.upper() if parser._curr else ""
    if word not in ("EMPTY", "ERROR"):
        parser.raise_error("write NULL ON EMPTY, or EMPTY ARRAY ON ERROR")
    parser._advance()
    return word


def _wrapper(parser: Any) -> str:
    """Parse ``WITH [CONDITIONAL] [ARRAY] WRAPPER``: ALWAYS, SCALARS, or empty for none."""
    word = parser._curr.text.upper() if parser._curr else ""
    if word not in ("WITH", "WITHOUT"):
        return ""
    parser._advance()
    is_some = bool(parser._match_text_seq("CONDITIONAL"))
    parser._match_text_seq("UNCONDITIONAL")
    parser._match_text_seq("ARRAY")
    if not parser._match_text_seq("WRAPPER"):
        parser.raise_error("write WITH WRAPPER")
    return "" if word == "WITHOUT" else "SCALARS" if is_some else "ALWAYS"


def generated(parser: Any, column: exp.Expr | None) -> None:
    """Parse the rest of RisingWave's column ``name type AS expression``."""
    kind = None if column is None else column.args.get("kind")
    if column is None or kind is None or not parser._match(TokenType.ALIAS):
        return
    value = exp.cast(parser._parse_disjunction() or exp.Null(), kind)
    constraint = exp.ComputedColumnConstraint(this=value)
    column.set("kind", None)
    column.set("constraints", [exp.ColumnConstraint(kind=constraint)])


def counts_from_zero(tokens: Sequence[Token]) -> bool:
    """Return whether the tokens of an UNNEST end with ``WITH OFFSET``."""
    return (TokenType.WITH, TokenType.OFFSET) in itertools.pairwise(t.token_type for t in tokens)


def by_place(
    arguments: list[exp.Expr], of_table: type[exp.Expr], of_time: type[exp.Expr]
) -> list[exp.Expr]:
    """Parse RisingWave's ``TUMBLE(t, ts, size)``: a table, its time, and lengths."""
    if len(arguments) < 2 or not all(isinstance(part, exp.Column) for part in arguments[:2]):
        return arguments
    named, time, *lengths = arguments
    table = exp.Table(this=named.this.copy())
    table.meta.update(named.meta | named.this.meta)
    made = [of_table(this=table, expressions=[]), of_time(this=time)]
    for part, of in zip(made, (named, time), strict=True):
        part.update_positions(of.this)
    return [*made, *lengths]
