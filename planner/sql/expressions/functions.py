"""The functions of SQL, in terms of the fluent interface.

The first table is keyed by sqlglot's node and names the parts that are expressions. The second
table has functions without a node in sqlglot. A function in neither table is an error that names
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, ve, vs
from planner.expressions.functions.calendar import UNITS
from planner.sql.expressions import calls, containers
from planner.sql.expressions.engines import catalogue
from planner.sql.reading.forms.queries.engines.places import nodes_of
from planner.sql.reading.hints import HINTS
from planner.sql.reading.literals import interval_us, plain_value
from planner.sql.reading.read_parts import READ
from rvertex.user_code.durations import UNITS_US

if TYPE_CHECKING:
    from planner.sql.reading.parsing import SqlText

#: Builds an expression from compiled parts of a node.
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

#: By name in lower case; the Python function's parameters decide the number of arguments.
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
_COMPUTED = ("EPOCH", "ISODOW", "DAYOFWEEK")
#: Parts of dates that number days in another way in some dialects: Sunday is 1.
_OF_ENGINE = {
    ("flink", "DOW"): "DAYOFWEEK",
    ("spark", "DOW"): "DAYOFWEEK",
    ("spark", "DOW_ISO"): "ISODOW",
    ("spark", "YEAROFWEEK"): "ISOYEAR",
    ("spark", "DAYOFWEEK_ISO"): "ISODOW",
    **{(name, "DAYOFWEEK"): "DOW" for name in ("postgres", "duckdb")},
}
_TRUNCATED = {
    "DAY": "d", "HOUR": "h", "MINUTE": "m", "SECOND": "s", "MILLISECOND": "ms", "MICROSECOND": "us"
}  # fmt: skip

_WILD = {"%": ".*", "_": "."}


def as_calls(statement: exp.Expr) -> exp.Expr:
    """Return the statement with calls by name for nodes of sqlglot that are compiled by name."""
    for node in nodes_of(statement, exp.Func):
        name = type(node).sql_name().lower()
        if isinstance(node, exp.Anonymous | exp.AggFunc) or type(node) in READ:
            continue
        # a node with a single SQL name was written with this name in the query
        is_one = len(type(node).sql_names()) == 1
        if is_one and name in NAMED and type(node) not in CALLS:
            made = exp.Anonymous(this=name.upper(), expressions=arguments(node))
            made.meta.update(node.meta)
            node.replace(made)
    return statement


def parts_of(node: exp.Expr, names: tuple[str, ...]) -> list[exp.Expr]:
    """Return the parts that a node has, with each element of lists."""
    parts: list[exp.Expr] = []
    for name in names:
        part = node.args.get(name)
        parts += part if isinstance(part, list) else [] if part is None else [part]
    return parts


def reject_others(node: exp.Expr, known: tuple[str, ...], text: SqlText) -> None:
    """Raise for arguments and modifiers that the compiler would otherwise ignore."""
    for name, part in node.args.items():
        if part and name not in known and not isinstance(part, bool):
            at = part if isinstance(part, exp.Expr) else node
            spelling = text.spelled(node)
            hint = HINTS.get(spelling, "write it without this")
            raise text.error(at, f"this form of {spelling} is not supported; {hint}")


#: Arguments that are strings if they are literals.
_WORDS = frozenset(("expression", "replacement", "delimiter"))


def takes_literals(node: exp.Expr) -> bool:
    """Return whether a node is a function of one value whose other arguments are literals."""
    return type(node) in _WITH_LITERALS


def with_literals(node: exp.Expr, value: Expr, text: SqlText) -> Expr:
    """Compile a call such as ``ROUND(value, 2)``, whose other arguments are literals."""
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


def concat(values: list[Expr]) -> Expr:
    """Concatenate strings; null if one is null."""
    first, *rest = values
    for value in rest:
        first = first + value
    return first


def _day_of_week(value: Expr) -> Expr:
    return value.dt.day_of_week() + 1


def extract(part: str, value: Expr, node: exp.Expr, text: SqlText) -> Expr:
    """Compile ``EXTRACT(part FROM value)``."""
    if part.upper() not in (*_PARTS, *_COMPUTED) and part.upper().removesuffix("S") in _PARTS:
        part = part[:-1]  # the plural DAYS means DAY
    part = _OF_ENGINE.get((text.engine.name, part.upper()), part)
    method = _PARTS.get(part.upper())
    build = calls.NAMED.get(part.lower())
    if part.upper() == "DAYOFWEEK":
        build = _day_of_week
    if method is None and part.upper() not in _COMPUTED:
        known = ", ".join((*_PARTS, *_COMPUTED))
        raise text.error(node, f"no part {part}; the parts are: {known}")
    with text.located(node):
        if method is None:
            assert build is not None, part
            return build(value)
        if part.upper() == "SECOND" and text.engine.name in ("postgres", "spark"):
            return value.dt.epoch_us() % UNITS_US["m"] / float(UNITS_US["s"])
        made: Expr = getattr(value.dt, method or part.lower())()
    return made


def other_part(part: str, value: Expr, text: SqlText, *, is_length: bool) -> Expr | None:
    """Return a part that only PostgreSQL or DuckDB has, or a part of a length; None: neither."""
    name = part.upper()
    if text.engine.name not in ("postgres", "duckdb"):
        return None
    if is_length:
        return _of_length(name.removesuffix("S"), value, text)
    years = _YEARS.get(name)
    if years is not None:
        return (value.dt.year() + (years - 1 if years > _DECADE else 0)) // years
    divisor = {"MILLISECOND": 1000, "MICROSECOND": 1}.get(name.removesuffix("S"))
    if divisor is None:
        return None
    us = value.dt.epoch_us() % UNITS_US["m"]
    return us / float(divisor) if text.engine.name == "postgres" else us // divisor


_DECADE = 10
_YEARS = {"DECADE": _DECADE, "CENTURY": 100, "MILLENNIUM": 1000}


def check_length(node: exp.Extract, text: SqlText) -> None:
    """Refuse a part of a computed or long length: other engines store its days separately.

    Raises:
        SqlError: the part is not EPOCH.
    """
    length = node.args["expression"].unnest()
    is_written = length.find(exp.Interval) is not None and length.find(exp.Column) is None
    is_short = isinstance(length, exp.Interval) and abs(interval_us(length, text)) < UNITS_US["d"]
    if is_written and not is_short and node.this.name.upper() != "EPOCH":
        raise text.error(node, _LONG)


_LONG = (
    "only INTERVALs shorter than a day, and differences of times, have parts; write "
    "EXTRACT(EPOCH FROM d) for its seconds"
)


def _of_length(part: str, value: Expr, text: SqlText) -> Expr | None:
    """Return a part of a length of days, hours, minutes and seconds, with the length's sign."""
    us = value.dt.epoch_us()
    if part == "EPOCH":
        return us / float(UNITS_US["s"])
    size = UNITS_US.get(_TRUNCATED.get(part, ""))
    if size is None:
        return None
    around = {"HOUR": "d", "MINUTE": "h", "SECOND": "m"}.get(part)
    rest = us.abs() if around is None else us.abs() % UNITS_US[around]
    is_exact = part == "SECOND" and text.engine.name == "postgres"
    count = rest / float(size) if is_exact else rest // size
    return when(us < 0).then(-count).otherwise(count)


def _truncate(value: Expr, _given: dict[str, Any], node: exp.Expr, text: SqlText) -> Expr:
    name = node.args["unit"].name
    if name.lower() in UNITS:
        with text.located(node):
            return value.dt.floor(name.lower())
    unit = _TRUNCATED.get(name.upper())
    if unit is None:
        known = ", ".join((*_TRUNCATED, *map(str.upper, UNITS)))
        raise text.error(node, f"times can be truncated only to {known}")
    assert unit in UNITS_US, unit
    return value.dt.truncate(f"1{unit}")


def similar_pattern(pattern: str) -> str:
    """Convert a pattern of SIMILAR TO to a regular expression."""
    return "".join(_WILD.get(c, f"\\{c}" if c in ".^$" else c) for c in pattern)


_WITH_LITERALS: dict[type[exp.Expr], Callable[..., Expr]] = {
    exp.Round: lambda x, given, *_: x.round(given.get("decimals", 0)),
    exp.SimilarTo: lambda x, given, *_: x.str.contains(
        rf"(?s)\A(?:{similar_pattern(given['expression'])})\z", regex=True
    ),
    exp.DateTrunc: _truncate,
    exp.TimestampTrunc: _truncate,
}


def arguments(node: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of a function in the order in which sqlglot lists them."""
    given: list[exp.Expr] = []
    for part in node.args.values():
        given += [p for p in (part if isinstance(part, list) else [part]) if p is not None]
    return [part for part in given if isinstance(part, exp.Expr)]
