"""Jobs over rows with unknown ends, delivered to topics with one row per key."""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any

from planner import Stream, agg, col, event, tumbling
from planner.physical.lower import lower
from tests.sim.topic_laws import TopicSink
from tests.sim.workload import MS, ROOT, WORKLOADS_MAX, Workload, workload_of

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS = "simulated:9092"
#: The format of a topic: one value per key, Debezium's events, or rows with their kind of change.
FORMS: tuple[dict[str, Any], ...] = (
    {"upsert": True},
    {"upsert": True},
    {"format": "debezium-json"},
    {"changes": True},
)
Made = tuple[Stream, tuple[str, ...]]


@lru_cache(maxsize=WORKLOADS_MAX)
def make_open_workload(seed: int) -> Workload:
    """The job of a seed, with a topic for its result."""
    random = Random(seed * 7_919 + 29)
    shape = random.choice(OPEN_SHAPES)
    stream, key = shape(random)
    sink = TopicSink("topic", SERVERS, key, name="topic", **random.choice(FORMS))
    query = stream.deliver(sink)
    plan = lower(query, root=ROOT, parallelism=random.choice([1, 2, 2, 3]))
    assert plan.changes is not None, shape
    made = workload_of(seed, shape.__name__, plan, random)
    return made.with_sinks((sink,))


def _rows(random: Random, name: str) -> Stream:
    """Rows with few keys, many at the same time; some may delete their key."""
    time, items = 0, []
    for _ in range(random.randint(20, 120)):
        time += random.choice([0, 0, 1, 1, 2, 15]) * MS
        items.append(event(time, k=random.randint(0, 6), x=random.randint(-9, 9)))
    schema = {"k": "int64", "x": "int64"}
    return Stream.from_items(schema, items, partitions=random.choice([1, 1, 2])).name(name)


def _spans(random: Random) -> Stream:
    """Rows whose end is known at their start."""
    time, items = 0, []
    for number in range(random.randint(10, 60)):
        time += random.choice([0, 1, 3]) * MS
        ends = time + random.choice([1, 2, 5, 20]) * MS
        items.append(event(time, ends, k=random.randint(0, 6), z=number))
    return Stream.from_items({"k": "int64", "z": "int64"}, items).name("spans")


def _versions(random: Random, name: str) -> Stream:
    return _rows(random, name).upserts("k", deleted=col("x") < -5)


# ---- shapes: a stream, and the key by which it has one row at each instant


def totals(random: Random) -> Made:
    """A running total per key."""
    grouped = _rows(random, "rows").group_by("k")
    return grouped.agg(n=agg.count(), total=agg.sum("x"), most=agg.max("x")), ("k",)


def versions(random: Random) -> Made:
    """A query for the current row of each key; some keys are deleted."""
    return _versions(random, "rows").select("k", "x"), ("k",)


def left_so_far(random: Random) -> Made:
    """A query that joins the current row of each key to the other table's, if there is one."""
    left, right = (_versions(random, name).select("k", "x") for name in ("left", "right"))
    return left.join(right.select("k", y=col("x")), on="k", how="left"), ("k",)


def per_version(random: Random) -> Made:
    """An aggregate over rows that end."""
    found = _versions(random, "rows").group_by(bucket=col("x") % 3)
    return found.agg(n=agg.count(), most=agg.max("k")), ("bucket",)


def of_spans(random: Random) -> Made:
    """An aggregate over pairs of rows with and without known ends."""
    pairs = _versions(random, "rows").join(_spans(random), on="k")
    return pairs.group_by("k").agg(n=agg.count(), total=agg.sum("z")), ("k",)


def open_windows(random: Random) -> Made:
    """A query with results of windows before they close, and then the final results."""
    windows = _rows(random, "rows").group_by("k").window(tumbling("10ms"), emit="changes")
    found = windows.agg(n=agg.count(), total=agg.sum("x"))
    return found.select("k", "n", "total", "is_final", at=col("window_start").cast("int64")), (
        "k",
        "at",
    )


OPEN_SHAPES: tuple[Callable[[Random], Made], ...] = (
    totals,
    versions,
    left_so_far,
    per_version,
    of_spans,
    open_windows,
)
