"""Small random jobs: plans over items in memory, and their parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

from planner import Query, Stream, agg, col, cti, event, hopping, tumbling
from planner.physical.lower import lower
from streamscope.testing.simulation import workload as of_plan
from streamscope.testing.simulation.workload import ROOT, hashes

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.inputs.items import Cti, Event
    from planner.physical.plan import PhysicalPlan
    from tests.sim.destinations import AnySink
    from tests.sim.live_log import LiveLog

__all__ = ["MS", "ROOT", "WORKLOADS_MAX", "Workload", "hashes", "make_workload", "workload_of"]
MS = 1_000
#: The size of the cache: the search for a planted bug runs this many.
WORKLOADS_MAX = 256


@dataclass(frozen=True)
class Workload(of_plan.Workload):
    """A job that may read a live log and deliver its result."""

    #: log: LiveLog|The log that a live job reads.
    log: LiveLog | None = None
    #: finish_s: float|When a user finishes it, in virtual seconds; None: it ends by itself.
    finish_s: float | None = None
    deliveries: tuple[AnySink, ...] = ()

    def with_sinks(self, sinks: tuple[AnySink, ...]) -> Workload:
        """The job with its result delivered to ``sinks``."""
        return replace(self, plan=replace(self.plan, deliveries=sinks), deliveries=sinks)


@lru_cache(maxsize=WORKLOADS_MAX)
def make_workload(seed: int) -> Workload:
    """The workload of a seed, cached: the search for bugs runs the same ones repeatedly."""
    random = Random(seed * 7_919 + 1)
    shape = random.choice(SHAPES)
    plan = lower(shape(random), root=ROOT, parallelism=random.choice([1, 2, 2, 3]))
    return workload_of(seed, shape.__name__, plan, random)


def workload_of(seed: int, name: str, plan: PhysicalPlan, random: Random) -> Workload:
    """A job that runs ``plan`` with random options, and its result."""
    return Workload(**vars(of_plan.workload_of(seed, name, plan, random)))


# ---- sources


def points_of(random: Random, rows: int, name: str) -> Stream:
    """Point events in order, with some CTIs; half of the sources have partitions."""
    time = 0
    items: list[Event | Cti] = []
    for _ in range(rows):
        time += random.choice([0, 0, 1, 1, 2, 15]) * MS
        items.append(
            event(
                time,
                k=random.randint(0, 6) if random.random() < 0.9 else None,
                x=random.randint(-50, 50),
                y=random.uniform(-1e6, 1e6) * 10.0 ** random.randint(-6, 6),
            )
        )
        if random.random() < 0.1:
            items.append(cti(time))
    schema = {"k": "int64", "x": "int64", "y": "float64"}
    return Stream.from_items(schema, items, partitions=random.choice([1, 1, 2, 3])).name(name)


def spans_of(random: Random, rows: int) -> Stream:
    """Interval events."""
    time = 0
    items: list[Event | Cti] = []
    for i in range(rows):
        time += random.randint(0, 6) * MS
        items.append(event(time, time + random.randint(1, 30) * MS, k=random.randint(0, 6), z=i))
    schema = {"k": "int64", "z": "int64"}
    return Stream.from_items(schema, items, partitions=random.choice([1, 2])).name("spans")


# ---- shapes


def stateless(random: Random) -> Query:
    """Source to sink in one stage."""
    points = points_of(random, random.randint(20, 200), "points")
    return points.filter(col("x") > -20).select("k", double=col("x") * 2).to_parquet()


def aggregate(random: Random) -> Query:
    """A keyed window after an exchange."""
    points = points_of(random, random.randint(50, 300), "points")
    window = random.choice([hopping("20ms", "10ms"), tumbling("10ms")])
    return (
        points.filter(col("x") != 7)
        .group_by("k")
        .window(window)
        .agg(n=agg.count(), total=agg.sum("y"), last=agg.last("x"))
        .to_parquet()
    )


def join(random: Random) -> Query:
    """A temporal join of two sources."""
    points = points_of(random, random.randint(30, 150), "points")
    return points.join(spans_of(random, random.randint(10, 60)), on="k").to_parquet()


def union(random: Random) -> Query:
    """Two branches, aggregated together."""
    one = points_of(random, random.randint(20, 120), "one").select("k", "x")
    two = points_of(random, random.randint(20, 120), "two").select("k", x=col("x") + 100)
    both = one.union(two)
    if random.random() < 0.3:
        return both.to_parquet()
    return both.group_by("k").window(tumbling("10ms")).agg(n=agg.count()).to_parquet()


def two_exchanges(random: Random) -> Query:
    """Join by one key, aggregate by another: three stages in a row."""
    points = points_of(random, random.randint(40, 150), "points")
    busy = points.group_by("k").window(tumbling("10ms")).agg(n=agg.count(), total=agg.sum("y"))
    joined = points.join(busy, on="k").select("n", "total", "x", bucket=col("x") % 3)
    return (
        joined.group_by("bucket")
        .window(hopping("20ms", "10ms"))
        .agg(n=agg.count(), most=agg.max("n"), total=agg.sum("total"))
        .to_parquet()
    )


def gathered(random: Random) -> Query:
    """A query whose last aggregate reads all rows in one vertex."""
    points = points_of(random, random.randint(50, 200), "points")
    counts = points.group_by("k").window(tumbling("10ms")).agg(n=agg.count())
    return counts.window(tumbling("30ms")).agg(keys=agg.count(), n=agg.sum("n")).to_parquet()


SHAPES: tuple[Callable[[Random], Query], ...] = (
    stateless,
    aggregate,
    join,
    union,
    two_exchanges,
    gathered,
)
