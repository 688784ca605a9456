"""Hints for unsupported functions, operators and keywords of other engines, used in messages.

The key is the text in upper case: the name of a function, an operator, a keyword. The hint follows
"NAME is not supported; ".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot.tokenizer_core import TokenType

from planner.sql.reading.forms.queries.intervals import NO_AGE

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_ADD = "write t + INTERVAL '1' DAY"
_SUB = "write t - INTERVAL '1' DAY"
_BETWEEN = "write a - b, a duration, or EPOCH_US(a - b), its microseconds"
_PARSED = "write TO_TIMESTAMP(s, 'dd.MM.yyyy HH:mm') or STRPTIME(s, '%d.%m.%Y %H:%M')"
_STARTS = "write window_start, with GROUP BY ..., TUMBLE('5s')"
_ENDS = "write window_end, with GROUP BY ..., TUMBLE('5s')"
_GROUPED = "windows belong in GROUP BY: write GROUP BY k, TUMBLE('5s')"
SPARK_WINDOW = (
    "write GROUP BY k, TUMBLE('1 minute') or HOP(size, every), which take the stream's own times; "
    "window_start and window_end are the bounds"
)
_WITHIN = (
    "write the bound in ON: AND b.ts BETWEEN a.ts - INTERVAL '1' HOUR AND a.ts + INTERVAL '1' HOUR"
)
_NOW = "an answer follows from its input alone; write vs() or ve() for the event's own times"
_CHANCE = "an answer follows from its input alone: write a column of the input"
_EACH = "write FROM t CROSS JOIN UNNEST(list) AS u (x), or LATERAL VIEW, for rows of a list"
_OVER = "write it with OVER (PARTITION BY k ORDER BY ts)"
_COLLECT = "write ARRAY_AGG(x), or COLLECT_SET(x) for each value once"
_OBJECTS = "write JSON_ARRAYAGG(JSON_OBJECT('key' VALUE k, 'value' VALUE v))"
_QUANTILE = "write QUANTILE(x, [0.1, 0.5])"
_PART = "write EXTRACT(HOUR FROM t)"
_TEXT = "write CAST(x AS VARCHAR), and EXTRACT for parts of times"

#: Clauses of other engines after a table, whose first word would be parsed as the table's alias:
#: the first word, and the words that follow it in such a clause.
CLAUSES: dict[str, tuple[tuple[str, ...], str]] = {
    "WINDOW": (("TUMBLING", "HOPPING", "SESSION"), _GROUPED),
    "WITHIN": (("(", "1"), _WITHIN),
    "PREWHERE": ((), "write WHERE"),
    "SETTINGS": ((), "leave it out: settings are options of the command"),
    "FORMAT": ((), "write INSERT INTO a SINK with format = '...'"),
    "OPTION": (("(",), "leave it out"),
    "PARTITION": (("(",), "write WHERE"),
    "USE": (("INDEX",), "leave it out"),
    "VERSIONS": (("BETWEEN",), "write WHERE with the times"),
    **dict.fromkeys(("GLOBAL", "ANY"), (("JOIN", "INNER", "LEFT"), "write JOIN")),
}

#: First words of statements that only other engines have.
STATEMENTS: dict[str, str] = {
    "DECLARE": "for a variable write :name in the query, and pass params={'name': value}; "
    "for a cursor read changes with Job.subscribe()",
    "FETCH": "read changes with Job.subscribe() or jobmanager tail",
    **dict.fromkeys(("DEFINE", "UNDEFINE"), "pass values with --set name=value, or variables="),
    "PIVOT": "write SELECT * FROM t PIVOT (SUM(x) FOR k IN ('a', 'b'))",
    "UNPIVOT": "write SELECT * FROM t UNPIVOT (value FOR name IN (a, b))",
    "COPY": "write INSERT INTO a SINK",
}

HINTS: dict[str, str] = {
    # Functions that choose between values or handle null.
    "ZEROIFNULL": "write COALESCE(x, 0)",
    "ARRAY_INSERT": "write ARRAY_INSERT(list, 1, x): places count from 1, or from -1 at the end",
    **dict.fromkeys(
        (f"{kind}_EXTRACT_PATH{text}" for kind in ("JSON", "JSONB") for text in ("", "_TEXT")),
        "write its steps as texts without quotes in them, as ('a', '0'), or j -> k ->> 'b'",
    ),
    "NULLIFZERO": "write NULLIF(x, 0)",
    "TRY": "write TRY_CAST(x AS type), NULL where the cast fails",
    "TRY_TO_NUMBER": "write TRY_CAST(x AS type)",
    "XOR": "write a <> b",
    "IFF": "write IF(c, a, b)",
    "MAP": "write MAP('k', v) with keys and values in turn",
    # Functions of numbers.
    "**": "write POWER(x, 2)",
    **dict.fromkeys(("TO_NUMBER", "TO_DECIMAL"), "write CAST(x AS DECIMAL(10, 2))"),
    # Functions of text.
    "REGEXP_MATCH": "write REGEXP_EXTRACT(s, pattern, group)",
    "FROM_HEX": "write UNHEX(s)",
    "CHARINDEX": "write POSITION('x' IN s)",
    "GLOB": "write s LIKE 'a%' or REGEXP_LIKE(s, 'a.*')",
    "REGEXP_MATCHES": "write REGEXP_LIKE(s, 'a.*')",
    "STRING_SPLIT": "write SPLIT(s, '/')",
    "STR_SPLIT": "write SPLIT(s, '/')",
    "COLLATE": "text is compared by its code points: leave it out",
    # Functions of times.
    **dict.fromkeys(("DATE_ADD", "DATEADD", "TIMESTAMPADD", "TIMESTAMP_ADD", "ADDDATE"), _ADD),
    **dict.fromkeys(("DATE_SUB", "DATESUB", "TIMESTAMP_SUB", "SUBDATE"), _SUB),
    **dict.fromkeys(
        ("DATEDIFF", "DATE_DIFF", "TIMESTAMPDIFF", "TIMESTAMP_DIFF", "TIMEDIFF"), _BETWEEN
    ),
    "AGE": NO_AGE,
    **dict.fromkeys(("STR_TO_TIME", "PARSE_TIMESTAMP"), _PARSED),
    **dict.fromkeys(("STR_TO_DATE", "PARSE_DATE"), "write TO_DATE(s, 'dd.MM.yyyy')"),
    **dict.fromkeys(("DATE_FORMAT", "TO_CHAR", "STRFTIME", "TIME_TO_STR", "FORMAT"), _TEXT),
    **dict.fromkeys(
        ("FROM_UNIXTIME", "UNIX_TO_TIME", "MAKE_TIMESTAMP", "TIMESTAMP_MICROS"),
        "a number read as a time is microseconds: write CAST(seconds * 1000000 AS TIMESTAMP)",
    ),
    **dict.fromkeys(
        ("UNIX_TIMESTAMP", "TIME_TO_UNIX", "EPOCH", "UNIX_SECONDS", "EPOCH_MS", "UNIX_MICROS"),
        "write EPOCH_US(t) DIV 1000000 for seconds since 1970",
    ),
    **dict.fromkeys(("DATE_PART", "DATEPART"), _PART),
    **dict.fromkeys(
        ("DAYOFWEEK", "DAY_OF_WEEK", "DAYOFWEEK_ISO", "DAY_OF_WEEK_ISO", "ISODOW", "DOW"),
        "write WEEKDAY(t), from Monday 0 to Sunday 6",
    ),
    **dict.fromkeys(
        ("NOW", "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP", "LOCALTIME"),
        _NOW,
    ),
    "MZ_NOW": "write a lifetime of rows: ve = ts + INTERVAL '5' MINUTE in the declaration",
    **dict.fromkeys(("PROCTIME", "CURRENT_WATERMARK", "SYSDATE", "GETDATE", "TODAY"), _NOW),
    **dict.fromkeys(("RANDOM", "RAND", "RANDN", "UUID", "GEN_RANDOM_UUID"), _CHANCE),
    # Functions: windows.
    **dict.fromkeys(
        (
            "TUMBLE_START", "HOP_START", "SESSION_START", "TUMBLE_ROWTIME", "HOP_ROWTIME",
            "SESSION_ROWTIME", "TUMBLE_PROCTIME",
        ),
        _STARTS,
    ),
    **dict.fromkeys(("TUMBLE_END", "HOP_END", "SESSION_END"), _ENDS),
    **dict.fromkeys(("SESSION_WINDOW", "WINDOW_TIME"), _GROUPED),
    "WINDOW": SPARK_WINDOW,
    **dict.fromkeys(("HOPPING", "SLIDING"), "write HOP(size, every)"),
    "TUMBLING": "write TUMBLE(size)",
    **dict.fromkeys(("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD"), _OVER),
    # Functions: aggregates.
    **dict.fromkeys(
        ("APPROX_DISTINCT", "APPROX_COUNT_DISTINCT", "HLL"), "write COUNT(DISTINCT x)"
    ),
    "APPROX_QUANTILES": _QUANTILE,
    "HISTOGRAM": "write GROUP BY x with COUNT(*)",
    **dict.fromkeys(("JSON_OBJECTAGG", "JSONB_OBJECT_AGG", "JSON_OBJECT_AGG"), _OBJECTS),
    "COUNTIF": "write COUNT_IF(c)",
    "MEAN": "write AVG(x)",
    **dict.fromkeys(("SUM_IF", "SUMIF"), "write SUM(x) FILTER (WHERE c)"),
    **dict.fromkeys(("LIST", "COLLECT"), _COLLECT),
    "TRY_ADD": "write a + b: an overflow is an error",
    "TRY_SUBTRACT": "write a - b: an overflow is an error",
    "TRY_MULTIPLY": "write a * b: an overflow is an error",
    "MAP_ZIP_WITH": "write TRANSFORM_VALUES(a, (k, v) -> v + ELEMENT_AT(b, k))",
    "FROM_CSV": "write SPLIT(s, ','), and CAST of its elements",
    "TO_CSV": "write CONCAT_WS(',', a, b)",
    "UNISTR": "write CHR(97) || 'b', or the character itself",
    "SHIFTRIGHTUNSIGNED": "write SHIFTRIGHT(x, n) if x is 0 or more",
    "ARRAY_FILL": "write ARRAY_FILL(x, ARRAY[n]), and ARRAY[a, b] of lists",
    "JSONB_PRETTY": "write JSON_EXTRACT(j, '$'), JSON on one line",
    "JSON_CONCAT": "write ARRAY_CONCAT(JSON_ITEMS(a), JSON_ITEMS(b)) for lists",
    "FORMAT_NUMBER": "write FORMAT_NUMBER(x, 2), with a number of digits",
    "LUHN_CHECK": "add it with functions={'luhn_check': ...}, or check the digits before",
    "SCHEMA_OF_JSON": "write the type, as in FROM_JSON(s, 'a INT, b STRING')",
    "TYPEOF": "write DESCRIBE t, which prints the types of its columns",
    "HISTOGRAM_NUMERIC": "write WIDTH_BUCKET(x, low, high, n) as key, and COUNT(*)",
    **dict.fromkeys(("MAX_N", "MIN_N"), "write TOP_K(x, k)"),
    **dict.fromkeys(("EXPLODE", "UNNEST", "POSEXPLODE", "INLINE"), _EACH),
}  # fmt: skip
#: Tokens that may follow the alias of a table.
_BEHIND_ALIASES = frozenset(
    getattr(TokenType, name)
    for name in (
        *("COMMA", "R_PAREN", "L_PAREN", "SEMICOLON", "WHERE", "JOIN", "INNER", "LEFT", "RIGHT"),
        *("FULL", "CROSS", "ON", "USING", "GROUP_BY", "HAVING", "ORDER_BY", "LIMIT", "OFFSET"),
        *("UNION", "EXCEPT", "INTERSECT", "QUALIFY", "LATERAL", "FETCH", "ASOF", "SEMI", "ANTI"),
        "NATURAL",
    )
)


def check_clause(parser: Any) -> None:
    """Raise for such a clause."""
    word, after = parser._curr, parser._next
    if word is None or word.text.upper() not in CLAUSES:
        return
    follows, hint = CLAUSES[word.text.upper()]
    text = "" if after is None else after.text.upper()
    is_number = after is not None and after.token_type is TokenType.NUMBER
    if text in follows or ("1" in follows and is_number) or (not follows and _is_clause(after)):
        parser.raise_error(f"{word.text.upper()} is not supported; {hint}", word)


def _is_clause(after: Token | None) -> bool:
    """Return whether a word begins a clause, because the clause's next word follows it."""
    return after is not None and after.token_type not in _BEHIND_ALIASES
