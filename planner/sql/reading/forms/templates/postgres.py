"""Functions of PostgreSQL, RisingWave and Materialize that are written as other functions.

By name and number of arguments.
"""

from __future__ import annotations

POSTGRES: dict[tuple[str, int], str] = {
    # Functions of JSON; a path is '{a,0}' or a list of texts.
    ("ARRAY_TO_JSON", 1): "TO_JSON(@1)",
    ("ROW_TO_JSON", 1): "TO_JSON(@1)",
    ("JSONB_CONCAT", 2): "JSON_CONCAT(@1, @2)",
    ("JSONB_CONTAINS", 2): "JSON_CONTAINS(@1, @2)",
    ("JSONB_CONTAINED", 2): "JSON_CONTAINS(@2, @1)",
    # Functions of lists.
    ("ARRAY_FILL", 2): "TRANSFORM(@SEQUENCE(1, @LIST_ITEM(@2, 1), 1), i -> @1)",
    ("ARRAY_LENGTH", 2): "NULLIF(@ARRAY_LENGTH(@1, @2), 0)",
    ("ARRAY_NDIMS", 1): "CASE WHEN CARDINALITY(@1) > 0 THEN 1 END",
    ("ARRAY_FLATTEN", 1): "FLATTEN(@1)",
    ("LIST_CAT", 2): "ARRAY_CONCAT(@1, @2)",
    ("LIST_LENGTH_MAX", 2): "CARDINALITY(@1)",
    ("LIST_REMOVE", 2): "ARRAY_REMOVE(@1, @2)",
    # Functions of maps in RisingWave.
    ("MAP_ACCESS", 2): "ELEMENT_AT(@1, @2)",
    ("MAP_LENGTH", 1): "CARDINALITY(@1)",
    ("MAP_CAT", 2): "MAP_CONCAT(@1, @2)",
    ("MAP_INSERT", 3): "MAP_CONCAT(@1, AS_MAP(ARRAY[@2], ARRAY[@3]))",
    ("MAP_DELETE", 2): "@MAP_FROM_ENTRIES(FILTER(MAP_ENTRIES(@1), e -> e.key <> @2))",
    ("MAP_FROM_KEY_VALUES", 2): "AS_MAP(@1, @2)",
    # Functions of times.
    **dict.fromkeys((("JUSTIFY_HOURS", 1), ("JUSTIFY_DAYS", 1), ("JUSTIFY_INTERVAL", 1)), "@1"),
    ("CLOCK_TIMESTAMP", 1): "@1",
    ("DATE_PART_YEAR", 1): "EXTRACT(YEAR FROM @1)",
    ("UNIX_MILLIS", 1): "EPOCH_MS(@1)",
    # Functions of text.
    ("TEXTCAT", 2): "@1 || @2",
    ("LCASE", 1): "LOWER(@1)",
    ("UCASE", 1): "UPPER(@1)",
    # Functions of numbers.
    ("WHOLE_DIV", 2): "CAST(TRUNC(@1 / CAST(@2 AS DOUBLE)) AS BIGINT)",
    ("DPOW", 2): "POWER(@1, @2)",
}
