"""Windows by the calendar of a zone, against Polars: days of 23 to 25 hours, skipped days, months.

Polars takes the period of each row from the wall clock. If clocks are set back over midnight, a
wall clock shows a day, the previous day, and the day again. Windows have one start, so they differ
there.

Not covered: errors in the zone rules that this machine and Polars share.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import streamscope as ss
from planner.errors import InvalidPlanError
from planner.logical.windows import CalendarWindow, tumbling
from planner.physical.lower import lower
from rstream.items.batch import EVENT
from rvertex.operators.lifetimes.calendar import CalendarTimes, Periods
from streamscope.testing.plan_run import PlanRun, Schedule
from tests.support.budget import scaled
from tests.support.builders import cti, ev, make_run
from tests.support.operator_harness import assert_cut_invariant

ZONES = (
    *("Africa/Cairo", "Africa/Casablanca", "America/Asuncion", "America/Havana"),
    *("America/New_York", "America/Santiago", "America/Sao_Paulo", "America/St_Johns"),
    *("Antarctica/Troll", "Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu", "Asia/Kolkata"),
    *("Asia/Tehran", "Australia/Lord_Howe", "Europe/Berlin", "Europe/London"),
    *("Pacific/Apia", "Pacific/Chatham", "Pacific/Kiritimati"),
)
LENGTHS = ("1d", "1w", "1mo", "1q", "1y")
DAY_S = 86_400
FIRST_S, LAST_S = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1995, 2040))
PAYLOAD = pa.schema([("x", pa.int64())])


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1_000_000


def instants(zone: str, seed: int) -> np.ndarray:
    """Instants in 45 years, most of them near zone changes."""
    numbers, key = random.Random(seed), ZoneInfo(zone)

    def offset(at: int) -> Any:
        return datetime.fromtimestamp(at, key).utcoffset()

    found = [numbers.randrange(FIRST_S, LAST_S) for _ in range(scaled(100))]
    for at in range(FIRST_S, LAST_S, DAY_S):
        if offset(at) != offset(at + DAY_S):
            found += [at + numbers.randrange(-DAY_S, 2 * DAY_S) for _ in range(scaled(6))]
    return np.array(sorted(found), np.int64) * 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_calendar_periods_equal_those_of_polars(zone: str) -> None:
    times = instants(zone, 1)
    walls = pl.Series(times).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
    naive = walls.dt.replace_time_zone(None)
    for length in LENGTHS:
        window = tumbling(length, zone=zone)
        periods = Periods(window.calendar)
        size_us = window.size * periods.nominal_us
        nominal = periods.nominal(times) // size_us * size_us
        starts, ends = periods.instants(nominal), periods.instants(nominal + size_us)
        assert ((starts <= times) & (times < ends)).all()
        begin = pl.Series(starts).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
        shown = begin.dt.replace_time_zone(None).dt.truncate(length)
        differs = (shown != naive.dt.truncate(length)).to_numpy()
        again = [_is_again(zone, int(at)) for at in times[differs]]
        assert all(again), (zone, length, times[differs][:3])


def _is_again(zone: str, at_us: int) -> bool:
    """Whether the wall clock shows an earlier day within the next hours."""
    now, later = (
        datetime.fromtimestamp(at_us // 1_000_000 + s, ZoneInfo(zone)).date() for s in (0, 3600)
    )
    return later < now or datetime.fromtimestamp(at_us // 1_000_000, ZoneInfo(zone)).fold == 1


@pytest.mark.parametrize(
    ("length", "zone", "at", "start", "end"),
    [
        ("1d", "Europe/Berlin", "2026-03-29T10:00Z", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("1d", "Europe/Berlin", "2026-10-25T10:00Z", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        ("1d", "Pacific/Apia", "2011-12-30T10:00Z", "2011-12-30T10:00Z", "2011-12-31T10:00Z"),
        ("1d", "Pacific/Apia", "2011-12-30T09:59Z", "2011-12-29T10:00Z", "2011-12-30T10:00Z"),
        ("1d", "America/Havana", "2002-10-27T04:30Z", "2002-10-27T04:00Z", "2002-10-28T05:00Z"),
        ("1d", "Asia/Beirut", "2024-03-31T10:00Z", "2024-03-30T22:00Z", "2024-03-31T21:00Z"),
        ("1d", "Asia/Kathmandu", "2026-01-01T18:20Z", "2026-01-01T18:15Z", "2026-01-02T18:15Z"),
        ("1w", "UTC", "2026-11-27T00:00Z", "2026-11-23T00:00Z", "2026-11-30T00:00Z"),
        ("1mo", "Europe/Berlin", "2038-01-19T03:14Z", "2037-12-31T23:00Z", "2038-01-31T23:00Z"),
        ("1q", "UTC", "1969-12-31T00:00Z", "1969-10-01T00:00Z", "1970-01-01T00:00Z"),
        ("1y", "Europe/Berlin", "2026-05-01T00:00Z", "2025-12-31T23:00Z", "2026-12-31T23:00Z"),
    ],
)
def test_a_window_in_a_time_zone(length: str, zone: str, at: str, start: str, end: str) -> None:
    window = tumbling(length, zone=zone)
    periods = Periods(window.calendar)
    size_us = window.size * periods.nominal_us
    nominal = periods.nominal(np.array([us(at)])) // size_us * size_us
    assert periods.instants(nominal).tolist() == [us(start)]
    assert periods.instants(nominal + size_us).tolist() == [us(end)]


@pytest.mark.parametrize("back", [False, True])
def test_starts_and_ends_do_not_depend_on_batch_boundaries(back: bool) -> None:
    window = tumbling("1d", zone="Pacific/Apia")
    day_us = Periods(window.calendar).nominal_us
    at = us("2011-12-29T00:00Z")
    rows = [at + k * 7 * 3_600_000_000 for k in range(12)]
    if back:
        rows = [(at // day_us + k) * day_us for k in range(6)]
    table = [item for t in rows for item in (ev(t, t + day_us, x=1), cti(t))]
    assert_cut_invariant(
        CalendarTimes(window.calendar, back), [make_run(table, PAYLOAD)], [PAYLOAD], [3, 8]
    )


def counted(window: CalendarWindow, rows: list[Any], schedule: Schedule) -> list[tuple[int, ...]]:
    stream = ss.Stream.from_items({"k": "int64"}, rows)
    made = stream.group_by("k").window(window).agg(n=ss.agg.count())
    plan = lower(made.to_parquet(), root="memory://calendar", parallelism=1)
    run = PlanRun(plan)
    run.read_sources()
    run.settle(schedule)
    run.require_end()
    sink = plan.vertex(plan.topological_order()[-1])
    found = [
        row for items in run.streams[sink.output_streams[0]] for row in items.batch.to_pylist()
    ]
    return [(r["_vs"], r["_ve"], r["k"], r["n"]) for r in found if r["_kind"] == EVENT]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"])
def test_hopping_windows_of_a_zone_with_any_batch_boundaries(zone: str) -> None:
    numbers = random.Random(zone)
    first = us("2011-12-20T00:00Z")
    times = sorted(first + numbers.randrange(60 * DAY_S) * 1_000_000 for _ in range(60))
    lives = [(t, t + numbers.choice([1, DAY_S * 2_000_000]), t // 1_000_000 % 2) for t in times]
    rows = [ss.event(vs, ve, k=k) for vs, ve, k in lives]
    window = ss.hopping("3d", "1d", zone=zone)
    starts = sorted(set(day_starts(zone, first)))
    expected = []
    for begin in range(len(starts) - 3):
        start, end = starts[begin], starts[begin + 3]
        for k in (0, 1):
            n = sum(key == k and vs < end and ve > start for vs, ve, key in lives)
            expected += [(start, end, k, n)] if n else []
    if zone != "Pacific/Apia":  # there, the skipped day counts as one of the three
        assert counted(window, rows, Schedule((0,), 1000)) == expected
    whole = counted(window, rows, Schedule((0,), 1000))
    cuts = Schedule(tuple(numbers.randrange(1 << 20) for _ in range(61)), 7, restores=True)
    assert counted(window, rows, cuts) == whole


def day_starts(zone: str, first: int) -> list[int]:
    """Midnights, starting some days before ``first``."""
    day = datetime.fromtimestamp(first // 1_000_000, ZoneInfo(zone)).date()
    midnights = (
        datetime.combine(day + timedelta(days=k), time(), ZoneInfo(zone)) for k in range(-5, 75)
    )
    return [int(midnight.timestamp()) * 1_000_000 for midnight in midnights]


def test_the_rules_of_a_zone_are_stored_in_the_plan() -> None:
    window = tumbling("1d", zone="Europe/Berlin")
    assert window.calendar.rules.startswith(b"TZif")
    utc = tumbling("1d", zone="UTC").calendar
    other = replace(window, calendar=replace(window.calendar, rules=utc.rules))
    at = us("2026-06-01T22:30Z")
    found = [counted(w, [ss.event(at, k=1)], Schedule((0,), 9))[0][0] for w in (window, other)]
    assert found == [us("2026-06-01T22:00Z"), us("2026-06-01T00:00Z")]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: tumbling("1mo"), "set the time zone"),
        (lambda: ss.hopping("1y", "1mo"), "set the time zone"),
        (lambda: tumbling("1d", zone="Europe/Berln"), "no time zone 'Europe/Berln'"),
        (lambda: tumbling("1d", zone="../../etc/passwd"), "no time zone"),
        (lambda: tumbling("1d", zone=""), "no time zone"),
        (lambda: tumbling("36h", zone="UTC"), "a number of days, weeks, months"),
        (lambda: tumbling("0d", zone="UTC"), "a number of days, weeks, months"),
        (lambda: ss.hopping("1mo", "1d", zone="UTC"), "different units"),
        (lambda: tumbling("1d", "24h", zone="UTC"), "less than 1 days"),
    ],
)
def test_invalid_calendar_windows_are_rejected(make: Any, match: str) -> None:
    with pytest.raises(InvalidPlanError, match=match):
        make()
