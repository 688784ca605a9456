"""Functions of JSON that are written as other functions, by name and number of arguments."""

from __future__ import annotations

JSON: dict[tuple[str, int], str] = {
    **{
        (f"JSONB_EXISTS_{word}", 2): (f"CARDINALITY(FILTER(@2, k -> JSONB_EXISTS(@1, k))) {test}")
        for word, test in (("ANY", "> 0"), ("ALL", "= CARDINALITY(@2)"))
    },
    **dict.fromkeys((("JSON_STRIP_NULLS", 1), ("JSONB_STRIP_NULLS", 1)), "JSON_WITHOUT_NULLS(@1)"),
    ("JSONB_EXISTS", 2): (
        "CASE WHEN @1 IS NULL OR @2 IS NULL THEN NULL WHEN JSON_KEYS(@1) IS NOT NULL "
        "THEN LIST_CONTAINS(JSON_KEYS(@1), @2) ELSE COALESCE(LIST_CONTAINS(JSON_ELEMENTS(@1), "
        "TO_JSON(@2)), JSON_EXTRACT(@1, '$') = TO_JSON(@2), FALSE) END"
    ),
    **dict.fromkeys((("JSONB_ARRAY_LENGTH", 1), ("JSON_LENGTH", 1)), "JSON_ARRAY_LENGTH(@1)"),
    **dict.fromkeys((("JSON_OBJECT_KEYS", 1), ("JSONB_OBJECT_KEYS", 1)), "JSON_KEYS(@1)"),
    **dict.fromkeys((("JSONB_ARRAY_ELEMENTS", 1), ("JSON_ARRAY_ELEMENTS", 1)), "JSON_ELEMENTS(@1)"),
    **dict.fromkeys(
        (("JSONB_ARRAY_ELEMENTS_TEXT", 1), ("JSON_ARRAY_ELEMENTS_TEXT", 1)),
        "TRANSFORM(JSON_ELEMENTS(@1), e -> JSON_VALUE(e, '$'))",
    ),
    **dict.fromkeys(
        (("JSONB_EACH", 1), ("JSON_EACH", 1)), "AS_MAP(JSON_KEYS(@1), JSON_ELEMENTS(@1))"
    ),
    **dict.fromkeys(
        (("JSONB_EACH_TEXT", 1), ("JSON_EACH_TEXT", 1)),
        "AS_MAP(JSON_KEYS(@1), TRANSFORM(JSON_ELEMENTS(@1), e -> JSON_VALUE(e, '$')))",
    ),
    ("JSON_ITEMS", 1): "JSON_ELEMENTS(@1)",
    ("JSON_RECORDS", 1): "AS_MAP(JSON_KEYS(@1), JSON_ELEMENTS(@1))",
    ("TO_JSON_STRING", 1): "TO_JSON(@1)",
    ("JSON_UNQUOTE", 1): "COALESCE(JSON_VALUE(@1, '$'), @1)",
    **dict.fromkeys((("JSON_STRING", 1), ("JSON_QUOTE", 1)), "TO_JSON(@1)"),
    ("JSONB_PATH_EXISTS", 2): "JSON_EXISTS(@1, @2)",
    ("JSONB_PATH_QUERY_FIRST", 2): "JSON_EXTRACT(@1, @2)",
    ("JSON_ARRAY_CONTAINS", 2): "LIST_CONTAINS(JSON_ELEMENTS(@1), TO_JSON(@2))",
    **dict.fromkeys(
        (("IS_JSON_STRING", 1), ("JSON_VALID", 1)),
        "CASE WHEN @1 IS NOT NULL THEN JSON_EXISTS(@1, '$') END",
    ),
}
