"""Rewrites functions that combine other functions: HYPOT, MAKE_DATE, HISTOGRAM.

A template names its arguments ``@1``, ``@2`` and so on. Our grammar parses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable


_DAY = "CAST(LPAD(CAST(@1 AS VARCHAR), 4, '0') || '-' || LPAD(CAST(@2 AS VARCHAR), 2, '0') || '-' "
_MADE = _DAY + "|| LPAD(CAST(@3 AS VARCHAR), 2, '0') AS DATE)"
_SPLIT = "SPLIT(@1, {0})"
_PAIRS = (
    f"AS_MAP(TRANSFORM({_SPLIT}, p -> SPLIT_PART(p, {{1}}, 1)), "
    f"TRANSFORM({_SPLIT}, p -> SPLIT_PART(p, {{1}}, 2)))"
)
_OBJECT = (
    "'{' || ARRAY_JOIN(ARRAY_AGG(TO_JSON(@1) || ':' || TO_JSON(@2)) "
    "FILTER (WHERE @1 IS NOT NULL), ',') || '}'"
)
#: Templates by name and number of arguments.
_NAMED: dict[tuple[str, int], str] = {
    ("HYPOT", 2): "SQRT(CAST(@1 AS DOUBLE) * @1 + CAST(@2 AS DOUBLE) * @2)",
    ("PMOD", 2): "CASE WHEN MOD(@1, @2) < 0 THEN MOD(MOD(@1, @2) + @2, @2) ELSE MOD(@1, @2) END",
    ("BROUND", 1): ("CASE WHEN @1 - FLOOR(@1) = 0.5 THEN 2 * ROUND(@1 * 0.5) ELSE ROUND(@1) END"),
    ("RINT", 1): "CASE WHEN @1 - FLOOR(@1) = 0.5 THEN 2 * ROUND(@1 * 0.5) ELSE ROUND(@1) END",
    ("MAKE_DATE", 3): _MADE,
    ("MAKE_TIMESTAMP", 6): (
        f"CAST({_MADE} AS TIMESTAMP) + INTERVAL '1' HOUR * @4 + INTERVAL '1' MINUTE * @5 "
        "+ INTERVAL '1' SECOND * CAST(@6 AS DOUBLE)"
    ),
    ("MASK", 1): (
        "REGEXP_REPLACE(REGEXP_REPLACE(REGEXP_REPLACE(REGEXP_REPLACE(@1, '[^A-Za-z0-9]', '-', 'g'),"
        " '[a-z]', 'x', 'g'), '[A-Z]', 'X', 'g'), '[0-9]', 'n', 'g')"
    ),
    ("MAP_FROM_ARRAYS", 2): "AS_MAP(@1, @2)",
    ("SPLIT_TO_MAP", 3): _PAIRS.format("@2", "@3"),
    ("STR_TO_MAP", 1): _PAIRS.format("','", "':'"),
    ("STR_TO_MAP", 2): _PAIRS.format("@2", "':'"),
    ("STR_TO_MAP", 3): _PAIRS.format("@2", "@3"),
    ("TIMESTAMPTOSTRING", 2): "DATE_FORMAT(TO_TIMESTAMP_LTZ(@1, 3), @2)",
    ("FORMAT_TIMESTAMP", 2): "DATE_FORMAT(@1, @2)",
    ("FORMAT_DATE", 2): "DATE_FORMAT(@1, @2)",
    ("PARSE_TIMESTAMP", 2): "TO_TIMESTAMP(@1, @2)",
    ("STRINGTOTIMESTAMP", 2): "EPOCH_MS(TO_TIMESTAMP(@1, @2))",
    ("PARSE_DATE", 2): "TO_DATE(@1, @2)",
    ("FROM_UNIXTIME_MS", 1): "TO_TIMESTAMP_LTZ(@1, 3)",
    ("AS_VALUE", 1): "@1",
    ("URL_EXTRACT_PATH", 1): "PARSE_URL(@1, 'PATH')",
    ("URL_EXTRACT_HOST", 1): "PARSE_URL(@1, 'HOST')",
    ("URL_EXTRACT_QUERY", 1): "PARSE_URL(@1, 'QUERY')",
    ("URL_EXTRACT_PARAMETER", 2): "PARSE_URL(@1, 'QUERY', @2)",
    ("URL_ENCODE_PARAM", 1): "URL_ENCODE(@1)",
    ("URL_DECODE_PARAM", 1): "URL_DECODE(@1)",
    ("JSONB_EXISTS", 2): "JSON_EXISTS(@1, '$.' || @2)",
    ("LATEST_BY_OFFSET", 2): (
        "ARRAY_SLICE(ARRAY_AGG(@1) FILTER (WHERE @1 IS NOT NULL), -1 * @2, -1)"
    ),
    ("EARLIEST_BY_OFFSET", 2): "ARRAY_SLICE(ARRAY_AGG(@1) FILTER (WHERE @1 IS NOT NULL), 1, @2)",
    **dict.fromkeys((("JSONB_OBJECT_AGG", 2), ("JSON_OBJECT_AGG", 2)), _OBJECT),
    ("JSON_OBJECTAGG", 2): _OBJECT,
    ("UNBASE64", 1): "FROM_BASE64(@1)",
}
#: Templates of single dialects, by dialect, name and number of arguments.
_OF_ENGINE: dict[tuple[str, str, int], str] = {
    ("postgres", "ARRAY_POSITION", 2): "NULLIF(ARRAY_POSITION(@1, @2), 0)",
    ("duckdb", "ARRAY_POSITION", 2): "NULLIF(ARRAY_POSITION(@1, @2), 0)",
    ("spark", "ADD_MONTHS", 2): "CAST(ADD_MONTHS(@1, @2) AS DATE)",
    ("ksqldb", "UNIX_TIMESTAMP", 1): "EPOCH_MS(@1)",
    ("ksqldb", "FROM_UNIXTIME", 1): "TO_TIMESTAMP_LTZ(@1, 3)",
    ("ksqldb", "REGEXP_EXTRACT", 2): "REGEXP_EXTRACT(@2, @1, 0)",
    ("ksqldb", "REGEXP_EXTRACT", 3): "REGEXP_EXTRACT(@2, @1, @3)",
}
_NODES: dict[type[exp.Expr], str] = {
    exp.StrToMap: "STR_TO_MAP",
    exp.ArrayPosition: "ARRAY_POSITION",
    exp.AddMonths: "ADD_MONTHS",
    exp.JSONBContainsTopKey: "JSONB_EXISTS",
    exp.JSONObjectAgg: "JSON_OBJECTAGG",
    exp.JSONBObjectAgg: "JSON_OBJECTAGG",
    exp.Rint: "RINT",
    exp.RegexpExtract: "REGEXP_EXTRACT",
    exp.ParseDatetime: "PARSE_TIMESTAMP",
}
_UNITS = ("YEAR", "YYYY", "YY", "QUARTER", "MONTH", "MON", "MM", "WEEK")
_DATE_UNITS = {"YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH"}


def with_forms(statement: exp.Expr, engine: str, read: Callable[[str], exp.Expr]) -> exp.Expr:
    """Replace these functions in a statement; ``read`` parses templates."""
    kinds: tuple[type[exp.Expr], ...] = (exp.Anonymous, exp.Map, exp.Trunc, exp.FromJson, *_NODES)
    for node in list(statement.find_all(*kinds)):
        template, given = _of(node, engine)
        if template is not None:
            node.replace(_filled(read, template, given, node))
    return statement


def _of(node: exp.Expr, engine: str) -> tuple[str | None, list[exp.Expr]]:
    """Return the template of a call, and its arguments."""
    if isinstance(node, exp.Anonymous):
        name, given = node.name.upper(), list(node.expressions)
    else:
        name = _NODES.get(type(node), "")
        parts = [part for part in node.args.values() if isinstance(part, exp.Expr)]
        given = parts
    if isinstance(node, exp.Trunc):
        unit = node.args.get("decimals")
        word = unit.name.upper() if isinstance(unit, exp.Literal) and unit.is_string else ""
        if word not in _UNITS:
            return None, given
        return f"CAST(DATE_TRUNC('{_DATE_UNITS.get(word, word)}', @1) AS DATE)", given
    if name == "FROM_JSON" or isinstance(node, exp.FromJson):
        return _from_json(given), given
    if name == "MAP" or isinstance(node, exp.Map):
        return _map(node, given)
    known = _OF_ENGINE.get((engine, name, len(given)))
    return known or _NAMED.get((name, len(given))), given


def _from_json(given: list[exp.Expr]) -> str | None:
    """``FROM_JSON(s, 'a STRING, b INT')``: a struct of its fields, without nested ones."""
    if len(given) < 2 or not isinstance(given[1], exp.Literal):
        return None
    fields = [part.split() for part in str(given[1].this).replace(":", " ").split(",")]
    if not all(len(field) == 2 and "".join(field).isalnum() for field in fields):
        return None
    values = [
        f"'{name}', TRY_CAST(JSON_VALUE(@1, '$.{name}') AS {'VARCHAR' if _is_text(kind) else kind})"
        for name, kind in fields
    ]
    return f"CASE WHEN @1 IS NOT NULL THEN NAMED_STRUCT({', '.join(values)}) END"


def _is_text(kind: str) -> bool:
    return kind.upper() in ("STRING", "VARCHAR", "TEXT")


def _map(node: exp.Expr, given: list[exp.Expr]) -> tuple[str | None, list[exp.Expr]]:
    """``MAP('a', x, 'b', y)`` and ksqlDB's ``MAP('a' := x)``."""
    pairs: list[exp.Expr] = []
    for part in given:
        is_pair = isinstance(part, exp.PropertyEQ | exp.Kwarg)
        pairs += [part.this, part.expression] if is_pair else [part]
    if not pairs or len(pairs) % 2 or any(isinstance(part, exp.Array) for part in pairs):
        return None, given
    places = range(1, len(pairs) + 1)
    keys, values = (", ".join(f"@{n}" for n in places[start::2]) for start in (0, 1))
    return f"AS_MAP(ARRAY[{keys}], ARRAY[{values}])", pairs


def _filled(
    read: Callable[[str], exp.Expr], template: str, given: list[exp.Expr], node: exp.Expr
) -> exp.Expr:
    text = template
    for place in range(len(given), 0, -1):
        text = text.replace(f"@{place}", f'"@{place}"')
    made: exp.Expr = exp.Paren(this=read(text))
    for column in list(made.find_all(exp.Column)):
        if column.name.startswith("@"):
            value = given[int(column.name[1:]) - 1]
            is_plain = isinstance(value, exp.Literal | exp.Column | exp.Func)
            column.replace(value.copy() if is_plain else exp.Paren(this=value.copy()))
    for part in made.walk():
        if "start" in node.meta:
            part.meta.setdefault("start", node.meta["start"])
            part.meta.setdefault("end", node.meta["end"])
    return made
