"""What other engines call what is here, or how it is said here: for the message of a refusal.

Keyed by what is written, in upper case: the name of a function, an operator, a keyword. The words
follow "NAME is not supported; ".
"""

from __future__ import annotations

_CASE = "write CASE WHEN a > b THEN a ELSE b END"
_FIND = "CONTAINS(s, 'x') tells whether it occurs, SPLIT_PART(s, 'x', 1) what is before it"
_ADD = "add an interval: t + INTERVAL '1' DAY"
_BETWEEN = "subtract: a - b is a duration, EPOCH_US(a - b) its microseconds"
_PARSED = "CAST(s AS TIMESTAMP) reads ISO-8601, as '2026-01-31 12:00:00'"
_STARTS = "window_start is the window's start; GROUP BY ..., TUMBLE('5s')"
_ENDS = "window_end is the window's end; GROUP BY ..., TUMBLE('5s')"
_GROUPED = "windows stand in GROUP BY: GROUP BY k, TUMBLE('5s')"
_SAME = "write a = b OR (a IS NULL AND b IS NULL)"
_OTHER = "write NOT (a = b OR (a IS NULL AND b IS NULL)), with COALESCE around it for nulls"
_NOW = "an answer follows from its input alone; the event's own times are vs() and ve()"
_CHANCE = "an answer follows from its input alone"
_EACH = "a list becomes rows with Stream.explode in Python"
_OVER = "aggregate with GROUP BY and a window"
_ALL = "MIN(CASE WHEN c THEN 1 ELSE 0 END) = 1 tells whether it holds for all"
_ANY = "COUNT(*) FILTER (WHERE c) > 0 tells whether it holds for one"
_COLLECT = "TOP_K(x, k) gives the greatest k; others are aggregates of your own in Python"
_QUANTILE = "write QUANTILE(x, 0.5)"
_PART = "write EXTRACT(HOUR FROM t)"
_TEXT = "write CAST(x AS VARCHAR), and EXTRACT for parts of times"
_PAD = "text is not padded here; a function of your own in Python can do it"
_BITS = "there are no operations on bits; a function of your own in Python can do it"

HINTS: dict[str, str] = {
    # Choices and nulls.
    **dict.fromkeys(("GREATEST", "LEAST"), _CASE),
    **dict.fromkeys(("DECODE", "CHOOSE"), "write CASE x WHEN 1 THEN 'a' ELSE 'b' END"),
    "NVL2": "write CASE WHEN a IS NOT NULL THEN b ELSE c END",
    "ZEROIFNULL": "write COALESCE(x, 0)",
    "NULLIFZERO": "write NULLIF(x, 0)",
    "TRY": "TRY_CAST(x AS type) is NULL where the cast fails",
    **dict.fromkeys(("TRY_TO_NUMBER", "TRY_TO_TIMESTAMP"), "write TRY_CAST(x AS type)"),
    **dict.fromkeys(("<=>", "IS NOT DISTINCT FROM", "EQUAL_NULL"), _SAME),
    "IS DISTINCT FROM": _OTHER,
    "XOR": "write a <> b",
    # Numbers.
    **dict.fromkeys(("POW", "POWER", "**"), "multiply: x * x"),
    "TRUNC": "write CAST(x AS BIGINT), which cuts toward zero, or FLOOR(x)",
    "SIGN": "write CASE WHEN x > 0 THEN 1 WHEN x < 0 THEN -1 ELSE 0 END",
    **dict.fromkeys(("&", "|", "<<", ">>", "~"), _BITS),
    "^": "for powers multiply: x * x; there are no operations on bits",
    **dict.fromkeys(("TO_NUMBER", "TO_DECIMAL"), "write CAST(x AS DECIMAL(10, 2))"),
    # Text.
    "CONCAT_WS": "write a || ',' || b, with COALESCE(a, '') where a may be NULL",
    **dict.fromkeys(("POSITION", "STRPOS", "STR_POSITION", "INSTR", "LOCATE", "CHARINDEX"), _FIND),
    "LEFT": "write SUBSTRING(s, 1, n)",
    "RIGHT": "write SUBSTRING(s, n), counted from the start, or split: SPLIT_PART(s, '/', 2)",
    "LTRIM": r"write REGEXP_REPLACE(s, '^\s+', '')",
    "RTRIM": r"write REGEXP_REPLACE(s, '\s+$', '')",
    "BTRIM": "write TRIM(s) or TRIM('x' FROM s)",
    **dict.fromkeys(("LPAD", "RPAD", "PAD"), _PAD),
    "ILIKE": "write LOWER(s) LIKE '%x%'",
    "SIMILAR TO": "write REGEXP_LIKE(s, '^(a|b)$')",
    "GLOB": "write s LIKE 'a%' or REGEXP_LIKE(s, 'a.*')",
    "REGEXP_MATCHES": "write REGEXP_LIKE(s, 'a.*')",
    **dict.fromkeys(
        ("REGEXP_EXTRACT", "REGEXP_SUBSTR"),
        r"REGEXP_REPLACE(s, '^.*(a+).*$', '\1') puts a group in place of the text",
    ),
    "SPLIT_INDEX": "SPLIT_PART(s, '/', 1) counts from 1",
    "STRING_SPLIT": "write SPLIT(s, '/')",
    "STR_SPLIT": "write SPLIT(s, '/')",
    "TRANSLATE": "write REPLACE(REPLACE(s, 'a', 'x'), 'b', 'y')",
    "OVERLAY": "write SUBSTRING(s, 1, 2) || 'x' || SUBSTRING(s, 4)",
    "COLLATE": "text is compared by its code points",
    # Times.
    **dict.fromkeys(("DATE_ADD", "DATEADD", "TIMESTAMPADD", "TIMESTAMP_ADD", "ADDDATE"), _ADD),
    **dict.fromkeys(("DATE_SUB", "DATESUB", "TIMESTAMP_SUB", "SUBDATE"), "subtract an interval"),
    **dict.fromkeys(
        ("DATEDIFF", "DATE_DIFF", "TIMESTAMPDIFF", "TIMESTAMP_DIFF", "AGE", "TIMEDIFF"), _BETWEEN
    ),
    **dict.fromkeys(
        ("TO_TIMESTAMP", "STR_TO_TIME", "STRPTIME", "PARSE_TIMESTAMP", "TO_TIMESTAMP_LTZ"), _PARSED
    ),
    **dict.fromkeys(("TO_DATE", "STR_TO_DATE"), "CAST(s AS DATE) reads ISO-8601, as '2026-01-31'"),
    **dict.fromkeys(("DATE_FORMAT", "TO_CHAR", "STRFTIME", "TIME_TO_STR", "FORMAT"), _TEXT),
    **dict.fromkeys(
        ("FROM_UNIXTIME", "UNIX_TO_TIME", "MAKE_TIMESTAMP", "TIMESTAMP_MICROS"),
        "a number read as a time is microseconds: CAST(seconds * 1000000 AS TIMESTAMP)",
    ),
    **dict.fromkeys(
        ("UNIX_TIMESTAMP", "TIME_TO_UNIX", "EPOCH", "UNIX_SECONDS", "EPOCH_MS", "UNIX_MICROS"),
        "EPOCH_US(t) is microseconds since 1970; DIV 1000000 makes them seconds",
    ),
    **dict.fromkeys(("DATE_PART", "DATEPART"), _PART),
    **dict.fromkeys(
        ("DAYOFWEEK", "DAY_OF_WEEK", "DAYOFWEEK_ISO", "DAY_OF_WEEK_ISO", "ISODOW", "DOW"),
        "WEEKDAY(t) counts from Monday 0 to Sunday 6",
    ),
    **dict.fromkeys(("TIME_BUCKET", "DATE_BIN"), "write DATE_TRUNC('hour', t), or a window"),
    "AT TIME ZONE": "times are UTC",
    **dict.fromkeys(
        ("NOW", "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP", "LOCALTIME"),
        _NOW,
    ),
    **dict.fromkeys(("PROCTIME", "CURRENT_WATERMARK", "SYSDATE", "GETDATE", "TODAY"), _NOW),
    **dict.fromkeys(("RANDOM", "RAND", "RANDN", "UUID", "GEN_RANDOM_UUID"), _CHANCE),
    # Windows.
    **dict.fromkeys(
        (
            "TUMBLE_START", "HOP_START", "SESSION_START", "TUMBLE_ROWTIME", "HOP_ROWTIME",
            "SESSION_ROWTIME", "TUMBLE_PROCTIME",
        ),
        _STARTS,
    ),
    **dict.fromkeys(("TUMBLE_END", "HOP_END", "SESSION_END"), _ENDS),
    **dict.fromkeys(("WINDOW", "SESSION_WINDOW", "WINDOW_TIME"), _GROUPED),
    **dict.fromkeys(("HOPPING", "SLIDING"), "write HOP(size, every)"),
    "TUMBLING": "write TUMBLE(size)",
    **dict.fromkeys(("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD", "NTILE"), _OVER),
    # Aggregates.
    **dict.fromkeys(
        ("APPROX_DISTINCT", "APPROX_COUNT_DISTINCT", "HLL"), "write COUNT(DISTINCT x)"
    ),
    **dict.fromkeys(
        ("PERCENTILE", "PERCENTILE_CONT", "PERCENTILE_DISC", "PERCENTILE_APPROX"), _QUANTILE
    ),
    **dict.fromkeys(("APPROX_QUANTILE", "APPROX_PERCENTILE", "APPROX_QUANTILES"), _QUANTILE),
    **dict.fromkeys(("ANY_VALUE", "FIRST_VALUE", "ARBITRARY"), "write FIRST(x)"),
    **dict.fromkeys(("IGNORE NULLS", "RESPECT NULLS"), "WHERE x IS NOT NULL leaves nulls out"),
    "LAST_VALUE": "write LAST(x)",
    **dict.fromkeys(("COUNT_IF", "COUNTIF"), "write COUNT(*) FILTER (WHERE c)"),
    **dict.fromkeys(("SUM_IF", "SUMIF"), "write SUM(x) FILTER (WHERE c)"),
    **dict.fromkeys(("BOOL_AND", "LOGICAL_AND", "EVERY"), _ALL),
    **dict.fromkeys(("BOOL_OR", "LOGICAL_OR", "SOME"), _ANY),
    **dict.fromkeys(
        ("ARRAY_AGG", "COLLECT_LIST", "COLLECT_SET", "LIST", "STRING_AGG", "LISTAGG", "COLLECT"),
        _COLLECT,
    ),
    "GROUP_CONCAT": _COLLECT,
    **dict.fromkeys(("MAX_N", "MIN_N"), "write TOP_K(x, k)"),
    **dict.fromkeys(("MODE", "CORR", "SKEWNESS", "KURTOSIS"), "write an aggregate in Python"),
    **dict.fromkeys(("EXPLODE", "UNNEST", "POSEXPLODE", "INLINE"), _EACH),
}  # fmt: skip
