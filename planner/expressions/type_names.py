"""Parses the names of types that Arrow prints, such as ``struct<x: int64>``.

Messages show these names, so ``schema=`` accepts them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

_UNITS = r"\[(s|ms|us|ns)(?:, tz=([^\]]+))?\]"
_NAMED = re.compile(rf"(timestamp|time32|time64|duration){_UNITS}|date32\[day\]|date64\[ms\]")
_WORD = re.compile(r"[a-z_]+\d*(?:\(\d+(?:,\s*\d+)?\))?")
_SIZE = re.compile(r"\[(\d+)\]")
_FIELD = re.compile(r"\s*([^<>:,]+?):\s*")
_NOT_NULL = " not null"


def type_named(text: str, plain: Callable[[str], pa.DataType | None]) -> pa.DataType | None:
    """Return the type with this name, None: there is none. ``plain``: parses one-word types."""
    try:
        kind, rest = _type(text, plain)
    except (ValueError, pa.ArrowException):
        return None
    return kind if not rest.strip() else None


def _type(text: str, plain: Callable[[str], pa.DataType | None]) -> tuple[pa.DataType, str]:
    """Parse the type at the beginning of the text; return it and the rest.

    Raises:
        ValueError: the text does not begin with a type.
    """
    timed = _NAMED.match(text)
    if timed is not None:
        return _timed(timed), text[timed.end() :]
    for kind in ("struct", "list", "large_list", "fixed_size_list", "map"):
        if text.startswith(f"{kind}<"):
            return _nested(kind, text[len(kind) + 1 :], plain)
    word = _WORD.match(text)
    found = None if word is None else plain(word[0])
    if word is None or found is None:
        raise ValueError(text)
    return found, text[word.end() :]


def _timed(match: re.Match[str]) -> pa.DataType:
    word, unit, zone = match.groups()
    if word is None:
        return pa.date32() if match[0].startswith("date32") else pa.date64()
    if word == "timestamp":
        return pa.timestamp(unit, zone)
    if zone is not None:
        raise ValueError(match[0])
    make = {"time32": pa.time32, "time64": pa.time64, "duration": pa.duration}[word]
    return make(unit)


def _nested(
    word: str, text: str, plain: Callable[[str], pa.DataType | None]
) -> tuple[pa.DataType, str]:
    fields: list[tuple[str, pa.DataType]] = []
    while not text.startswith(">"):  # terminates: each pass reads a field, or raises
        name = _FIELD.match(text)
        kind, text = _type(text[name.end() :] if name else text.lstrip(), plain)
        fields.append((name[1] if name else "", kind))
        text = text.removeprefix(_NOT_NULL).removeprefix(",")
        if not text:
            raise ValueError("a bracket is not closed")
    # Arrow prints the names of a map's entries in some cases; they are removed
    rest = re.sub(r"^ \('[^']*'\)", "", text[1:])
    kinds = [kind for _, kind in fields]
    if word == "struct" and all(name for name, _ in fields):
        return pa.struct(fields), rest
    if word == "map" and len(kinds) == len(("key", "value")):
        return pa.map_(*kinds), rest
    if len(kinds) != 1 or word in ("struct", "map"):
        raise ValueError(text)
    if word == "fixed_size_list":
        size = _SIZE.match(rest)
        if size is None:
            raise ValueError(rest)
        return pa.list_(kinds[0], int(size[1])), rest[size.end() :]
    return (pa.large_list if word == "large_list" else pa.list_)(kinds[0]), rest
