"""Functions of DuckDB that are written as other functions, by name and number of arguments."""

from __future__ import annotations

_SOME = "FILTER(@1, x -> x IS NOT NULL)"
_SORTED = f"ARRAY_SORT({_SOME})"
_SIZE = f"CARDINALITY({_SOME})"
_PLACES = "@SEQUENCE(1, CARDINALITY(@1), 1)"
#: The characters of a text, each once.
_SET = "ARRAY_DISTINCT(@REGEXP_EXTRACT_ALL({0}, '(?s).'))"
_BOTH = f"CARDINALITY(ARRAY_INTERSECT({_SET.format('@1')}, {_SET.format('@2')}))"
#: Raises an error if a text is empty, because the step is then 0.
_NOT_EMPTY = "@SEQUENCE(1, 1, SIGN(LENGTH(@1) * LENGTH(@2)))"
_FROM_EPOCH = "TIMESTAMP '1970-01-01 00:00:00' + INTERVAL '1' MICROSECOND * "
_MEAN = f"ARRAY_SUM(@1) / CAST(NULLIF({_SIZE}, 0) AS DOUBLE)"
#: Aggregates of a list, as LIST_SUM(l), ARRAY_SUM(l) and LIST_AGGREGATE(l, 'sum').
LISTED = {
    "COUNT": _SIZE,
    "SUM": "ARRAY_SUM(@1)",
    "MIN": "ARRAY_MIN(@1)",
    "MAX": "ARRAY_MAX(@1)",
    "AVG": _MEAN,
    "MEAN": _MEAN,
    "MEDIAN": "@LIST_MEDIAN(@1)",
    "FIRST": "@LIST_ITEM(@1, 1)",
    "LAST": "@LIST_ITEM(@1, -1)",
    "ANY_VALUE": f"@LIST_ITEM({_SOME}, 1)",
    "STRING_AGG": f"ARRAY_JOIN({_SOME}, ',')",
    "BOOL_AND": f"CASE WHEN {_SIZE} > 0 THEN CARDINALITY(FILTER(@1, x -> NOT x)) = 0 END",
    "BOOL_OR": f"CASE WHEN {_SIZE} > 0 THEN CARDINALITY(FILTER(@1, x -> x)) > 0 END",
    "PRODUCT": f"CASE WHEN {_SIZE} > 0 THEN REDUCE({_SOME}, 1.0, (a, b) -> a * b) END",
    **{
        f"BIT_{name}": f"CASE WHEN {_SIZE} > 0 THEN "
        f"REDUCE({_SOME}, CAST({first} AS BIGINT), (a, b) -> a {sign} b) END"
        for name, first, sign in (("AND", -1, "&"), ("OR", 0, "|"), ("XOR", 0, "^"))
    },
    **{
        f"{name}_{part}": template
        for part, less in (("POP", 0), ("SAMP", 1))
        for name, template in (
            ("VAR", f"@LIST_VARIANCE(@1, {less})"),
            ("STDDEV", f"SQRT(@LIST_VARIANCE(@1, {less}))"),
        )
    },
    "DISTINCT": f"ARRAY_DISTINCT({_SOME})",
}
_LISTS: dict[tuple[str, int], str] = {
    **{(f"LIST_{name}", 1): template for name, template in LISTED.items()},
    ("LIST_WHERE", 2): (
        f"TRANSFORM(FILTER({_PLACES}, i -> @LIST_ITEM(@2, i)), i -> @LIST_ITEM(@1, i))"
    ),
    ("LIST_SELECT", 2): "TRANSFORM(@2, i -> @LIST_ITEM(@1, i))",
    ("LIST_RESIZE", 2): (
        "@HEAD(@LIST_CONCAT(@1, TRANSFORM(@SEQUENCE(1, @2, 1), "
        "i -> CASE WHEN i < 1 THEN @1[1] END)), @2)"
    ),
    ("LIST_RESIZE", 3): "@HEAD(@LIST_CONCAT(@1, TRANSFORM(@SEQUENCE(1, @2, 1), i -> @3)), @2)",
    ("LIST_REVERSE_SORT", 1): (
        f"ARRAY_CONCAT(ARRAY_REVERSE({_SORTED}), FILTER(@1, x -> x IS NULL))"
    ),
    ("LIST_PUSH_BACK", 2): "ARRAY_APPEND(@1, @2)",
    ("LIST_PUSH_FRONT", 2): "@LIST_CONCAT(ARRAY[@2], @1)",
    ("LIST_POP_BACK", 1): "@HEAD(@1, CARDINALITY(@1) - 1)",
    ("LIST_POP_FRONT", 1): "@TAIL(@1, 1)",
    ("LIST_INTERSECT", 2): "ARRAY_INTERSECT(@1, @2)",
    ("LIST_HAS", 2): "LIST_CONTAINS(@1, @2)",
    ("LIST_EXTRACT", 2): "@1[@2]",
    ("LIST_ELEMENT", 2): "@1[@2]",
    ("LIST_GRADE_UP", 1): "@LIST_GRADE(@1)",
    ("LIST_JOIN", 2): "ARRAY_JOIN(@1, @2)",
    ("ARRAY_HAS_ANY", 2): "LIST_HAS_ANY(@1, @2)",
    ("ARRAY_LENGTH", 1): "CARDINALITY(@1)",
}
_TEXTS: dict[tuple[str, int], str] = {
    **dict.fromkeys(
        (("HAMMING", 2), ("MISMATCHES", 2)),
        # Texts of different lengths and empty texts raise an error, because the step is 0.
        "CARDINALITY(FILTER(@SEQUENCE(1, LENGTH(@1), "
        "CASE WHEN LENGTH(@1) <> LENGTH(@2) THEN 0 ELSE SIGN(LENGTH(@1) + 0 * LENGTH(@2)) END), "
        "i -> SUBSTRING(@1, i, 1) <> SUBSTRING(@2, i, 1)))",
    ),
    ("JACCARD", 2): (
        f"{_BOTH} / CAST(CARDINALITY({_SET.format('@1')}) + CARDINALITY({_SET.format('@2')}) "
        f"- {_BOTH} AS DOUBLE) + 0 * CARDINALITY({_NOT_EMPTY})"
    ),
    ("UNICODE", 1): "CASE WHEN @1 = '' THEN -1 ELSE ASCII(@1) END",
    ("ORD", 1): "CASE WHEN @1 = '' THEN -1 ELSE ASCII(@1) END",
    ("SUFFIX", 2): "ENDS_WITH(@1, @2)",
    ("PREFIX", 2): "STARTS_WITH(@1, @2)",
    ("STRLEN", 1): "OCTET_LENGTH(@1)",
    ("REGEXP_FULL_MATCH", 2): "REGEXP_LIKE(@1, '^(?:' || @2 || ')$')",
    ("PARSE_FILENAME", 1): r"@REGEXP_GROUP(@1, '[^/\\]*$', 0)",
    ("ARRAY_EXTRACT", 2): "@1[@2]",
    ("STRING_TO_ARRAY", 2): "SPLIT(@1, @2)",
    # DuckDB encodes a space as %20, and does not decode a plus sign.
    ("URL_ENCODE", 1): "REPLACE(REPLACE(@URL_ENCODE(@1), '+', '%20'), '%7E', '~')",
    ("URL_DECODE", 1): "@URL_DECODE(REPLACE(@1, '+', '%2B'))",
    ("LIKE_ESCAPE", 3): "@1 LIKE @2 ESCAPE @3",
}
_NUMBERS: dict[tuple[str, int], str] = {
    ("EVEN", 1): "CASE WHEN @1 < 0 THEN -2 * CEIL(-@1 / 2.0) ELSE 2 * CEIL(@1 / 2.0) END",
    ("FDIV", 2): "FLOOR(@1 / CAST(@2 AS DOUBLE))",
    ("FMOD", 2): "@1 - FLOOR(@1 / CAST(@2 AS DOUBLE)) * @2",
    **dict.fromkeys(
        (("ROUND_EVEN", 2), ("ROUNDBANKERS", 2)),
        "BROUND(@1 * POWER(10.0, @2)) / POWER(10.0, @2)",
    ),
    ("SIGNBIT", 1): "ATAN2(@1, -1) < 0",
    **dict.fromkeys(
        (("ISINF", 1), ("IS_INF", 1)), "ABS(CAST(@1 AS DOUBLE)) > 1.7976931348623157e308"
    ),
    ("SUBTRACT", 2): "@1 - @2",
    ("ADD", 2): "@1 + @2",
    ("MULTIPLY", 2): "@1 * @2",
    ("DIVIDE", 2): "@1 // @2",
}
_TIMES: dict[tuple[str, int], str] = {
    ("MAKE_TIMESTAMP", 1): f"{_FROM_EPOCH} @1",
    ("MAKE_TIMESTAMP_MS", 1): f"{_FROM_EPOCH} (@1 * 1000)",
    ("JULIAN", 1): "EPOCH_US(CAST(@1 AS TIMESTAMP)) / 86400000000.0 + 2440588",
    ("ERA", 1): "CASE WHEN EXTRACT(YEAR FROM @1) > 0 THEN 1 ELSE 0 END",
    ("MILLENNIUM", 1): "(EXTRACT(YEAR FROM @1) + 999) DIV 1000",
    ("MICROSECOND", 1): "MOD(EPOCH_US(@1), 60000000)",
    ("MILLISECOND", 1): "MOD(EPOCH_US(@1), 60000000) DIV 1000",
    ("TO_MINUTE", 1): "INTERVAL '1' MINUTE * @1",
}
_MAPS: dict[tuple[str, int], str] = {
    ("STRUCT_EXTRACT_AT", 2): "@FIELD(@1, @2)",
    ("MAP_EXTRACT_VALUE", 2): "ELEMENT_AT(@1, @2)",
    ("MAP_CONTAINS_VALUE", 2): "LIST_CONTAINS(MAP_VALUES(@1), @2)",
}
_ALL = "ARRAY_AGG(@1) FILTER (WHERE @1 IS NOT NULL)"
_SHARE = f"(CARDINALITY(FILTER({_ALL}, y -> y = k)) / CAST(COUNT(@1) AS DOUBLE))"
_FIRST = "ELEMENT_AT(ARRAY_AGG(@1 ORDER BY @2 {0}) FILTER (WHERE @2 IS NOT NULL), 1)"
_WEIGHTED = "SUM(@1 * @2) / CAST(SUM(CASE WHEN @1 IS NOT NULL THEN @2 END) AS DOUBLE)"
_AGGREGATES: dict[tuple[str, int], str] = {
    # DuckDB computes the skewness and kurtosis of a sample, other engines of a population.
    ("SKEWNESS", 1): (
        "@SKEWNESS(@1) * SQRT(COUNT(@1) * (COUNT(@1) - 1.0)) / NULLIF(COUNT(@1) - 2.0, 0)"
    ),
    ("KURTOSIS", 1): (
        "(COUNT(@1) - 1.0) / NULLIF((COUNT(@1) - 2.0) * (COUNT(@1) - 3.0), 0) "
        "* ((COUNT(@1) + 1.0) * @KURTOSIS(@1) + 6.0)"
    ),
    ("KURTOSIS_POP", 1): "@KURTOSIS(@1)",
    ("COUNT_STAR", 0): "COUNT(*)",
    ("MAD", 1): f"@LIST_MEDIAN(TRANSFORM({_ALL}, v -> ABS(v - @LIST_MEDIAN({_ALL}))))",
    ("ENTROPY", 1): (
        f"REDUCE(TRANSFORM(ARRAY_DISTINCT({_ALL}), k -> {_SHARE} * LOG2({_SHARE})), 0.0, "
        "(a, b) -> a - b)"
    ),
    ("ARG_MIN_NULL", 2): _FIRST.format("ASC"),
    ("ARG_MAX_NULL", 2): _FIRST.format("DESC"),
    **dict.fromkeys((("WEIGHTED_AVG", 2), ("WAVG", 2)), _WEIGHTED),
}


def _also_of_arrays(known: dict[tuple[str, int], str]) -> dict[tuple[str, int], str]:
    """Return the templates, with each LIST_X also under the name ARRAY_X."""
    more = {
        (name.replace("LIST_", "ARRAY_", 1), count): template
        for (name, count), template in known.items()
    }
    taken = tuple(
        f"ARRAY_{name}" for name in ("SUM", "MIN", "MAX", "DISTINCT", "INTERSECT", "JOIN")
    )
    return {call: t for call, t in more.items() if call[0] not in taken} | known


#: These have no template: the compiler knows them.
_COMPILED = ("LIST_SUM", "LIST_MIN", "LIST_MAX", "LIST_DISTINCT")

DUCKDB = {
    **{call: t for call, t in _also_of_arrays(_LISTS).items() if call[0] not in _COMPILED},
    **_TEXTS,
    **_NUMBERS,
    **_TIMES,
    **_MAPS,
    **_AGGREGATES,
}
