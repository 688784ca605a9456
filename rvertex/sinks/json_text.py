"""Nested values as JSON text, for destinations that have no type for them.

Records are objects, lists arrays, maps arrays of pairs. What JSON has no form for is text: numbers
with a decimal point that is exact, times (ISO 8601), bytes (hexadecimal), NaN and infinities.
"""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta
from typing import Any

import pyarrow as pa


def json_texts(column: pa.Array) -> pa.Array:
    """The JSON text of each value; null stays null."""
    texts = [None if value is None else json_text(value) for value in column.to_pylist()]
    return pa.array(texts, pa.string())


def json_text(value: Any) -> str:
    """One value as JSON."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(name): _plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return value.hex()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
    return str(value)
