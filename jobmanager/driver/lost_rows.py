"""Rows missing from the result of a job: their number, their sources, and the remedies.

The counts are part of the sources' state, so they are the same after any failure. The reported
delay that keeps all rows is exact. The delay that keeps 99 % may be slightly longer than necessary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobmanager.state.odd_times import FAR_US, REMEDY, span
from planner.durations import format_us
from rvertex.vertex.lateness_counts import LatenessCounts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobmanager.state.records import VertexState
    from rvertex.sources.spec import SourceSpec

#: Most percent of the rows that a delay may drop as late in order to "keep 99 %".
_LATE_PERCENT = 1


def late_sources(vertices: Iterable[VertexState]) -> list[dict[str, Any]]:
    """Return a row per source with late rows: their number, all rows, and sufficient delays.

    Values are JSON types. ``delay_for_99_us``: the delay that keeps 99 % of the rows; None if the
    present delay does.
    """
    stages: dict[str, list[VertexState]] = {}
    for vertex in vertices:
        if vertex.shape.source is not None:
            stages.setdefault(vertex.shape.stage, []).append(vertex)
    return [_source(stage, rows) for stage, rows in stages.items() if _late(rows)]


def bad_sources(vertices: Iterable[VertexState]) -> list[dict[str, Any]]:
    """Return a row per source with bad rows: their number and treatment, in JSON types."""
    stages: dict[str, list[VertexState]] = {}
    for vertex in vertices:
        if vertex.counts.bad_rows:
            stages.setdefault(vertex.shape.stage, []).append(vertex)
    sources = []
    for stage, rows in stages.items():
        spec = rows[0].shape.source
        assert spec is not None, stage
        bad = sum(v.counts.bad_rows for v in rows)
        good = sum(v.counts.events_in for v in rows)
        where = {"source": stage, "path": _path(spec)}
        sources.append({**where, "rows": good + bad, "bad": bad, "policy": spec.checks.on_bad_row})
    return sources


def lost_lines(status: dict[str, Any]) -> list[str]:
    """Return the lines to print at the job's end: one per source and reason."""
    root = status.get("root", "")
    lines = [_late_line(row, root) for row in status.get("late", [])]
    is_whole = status.get("state", "finished") == "finished"
    lines += [_bad_line(row, root, is_whole=is_whole) for row in status.get("bad", [])]
    lines += _refused_lines(status.get("deliveries", []), root)
    poisoned = status.get("poisoned_events", 0)
    if poisoned:
        lines.append(
            f"poisoned: {_counted(poisoned, 'event')} skipped because user code raised an error "
            "(on_error; ss.read_dead_letters has the dead letters)"
        )
    return lines


def _refused_lines(deliveries: list[dict[str, Any]], root: str) -> list[str]:
    refused: dict[str, int] = {}
    for row in deliveries:
        refused[row["delivery"]] = refused.get(row["delivery"], 0) + row.get("refused", 0)
    return [
        f"refused rows: the destination of {name} refused {rows:,} row{'s' if rows > 1 else ''}; "
        f"ss.read_dead_letters({root!r}, {name!r}) has {'them' if rows > 1 else 'it'}"
        for name, rows in refused.items()
        if rows
    ]


def _late(vertices: list[VertexState]) -> int:
    return sum(v.counts.late_events for v in vertices)


def _source(stage: str, vertices: list[VertexState]) -> dict[str, Any]:
    spec = vertices[0].shape.source
    assert spec is not None, stage
    counts = LatenessCounts()
    for vertex in vertices:
        counts = counts.merged(LatenessCounts.from_bytes(vertex.counts.lateness))
    near = counts.below(FAR_US)
    rows, late = sum(v.counts.events_in for v in vertices), _late(vertices)
    late_max = rows * _LATE_PERCENT // 100
    return {
        "source": stage,
        "path": _path(spec),
        "is_live": spec.live is not None,
        "rows": rows,
        "late": late,
        "policy": spec.late,
        "delay": _delay(spec),
        "delay_for_all_us": counts.max_us,
        "delay_for_99_us": None if late <= late_max else counts.delay_for(late_max),
        "far_late": int(counts.rows.sum() - near.rows.sum()),
        "delay_for_near_us": near.max_us,
    }


def _delay(spec: SourceSpec) -> str:
    if spec.delay_quantile is None:
        return format_us(spec.delay_us)
    return f"p{round(spec.delay_quantile * 100, 9):g}"


def _late_line(row: dict[str, Any], root: str) -> str:
    kept = f" (ss.read_late({root!r}, {row['source']!r}) has them)" if root else ""
    became = {"drop": f"dropped{kept}", "adjust": "moved to a later time"}
    all_us, most_us = row["delay_for_all_us"], row["delay_for_99_us"]
    most = ""
    if most_us is not None and _rounded_up(most_us) < all_us:
        most = f', about "{format_us(_rounded_up(most_us))}" 99 %'
    hint = "" if row.get("is_live") else '; delay="auto" finds out'
    what = (
        f"late: {row['late']:,} of {row['rows']:,} rows of {row['path']} "
        f"({row['source']}) arrived later than delay={row['delay']} allows and were "
        f"{became[row['policy']]}"
    )
    if row.get("far_late"):
        return what + _far(row)
    return f'{what}; delay="{format_us(all_us)}" would have kept all{most}{hint}'


def _far(row: dict[str, Any]) -> str:
    """Return a note on rows whose time is probably wrong, which no delay would keep."""
    far, near_us = row["far_late"], row["delay_for_near_us"]
    behind = span(row["delay_for_all_us"])
    others = f'; delay="{format_us(_rounded_up(near_us))}" would have kept the others'
    return (
        f"; {far:,} of them {'is' if far == 1 else 'are'} up to {behind} behind an earlier row: "
        f"that row has a wrong time ({behind} ahead of its neighbours), or these have; "
        f"{REMEDY}{others if near_us else ''}"
    )


def _path(spec: SourceSpec) -> str:
    return spec.shown if spec.live is not None or spec.files.more_paths else spec.path


def _bad_line(row: dict[str, Any], root: str, *, is_whole: bool) -> str:
    """Return the line on bad rows of one source.

    ``is_whole``: all rows were read. Otherwise some rows still wait for their time, and are not
    counted.
    """
    of = f"{row['rows']:,} rows" if is_whole else "the rows read so far"
    kept = ""
    if row["policy"] == "dead_letter" and root:
        kept = f"; ss.read_dead_letters({root!r}, {row['source']!r}) has them"
    elif row["policy"] == "skip":
        kept = '; on_bad_row="dead_letter" keeps them, with the reasons'
    return (
        f"bad rows: {row['bad']:,} of {of} of {row['path']} "
        f"({row['source']}) could not be read as events and were left out{kept}"
    )


def _rounded_up(us: int) -> int:
    """Round up to three digits, so that the rounded delay keeps no fewer rows."""
    unit: int = 10 ** max(0, len(str(us)) - 3)
    return -(-us // unit) * unit


def _counted(n: int, what: str) -> str:
    return f"1 {what} was" if n == 1 else f"{n:,} {what}s were"
