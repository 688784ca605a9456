"""Sessions, count windows and snapshots in plain Python, event by event."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rstream.items.batch import VE, VS
from rstream.types import INF_TIME
from tests.support.naive import Row, aggregate, order_of_group, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rvertex.aggregates.spec import AggregateSpec


@dataclass(slots=True)
class Seen:
    """A window of one key; ``end`` None: it is not known from the events so far."""

    start: int
    end: int | None
    rows: list[Row]


def sessions(rows: Sequence[Row], gap: int, longest: int | None) -> list[Seen]:
    """Sessions, cut at ``longest``."""
    found: list[Seen] = []
    active = None
    for row in rows:
        late = longest is not None and bool(found) and row[VS] >= found[-1].start + longest
        if active is None or row[VS] >= active or late:
            found.append(Seen(row[VS], None, []))
        active = max(row[VE] - 1 + gap, row[VS] if active is None else active)
        found[-1].rows.append(row)
        found[-1].end = min(active, INF_TIME if longest is None else found[-1].start + longest)
    return found


def running_sessions(rows: Sequence[Row], gap: int, longest: int | None) -> list[Seen]:
    """Each session so far, at the start of each of its events."""
    found: list[Seen] = []
    for session in sessions(rows, gap, longest):
        times = sorted({row[VS] for row in session.rows})
        for at, upto in itertools.zip_longest(times, times[1:]):
            so_far = [row for row in session.rows if row[VS] <= at]
            (end,) = [seen.end for seen in sessions(so_far, gap, longest)]
            found.append(Seen(at, end if upto is None else upto, so_far))
    return found


def counts(rows: Sequence[Row], n: int) -> list[Seen]:
    """Every n rows; the last window may be incomplete."""
    parts = [list(rows[at : at + n]) for at in range(0, len(rows), n)]
    return [Seen(p[0][VS], p[-1][VS] + 1 if len(p) == n else None, p) for p in parts]


def snapshots(rows: Sequence[Row]) -> list[Seen]:
    """The intervals between neighbouring endpoints in which a row is valid."""
    times = sorted({row[VS] for row in rows} | {row[VE] for row in rows})
    found = []
    for start, end in itertools.pairwise(times):
        alive = [row for row in rows if row[VS] <= start and row[VE] >= end]
        if alive:
            found.append(Seen(start, end, alive))
    return found


def by_key(rows: Sequence[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each key, in sequence order."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(plain(row[key]) for key in keys), []).append(row)
    return groups


def results(
    rows: Sequence[Row],
    keys: Sequence[str],
    aggregates: Sequence[AggregateSpec],
    windows: Callable[[Sequence[Row]], list[Seen]],
) -> list[Row]:
    """Result rows of all windows with an end, in output order."""
    out: list[tuple[Any, Row]] = []
    for key, members in by_key(rows, keys).items():
        for seen in windows(members):
            if seen.end is not None:
                row: Row = {VS: seen.start, VE: seen.end, **dict(zip(keys, key, strict=True))}
                for a in aggregates:
                    row[a.output] = aggregate(a.function, a.column, seen.rows, argument=a.argument)
                out.append(((seen.start, *order_of_group(key)), row))
    return [row for _, row in sorted(out, key=lambda pair: pair[0])]


def ctis(
    rows: Sequence[Row],
    keys: Sequence[str],
    times: Iterable[int],
    windows: Callable[[Sequence[Row]], list[Seen]],
) -> list[int]:
    """For each time, the start of the earliest window that the earlier rows leave open."""
    out: list[int] = []
    for time in times:
        before = [row for row in rows if row[VS] < time]
        starts = [
            seen.start
            for members in by_key(before, keys).values()
            for seen in windows(members)
            if time != INF_TIME and seen.start < time and (seen.end is None or seen.end > time)
        ]
        cti = min([time, *starts])
        if not out or cti > out[-1]:
            out.append(cti)
    return out
