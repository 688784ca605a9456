"""Functions of ksqlDB that are written as other functions, by name and number of arguments."""

from __future__ import annotations

_EPOCH = "DATE '1970-01-01'"
_PARSED = "TO_UTC_TIMESTAMP(TO_TIMESTAMP(@1, @2), @3)"
KSQLDB: dict[tuple[str, int], str] = {
    ("FORMAT_TIMESTAMP", 3): "DATE_FORMAT(FROM_UTC_TIMESTAMP(@1, @3), @2)",
    ("PARSE_TIMESTAMP", 3): _PARSED,
    ("STRINGTOTIMESTAMP", 3): f"EPOCH_MS({_PARSED})",
    ("STRINGTODATE", 2): f"DATEDIFF(TO_DATE(@1, @2), {_EPOCH})",
    ("JSON_CONCAT", 3): "JSON_CONCAT(JSON_CONCAT(@1, @2), @3)",
    ("MAP_KEYS", 1): "@MAP_KEYS(@1)",
    ("ARRAY_LENGTH", 1): "CARDINALITY(@1)",
}
