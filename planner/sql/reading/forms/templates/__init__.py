"""Functions that are written as other functions, by name and number of arguments.

A template names its arguments ``@1``, ``@2`` and so on. It may use other templates. A function
whose name begins with ``@`` is internal: a query cannot name it.
"""

from __future__ import annotations

from planner.sql.reading.forms.templates.duckdb import DUCKDB
from planner.sql.reading.forms.templates.json_texts import JSON
from planner.sql.reading.forms.templates.ksqldb import KSQLDB
from planner.sql.reading.forms.templates.postgres import POSTGRES
from planner.sql.reading.forms.templates.spark import PLACED, SPARK

_DAY = "CAST(LPAD(CAST(@1 AS VARCHAR), 4, '0') || '-' || LPAD(CAST(@2 AS VARCHAR), 2, '0') || '-' "
_MADE = _DAY + "|| LPAD(CAST(@3 AS VARCHAR), 2, '0') AS DATE)"
_SPLIT = "SPLIT(@1, {0})"
_KEYS = f"TRANSFORM({_SPLIT}, p -> SPLIT_PART(p, {{1}}, 1))"
_REST = "CASE WHEN STRPOS(p, {1}) > 0 THEN SUBSTRING(p, STRPOS(p, {1}) + LENGTH({1})) END"
_PAIRS = f"@MAP_FROM_ENTRIES(@LIST_ZIP({_KEYS}, TRANSFORM({_SPLIT}, p -> {_REST})))"
#: Spark raises an error for a duplicate key.
_ONCE = f"AS_MAP({_KEYS}, TRANSFORM({_SPLIT}, p -> {_REST}))"
_PAIRED = "FILTER(SPLIT(@1, @2), p -> STRPOS(p, @3) > 0)"
_UP_OR_DOWN = "@SEQUENCE(@1, @2, CASE WHEN @1 > @2 THEN -1 ELSE 1 END)"
#: The nulls between the end of a list and a position after it; position 0 is an error at run time.
_GAP = "TRANSFORM(@SEQUENCE(1, {0} - CARDINALITY(@1) - 1, SIGN({0})), g -> NULLIF(@3, @3))"
_KEPT = "CARDINALITY(@1) + @2 + 1"
_INSERTED = (
    f"CASE WHEN @2 >= 0 THEN ARRAY_CONCAT(@HEAD(@1, @2 - 1), {_GAP.format('@2')}, ARRAY[@3], "
    f"@TAIL(@1, @2 - 1)) WHEN @2 < 0 THEN ARRAY_CONCAT(@HEAD(@1, {_KEPT}), ARRAY[@3], "
    f"{_GAP.format('(-@2)')}, @TAIL(@1, GREATEST({_KEPT}, 0))) END"
)
_HAS_ALL = (
    "CASE WHEN @1 IS NOT NULL THEN CARDINALITY(FILTER(@2, x -> {0}"
    "NOT COALESCE(LIST_CONTAINS(@1, x), FALSE))) = 0 END"
)
_OBJECT = (
    "'{' || ARRAY_JOIN(ARRAY_AGG(TO_JSON(CAST(@1 AS VARCHAR)) || ':' || TO_JSON(@2)) "
    "FILTER (WHERE @1 IS NOT NULL), ',') || '}'"
)
_EVEN = "CASE WHEN @1 - FLOOR(@1) = 0.5 THEN 2 * ROUND(@1 * 0.5) ELSE ROUND(@1) END"
#: Near 0 a difference loses digits; Kahan's formula, a quotient of two differences, does not.
_SMALL = "CASE WHEN ABS(CAST(@1 AS DOUBLE)) < 0.5 THEN {0} ELSE {1} END"
_EPOCH = "DATE '1970-01-01'"
_IN_TEXT = "CASE WHEN LENGTH(@1) + @2 < 0 THEN '' ELSE {0} END"
_WIDTH = "CASE WHEN @2 < 0 THEN GREATEST(LENGTH(@1) + @2, 0) ELSE @2 END"
_NULLS_FIRST = (
    "ARRAY_CONCAT(FILTER(@1, x -> x IS NULL), @ARRAY_SORT(FILTER(@1, x -> x IS NOT NULL)))"
)
_VALUES = "FILTER(@1, x -> x IS NOT NULL)"
_MASKED = {
    "LEFT": "MASK(LEFT(@1, @2)) || SUBSTRING(@1, @2 + 1)",
    "RIGHT": "LEFT(@1, LENGTH(@1) - @2) || MASK(RIGHT(@1, @2))",
    "KEEP_LEFT": "LEFT(@1, @2) || MASK(SUBSTRING(@1, @2 + 1))",
    "KEEP_RIGHT": "MASK(LEFT(@1, LENGTH(@1) - @2)) || RIGHT(@1, @2)",
}
_LISTED = "ARRAY_AGG(@1) FILTER (WHERE @1 IS NOT NULL)"
_COUNTED = f"ARRAY_SLICE({_LISTED}, "
_RANKED = (
    "@HEAD(ARRAY_AGG(@1 ORDER BY @2 {0}) FILTER (WHERE @1 IS NOT NULL AND @2 IS NOT NULL), @3)"
)
_ZONED = "FROM_UTC_TIMESTAMP(TO_UTC_TIMESTAMP(CAST(@1 AS TIMESTAMP), @2), @3)"

_NUMBERS: dict[tuple[str, int], str] = {
    ("ASINH", 1): "SIGN(@1) * LOG1P(ABS(@1) + @1 * @1 / (1.0 + SQRT(1.0 + @1 * @1)))",
    ("ACOSH", 1): "LN(@1 + SQRT(CAST(@1 AS DOUBLE) * @1 - 1))",
    ("ATANH", 1): "0.5 * LOG1P(2.0 * @1 / (1.0 - @1))",
    ("HYPOT", 2): "SQRT(CAST(@1 AS DOUBLE) * @1 + CAST(@2 AS DOUBLE) * @2)",
    ("PMOD", 2): "CASE WHEN MOD(@1, @2) < 0 THEN MOD(MOD(@1, @2) + @2, @2) ELSE MOD(@1, @2) END",
    ("BROUND", 1): _EVEN,
    ("RINT", 1): _EVEN,
    ("SINH", 1): _SMALL.format(
        "(EXPM1(@1) + EXPM1(@1) / (EXPM1(@1) + 1.0)) / 2.0", "(EXP(@1) - EXP(-@1)) / 2.0"
    ),
    ("COSH", 1): "(EXP(@1) + EXP(-@1)) / 2.0",
    ("TANH", 1): _SMALL.format(
        "EXPM1(2.0 * @1) / (EXPM1(2.0 * @1) + 2.0)", "1.0 - 2.0 / (EXP(2.0 * @1) + 1.0)"
    ),
    ("COT", 1): "POWER(TAN(@1), -1)",
    ("SEC", 1): "POWER(COS(@1), -1)",
    ("CSC", 1): "POWER(SIN(@1), -1)",
    ("E", 0): "EXP(1)",
    ("EXPM1", 1): _SMALL.format(
        "COALESCE((EXP(@1) - 1.0) * @1 / NULLIF(LN(EXP(@1)), 0.0), @1)", "EXP(@1) - 1.0"
    ),
    ("LOG1P", 1): _SMALL.format(
        "COALESCE(LN(1.0 + @1) * @1 / NULLIF((1.0 + CAST(@1 AS DOUBLE)) - 1.0, 0.0), @1)",
        "LN(1.0 + @1)",
    ),
    ("SIGNUM", 1): "SIGN(@1)",
    ("XOR", 2): "@1 ^ @2",
    ("NEGATIVE", 1): "-@1",
    ("NANVL", 2): "CASE WHEN ISNAN(@1) THEN @2 ELSE @1 END",
    ("ZEROIFNULL", 1): "COALESCE(@1, 0)",
    ("NULLIFZERO", 1): "NULLIF(@1, 0)",
    ("IFF", 3): "IF(@1, @2, @3)",
    ("DIV0", 2): "CASE WHEN @2 = 0 THEN @1 * 0 ELSE @1 / CAST(@2 AS DOUBLE) END",
    ("SAFE_DIVIDE", 2): "@1 / CAST(NULLIF(@2, 0) AS DOUBLE)",
    ("EQUAL_NULL", 2): "@1 IS NOT DISTINCT FROM @2",
    ("TRY_SUM", 1): "SUM(@1)",
    ("BIT_COUNT", 1): "CASE WHEN @1 >= 0 THEN LENGTH(REPLACE(BIN(@1), '0', '')) "
    "ELSE 64 - LENGTH(REPLACE(BIN(~@1), '0', '')) END",
    ("GEO_DISTANCE", 4): (
        "2 * 6371.0 * ASIN(SQRT(POWER(SIN(RADIANS(@3 - @1) / 2.0), 2) + COS(RADIANS(@1)) "
        "* COS(RADIANS(@3)) * POWER(SIN(RADIANS(@4 - @2) / 2.0), 2)))"
    ),
}
_TEXTS: dict[tuple[str, int], str] = {
    ("MASK", 1): (
        "REGEXP_REPLACE(REGEXP_REPLACE(REGEXP_REPLACE(REGEXP_REPLACE(@1, '[^A-Za-z0-9]', '-', 'g'),"
        " '[a-z]', 'x', 'g'), '[A-Z]', 'X', 'g'), '[0-9]', 'n', 'g')"
    ),
    **{(f"MASK_{part}", 2): template for part, template in _MASKED.items()},
    ("STRPOS", 3): PLACED,
    ("IS_DIGIT", 1): r"REGEXP_LIKE(@1, '^\p{Nd}+$')",
    ("IS_ALPHA", 1): r"REGEXP_LIKE(@1, '^\p{L}+$')",
    ("IS_DECIMAL", 1): r"REGEXP_LIKE(@1, '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$')",
    ("REGEXP_CONTAINS", 2): "REGEXP_LIKE(@1, @2)",
    ("REGEXP_MATCHES", 2): "REGEXP_LIKE(@1, @2)",
    ("REGEXP_INSTR", 2): "@REGEXP_INSTR(@1, @2)",
    ("REGEXP_SUBSTR", 2): "@REGEXP_GROUP(@1, @2, 0)",
    **dict.fromkeys(
        (
            *(("STRING_SPLIT_REGEX", 2), ("STR_SPLIT_REGEX", 2), ("REGEXP_SPLIT_TO_ARRAY", 2)),
            ("REGEXP_SPLIT", 2),
        ),
        "@REGEXP_SPLIT(@1, @2)",
    ),
    **dict.fromkeys((("STRING_SPLIT", 2), ("STR_SPLIT", 2)), "SPLIT(@1, @2)"),
    ("FIND_IN_SET", 2): "CASE WHEN STRPOS(@1, ',') > 0 AND @2 IS NOT NULL THEN 0 "
    "ELSE ARRAY_INDEX(SPLIT(@2, ','), @1) END",
    ("ARRAY_INDEX", 2): "@LIST_POSITION(@1, @2)",
    ("ORD", 1): "ASCII(@1)",
    ("LEN", 1): "@LENGTH(@1)",
    ("QUOTE_LITERAL", 1): "'''' || REPLACE(@1, '''', '''''') || ''''",
    ("CONVERT_TZ", 3): f"DATE_FORMAT({_ZONED}, 'yyyy-MM-dd HH:mm:ss')",
    ("UNBASE64", 1): "FROM_BASE64(@1)",
    ("URL_EXTRACT_PATH", 1): "PARSE_URL(@1, 'PATH')",
    ("URL_EXTRACT_HOST", 1): "PARSE_URL(@1, 'HOST')",
    ("URL_EXTRACT_QUERY", 1): "PARSE_URL(@1, 'QUERY')",
    ("URL_EXTRACT_PROTOCOL", 1): "PARSE_URL(@1, 'PROTOCOL')",
    ("URL_EXTRACT_FRAGMENT", 1): "PARSE_URL(@1, 'REF')",
    (
        "URL_EXTRACT_PORT",
        1,
    ): "CAST(NULLIF(@REGEXP_GROUP(PARSE_URL(@1, 'AUTHORITY'), ':([0-9]+)$', 1), '') AS INT)",
    ("URL_EXTRACT_PARAMETER", 2): "PARSE_URL(@1, 'QUERY', @2)",
    ("URL_ENCODE_PARAM", 1): "URL_ENCODE(@1)",
    ("URL_DECODE_PARAM", 1): "URL_DECODE(@1)",
}
_TIMES: dict[tuple[str, int], str] = {
    ("MAKE_DATE", 3): _MADE,
    ("MAKE_TIMESTAMP", 6): (
        f"CAST({_MADE} AS TIMESTAMP) + INTERVAL '1' HOUR * @4 + INTERVAL '1' MINUTE * @5 "
        "+ INTERVAL '1' SECOND * CAST(@6 AS DOUBLE)"
    ),
    **{
        (f"TO_{unit}S", 1): f"INTERVAL '1' {unit} * @1"
        for unit in ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    },
    ("TIMESTAMPTOSTRING", 2): "DATE_FORMAT(TO_TIMESTAMP_LTZ(@1, 3), @2)",
    ("TIMESTAMPTOSTRING", 3): ("DATE_FORMAT(FROM_UTC_TIMESTAMP(TO_TIMESTAMP_LTZ(@1, 3), @3), @2)"),
    ("FORMAT_TIMESTAMP", 2): "DATE_FORMAT(@1, @2)",
    ("FORMAT_DATE", 2): "DATE_FORMAT(@1, @2)",
    ("PARSE_TIMESTAMP", 2): "TO_TIMESTAMP(@1, @2)",
    ("STRINGTOTIMESTAMP", 2): "EPOCH_MS(TO_TIMESTAMP(@1, @2))",
    ("PARSE_DATE", 2): "TO_DATE(@1, @2)",
    ("FROM_UNIXTIME_MS", 1): "TO_TIMESTAMP_LTZ(@1, 3)",
    ("UNIX_DATE", 1): f"DATEDIFF(@1, {_EPOCH})",
    **dict.fromkeys(
        (("DATE_FROM_UNIX_DATE", 1), ("FROM_DAYS", 1)), f"DATE_ADD({_EPOCH}, CAST(@1 AS BIGINT))"
    ),
    ("DATE_DIFF", 2): "DATEDIFF(@1, @2)",
    ("TIMESTAMPSUB", 3): "TIMESTAMPADD(@1, -@2, @3)",
    ("DATEADD", 3): "TIMESTAMPADD(@1, @2, @3)",
    ("DATEADD", 2): "DATE_ADD(@1, @2)",
    ("DATEPART", 2): "DATE_PART(@1, @2)",
    ("DATESUB", 3): "TIMESTAMPADD(@1, -@2, @3)",
    ("TIMEZONE", 2): "@2 AT TIME ZONE @1",
    ("YEARWEEK", 1): "EXTRACT(ISOYEAR FROM @1) * 100 + EXTRACT(WEEK FROM @1)",
    ("CENTURY", 1): "(EXTRACT(YEAR FROM @1) + 99) DIV 100",
    ("ISODOW", 1): "EXTRACT(ISODOW FROM @1)",
    ("DECADE", 1): "EXTRACT(YEAR FROM @1) DIV 10",
    ("UNIX_TIMESTAMP", 1): "UNIX_SECONDS(CAST(@1 AS TIMESTAMP))",
    ("TO_UNIX_TIMESTAMP", 1): "UNIX_SECONDS(CAST(@1 AS TIMESTAMP))",
    ("DATETOSTRING", 2): f"DATE_FORMAT(DATE_ADD({_EPOCH}, @1), @2)",
}
_LISTS: dict[tuple[str, int], str] = {
    ("MAP_FROM_ARRAYS", 2): "AS_MAP(@1, @2)",
    ("MAP_EXTRACT", 2): "FILTER(ARRAY[ELEMENT_AT(@1, @2)], x -> x IS NOT NULL)",
    **dict.fromkeys(
        (("MAP_CONCAT", 2), ("MAP_UNION", 2)),
        "@MAP_FROM_ENTRIES(@LIST_CONCAT(MAP_ENTRIES(@1), MAP_ENTRIES(@2)))",
    ),
    ("MAP_FROM_ENTRIES", 1): "@MAP_FROM_ENTRIES(@1)",
    ("ENTRIES", 2): "MAP_ENTRIES(@1)",
    ("SPLIT_TO_MAP", 3): (
        f"@MAP_FROM_ENTRIES(@LIST_ZIP(TRANSFORM({_PAIRED}, p -> SPLIT_PART(p, @3, 1)), "
        f"TRANSFORM({_PAIRED}, p -> SPLIT_PART(p, @3, 2))))"
    ),
    ("STR_TO_MAP", 1): _PAIRS.format("','", "':'"),
    ("STR_TO_MAP", 2): _PAIRS.format("@2", "':'"),
    ("STR_TO_MAP", 3): _PAIRS.format("@2", "@3"),
    ("AS_VALUE", 1): "@1",
    ("ELEMENT", 1): "ELEMENT_AT(@1, 1)",
    ("GET", 2): "CASE WHEN @2 >= 0 THEN ELEMENT_AT(@1, @2 + 1) END",
    ("STRUCT_EXTRACT", 2): "@FIELD(@1, @2)",
    **dict.fromkeys((("SEQUENCE", 2), ("GENERATE_SERIES", 2)), "@SEQUENCE(@1, @2, 1)"),
    **dict.fromkeys((("SEQUENCE", 3), ("GENERATE_SERIES", 3)), "@SEQUENCE(@1, @2, @3)"),
    ("GENERATE_ARRAY", 2): "@SEQUENCE(@1, @2, 1)",
    ("GENERATE_ARRAY", 3): "@SEQUENCE(@1, @2, @3)",
    ("RANGE", 1): "@SEQUENCE(0, @1 - 1, 1)",
    ("RANGE", 2): "@SEQUENCE(@1, @2 - 1, 1)",
    ("RANGE", 3): "@SEQUENCE(@1, @2 - SIGN(@3), @3)",
    ("ARRAY_REPEAT", 2): "TRANSFORM(@SEQUENCE(1, @2, 1), i -> @1)",
    ("ARRAY_COMPACT", 1): _VALUES,
    ("ARRAY_INSERT", 3): _INSERTED,
    ("ARRAY_REPLACE", 3): (
        "TRANSFORM(@1, x -> CASE WHEN x IS NOT DISTINCT FROM @2 THEN @3 ELSE x END)"
    ),
    ("ARRAY_POSITIONS", 2): (
        "FILTER(@SEQUENCE(1, CARDINALITY(@1), 1), i -> @LIST_ITEM(@1, i) IS NOT DISTINCT FROM @2)"
    ),
    ("TRIM_ARRAY", 2): "@HEAD(@1, CARDINALITY(@1) - @2)",
    ("ARRAY_UPPER", 2): "NULLIF(ARRAY_LENGTH(@1, @2), 0)",
    ("ARRAY_LOWER", 2): "CASE WHEN ARRAY_LENGTH(@1, @2) > 0 THEN 1 END",
    ("LIST_LENGTH", 1): "CARDINALITY(@1)",
    ("LIST_APPEND", 2): "ARRAY_APPEND(@1, @2)",
    ("LIST_PREPEND", 2): "@LIST_CONCAT(ARRAY[@1], @2)",
    ("LIST_UNIQUE", 1): f"CARDINALITY(ARRAY_DISTINCT({_VALUES}))",
    ("LIST_AVG", 1): f"ARRAY_SUM(@1) / CAST(NULLIF(CARDINALITY({_VALUES}), 0) AS DOUBLE)",
    **dict.fromkeys(
        (("LIST_HAS_ALL", 2), ("ARRAY_HAS_ALL", 2)),
        _HAS_ALL.format("x IS NOT NULL AND "),
    ),
    # sqlglot adds the last argument: whether nulls are first.
    ("SORT_ARRAY", 2): _NULLS_FIRST,
    ("SORT_ARRAY", 3): (
        f"CASE WHEN @2 THEN {_NULLS_FIRST} WHEN NOT @2 THEN ARRAY_REVERSE({_NULLS_FIRST}) END"
    ),
    ("ARRAYS_ZIP", 2): "@LIST_ZIP(@1, @2)",
    ("LIST_ZIP", 2): "@LIST_ZIP(@1, @2)",
    ("ARRAY_CAT", 2): "ARRAY_CONCAT(@1, @2)",
}
_AGGREGATES: dict[tuple[str, int], str] = {
    ("LATEST_BY_OFFSET", 2): f"{_COUNTED}-1 * @2, -1)",
    ("EARLIEST_BY_OFFSET", 2): f"{_COUNTED}1, @2)",
    **dict.fromkeys(
        (("JSONB_OBJECT_AGG", 2), ("JSON_OBJECT_AGG", 2), ("JSON_OBJECTAGG", 2)), _OBJECT
    ),
    ("STDDEV_SAMPLE", 1): "STDDEV_SAMP(@1)",
    ("ATTR", 1): "CASE WHEN MIN(@1) = MAX(@1) THEN MIN(@1) END",
    ("CORRELATION", 2): "CORR(@1, @2)",
    ("MAP_AGG", 2): (
        "@MAP_FROM_ENTRIES(@LIST_ZIP(ARRAY_AGG(@1) FILTER (WHERE @1 IS NOT NULL), "
        "ARRAY_AGG(@2) FILTER (WHERE @1 IS NOT NULL)))"
    ),
    **dict.fromkeys((("FSUM", 1), ("KAHAN_SUM", 1), ("SUMKAHAN", 1)), "SUM(@1)"),
    ("FAVG", 1): "AVG(@1)",
    **dict.fromkeys((("GEOMEAN", 1), ("GEOMETRIC_MEAN", 1)), "EXP(AVG(LN(@1)))"),
    ("SEM", 1): "STDDEV_POP(@1) / SQRT(COUNT(@1))",
    ("KURTOSIS_POP", 1): "KURTOSIS(@1)",
    ("TOPKDISTINCT", 2): (f"@HEAD(ARRAY_REVERSE(ARRAY_SORT(ARRAY_DISTINCT({_LISTED}))), @2)"),
}
#: Templates by name and number of arguments.
NAMED = {**_NUMBERS, **_TEXTS, **_TIMES, **_LISTS, **JSON, **_AGGREGATES}
#: Templates of single dialects, by dialect, name and number of arguments.
OF_ENGINE: dict[tuple[str, str, int], str] = {
    **{
        (engine, *call): template
        for engine, known in (
            *(("spark", SPARK), ("duckdb", DUCKDB), ("ksqldb", KSQLDB), ("postgres", POSTGRES)),
        )
        for call, template in known.items()
    },
    **{
        (engine, case, 1): f"@JAVA_{case}(@1)"
        for engine in ("spark", "flink", "ksqldb")
        for case in ("UPPER", "LOWER")
    },
    ("spark", "LOG1P", 1): f"CASE WHEN NOT @1 <= -1 THEN {_NUMBERS['LOG1P', 1]} END",
    **{
        (engine, "ARRAY_TO_STRING", 3): "ARRAY_JOIN(TRANSFORM(@1, x -> COALESCE(x, @3)), @2)"
        for engine in ("spark", "flink", "duckdb")
    },
    ("postgres", "FIRST", 2): "MIN_BY(@1, @2)",
    ("postgres", "LAST", 2): "MAX_BY(@1, @2)",
    ("flink", "SUBSTRING", 2): _IN_TEXT.format("@SUBSTRING(@1, @2)"),
    ("flink", "SUBSTRING", 3): _IN_TEXT.format(SPARK["SUBSTRING", 3]),
    ("ksqldb", "SUBSTRING", 3): (
        "@SUBSTRING(@1, CASE WHEN @2 = 0 OR LENGTH(@1) + @2 < 0 THEN 1 ELSE @2 END, @3)"
    ),
    # A substring that begins before the text loses the characters in front of the text.
    ("postgres", "SUBSTRING", 2): "@SUBSTRING(@1, CASE WHEN @2 < 1 THEN 1 ELSE @2 END)",
    ("postgres", "SUBSTRING", 3): (
        "CASE WHEN @2 >= 1 THEN @SUBSTRING(@1, @2, @3) WHEN @2 + @3 < 1 THEN @LEFT(@1, 0) "
        "ELSE @LEFT(@1, @2 + @3 - 1) END"
    ),
    ("flink", "DATE_FORMAT", 2): "@DATE_FORMAT(CAST(@1 AS TIMESTAMP), @2)",
    ("flink", "ARRAY_SORT", 1): _NULLS_FIRST,
    **{
        ("flink", name, count): f"CASE WHEN {none} THEN NULL ELSE @{name}({listed}) END"
        for name in ("GREATEST", "LEAST")
        for count in range(2, 7)
        for none, listed in [
            (
                " OR ".join(f"@{n} IS NULL" for n in range(1, count + 1)),
                ", ".join(f"@{n}" for n in range(1, count + 1)),
            )
        ]
    },
    ("spark", "STR_TO_MAP", 1): _ONCE.format("','", "':'"),
    ("spark", "STR_TO_MAP", 2): _ONCE.format("@2", "':'"),
    ("spark", "STR_TO_MAP", 3): _ONCE.format("@2", "@3"),
    **{
        (engine, name, 2): _UP_OR_DOWN
        for engine, name in (("spark", "SEQUENCE"), ("ksqldb", "GENERATE_SERIES"))
    },
    ("flink", "REGEXP_EXTRACT", 2): "@REGEXP_GROUP(@1, @2, 0)",
    ("flink", "REGEXP_EXTRACT", 3): "@REGEXP_GROUP(@1, @2, @3)",
    ("flink", "STR_TO_MAP", 1): _PAIRS.format("','", "'='"),
    ("flink", "STR_TO_MAP", 2): _PAIRS.format("@2", "'='"),
    ("flink", "JSON_VALUE", 2): "CASE WHEN JSON_QUERY(@1, @2) IS NULL THEN @JSON_VALUE(@1, @2) END",
    **{
        ("ksqldb", "ENTRIES", count): (
            "TRANSFORM(MAP_ENTRIES(@1), e -> NAMED_STRUCT('K', e.key, 'V', e.value))"
        )
        for count in (1, 2)
    },
    ("ksqldb", "UNIX_TIMESTAMP", 1): "EPOCH_MS(@1)",
    ("ksqldb", "FROM_UNIXTIME", 1): "TO_TIMESTAMP_LTZ(@1, 3)",
    ("ksqldb", "REGEXP_EXTRACT", 2): "@REGEXP_EXTRACT(@2, @1, 0)",
    ("ksqldb", "REGEXP_EXTRACT", 3): "@REGEXP_EXTRACT(@2, @1, @3)",
    ("ksqldb", "REGEXP_EXTRACT_ALL", 2): "@REGEXP_EXTRACT_ALL(@2, @1)",
    ("ksqldb", "REGEXP_EXTRACT_ALL", 3): "@REGEXP_EXTRACT_ALL(@2, @1, @3)",
    ("ksqldb", "REGEXP_SPLIT_TO_ARRAY", 2): "@REGEXP_SPLIT(@1, @2)",
    ("ksqldb", "CONVERT_TZ", 3): _ZONED,
    ("ksqldb", "DATEADD", 3): "CAST(TIMESTAMPADD(@1, @2, CAST(@3 AS TIMESTAMP)) AS DATE)",
    ("ksqldb", "DATESUB", 3): "CAST(TIMESTAMPADD(@1, -@2, CAST(@3 AS TIMESTAMP)) AS DATE)",
    ("ksqldb", "GEO_DISTANCE", 5): "CASE WHEN UPPER(@5) LIKE 'MI%' THEN 0.621371 ELSE 1.0 END "
    "* GEO_DISTANCE(@1, @2, @3, @4)",
    **{
        (engine, name, 2): "ELEMENT_AT(ARRAY_POSITIONS(@1, @2), 1)"
        for engine in ("postgres", "duckdb")
        for name in ("ARRAY_POSITION", "LIST_POSITION", "LIST_INDEXOF", "ARRAY_INDEXOF")
    },
    ("postgres", "ARRAY_CONTAINS", 2): _HAS_ALL.format(""),
    ("postgres", "ARRAY_TO_STRING", 3): "ARRAY_JOIN(TRANSFORM(@1, x -> COALESCE(x, @3)), @2)",
    ("postgres", "TO_DATE", 2): "CAST(@TO_TIMESTAMP(@1, @2) AS DATE)",
    ("postgres", "TO_TIMESTAMP", 2): "@TO_TIMESTAMP(@1, @2)",
    ("postgres", "REGEXP_MATCH", 2): "@REGEXP_MATCH(@1, @2)",
    ("duckdb", "ARRAY_DISTINCT", 1): f"@ARRAY_DISTINCT({_VALUES})",
    ("duckdb", "LIST_DISTINCT", 1): f"@ARRAY_DISTINCT({_VALUES})",
    **{("duckdb", name, 3): "TIMESTAMPDIFF(@1, @2, @3)" for name in ("DATE_SUB", "DATESUB")},
    **dict.fromkeys((("duckdb", "LENGTH", 1), ("ksqldb", "LENGTH", 1)), "@LENGTH(@1)"),
    ("duckdb", "MAX", 2): "TOP_K(@1, @2)",
    ("duckdb", "MIN", 2): f"@HEAD(ARRAY_SORT({_LISTED}), @2)",
    ("flink", "ARRAY_CONTAINS", 2): "CASE WHEN @2 IS NULL THEN CARDINALITY(FILTER(@1, "
    "x -> x IS NULL)) > 0 ELSE @ARRAY_CONTAINS(@1, @2) END",
    ("duckdb", "ARG_MAX", 3): _RANKED.format("DESC"),
    ("duckdb", "ARG_MIN", 3): _RANKED.format("ASC"),
    ("duckdb", "MAX_BY", 3): _RANKED.format("DESC"),
    ("duckdb", "MIN_BY", 3): _RANKED.format("ASC"),
    **{
        (engine, name, count): template
        for engine in ("postgres", "duckdb")
        for name, count, template in (
            ("LOG", 1, "LOG10(@1)"),
            ("LEFT", 2, f"@LEFT(@1, {_WIDTH})"),
            ("RIGHT", 2, f"@RIGHT(@1, {_WIDTH})"),
            ("WEEKDAY", 1, "EXTRACT(DOW FROM @1)"),
            ("DAYOFWEEK", 1, "EXTRACT(DOW FROM @1)"),
        )
    },
}
