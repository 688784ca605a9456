"""Errors of a text in SQL, with their place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planner.errors import InvalidPlanError
from rstream.errors import error_class

if TYPE_CHECKING:
    from collections.abc import Sequence

_TYPES = {
    **{f"int{bits}": name for bits, name in ((8, "TINYINT"), (16, "SMALLINT"), (32, "INT"))},
    **{f"uint{bits}": name for bits, name in ((8, "UTINYINT"), (16, "USMALLINT"), (32, "UINT"))},
    "int64": "BIGINT",
    "uint64": "UBIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bool": "BOOLEAN",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "binary": "BINARY",
    "date32[day]": "DATE",
    "null": "NULL",
}

#: How to write a value of another type, by the beginning of the type's name.
_ADVICE = {
    "list<": "take an element, as in l[1], its text, as in ARRAY_JOIN(l, ','), or UNNEST(l)",
    "struct<": "take a field, as in s.name, or write TO_JSON(s) for a text",
    "map<": "take a value, as in m['key'], or write MAP_KEYS(m) or MAP_VALUES(m)",
    "duration": "write EPOCH_US(d) for microseconds",
    **dict.fromkeys(
        ("timestamp", "date"),
        "write DATE_FORMAT(t, 'yyyy-MM-dd HH:mm:ss') for a text, EXTRACT(HOUR FROM t) or "
        "EPOCH_US(t) for a number, CAST(s AS TIMESTAMP) for a time",
    ),
    "binary": "write HEX(b) or TO_BASE64(b) for a text",
    "bool": "write CASE WHEN c THEN 1 ELSE 0 END for a number",
    "string": "write CAST(s AS BIGINT) or CAST(s AS DOUBLE) for a number, or CAST(x AS VARCHAR) "
    "for a text",
}


def sql_type(name: str) -> str:
    """SQL's name of the Arrow type ``name``."""
    if name.startswith("timestamp"):
        return "TIMESTAMP"
    if name.startswith("duration"):
        return "INTERVAL"
    decimal = re.fullmatch(r"decimal\d+(\(.*\))", name)
    return f"DECIMAL{decimal[1]}" if decimal else _TYPES.get(name, name)


def advice_for(operation: str, types: Sequence[str]) -> str:
    """Return what to write instead of an operation that does not take these types."""
    if operation.startswith("field"):
        return "take fields of a struct only; write JSON_VALUE(s, '$.a') for a text of JSON"
    if operation == "-" and set(types) == {"string"}:
        return (
            "write CAST(s AS BIGINT) for a number; for JSON, take the fields that stay: j ->> 'a'"
        )
    if operation == "list.concat" and "null" in types:
        return "write CAST(NULL AS ARRAY<BIGINT>), or a list of another type, for the null"
    if "null" in types:
        return "write CAST(NULL AS BIGINT), or another type, for the null"
    for begin, advice in _ADVICE.items():
        if any(kind.startswith(begin) for kind in types):
            return advice
    return "write CAST(x AS VARCHAR) for a text"


@error_class
class SqlError(InvalidPlanError):
    """A statement that cannot be parsed, or that uses a feature or a name that does not exist.

    ``line`` and ``column`` count from 1; ``code`` is that line, ``width`` the characters to mark.
    """

    reason: str
    code: str
    line: int
    column: int
    width: int

    def __str__(self) -> str:
        before = "".join(c if c == "\t" else " " for c in self.code[: self.column - 1])
        return (
            f"line {self.line}, column {self.column}: {self.reason}\n"
            f"  {self.code}\n"
            f"  {before}{'^' * self.width}"
        )
