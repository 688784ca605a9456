"""Errors of a text in SQL, with their place."""

from __future__ import annotations

import re

from planner.errors import InvalidPlanError
from rstream.errors import error_class

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


def sql_type(name: str) -> str:
    """SQL's name of the Arrow type ``name``."""
    if name.startswith("timestamp"):
        return "TIMESTAMP"
    if name.startswith("duration"):
        return "INTERVAL"
    decimal = re.fullmatch(r"decimal\d+(\(.*\))", name)
    return f"DECIMAL{decimal[1]}" if decimal else _TYPES.get(name, name)


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
