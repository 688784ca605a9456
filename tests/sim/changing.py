"""Jobs that a user changes while they run: rescaled, deployed, saved, rolled back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa

from jobmanager.driver.running.changes.errors import ChangePendingError
from jobmanager.driver.running.changes.pending import Change, request
from jobmanager.driver.running.changes.scaling.widths import RescaleError, widths_for
from jobmanager.storage.root import CHANGE, GENERATION, JobRoot
from jobmanager.storage.savepoints import list_savepoints
from planner import agg, col, hopping, session, tumbling
from planner.physical.layout import Stages
from planner.physical.lower import lower
from rstream.items.batch import Items
from rstream.items.hashing import slots_of
from rstream.log.durable import DurableLog
from rstream.log.reader import SegmentCursor
from rstream.store.fences import fences_in
from rvertex.checkpoint.ranges.slots import NotByKeyError
from streamscope.testing.simulation.faults.kinds import WAYS_TO_DIE, Kind
from streamscope.testing.simulation.faults.strikes import user_root
from streamscope.testing.simulation.storage import FaultyBlobs, root_of
from tests.sim.workload import (
    ROOT,
    WORKLOADS_MAX,
    Workload,
    points_of,
    spans_of,
    workload_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner import Query
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore
    from streamscope.testing.simulation.scheduler import Process
    from streamscope.testing.simulation.storage import Disk
    from tests.sim.destinations import AnySink
    from tests.sim.world import World

Shape = "Callable[[Random, bool], Query]"
#: The maximum virtual seconds until the first change, and between two changes.
FIRST_BY_S, PAUSE_S = 1.2, 3.0
WIDTHS = (1, 2, 3, 4, 5)
#: How often a user retries a change that conflicts with another one.
TRIES_MAX = 40
#: Hosts after a crash run this many times slower; the number of checks for such hosts.
SLOWNESS, SLOW_LOOKS = 100.0, 150
#: Checks of a suspended host for the change after which it wakes up, ten per virtual second.
ASLEEP_LOOKS = 300


@dataclass(frozen=True)
class ChangingWorkload(Workload):
    """A job, and the two queries between which deployments alternate."""

    queries: tuple[Query, Query] = ()  # type: ignore[assignment]
    plans: tuple[PhysicalPlan, PhysicalPlan] = ()  # type: ignore[assignment]
    #: Virtual seconds and kind of each change.
    wishes: tuple[tuple[float, str], ...] = ()

    def with_sinks(self, sinks: tuple[AnySink, ...]) -> ChangingWorkload:
        """Return the workload with deliveries; both queries deliver to the same places."""
        one, other = (replace(plan, deliveries=sinks) for plan in self.plans)
        plan = replace(self.plan, deliveries=sinks)
        return replace(self, plan=plan, deliveries=sinks, plans=(one, other))


@lru_cache(maxsize=WORKLOADS_MAX)
def make_changing_workload(seed: int) -> ChangingWorkload:
    """The changing job of a seed."""
    random = Random(seed * 7_919 + 31)
    shape, drawn = random.choice(SHAPES), random.randrange(2**32)
    width = random.choice([1, 2, 2, 3])
    queries = shape(Random(drawn), False), shape(Random(drawn), True)
    plans = tuple(lower(query, root=ROOT, parallelism=width) for query in queries)
    made = workload_of(seed, f"changing {shape.__name__}", plans[0], random)
    at_s, wishes = random.uniform(0.1, FIRST_BY_S), []
    for _ in range(random.choice([1, 2, 3, 4])):
        wishes.append((at_s, random.choice(KINDS if seed < RANGES_FROM else RANGE_KINDS)))
        at_s += random.uniform(0.1, PAUSE_S)
    # Strong vertices cannot be changed.
    vertices = tuple(
        replace(v, recovery=replace(v.recovery, strategy="checkpoint"))
        if v.recovery.strategy == "strong"
        else v
        for v in made.vertices
    )
    plan = replace(made.plan, vertices=vertices)
    fields = {**vars(made), "vertices": vertices, "plan": plan}
    return ChangingWorkload(**fields, queries=queries, plans=plans, wishes=tuple(wishes))


KINDS = ("rescale", "rescale", "rescale", "deploy", "deploy", "savepoint", "rollback")
#: From this seed on, ranges are split and joined.
RANGES_FROM = 10_000
RANGE_KINDS = ("split", "split", "split", "merge", "merge", "rescale", "deploy", "rollback")
#: The slots of the keys of all jobs: a split at one of them has a row at its bound.
KEY_SLOTS = slots_of([pa.array(range(7))]).tolist()


# ---- shapes


def totals(random: Random, more: bool) -> Query:
    """A keyed window; the other query has one more aggregate."""
    points = points_of(random, random.randint(100, 400), "points")
    window = random.choice([hopping("20ms", "10ms"), tumbling("10ms"), tumbling("100ms")])
    extra = {"most": agg.max("x")} if more else {}
    grouped = points.filter(col("x") != 7).group_by("k").window(window)
    return grouped.agg(n=agg.count(), total=agg.sum("x"), last=agg.last("x"), **extra).to_parquet()


def joined(random: Random, more: bool) -> Query:
    """A temporal join; the other query has one more column."""
    points = points_of(random, random.randint(60, 200), "points")
    both = points.join(spans_of(random, random.randint(20, 80)), on="k")
    names = {"most": col("x") * 2} if more else {}
    return both.select("k", "x", "z", **names).to_parquet()


def two_stages(random: Random, more: bool) -> Query:
    """Two exchanges in a row."""
    points = points_of(random, random.randint(80, 300), "points")
    busy = points.group_by("k").window(tumbling("10ms")).agg(n=agg.count(), total=agg.sum("x"))
    chosen = busy.select("n", "total", bucket=col("n") % 3)
    extra = {"most": agg.max("n")} if more else {}
    windows = chosen.group_by("bucket").window(hopping("20ms", "10ms"))
    return windows.agg(n=agg.count(), sum=agg.sum("total"), **extra).to_parquet()


def sessions(random: Random, more: bool) -> Query:
    """Windows whose ends depend on the rows; vertices reach different times."""
    points = points_of(random, random.randint(80, 300), "points")
    extra = {"most": agg.max("x")} if more else {}
    return points.group_by("k").window(session("8ms")).agg(n=agg.count(), **extra).to_parquet()


def stitched(random: Random, more: bool) -> Query:
    """A query that joins touching lifetimes; both queries of the deployment are equal."""
    del more
    return spans_of(random, random.randint(80, 200)).select("k").stitch("k").to_parquet()


SHAPES: tuple[Callable[[Random, bool], Query], ...] = (
    totals,
    joined,
    two_stages,
    sessions,
    stitched,
)


# ---- users


def opener(disk: Disk, process: Process) -> Callable[[str], BlobStore]:
    """Return a function that opens the stores of streams for this process."""
    return lambda uri: FaultyBlobs(disk, process, root_of(uri))


def trap_changing(world: World) -> None:
    """The job manager dies during a store operation while it carries out a change."""
    world.change_traps += 1


def crash_changing(world: World) -> None:
    """All hosts die, and a user requests a change before their successors have caught up.

    One of the processes that then wait for hosts of the next generation also dies.
    """
    world.parked_deaths += 1
    workload, random = world.changes, world.scheduler.random
    if not isinstance(workload, ChangingWorkload):
        return
    for host in world.live_hosts():
        host.process.kill("killed before a change")
    world.change_crashes += 1
    number, kind = FIRST_AFTER_CRASH + world.change_crashes, random.choice(["rescale", "deploy"])
    ask = partial(_ask, world, workload, number, kind, TRIES_MAX)
    world.scheduler.after(world.scheduler.between(0.0, 0.6), None, ask)
    _slow_successors(world, {id(host) for host in world.live_hosts()}, SLOW_LOOKS)


def _slow_successors(world: World, known: set[int], left: int) -> None:
    """The next hosts are slow for a while, so that a change comes while they catch up."""
    for host in world.live_hosts():
        if id(host) not in known:
            known.add(id(host))
            host.slowness = SLOWNESS
            heal = partial(setattr, host, "slowness", 1.0)
            world.scheduler.after(world.scheduler.between(0.2, 3.0), None, heal)
    if left and not world.state:
        again = partial(_slow_successors, world, known, left - 1)
        world.scheduler.after(0.01, None, again)


def freeze_changing(world: World) -> None:
    """A suspended machine writes its buffers only after a change, which nothing can prevent.

    The buffer has other rows than its successors compute.
    """
    store = user_root(world)
    root = JobRoot(store, opener=opener(store._disk, store._process))
    plan = root.read_plan()
    if plan is None or not isinstance(world.changes, ChangingWorkload):
        return
    edges = [edge for vertex in plan.vertices for edge in vertex.outputs if edge.is_sink]
    edge = world.scheduler.random.choice(edges)
    buffer = DurableLog(root.open_store(edge.uris[0]), "suspended", generation=edge.generation)
    end = buffer.end()
    if not end:
        return
    last = SegmentCursor(buffer).read(end - 1, 1)
    assert last is not None
    crash_changing(world)
    wake_up = partial(_wake_up, world, root, buffer, Items(end, last.batch), ASLEEP_LOOKS)
    world.scheduler.after(0.5, None, wake_up)


def _wake_up(world: World, root: JobRoot, buffer: DurableLog, rest: Items, left: int) -> None:
    if world.state or not left:
        return
    if int(root.settings().get(GENERATION, 0)) > buffer.generation:
        # it had computed what its successors computed up to the cut, and more
        fences = fences_in(buffer.store.list())
        cut = min(fence.seq for fence in fences if fence.generation > buffer.generation)
        world.scheduler.met["a suspended host writes on"] += 1
        buffer.write(Items(cut, rest.batch))
        return
    again = partial(_wake_up, world, root, buffer, rest, left - 1)
    world.scheduler.after(0.1, None, again)


CHANGE_KINDS = {
    "trap_changing": Kind(trap_changing),
    "crash_changing": Kind(crash_changing),
    "freeze_changing": Kind(freeze_changing),
}
#: Start of the numbers of changes after a crash; those of the workload are smaller.
FIRST_AFTER_CRASH = 100
#: The maximum number of store operations until such a death.
OPERATIONS_MAX = 150


def set_trap(world: World, process: Process) -> None:
    """Make a process die in the change that it starts, if one is due."""
    if world.change_traps:
        world.change_traps -= 1
        random = world.scheduler.random
        left = random.randint(0, OPERATIONS_MAX)
        world.disk.mines[process.name] = (left, random.choice(WAYS_TO_DIE))


def ask_for_changes(world: World, workload: ChangingWorkload) -> None:
    """Let a user request each of the changes at its time."""
    for number, (at_s, kind) in enumerate(workload.wishes):
        world.calm_s = max(world.calm_s, at_s + 60)
        ask = partial(_ask, world, workload, number, kind, TRIES_MAX)
        world.scheduler.after(at_s, None, ask)


def _ask(world: World, workload: ChangingWorkload, number: int, kind: str, left: int) -> None:
    """Request a change as ``jobmanager.driver.running.deploying`` does."""
    if world.state:
        return
    store = user_root(world)
    root = JobRoot(store, opener=opener(store._disk, store._process))
    plan, met = root.read_plan(), world.scheduler.met
    change = None if plan is None else _change(world, root, plan, number, kind)
    if plan is None or change is None:
        met[f"change {kind}: nothing to do"] += 1
        return
    query, new = None, None
    if kind == "deploy":
        is_more = len(plan.schema) > len(workload.plans[0].schema)
        query, new = workload.queries[not is_more], workload.plans[not is_more]
    try:
        request(root, change, query, new)
    except ChangePendingError:
        if left:
            again = partial(_ask, world, workload, number, kind, left - 1)
            world.scheduler.after(world.scheduler.between(0.1, 1.0), None, again)
        return
    world.scheduler.note(f"user asks for {change}")
    met[f"change {kind}: asked"] += 1
    root.request(CHANGE)


def _change(
    world: World, root: JobRoot, plan: PhysicalPlan, number: int, kind: str
) -> Change | None:
    name, random = f"{number:04d}", world.scheduler.random
    if kind == "rescale":
        try:
            widths = widths_for(plan, random.choice(WIDTHS), {})
        except (RescaleError, NotByKeyError):
            return None
        return Change(name, "rescale", widths=widths) if widths else None
    if kind in ("split", "merge"):
        bounds = _other_bounds(random, plan, kind)
        return Change(name, "rescale", bounds=bounds) if bounds else None
    if kind == "rollback":
        names = [s.name for s in list_savepoints(root.store)]
        return Change(name, "rollback", savepoint=random.choice(names)) if names else None
    if kind == "savepoint":
        return Change(name, "savepoint", savepoint=f"by-user-{number}")
    return Change(name, "deploy", settings={})


def _other_bounds(random: Random, plan: PhysicalPlan, kind: str) -> dict[str, list[int]]:
    """Split a range of a stage at a key, or join two; none: the stage cannot be changed."""
    stages = Stages(plan)
    if not stages.keys:
        return {}
    stage = random.choice(sorted(stages.keys))
    before = stages.layout(stage).bounds
    bounds = {*before, random.choice(KEY_SLOTS)}
    if kind == "merge":
        bounds = set(before) - {random.choice(before)} if before else bounds
    try:
        stages.check(stage)
    except NotByKeyError:
        return {}
    return dict.fromkeys(stages.members(stage), sorted(bounds)) if bounds != {*before} else {}
