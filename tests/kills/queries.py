"""The queries of the killed jobs, over live topics or over a file with their contents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner import Query, Stream, agg, col, session, sinks, tumbling

if TYPE_CHECKING:
    from planner.api.agg import Agg

#: ``at``: microseconds since 1970; ``id``: a number that no other event has.
EVENT = pa.schema([(name, pa.int64()) for name in ("id", "at", "key", "value")])
START, END = "starts", "ends"
DELAY, IDLE_AFTER = "1s", "1s"
EVENTS, SIDES = "events", "sides"
STRATEGIES = ("checkpoint", "replay", "replication", "mixed")
REPLICAS = 2
#: The stream of a topic, "events" or "sides".
Open = Callable[[str], Stream]
#: Column of the query that a job is changed to.
MORE = "more"


def filtered(events: Stream, _: Stream, more: bool) -> Stream:
    """Two thirds of the events."""
    return _twice(events.filter(col("value") % 3 != 0), more)


def windows(events: Stream, _: Stream, more: bool) -> Stream:
    """Counts and sums by key and half a second, after an exchange."""
    return events.group_by("key").window(tumbling("500ms")).agg(**_sums(more))


def joined(events: Stream, sides: Stream, more: bool) -> Stream:
    """Events with the side rows that were valid for their key at their time."""
    valid = sides.select("key", side=col("value"), side_id=col("id")).set_duration("1s")
    return _twice(events.join(valid, on="key"), more)


def near(events: Stream, sides: Stream, more: bool) -> Stream:
    """Events with the side rows of their key before and after, and events without any."""
    others = sides.select("key", side=col("value"), side_id=col("id"))
    return _twice(events.join(others, on="key", within=("-300ms", "200ms"), how="full"), more)


def sessions(events: Stream, _: Stream, more: bool) -> Stream:
    """Intervals in which a key was active."""
    return events.group_by("key").window(session("150ms")).agg(**_sums(more))


def priced(events: Stream, sides: Stream, more: bool) -> Stream:
    """Events with the newest side row of their key; for many keys that row never changes."""
    newest = sides.select("key", side=col("value"), side_id=col("id")).upserts("key")
    return _twice(events.join(newest, on="key"), more)


def totals(events: Stream, _: Stream, more: bool) -> Stream:
    """The rows of each key so far; each result is valid until the next row of its key."""
    return events.group_by("key").agg(**_sums(more))


def paid(events: Stream, sides: Stream, more: bool) -> Stream:
    """Events paired with the side row of the same number: first without it, then with it."""
    others = sides.select("id", side=col("value")).for_ever()
    return _twice(events.for_ever().join(others, on="id", how="left"), more)


def _sums(more: bool) -> dict[str, Agg]:
    found = {"n": agg.count(), "ids": agg.sum("id"), "last": agg.max("at")}
    return {**found, MORE: agg.max("value")} if more else found


def _twice(stream: Stream, more: bool) -> Stream:
    """Add a column that a checker can compute from another one."""
    return stream.with_columns(**{MORE: col("id") * 2}) if more else stream


QUERIES: dict[str, Callable[[Stream, Stream, bool], Stream]] = {
    "filter": filtered,
    "windows": windows,
    "join": joined,
    "near": near,
    "sessions": sessions,
    "priced": priced,
    "totals": totals,
    "paid": paid,
}
#: The ends of their rows arrive later: the destinations keep the valid row per value of this
#: column.
LIVING = {"totals": "key", "paid": "id"}
#: The added column of these is an aggregate, the one of the others is twice the ``id``.
SUMS = ("windows", "sessions", "totals")
#: The column of a result's rows that shows which events they are from.
TIME_OF = {"filter": "at", "windows": "last", "join": "at", "near": "at", "sessions": "last"}
TIME_OF |= {"priced": "at", "totals": "last", "paid": "at"}
#: A filter is one stage, so it has no mixed strategies. Sessions and rows without an end have no
#: bound on their state, so they cannot be replayed.
REFUSED = (
    *(("filter", "mixed"), ("sessions", "replay")),
    *(("priced", "replay"), ("totals", "replay"), ("paid", "replay")),
)
#: Any eight consecutive pairs contain all queries and all strategies, except refused pairs.
PAIRS = [
    (query, strategy)
    for turn in range(len(STRATEGIES))
    for k, query in enumerate(QUERIES)
    if (query, strategy := STRATEGIES[(k + turn) % len(STRATEGIES)]) not in REFUSED
]


@dataclass(frozen=True)
class JobSpec:
    """A job, its topics and its table; passed to processes as JSON."""

    name: str
    query: str
    strategy: str
    #: How its sources treat a silent partition.
    idle: str
    root: str
    servers: str
    dsn: str
    master: str
    #: Events per second of a log; 0: they are in topics.
    rate: int = 0

    @property
    def log(self) -> str:
        """The log with the events, where they are not in topics."""
        return str(Path(self.root).parent / "log")

    def topic(self, name: str) -> str:
        """The topic of "events", of "sides", or of the result."""
        return f"{self.name}-{name}"

    @property
    def table(self) -> str:
        """Return the PostgreSQL table of the output."""
        return f"answer_{self.name.replace('-', '_')}"

    def answer(self, *, until: str | None = None, more: bool = False) -> Stream:
        """The query over the topics."""
        return self._query(lambda name: self._topic_stream(name, until), more)

    def live(self, *, more: bool = False) -> Query:
        """Return the query with deliveries to both destinations. ``more``: with one more column."""
        topic, table, answer = self.topic("answer"), self.table, self.answer(more=more)
        if key := LIVING.get(self.query):
            places = (
                sinks.kafka(topic, servers=self.servers, key=key, upsert=True),
                sinks.postgres(self.dsn, table, mode="upsert", key=key),
            )
            return answer.deliver(*places, start=START, end=END)
        places = (
            sinks.kafka(topic, servers=self.servers),
            sinks.postgres(self.dsn, table),
        )
        return answer.deliver(*places, start=START, end=END)

    def twin(self, folder: str) -> Stream:
        """The query over files with the topics' contents by name, in order of time."""
        return self._query(
            lambda name: Stream.from_parquet(f"{folder}/{name}.parquet", vs="at", delay="0s")
        )

    def options(self) -> dict[str, Any]:
        """Return the run's options that set its recovery."""
        if self.strategy == "mixed":
            return {}
        return {
            "recovery": self.strategy,
            "replicas": REPLICAS if self.strategy == "replication" else None,
        }

    def _query(self, opened: Open, more: bool = False) -> Stream:
        is_mixed = self.strategy == "mixed"
        events, sides = (opened(name) for name in (EVENTS, SIDES))
        if is_mixed:
            events, sides = events.recover_with("replay"), sides.recover_with("replay")
        found = QUERIES[self.query](events, sides, more)
        return found.recover_with("replication", replicas=REPLICAS) if is_mixed else found

    def _topic_stream(self, name: str, until: str | None) -> Stream:
        if self.rate:
            return Stream.from_rstream(
                self.log, vs="at", delay="0ms", follow=True, idle_after="100ms"
            )
        return Stream.from_kafka(
            self.topic(name),
            servers=self.servers,
            schema=EVENT,
            vs="at",
            delay=DELAY,
            idle=self.idle,  # type: ignore[arg-type]
            idle_after=IDLE_AFTER,
            until=until,
            partitions=2 if name == EVENTS else 1,
        )
