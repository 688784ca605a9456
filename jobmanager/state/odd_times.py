"""Finds implausible times in a source: far ahead of the clock, or numbers of another unit.

One row with a time in the year 2036 makes every later row of its partition late. So a status
reports such a time as long as the job runs, because it explains missing rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rstream.types import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobmanager.state.records import VertexState
    from rvertex.sources.spec import SourceSpec

_DAY_US = 86_400_000_000
_YEAR_US = 31_556_952_000_000
#: Times are reported if they are this far ahead of the clock, us. Smaller distances are plausible,
#: because clocks differ and some events are planned.
AHEAD_US_MIN = _DAY_US
#: Rows this far ahead, us, cannot be explained by a delay: a time is wrong.
FAR_US = 30 * _DAY_US
REMEDY = 'set max_ahead="1h" to treat such rows as bad rows'


def odd_times(vertices: Iterable[VertexState], now_us: int) -> list[dict[str, Any]]:
    """Return a row per live source with implausible times: reason and advice. JSON types."""
    rows: dict[str, dict[str, Any]] = {}
    for vertex in vertices:
        source = vertex.shape.source
        if source is None or source.live is None or vertex.leader is None:
            continue
        for log in vertex.leader.logs:
            odd = None
            if log.max_vs != MIN_TIME:
                odd = _of_partition(source, log.partition, log.max_vs, now_us)
            if odd is not None:
                rows.setdefault(f"{vertex.shape.stage} {odd[0]}", _row(vertex, *odd))
    return list(rows.values())


def span(us: int) -> str:
    """Return a duration (us) in words."""
    for unit, unit_us in (("year", _YEAR_US), ("day", _DAY_US), ("hour", _DAY_US // 24)):
        if us >= unit_us or unit == "hour":
            count = max(1, us // unit_us)
            return f"{count:,} {unit}{'s' if count > 1 else ''}"
    raise AssertionError(us)


def _of_partition(
    source: SourceSpec, partition: int, max_vs: int, now_us: int
) -> tuple[str, str, str] | None:
    """Return kind, reason (without full stop) and advice; None: the times are plausible."""
    name = source.shown or source.path
    from rvertex.sources.events import iso
    from rvertex.sources.survey import unit_note

    note = unit_note(source, max_vs, max_vs)
    if note is not None:
        return "unit", f"{name}: {note[0]}", note[1]
    if max_vs - now_us < AHEAD_US_MIN:
        return None
    return (
        "ahead",
        f"{name}, partition {partition}: one row is {span(max_vs - now_us)} ahead of the clock "
        f"({iso(max_vs)}); rows after it that are not ahead are late",
        REMEDY,
    )


def _row(vertex: VertexState, kind: str, reason: str, advice: str) -> dict[str, Any]:
    return {"source": vertex.shape.stage, "kind": kind, "reason": reason, "advice": advice}
