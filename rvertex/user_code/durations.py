"""Durations as users write them: numbers with units, largest first, such as ``"1h30m"``."""

from __future__ import annotations

import re
from decimal import Decimal

UNITS_US = {
    "w": 7 * 86_400_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|us|µs|[wdhms])\s*")


def parse_duration(text: str) -> int | None:
    """Parse to microseconds. None: not a duration, or not a whole number of microseconds."""
    stripped = text.strip()
    sign, body = (-1, stripped[1:]) if stripped.startswith("-") else (1, stripped.removeprefix("+"))
    total, at = Decimal(0), 0
    while at < len(body):
        match = _PART.match(body, at)
        if match is None:
            return None
        unit = match[2].replace("µ", "u")
        total += Decimal(match[1]) * UNITS_US[unit]
        at = match.end()
    if not body or total != int(total):
        return None
    return sign * int(total)
