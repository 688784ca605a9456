"""Functions of Spark that are written as other functions, by name and number of arguments."""

from __future__ import annotations

_REST = "STRPOS(@SUBSTRING(@1, @3), @2)"
#: ``LOCATE(p, s, 2)``: null if any argument is null.
PLACED = f"CASE WHEN {_REST} > 0 THEN {_REST} + @3 - 1 WHEN {_REST} = 0 THEN 0 END"
_NULLS = "CARDINALITY(FILTER({0}, x -> x IS NULL))"
_NULLS_1, _NULLS_2 = _NULLS.format("@1"), _NULLS.format("@2")

_MONTH = (
    "(EXTRACT(YEAR FROM CAST(@1 AS DATE)) * 12 + EXTRACT(MONTH FROM CAST(@1 AS DATE)) - 1 + @2)"
)
_FIRST = f"MAKE_DATE({_MONTH} DIV 12, MOD({_MONTH}, 12) + 1, 1)"
#: ``ADD_MONTHS(d, n)`` where ``n`` is not a literal.
MONTHS_LATER = (
    f"CAST(DATE_ADD({_FIRST}, LEAST(EXTRACT(DAY FROM CAST(@1 AS DATE)), "
    f"EXTRACT(DAY FROM LAST_DAY({_FIRST}))) - 1) AS DATE)"
)
_WHOLE = "INTERVAL '1' {0} * {1}"
_DAY_TIME = " + ".join(
    _WHOLE.format(unit, f"@{at}") for at, unit in enumerate(("DAY", "HOUR", "MINUTE"), 1)
)
#: Templates of Spark.
SPARK: dict[tuple[str, int], str] = {
    **{
        (name, 1): f"CASE WHEN NOT @1 <= 0 THEN @{name}(@1) END"
        for name in ("LN", "LOG", "LOG10", "LOG2")
    },
    ("LOG", 2): (
        "CASE WHEN NOT @1 <= 0 AND NOT @2 <= 0 THEN CASE WHEN @1 = 1 "
        "THEN @LN(@2) * CAST('inf' AS DOUBLE) ELSE @LOG(@1, @2) END END"
    ),
    ("ADD_MONTHS", 2): "CAST(@ADD_MONTHS(CAST(@1 AS DATE), @2) AS DATE)",
    ("DAYNAME", 1): "STRFTIME(CAST(@1 AS TIMESTAMP), '%a')",
    ("MONTHNAME", 1): "STRFTIME(CAST(@1 AS TIMESTAMP), '%b')",
    ("TIMESTAMPDIFF", 3): ("@TIMESTAMPDIFF_JAVA(@1, CAST(@2 AS TIMESTAMP), CAST(@3 AS TIMESTAMP))"),
    **dict.fromkeys((("DATE_DIFF", 3), ("DATEDIFF", 3)), "TIMESTAMPDIFF(@1, @2, @3)"),
    ("UNIX_DATE", 1): "DATEDIFF(CAST(@1 AS DATE), DATE '1970-01-01')",
    ("MEAN", 1): "AVG(@1)",
    ("MASK", 1): (
        r"REGEXP_REPLACE(REGEXP_REPLACE(REGEXP_REPLACE(@1, '\p{Ll}', 'x', 'g'), "
        r"'\p{Lu}', 'X', 'g'), '\p{Nd}', 'n', 'g')"
    ),
    ("SPLIT", 2): "@REGEXP_SPLIT(@1, @2)",
    ("SPLIT", 3): "@REGEXP_SPLIT(@1, @2, @3)",
    ("DATE_FORMAT", 2): "@DATE_FORMAT(CAST(@1 AS TIMESTAMP), @2)",
    ("STD", 1): "STDDEV_SAMP(@1)",
    ("TRY_AVG", 1): "AVG(@1)",
    ("TRY_MOD", 2): "MOD(@1, @2)",
    **dict.fromkeys((("GETBIT", 2), ("BIT_GET", 2)), "((@1 >> @2) & 1)"),
    ("CONVERT_TIMEZONE", 3): "FROM_UTC_TIMESTAMP(TO_UTC_TIMESTAMP(CAST(@3 AS TIMESTAMP), @1), @2)",
    ("CONVERT_TIMEZONE", 2): "FROM_UTC_TIMESTAMP(CAST(@2 AS TIMESTAMP), @1)",
    ("TRY_TO_DATE", 1): "TRY_CAST(@1 AS DATE)",
    ("TRY_TO_DATE", 2): "CAST(TRY_TO_TIMESTAMP(@1, @2) AS DATE)",
    ("TO_TIMESTAMP_NTZ", 1): "TO_TIMESTAMP(@1)",
    ("TO_TIMESTAMP_NTZ", 2): "TO_TIMESTAMP(@1, @2)",
    ("TRY_PARSE_JSON", 1): "CASE WHEN JSON_EXISTS(@1, '$') THEN @1 END",
    ("MAKE_DT_INTERVAL", 1): "INTERVAL '1' DAY * @1",
    ("MAKE_DT_INTERVAL", 2): "(INTERVAL '1' DAY * @1 + INTERVAL '1' HOUR * @2)",
    ("MAKE_DT_INTERVAL", 3): f"({_DAY_TIME})",
    ("MAKE_DT_INTERVAL", 4): f"({_DAY_TIME} + INTERVAL '1' SECOND * CAST(@4 AS DOUBLE))",
    ("TRY_ELEMENT_AT", 2): "ELEMENT_AT(@1, @2)",
    ("TRY_TO_NUMBER", 2): "TRY_CAST(REPLACE(@1, ',', '') AS DECIMAL(38, 10))",
    ("PARSE_JSON", 1): "@1",
    **{
        (name, 1): f"CAST(@1 AS {name})"
        for name in (
            *("INT", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "STRING", "DATE"),
            *("TIMESTAMP", "BOOLEAN"),
        )
    },
    # Position 0 means the first character, as in Flink.
    ("SUBSTRING", 3): "@SUBSTRING(@1, CASE WHEN @2 = 0 THEN 1 ELSE @2 END, @3)",
    ("LTRIM", 2): "TRIM(LEADING @1 FROM @2)",
    ("RTRIM", 2): "TRIM(TRAILING @1 FROM @2)",
    ("STRPOS", 3): (
        "CASE WHEN @3 IS NULL THEN 0 WHEN @1 IS NULL OR @2 IS NULL THEN NULL "
        f"WHEN @3 < 1 THEN 0 WHEN @2 = '' THEN 1 ELSE {PLACED} END"
    ),
    ("INITCAP", 1): (
        "ARRAY_JOIN(TRANSFORM(@SPLIT(@1, ' '), "
        "w -> @JAVA_TITLE(LEFT(w, 1)) || LOWER(SUBSTRING(w, 2))), ' ')"
    ),
    ("CHR", 1): "CASE WHEN @1 < 0 THEN '' ELSE @CHR(@1 & 255) END",
    ("IS_NAN", 1): "COALESCE(@IS_NAN(@1), FALSE)",
    ("FLATTEN", 1): f"CASE WHEN {_NULLS_1} = 0 THEN @FLATTEN(@1) END",
    ("ARRAY_CONTAINS", 2): (
        f"CASE WHEN @ARRAY_CONTAINS(@1, @2) THEN TRUE WHEN @2 IS NOT NULL AND {_NULLS_1} = 0 "
        "THEN FALSE END"
    ),
    ("ARRAY_REMOVE", 2): "CASE WHEN @2 IS NOT NULL THEN @ARRAY_REMOVE(@1, @2) END",
    ("ARRAYS_OVERLAP", 2): (
        "CASE WHEN @ARRAYS_OVERLAP(@1, @2) THEN TRUE "
        "WHEN CARDINALITY(@1) = 0 AND @2 IS NOT NULL OR CARDINALITY(@2) = 0 AND @1 IS NOT NULL "
        f"OR {_NULLS_1} + {_NULLS_2} = 0 THEN FALSE END"
    ),
}
