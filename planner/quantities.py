"""Estimated quantities for people: two or three digits and a unit."""

from __future__ import annotations

from math import isfinite

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNTS = ("", "k", "M", "G", "T", "P")


def format_count(count: float) -> str:
    """Format a count: 1234567 is "1.23M"; below 1000 as a whole number, or "1.5"."""
    scaled, unit = _scaled(count, 1000.0, _COUNTS)
    return f"{scaled}{unit}"


def format_bytes(size: float) -> str:
    """Format a number of bytes: 2048 is "2 KiB"."""
    scaled, unit = _scaled(size, 1024.0, _BYTES)
    return f"{scaled} {unit}"


def format_seconds(seconds: float) -> str:
    """Format a time or an amount of work: "1.5 s"."""
    for factor, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{_digits(seconds / factor)} {unit}"
    return f"{_digits(seconds * 1e6)} us"


def _scaled(value: float, base: float, units: tuple[str, ...]) -> tuple[str, str]:
    assert isfinite(value), value
    at = 0
    while value >= base and at < len(units) - 1:  # terminates: ``at`` grows
        value /= base
        at += 1
    return _digits(value), units[at]


def _digits(value: float) -> str:
    """Format three significant digits, without zeros after the point."""
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    text = f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".")
