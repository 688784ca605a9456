"""``CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1``: each call is replaced by the expression.

The bodies of Spark (``RETURN x``) and of PostgreSQL and RisingWave (``LANGUAGE SQL AS $$ SELECT x
$$``). Arguments and results are cast to the declared types. A body with a subquery, in another
language or of a Java class is an error.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.reading.forms.queries.engines.places import nodes_of, place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    #: Makes the error for a node of the query, given the reason.
    Error = Callable[[exp.Expr, str], Exception]

_OTHER = (
    "CREATE FUNCTION takes one SQL expression; write it in Python, pass functions={{'{0}': f}}, "
    "and leave CREATE FUNCTION out"
)
_KNOWN = "a function {0} exists: choose another name"
_READS = "a function reads only its parameters, not {0}: leave it out, or add a parameter"
_AGGREGATE = "a function takes no {0}: write the aggregate at the call, as in f(SUM(x))"
_TABLE = "a function of rows is not supported; write CREATE VIEW, and join it"
_BODY = "write RETURN expression, or LANGUAGE SQL AS 'SELECT expression'"


class OwnFunction(exp.Expression):
    """``this``: the name; ``expressions``: the parameters; ``body``; ``to``: the result's type."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "expressions": False, "body": True, "to": False,
    }  # fmt: skip


def own_function(parser: Any) -> exp.Expr | None:
    """Parse a CREATE FUNCTION whose body is an expression; None: it is another statement."""
    words = [token.text.upper() for token in parser._tokens[parser._index :][:5]]
    word = "MACRO" if "MACRO" in words else "FUNCTION"
    if words[:1] != ["CREATE"] or word not in words:
        return None
    at = words.index(word)
    if any(word not in ("CREATE", "OR", "REPLACE", "TEMPORARY", "TEMP") for word in words[:at]):
        return None
    parser._advance(at + 1)
    parser._match_text_seq("IF", "NOT", "EXISTS")
    first, name = parser._curr, parser._parse_id_var()
    called = name.name.upper()
    if called in parser.FUNCTIONS or called in parser.FUNCTION_PARSERS:
        parser.raise_error(_KNOWN.format(called), first)
    if not parser._match(TokenType.L_PAREN):
        parser.raise_error(_OTHER.format(name.name))
    parameters: list[exp.Expr] = []
    while not parser._match(TokenType.R_PAREN):  # terminates: each pass reads a parameter
        parameters.append(_parameter(parser, len(parameters)))
        if not parser._match(TokenType.COMMA) and parser._curr.text != ")":
            parser.raise_error("expected ) or a comma")
    to = None
    if parser._match_text_seq("RETURNS"):
        if parser._curr.text.upper() in ("TABLE", "SETOF"):
            parser.raise_error(_TABLE)
        to = parser._parse_types()
    body = _of_macro(parser) or _body(parser, name.name)
    names = _names_of(parameters)
    _check_body(parser, body, names)
    quoted = (TokenType.STRING, TokenType.IDENTIFIER)
    words = [t.text.upper() for t in parser._tokens[at:] if t.token_type not in quoted]
    if ("STRICT" in words and "strict" not in names) or ("RETURNS", "NULL") in itertools.pairwise(
        words
    ):
        body = _strict(body, parameters)
    made = OwnFunction(this=name, expressions=parameters, body=body, to=to)
    made.update_positions(name)
    return made


def _of_macro(parser: Any) -> exp.Expr | None:
    """Parse DuckDB's ``AS x + 1``; None: the body begins with another word."""
    following = parser._next.text.upper() if parser._next else ""
    is_text = parser._next and parser._next.token_type is TokenType.STRING
    if is_text or following.startswith("$") or not parser._match(TokenType.ALIAS):
        return None
    if following == "TABLE":
        parser.raise_error(_TABLE)
    body: exp.Expr = parser._parse_disjunction()
    for node in body.walk():
        node.meta.pop("start", None)
        node.meta.pop("end", None)
    return body


def _parameter(parser: Any, place: int) -> exp.Expr:
    """Parse ``x INT DEFAULT 1``, or the type alone of a parameter that is ``$1``.

    A parameter of a macro has no type, and ``x := 1`` is its default.
    """
    before = parser._index
    name, kind = parser._parse_id_var(), None
    if "MACRO" in [token.text.upper() for token in parser._tokens[:before]][-8:]:
        default = parser._parse_disjunction() if parser._match(TokenType.COLON_EQ) else None
        return exp.ColumnDef(this=name, constraints=[default] if default else [])
    if parser._curr and parser._curr.text not in (",", ")"):
        kind = parser._parse_types()
    if kind is None or not parser._curr or parser._curr.text.upper() not in (",", ")", "DEFAULT"):
        parser._retreat(before)
        name, kind = exp.to_identifier(f"${place + 1}"), parser._parse_types()
    default = parser._parse_disjunction() if parser._match_text_seq("DEFAULT") else None
    return exp.ColumnDef(this=name, kind=kind, constraints=[default] if default else [])


def _body(parser: Any, name: str) -> exp.Expr:
    text, language, body = "", "SQL", None
    while parser._curr:  # terminates: each pass reads a token
        token = parser._curr
        parser._advance()
        word = token.text.upper()
        if word == "RETURN":
            body = parser._parse_disjunction()
            break
        if word == "LANGUAGE":
            language = parser._curr.text.upper()
        elif word.startswith("$") and word.endswith("$"):
            text = _quoted(parser, token)
        elif token.token_type is TokenType.STRING:
            text = token.text
    if body is None and language == "SQL" and text:
        body = _of_text(parser, text, name)
    elif body is None:
        parser.raise_error(_OTHER.format(name) if language != "SQL" else _BODY)
    if body is None or body.find(exp.Query):
        parser.raise_error(_OTHER.format(name))
    assert isinstance(body, exp.Expr), name
    for node in body.walk():
        node.meta.pop("start", None)
        node.meta.pop("end", None)
    return body


def _names_of(parameters: Sequence[exp.Expr]) -> dict[str, int]:
    """Return the places of parameters by their names, which are also $1, $2 and so on."""
    numbered = {f"${place + 1}": place for place in range(len(parameters))}
    return numbered | {p.name.lower(): place for place, p in enumerate(parameters)}


def _check_body(parser: Any, body: exp.Expr, names: Mapping[str, int]) -> None:
    """Raise for columns that are no parameters, and for aggregates."""
    for column in body.find_all(exp.Column):
        if column.args.get("table") or column.name.lower() not in names:
            parser.raise_error(_READS.format(column.sql()))
    aggregate = body.find(exp.AggFunc)
    if aggregate is not None:
        parser.raise_error(_AGGREGATE.format(aggregate.sql_name()))


def _strict(body: exp.Expr, parameters: Sequence[exp.Expr]) -> exp.Expr:
    """Return the body that is NULL if an argument is NULL."""
    nulls = [
        exp.If(this=exp.Is(this=exp.column(p.this.copy()), expression=exp.Null()), true=exp.Null())
        for p in parameters
    ]
    return exp.Case(ifs=nulls, default=body) if nulls else body


def _quoted(parser: Any, opened: Token) -> str:
    """Return the text up to the next ``$$``."""
    while parser._curr:  # terminates: each pass reads a token
        token = parser._curr
        parser._advance()
        if token.text == opened.text:
            return str(parser.sql[opened.end + 1 : token.start])
    return ""


def _of_text(parser: Any, text: str, name: str) -> exp.Expr | None:
    """Return the expression of ``SELECT x / 2``, or of ``x / 2``."""
    made = type(parser)(dialect=parser.dialect).parse(parser.dialect.tokenize(text), text)
    held = made[0] if len(made) == 1 else None
    if isinstance(held, exp.Select):
        others = [part for key, part in held.args.items() if part and key != "expressions"]
        if others or len(held.expressions) != 1:
            parser.raise_error(_OTHER.format(name))
        held = held.expressions[0].unalias()
    return held


def with_own_functions(statements: Sequence[exp.Expr], error: Error) -> list[exp.Expr]:
    """Return the statements without CREATE FUNCTION, with the functions' calls replaced.

    Raises:
        SqlError: made by ``error``; a call has another number of arguments.
    """
    known: dict[str, OwnFunction] = {}
    kept: list[exp.Expr] = []
    for statement in statements:
        whole = exp.Paren(this=statement)
        for call in reversed(nodes_of(whole, exp.Anonymous) if known else []):
            if call.name.upper() in known:
                call.replace(_called(known[call.name.upper()], call, error))
        if isinstance(whole.this, OwnFunction):
            known[whole.this.name.upper()] = whole.this
        else:
            whole.this.parent = None
            kept.append(whole.this)
    return kept


def _is_named(part: exp.Expr) -> bool:
    return isinstance(part, exp.Kwarg | exp.PropertyEQ)


def _called(function: OwnFunction, call: exp.Anonymous, error: Error) -> exp.Expr:
    named = {p.this.name.lower(): p.expression for p in call.expressions if _is_named(p)}
    plain = [part for part in call.expressions if not _is_named(part)]
    given = dict(enumerate(plain))
    values: list[exp.Expr] = []
    for at, parameter in enumerate(function.expressions):
        value = given.pop(at, None) or named.pop(parameter.name.lower(), None)
        value = value or next(iter(parameter.args["constraints"]), None)
        if value is None:
            raise error(
                call, f"{call.name} takes {len(function.expressions)} values, in their order"
            )
        kind = parameter.args.get("kind")
        values.append(value.copy() if kind is None else exp.cast(value.copy(), kind.copy()))
    if given or named:
        raise error(call, f"{call.name} takes {len(function.expressions)} values, in their order")
    names = _names_of(function.expressions)
    made: exp.Expr = exp.Paren(this=function.args["body"].copy())
    for node in nodes_of(made, exp.Column):
        node.replace(exp.Paren(this=values[names[node.name.lower()]].copy()))
    if function.args.get("to") is not None:
        made = exp.cast(made, function.args["to"].copy())
    place(made, call)
    return made
