"""The functions of SQL in terms of the fluent interface.

The first table is keyed by sqlglot's node and names the parts that are expressions; the second has
what sqlglot does not know. What is in neither is an error that names the function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, ve, vs
from planner.errors import InvalidPlanError
from planner.expressions.functions.calendar import UNITS
from planner.sql.expressions import calls, catalogue, containers
from planner.sql.reading.hints import HINTS
from planner.sql.reading.literals import plain_value
from rvertex.user_code.durations import UNITS_US

if TYPE_CHECKING:
    from planner.sql.reading.parsing import SqlText

#: Some parts of the node, compiled -> the expression.
Build = Callable[..., Expr]

CALLS: dict[type[exp.Expr], tuple[tuple[str, ...], Build]] = {
    **catalogue.CALLS,
    exp.Abs: (("this",), Expr.abs),
    exp.Floor: (("this",), Expr.floor),
    exp.Ceil: (("this",), Expr.ceil),
    exp.Sqrt: (("this",), Expr.sqrt),
    exp.Year: (("this",), lambda x: x.dt.year()),
    exp.Month: (("this",), lambda x: x.dt.month()),
    exp.Day: (("this",), lambda x: x.dt.day()),
    exp.Hour: (("this",), lambda x: x.dt.hour()),
    exp.Minute: (("this",), lambda x: x.dt.minute()),
    exp.Second: (("this",), lambda x: x.dt.second()),
    exp.DayOfYear: (("this",), lambda x: x.dt.day_of_year()),
    exp.Nullif: (("this", "expression"), lambda a, b: when(a == b).then(None).otherwise(a)),
    **calls.CALLS,
    **containers.CALLS,
    exp.If: (("this", "true", "false"), lambda c, a, b=None: when(c).then(a).otherwise(b)),
}

#: By name, lower case; the number of arguments is that of the Python function.
NAMED: dict[str, Build] = {
    **catalogue.NAMED,
    "vs": vs,
    "ve": ve,
    "epoch_us": lambda x: x.dt.epoch_us(),
    "weekday": lambda x: x.dt.weekday(),
    "sqrt": Expr.sqrt,
    **calls.NAMED,
    **containers.NAMED,
}

_PARTS = {
    **{unit: unit.lower() for unit in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")},
    "DOY": "day_of_year",
    "DAYOFYEAR": "day_of_year",
    "WEEKDAY": "weekday",
    "EPOCH_US": "epoch_us",
    **dict.fromkeys(("WEEK", "QUARTER"), ""),
    "DOW": "day_of_week",
    "ISOYEAR": "iso_year",
}
_COMPUTED = ("EPOCH", "ISODOW")
_TRUNCATED = {
    "DAY": "d", "HOUR": "h", "MINUTE": "m", "SECOND": "s", "MILLISECOND": "ms", "MICROSECOND": "us"
}  # fmt: skip

_WILD = {"%": ".*", "_": "."}


def parts_of(node: exp.Expr, names: tuple[str, ...]) -> list[exp.Expr]:
    """The parts of a node that are there, with each of a list."""
    found: list[exp.Expr] = []
    for name in names:
        part = node.args.get(name)
        found += part if isinstance(part, list) else [] if part is None else [part]
    return found


def reject_others(node: exp.Expr, known: tuple[str, ...], text: SqlText) -> None:
    """Arguments and modifiers of a function that nothing here looks at are told, not ignored."""
    for name, part in node.args.items():
        if part and name not in known and not isinstance(part, bool):
            at = part if isinstance(part, exp.Expr) else node
            said = text.spelled(node)
            hint = f"; {HINTS[said]}" if said in HINTS else ""
            raise text.error(at, f"this form of {said} is not supported{hint}")


#: Arguments that are texts, wherever they are literals.
_WORDS = frozenset(("expression", "replacement", "delimiter"))


def takes_literals(node: exp.Expr) -> bool:
    """Whether it is a function of one value whose other arguments are literals."""
    return type(node) in _WITH_LITERALS


def with_literals(node: exp.Expr, value: Expr, text: SqlText) -> Expr:
    """Such a function, of ``value``."""
    known = (
        *("this", "expression", "replacement", "start", "length", "decimals"),
        *("delimiter", "part_index", "unit", "position"),
    )
    reject_others(node, known, text)
    literals = {k: plain_value(node.args[k], text) for k in known[1:-2] if node.args.get(k)}
    for name in _WORDS.intersection(literals):
        if not isinstance(literals[name], str):
            raise text.error(node.args[name], f"{text.spelled(node)} takes a text here")
    with text.located(node):
        return _WITH_LITERALS[type(node)](value, literals, node, text)


def like(value: Expr, pattern: str, escape: str = "\\") -> Expr:
    """``LIKE``: ``%`` is any text, ``_`` any character, ``escape`` takes the next as it is.

    Raises:
        InvalidPlanError: nothing follows the last ``escape``.
    """
    characters = iter(pattern)
    pieces: list[tuple[str, bool]] = []  # with whether it stands for others
    for character in characters:
        if character == escape:
            taken = next(characters, "")
            if not taken:
                raise InvalidPlanError(f"LIKE {pattern!r}: nothing follows the last {escape!r}")
            pieces.append((taken, False))
        else:
            pieces.append((character, character in "%_"))
    wild = [at for at, (_, is_wild) in enumerate(pieces) if is_wild]
    plain = "".join(character for character, is_wild in pieces if not is_wild)
    last = len(pieces) - 1
    if not any(is_wild and character == "_" for character, is_wild in pieces):
        if not wild:
            return value == plain
        if wild == [last]:
            return value.str.starts_with(plain)
        if wild == [0]:
            return value.str.ends_with(plain)
        if wild == [0, last]:
            return value.str.contains(plain)
    parts = (_WILD[c] if is_wild else re.escape(c) for c, is_wild in pieces)
    return value.str.contains(rf"(?s)\A{''.join(parts)}\z", regex=True)


def _split_part(value: Expr, given: dict[str, Any], node: exp.Expr, text: SqlText) -> Expr:
    place = given.get("part_index")
    if not isinstance(place, int) or place < 1:
        raise text.error(node, "SPLIT_PART takes a text, a separator and a place from 1 on")
    part = value.str.split(given["delimiter"]).item(place - 1)
    return when(value.is_null()).then(None).otherwise(part.fill_null(""))


def concat(values: list[Expr]) -> Expr:
    """Texts, one after the other; null if one is."""
    first, *rest = values
    for value in rest:
        first = first + value
    return first


def _substring(value: Expr, given: dict[str, Any], node: exp.Expr, text: SqlText) -> Expr:
    start, length = given.get("start", 1), given.get("length")
    if not isinstance(start, int) or start == 0 or not isinstance(length, int | None):
        raise text.error(node, "SUBSTRING takes a start from 1 on and a length, both whole")
    if start < 0 and (length is None or length >= 0):
        stop = None if length is None or start + length >= 0 else start + length
        return value.str.slice(start, stop)
    if length is not None and length < 0:
        raise text.error(node, "SUBSTRING takes a start from 1 on and a length, both whole")
    return value.str.slice(start - 1, None if length is None else start - 1 + length)


def extract(part: str, value: Expr, node: exp.Expr, text: SqlText) -> Expr:
    """``EXTRACT(part FROM value)``."""
    method = _PARTS.get(part.upper())
    build = calls.NAMED.get(part.lower())
    if method is None and part.upper() not in _COMPUTED:
        known = ", ".join((*_PARTS, *_COMPUTED))
        raise text.error(node, f"no part {part}; the parts are: {known}")
    with text.located(node):
        if method is None:
            assert build is not None, part
            return build(value)
        made: Expr = getattr(value.dt, method or part.lower())()
    return made


def _truncate(value: Expr, _given: dict[str, Any], node: exp.Expr, text: SqlText) -> Expr:
    name = node.args["unit"].name
    if name.lower() in UNITS:
        with text.located(node):
            return value.dt.floor(name.lower())
    unit = _TRUNCATED.get(name.upper())
    if unit is None:
        known = ", ".join((*_TRUNCATED, *map(str.upper, UNITS)))
        raise text.error(node, f"times are truncated to {known}")
    assert unit in UNITS_US, unit
    return value.dt.truncate(f"1{unit}")


def _trim(value: Expr, given: dict[str, Any], node: exp.Expr, _text: SqlText) -> Expr:
    characters = given.get("expression")
    side = node.args.get("position")
    if side in ("LEADING", "TRAILING"):
        sides = {"LEADING": value.str.strip_left, "TRAILING": value.str.strip_right}
        return sides[side](characters)
    return value.str.strip(characters)


def _ilike(value: Expr, given: dict[str, Any], *_: object) -> Expr:
    return like(value.str.lower(), str(given["expression"]).lower())


def similar_pattern(pattern: str) -> str:
    """A pattern of SIMILAR TO as a regular expression."""
    return "".join(_WILD.get(c, f"\\{c}" if c in ".^$" else c) for c in pattern)


_WITH_LITERALS: dict[type[exp.Expr], Callable[..., Expr]] = {
    exp.Round: lambda x, given, *_: x.round(given.get("decimals", 0)),
    exp.Trim: _trim,
    exp.Like: lambda x, given, *_: like(x, given["expression"]),
    exp.ILike: _ilike,
    exp.SimilarTo: lambda x, given, *_: x.str.contains(
        rf"(?s)\A(?:{similar_pattern(given['expression'])})\z", regex=True
    ),
    exp.SplitPart: _split_part,
    exp.Substring: _substring,
    exp.DateTrunc: _truncate,
    exp.TimestampTrunc: _truncate,
}
