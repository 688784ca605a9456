"""A worked case, and the notation of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planner import Stream, event

if TYPE_CHECKING:
    from collections.abc import Sequence

SECOND = 1_000_000
#: A row: start and end in seconds (no end: a point), then the values of the payload.
Row = tuple[Any, ...]


class Us(int):
    """A time in microseconds instead of seconds."""


@dataclass(frozen=True, slots=True)
class Case:
    """A rule of an engine's documentation in our words, and its result for some rows."""

    engine: str
    rule: str
    #: asked: tuple[Stream|Equivalent queries: streams, and texts in SQL.
    asked: tuple[Stream | str, ...]
    rows: Sequence[Row]
    #: The other engine's result, if this one differs on purpose.
    differs: str = ""
    #: The streams that the texts may refer to.
    streams: dict[str, Stream] = field(default_factory=dict)


def micros(time: int | None, start: int = 0) -> int:
    """A time in microseconds; the end of a point follows from its start."""
    if time is None:
        return start + 1
    return int(time) if isinstance(time, Us) else time * SECOND


def exact(rows: Sequence[Row]) -> list[Row]:
    """Rows with times in microseconds, sorted."""
    made = [(micros(vs), micros(ve, micros(vs)), *values) for vs, ve, *values in rows]
    return sorted(made, key=lambda row: (row[0], row[1], repr(row)))


def table(columns: dict[str, str], *rows: Row) -> Stream:
    """A stream of rows, in order of their starts."""
    items = [
        event(vs, ve, **dict(zip(columns, values, strict=True))) for vs, ve, *values in exact(rows)
    ]
    return Stream.from_items(columns, items)


def points(columns: dict[str, str], *rows: Row) -> Stream:
    """A stream of points: rows without an end."""
    return table(columns, *((time, None, *values) for time, *values in rows))
