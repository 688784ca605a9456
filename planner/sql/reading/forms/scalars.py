"""Rewrites functions that combine other functions: HYPOT, MAKE_DATE, HISTOGRAM.

A template names its arguments ``@1``, ``@2`` and so on. Our grammar parses it.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp
from sqlglot.errors import ParseError

from planner.expressions.functions.texts.json_paths import json_operand
from planner.sql.reading.forms.by_word import of_word
from planner.sql.reading.forms.calls import WRAPPED
from planner.sql.reading.forms.queries.engines.places import nodes_of
from planner.sql.reading.forms.templates import NAMED, OF_ENGINE
from planner.sql.reading.forms.templates.spark import MONTHS_LATER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


_NATIVE = re.compile(r"@([A-Z_]+)\(")
#: Internal functions, which a query cannot name. Other names with ``@`` are not rewritten again.
_INTERNAL = (
    *("REGEXP_SPLIT", "LIST_POSITION", "LENGTH", "MAP_FROM_ENTRIES", "LIST_CONCAT", "SEQUENCE"),
    *("LIST_ITEM", "HEAD", "TAIL", "LIST_ZIP", "FIELD", "TO_TIMESTAMP", "REGEXP_MATCH"),
    *("REGEXP_INSTR", "REGEXP_PART", "REGEXP_GROUP", "TIMESTAMPDIFF_JAVA"),
    *("LIST_MEDIAN", "LIST_VARIANCE", "LIST_GRADE"),
    *("JAVA_UPPER", "JAVA_LOWER", "JAVA_TITLE"),
)
_APPENDS = re.compile("(ARRAY|LIST)_(APPEND|PREPEND)")
_VARIANTS = {"VARIANT_GET": "CAST", "TRY_VARIANT_GET": "TRY_CAST"}
_TYPE = re.compile(r"[A-Za-z]+(\(\d+(, *\d+)?\))?")
_EXTRACT_PATH = re.compile("JSONB?_EXTRACT_PATH(_TEXT)?")
#: Formats of TO_NUMBER whose texts are digits, commas, a point and a dollar sign.
_NUMBER_FORMAT = re.compile(r"\$?[90,G]+([.D][90]+)?")
_STEP = re.compile(r"""(?!-\d+$)[^"'@\\]+""")
#: Templates of ARRAY_APPEND and ARRAY_PREPEND for a list that may be null, by the last word.
_OF_NO_LIST = {
    "APPEND": "CASE WHEN @1 IS NULL THEN ARRAY[@2] ELSE @LIST_CONCAT(@1, ARRAY[@2]) END",
    "PREPEND": "CASE WHEN @2 IS NULL THEN ARRAY[@1] ELSE @LIST_CONCAT(ARRAY[@1], @2) END",
}
#: Types of numbers of JSON; a text or a truth value is not one.
_NUMBERS = (*exp.DataType.NUMERIC_TYPES,)
#: Patterns of the JSON values that Spark accepts for a type.
_FLOATS = '-?[0-9]|"([+-]INF|NaN|[+-]?Infinity)"$'
_STARTS = {
    "BOOLEAN": "[tf]",
    "DECIMAL": '"?[+-]?[.0-9]',
    "FLOAT": _FLOATS,
    "DOUBLE": _FLOATS,
}
#: A template binds an argument whose repetitions add more nodes than this. So the time to compile
#: nested calls does not grow exponentially.
_NODES_MAX = 300
_NOT_IN_LAMBDAS = (exp.AggFunc, exp.Window, exp.Query)
_VARIABLE = re.compile(r"let\d+")
#: The key in ``meta`` of nodes that must not be rewritten again.
_DONE = "native"
_NODES: dict[type[exp.Expr], str] = {
    exp.StrToMap: "STR_TO_MAP",
    exp.ArrayPosition: "ARRAY_POSITION",
    exp.AddMonths: "ADD_MONTHS",
    exp.JSONBContainsTopKey: "JSONB_EXISTS",
    exp.JSONObjectAgg: "JSON_OBJECTAGG",
    exp.JSONBObjectAgg: "JSON_OBJECTAGG",
    exp.Rint: "RINT",
    exp.ArrayToString: "ARRAY_TO_STRING",
    exp.RegexpExtract: "REGEXP_EXTRACT",
    exp.ParseDatetime: "PARSE_TIMESTAMP",
    exp.StrPosition: "STRPOS",
    exp.DayOfWeekIso: "ISODOW",
    exp.DayOfWeek: "DAYOFWEEK",
    exp.DateDiff: "DATE_DIFF",
    exp.Split: "SPLIT",
    exp.Left: "LEFT",
    exp.Right: "RIGHT",
}
#: BigQuery's functions that take a format with % first.
_PERCENT = {
    **dict.fromkeys(("FORMAT_TIMESTAMP", "FORMAT_DATE", "FORMAT_DATETIME"), "STRFTIME(@2, @1)"),
    "PARSE_TIMESTAMP": "STRPTIME(@2, @1)",
    "PARSE_DATE": "CAST(STRPTIME(@2, @1) AS DATE)",
}
#: Templates of the value of the first or last row, also if it is null.
_BY_OFFSET = {
    "LATEST_BY_OFFSET": "ELEMENT_AT(ARRAY_AGG(@1), -1)",
    "EARLIEST_BY_OFFSET": "ELEMENT_AT(ARRAY_AGG(@1), 1)",
}
_UNITS = ("YEAR", "YYYY", "YY", "QUARTER", "MONTH", "MON", "MM", "WEEK")
_DATE_UNITS = {"YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH"}


class NoLambdas(NamedTuple):
    """What cannot be in the body of a lambda, or have a lambda in it."""

    #: The names of the user's functions and aggregates, in lower case.
    functions: Collection[str] = ()
    #: Nodes whose expressions read rows of a match, which a lambda does not have.
    parents: tuple[type[exp.Expr], ...] = ()


def with_forms(
    statement: exp.Expr,
    engine: str,
    read: Callable[[str], exp.Expr],
    apart: NoLambdas,
) -> exp.Expr:
    """Rewrite functions that have a template in a statement; ``read`` parses templates."""
    # inner calls first, so that outer templates get rewritten arguments
    for node in reversed(nodes_of(statement, exp.Func)):
        template, given = (None, []) if node.meta.get(_DONE) else _of(node, engine)
        if template is not None:
            node.replace(_filled(read, engine, apart, template, given, node))
    return statement


def _name_of(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    if isinstance(node, exp.ArraySort) and node.args.get("nulls_first"):
        return "SORT_ARRAY"
    return _NODES.get(type(node)) or type(node).sql_name()  # type: ignore[attr-defined]


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    parts = [p for p in node.args.values() if isinstance(p, exp.Expr | list)]
    listed = [one for p in parts for one in (p if isinstance(p, list) else [p])]
    given = [part for part in listed if isinstance(part, exp.Expr)]
    if len(given) == 1 and isinstance(given[0], exp.JSONKeyValue):
        return [given[0].this, given[0].expression]
    return given


def _of(node: exp.Expr, engine: str) -> tuple[str | None, list[exp.Expr]]:
    """Return the template of a call, and its arguments."""
    name, given = _name_of(node), _arguments(node)
    if isinstance(node, exp.Trunc):
        unit = node.args.get("decimals")
        word = unit.name.upper() if isinstance(unit, exp.Literal) and unit.is_string else ""
        if word not in _UNITS:
            return None, given
        return f"CAST(DATE_TRUNC('{_DATE_UNITS.get(word, word)}', @1) AS DATE)", given
    if name in ("DATE_PART", "DATEPART") and len(given) == 2:
        unit = given[0].name
        is_word = isinstance(given[0], exp.Literal | exp.Column) and unit.isidentifier()
        return (f"EXTRACT({unit.upper()} FROM @2)" if is_word else None), given
    form = given[0] if len(given) == 2 else None
    if name in _PERCENT and isinstance(form, exp.Literal) and "%" in form.name:
        return _PERCENT[name], given
    if name == "REGEXP_EXTRACT" and len(given) == 3 and isinstance(given[2], exp.Array):
        return _named_groups(given[2]), given
    if name == "FROM_JSON" or isinstance(node, exp.FromJson):
        return _from_json(given), given
    if name == WRAPPED:
        lists = "CASE WHEN JSON_EXTRACT(@1, @2) LIKE '[%' THEN JSON_QUERY(@1, @2) END"
        return (lists if engine == "flink" else "JSON_QUERY(@1, @2)"), given
    if name in ("ENCODE", "DECODE") and engine in ("spark", "flink"):
        return _in_charset(name, given), given
    if name == "MAP" or isinstance(node, exp.Map):
        return _map(node, given)
    if name == "FIELD" and len(given) > 1:
        members = ", ".join(f"@{n}" for n in range(2, len(given) + 1))
        return f"@LIST_POSITION(ARRAY[{members}], @1)", given
    if name == "JSONB_PATH_QUERY_FIRST" and len(given) == 2 and "*" in given[1].name:
        return "ELEMENT_AT(JSON_ELEMENTS(JSON_EXTRACT(@1, @2)), 1)", given
    if len(given) == 2 and (name in _BY_OFFSET or name in _PATH_LISTS):
        made = _of_pair(name, given[1])
        if made is not None:
            return made, given
    if name == "DATE_BIN_HOPPING":
        return _hopping(given), given
    if name in _VARIANTS and len(given) == 3 and _TYPE.fullmatch(given[2].name):
        return f"{_VARIANTS[name]}(GET_JSON_OBJECT(@1, @2) AS {given[2].name})", given
    if engine == "duckdb" and name in ("JSON_VALUE", "JSON_EXISTS") and _is_key(given):
        path = exp.Literal.string(json_operand(given[1].name, engine))
        return f"@{name}(@1, @2)", [given[0], path]
    if _EXTRACT_PATH.fullmatch(name):
        return _at_path(name, given), given
    if _is_unknown_list(name, given):
        return None, given
    literal = given[-1] if len(given) == 2 else given[0] if len(given) == 3 else None
    if isinstance(literal, exp.Literal) and literal.is_string:
        made = of_word(name, str(literal.this).upper(), len(given), engine)
        if made is not None:
            return made, given
    is_append = engine in ("postgres", "duckdb") and _APPENDS.fullmatch(name) and len(given) == 2
    # a NULL literal has no type, which the template needs
    if is_append and not any(isinstance(part, exp.Null) for part in given):
        return _OF_NO_LIST[name.partition("_")[2]], given
    start = given[1] if name == "SUBSTRING" and len(given) > 1 else None
    if isinstance(start, exp.Literal) and start.name != "0":
        return None, given  # a literal start other than 0 means the same in all engines
    return _listed(name, engine, given), given


def _listed(name: str, engine: str, given: list[exp.Expr]) -> str | None:
    """Return the template of a name and number of arguments."""
    if name == "ADD_MONTHS" and engine == "spark" and not _is_number(given[1:]):
        return MONTHS_LATER
    form = given[1] if name == "TO_NUMBER" and len(given) == 2 else None
    if isinstance(form, exp.Literal) and _NUMBER_FORMAT.fullmatch(form.name):
        return "CAST(REPLACE(REPLACE(@1, ',', ''), '$', '') AS DECIMAL(38, 10))"
    digits = _digits_of(given)
    if digits is not None and name == "BROUND" and digits <= 0:
        return f"BROUND(@1 / 1e{-digits}) * 1e{-digits}" if digits else NAMED["BROUND", 1]
    if digits is not None and name in ("CEIL", "CEILING", "FLOOR") and engine == "spark":
        return _to_digits(name, digits)
    known = OF_ENGINE.get((engine, name, len(given)))
    return known or NAMED.get((name, len(given)))


def _digits_of(given: list[exp.Expr]) -> int | None:
    """Return the second of two arguments if it is a whole number."""
    part = given[1].unnest() if len(given) == 2 else None
    sign, held = (-1, part.this) if isinstance(part, exp.Neg) else (1, part)
    is_number = isinstance(held, exp.Literal) and held.is_int
    return sign * int(held.name) if is_number and held is not None else None


def _to_digits(name: str, digits: int) -> str:
    """Return the template of ``CEIL(x, 2)``, computed in decimals, and of ``CEIL(x, -2)``."""
    if digits < 0:
        return f"@{name}(@1 / 1e{-digits}) * 1e{-digits}"
    scaled = f"@{name}(CAST(@1 AS DECIMAL(28, 10)) * {10**digits})"
    return f"CAST({scaled} AS DOUBLE) / 1e{digits}"


def _is_number(given: list[exp.Expr]) -> bool:
    return len(given) == 1 and isinstance(given[0].unnest(), exp.Literal | exp.Neg)


def _named_groups(names: exp.Array) -> str:
    """Return the template of DuckDB's ``REGEXP_EXTRACT(s, p, ['a', 'b'])``."""
    groups = [
        f"'{part.name}', @REGEXP_EXTRACT(@1, @2, {at})"
        for at, part in enumerate(names.expressions, 1)
    ]
    return f"NAMED_STRUCT({', '.join(groups)})"


def _is_unknown_list(name: str, given: list[exp.Expr]) -> bool:
    """Return whether a list call is unsupported: more than one dimension, or position 0."""
    if name == "ARRAY_FILL" and len(given) == 2:
        return not (isinstance(given[1], exp.Array) and len(given[1].expressions) == 1)
    is_insert = name == "ARRAY_INSERT" and len(given) == 3
    return is_insert and given[1] == exp.Literal.number(0)


def _is_key(given: list[exp.Expr]) -> bool:
    """Return whether the path of ``JSON_VALUE(j, 'a.b')`` is a key, which it is without ``$``."""
    return len(given) > 1 and given[1].is_string and not given[1].name.startswith("$")


_PATH_LISTS = ("JSONB_PATH_QUERY_ARRAY", "JSON_PATH_QUERY_ARRAY")


def _of_pair(name: str, second: exp.Expr) -> str | None:
    """Return the template that the second argument selects; None: it selects none.

    ``LATEST_BY_OFFSET(x, FALSE)`` of ksqlDB, and ``JSONB_PATH_QUERY_ARRAY(j, path)``.
    """
    if name in _BY_OFFSET:
        if not isinstance(second, exp.Boolean):
            return None
        return f"{name}(@1)" if second.this else _BY_OFFSET[name]
    found = "JSON_EXTRACT(@1, @2)"
    whole = found if "*" in second.name else f"'[' || {found} || ']'"
    return f"CASE WHEN @1 IS NOT NULL THEN COALESCE({whole}, '[]') END"


def _in_charset(name: str, given: list[exp.Expr]) -> str | None:
    """Return the template of ``ENCODE(s, 'UTF-8')`` or ``DECODE(b, 'UTF-8')``; None: another."""
    charset = given[1] if len(given) == 2 else None
    if not isinstance(charset, exp.Literal) or charset.name.upper() not in ("UTF-8", "UTF8"):
        return None
    return f"CAST(@1 AS {'BINARY' if name == 'ENCODE' else 'VARCHAR'})"


def _from_json(given: list[exp.Expr]) -> str | None:
    """Return the template of ``FROM_JSON(s, 'a STRING')``; None: the schema is no such literal."""
    if len(given) != 2 or not isinstance(given[1], exp.Literal):
        return None
    schema = str(given[1].this).strip()
    is_type = schema.upper().startswith(("STRUCT<", "ARRAY<"))
    try:
        kind = exp.DataType.build(schema if is_type else f"STRUCT<{schema}>", dialect="spark")
    except ParseError:
        return None
    made = _of_json(kind, "@1", "$", 0)
    return made and f"CASE WHEN @1 IS NOT NULL THEN {made} END"


def _of_json(kind: exp.DataType, held: str, path: str, depth: int) -> str | None:
    """Return the template of a value of a type at a path; None: the type is not supported."""
    name = str(getattr(kind.this, "value", kind.this))
    json = f"JSON_EXTRACT({held}, '{path}')"
    if name == "ARRAY" and kind.expressions:
        e = f"e{depth}"
        element = _of_json(kind.expressions[0], e, "$", depth + 1)
        listed = f"JSON_ELEMENTS({json})"
        bad = f"FILTER({listed}, {e} -> ({element}) IS NULL AND JSON_EXTRACT({e}, '$') <> 'null')"
        made = f"TRANSFORM({listed}, {e} -> {element})"
        is_list = f"REGEXP_LIKE({json}, '^[[]')"
        return element and f"CASE WHEN {is_list} AND CARDINALITY({bad}) = 0 THEN {made} END"
    if name == "STRUCT":
        fields = []
        for part in kind.expressions:
            inner = part.args.get("kind")
            is_plain = type(inner) is exp.DataType and part.name.isidentifier()
            value = _of_json(inner, held, f"{path}.{part.name}", depth) if is_plain else None
            if value is None:
                return None
            fields.append(f"'{part.name}', {value}")
        made = f"NAMED_STRUCT({', '.join(fields)})"
        if path == "$" and depth == 0:
            return made if fields else None
        return f"CASE WHEN REGEXP_LIKE({json}, '^[{{]') THEN {made} END"
    if name in ("MAP", "OBJECT", "ARRAY", "BINARY", "VARBINARY"):
        return None
    text, written = f"JSON_VALUE({held}, '{path}')", kind.sql(dialect="duckdb")
    if name in ("TEXT", "VARCHAR", "CHAR"):
        return f"COALESCE(TRY_CAST({text} AS {written}), JSON_QUERY({held}, '{path}'))"
    seconds = ""
    if name in ("TIMESTAMPTZ", "TIMESTAMPLTZ"):
        instant = f"TO_TIMESTAMP_LTZ(TRY_CAST({text} AS BIGINT), 0)"
        seconds = f"WHEN REGEXP_LIKE({json}, '^-?[0-9]+$') THEN CAST({instant} AS {written}) "
    starts = _STARTS.get(name) or ("-?[0-9]" if kind.is_type(*_NUMBERS) else '"')
    value = f"TRY_CAST({text} AS {written})"
    return f"CASE {seconds}WHEN REGEXP_LIKE({json}, '^({starts})') THEN {value} END"


def _hopping(given: list[exp.Expr]) -> str | None:
    """Return the template of ``DATE_BIN_HOPPING(step, size, t)``: the starts of t's windows."""
    if len(given) != 3 or not all(isinstance(p, exp.Literal | exp.Interval) for p in given[:2]):
        return None
    hop, width = (str(p.this.name if isinstance(p, exp.Interval) else p.name) for p in given[:2])
    hop, width = (f"EPOCH_US(INTERVAL '{length}')" for length in (hop, width))
    start = f"EPOCH_US(@3) DIV {hop} * {hop}"
    starts = f"@SEQUENCE({start}, EPOCH_US(@3) - {width} + 1, -1 * {hop})"
    return f"TRANSFORM({starts}, t -> TO_TIMESTAMP_LTZ(t DIV 1000, 3))"


def _at_path(name: str, given: list[exp.Expr]) -> str | None:
    """Return the template of ``JSONB_EXTRACT_PATH(j, 'a', '1')``.

    A step of digits is a place in a list or a name in an object. None: a step is no literal, counts
    from the end of a list, or has a quote.
    """
    steps: list[list[str]] = []
    for step in given[1:]:
        is_step = isinstance(step, exp.Literal) and step.is_string and _STEP.fullmatch(step.name)
        if not is_step:
            return None
        named = f'."{step.name}"'
        steps.append([f"[{int(step.name)}]", named] if step.name.isdecimal() else [named])
    read = "JSON_VALUE" if name.endswith("_TEXT") else "JSON_EXTRACT"
    reads = [f"{read}(@1, '${''.join(path)}')" for path in itertools.product(*steps)]
    return f"COALESCE({', '.join(reads)})" if len(reads) > 1 else reads[0]


def _map(node: exp.Expr, given: list[exp.Expr]) -> tuple[str | None, list[exp.Expr]]:
    """Return template and arguments of ``MAP('a', x, 'b', y)`` or ksqlDB's ``MAP('a' := x)``."""
    pairs: list[exp.Expr] = []
    for part in given:
        is_pair = isinstance(part, exp.PropertyEQ | exp.Kwarg)
        pairs += [part.this, part.expression] if is_pair else [part]
    if len(pairs) == 2 and all(isinstance(part, exp.Array) for part in pairs):
        return "AS_MAP(@1, @2)", pairs
    if not pairs or len(pairs) % 2 or any(isinstance(part, exp.Array) for part in pairs[::2]):
        return None, given
    places = range(1, len(pairs) + 1)
    keys, values = (", ".join(f"@{n}" for n in places[start::2]) for start in (0, 1))
    return f"AS_MAP(ARRAY[{keys}], ARRAY[{values}])", pairs


def _large(
    uses: list[int], made: exp.Expr, given: list[exp.Expr], apart: NoLambdas, node: exp.Expr
) -> list[int]:
    """Return the numbers of the arguments that are too large to be repeated and can be bound.

    The last is bound outside of all lambdas. The template and all other arguments go into bodies.
    """
    repeats = {n: uses.count(n) - 1 for n in dict.fromkeys(uses) if uses.count(n) > 1}
    found = sorted(n for n, more in repeats.items() if more * _size(given[n - 1]) > _NODES_MAX)
    if not found or node.find_ancestor(*apart.parents):
        return []
    bodies = [made, *(part for n, part in enumerate(given, start=1) if n != found[-1])]
    # a lambda has no aggregates and queries, and its body cannot call Python code
    is_free = not any(nodes_of(part, *_NOT_IN_LAMBDAS) for part in (made, *given))
    calls = [call for part in bodies for call in nodes_of(part, exp.Func)]
    is_free = is_free and not any(_name_of(call).lower() in apart.functions for call in calls)
    return found if is_free else []


def _size(node: exp.Expr) -> int:
    return len(nodes_of(node, exp.Expr))


def _bound(template: str, large: list[int], given: list[exp.Expr]) -> str:
    """Return a template that evaluates large arguments once: they are the values of lambdas."""
    names = [one.name.lower() for part in given for one in nodes_of(part, exp.Identifier)]
    level = 1 + max((int(name[3:]) for name in names if _VARIABLE.fullmatch(name)), default=0)
    for number, place in enumerate(large, start=level):
        template = re.sub(rf"@{place}(?!\d)", f"let{number}", template)
        template = f"ELEMENT_AT(TRANSFORM(ARRAY[@{place}], let{number} -> {template}), 1)"
    return template


def _filled(
    read: Callable[[str], exp.Expr],
    engine: str,
    apart: NoLambdas,
    template: str,
    given: list[exp.Expr],
    node: exp.Expr,
) -> exp.Expr:
    native = set(_NATIVE.findall(template))
    text = _NATIVE.sub(lambda f: f"{'_' * (f[1] in _INTERNAL)}{f[1]}(", template)
    for place in range(len(given), 0, -1):
        text = text.replace(f"@{place}", f'"@{place}"')
    made: exp.Expr = exp.Paren(this=read(text))
    for call in nodes_of(made, exp.Func):
        if isinstance(call, exp.Anonymous) and call.name[1:] in _INTERNAL:
            call.set("this", f"@{call.name[1:].lower()}")
        elif _name_of(call) in native:
            call.meta[_DONE] = True
    with_forms(made, engine, read, apart)
    columns = [column for column in nodes_of(made, exp.Column) if column.name.startswith("@")]
    if large := _large([int(column.name[1:]) for column in columns], made, given, apart, node):
        return _filled(read, engine, apart, _bound(template, large, given), given, node)
    for column in columns:
        value = given[int(column.name[1:]) - 1]
        is_plain = isinstance(value, exp.Literal | exp.Column | exp.Func)
        column.replace(value.copy() if is_plain else exp.Paren(this=value.copy()))
    for part in made.walk():
        if "start" in node.meta:
            part.meta.setdefault("start", node.meta["start"])
            part.meta.setdefault("end", node.meta["end"])
    return made
