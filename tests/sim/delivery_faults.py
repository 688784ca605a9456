"""Faults of deliveries: lost answers, death or sleep in a call, and rival deliveries.

Only jobs with deliveries have these faults. The destination survives all faults.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from streamscope.testing.simulation.faults.kinds import Kind
from streamscope.testing.simulation.laws.shadow import SEGMENT
from streamscope.testing.simulation.storage import root_of
from tests.sim.delivering import DeliveryProcess
from tests.sim.destinations import AnySink, SimSink, Strike
from tests.sim.topic_laws import TopicSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamscope.testing.simulation.scheduler import Process
    from tests.sim.world import World

#: A process dies or sleeps in one of this number of next calls.
CALLS_MAX = 6
WHEN = ("before", "between", "after")


def _deliverers(world: World) -> list[Process]:
    """The processes that deliver or try to."""
    found = [d.process for d in world.deliverers if not d.is_over]
    return found if world.manager.is_dead else [world.manager, *found]


def _some(world: World) -> Process | None:
    found = _deliverers(world)
    return world.scheduler.random.choice(found) if found else None


def _for_a_while(world: World, longest_s: float, heal: Callable[[], None]) -> None:
    seconds = world.scheduler.between(0.1, longest_s)
    world.calm_s = max(world.calm_s, world.scheduler.now_s + seconds + 60)
    world.scheduler.after(seconds, None, heal)


def lose_answers(world: World) -> None:
    """Calls to the destination, and its answers, are lost for a while."""
    there = world.destinations
    there.loss = world.scheduler.random.choice([0.1, 0.5, 1.0])
    _for_a_while(world, 3.0, lambda: setattr(there, "loss", 0.0))


def slow_destination(world: World) -> None:
    """The destination answers after seconds, sometimes later than any time limit."""
    there = world.destinations
    there.delay_s = world.scheduler.random.choice([0.2, 1.0, 4.0])
    _for_a_while(world, 6.0, lambda: setattr(there, "delay_s", 0.005))


def absent_destination(world: World) -> None:
    """The destination does not answer."""
    there = world.destinations
    there.is_away = True
    _for_a_while(world, world.scheduler.random.choice([1.0, 30.0]), partial(_back, world))


def _back(world: World) -> None:
    world.destinations.is_away = False


def die_in_a_call(world: World) -> None:
    """A delivering process dies in one of its next calls to the destination."""
    if (process := _some(world)) is not None:
        random = world.scheduler.random
        strike = Strike(random.randint(0, CALLS_MAX), random.choice(WHEN))
        world.destinations.strikes[process.name] = strike


def zombie_delivery(world: World) -> None:
    """A delivery sleeps in a call, another one delivers, and the first one wakes up."""
    if (process := _some(world)) is None:
        return
    random, scheduler = world.scheduler.random, world.scheduler
    asleep_s = random.choice([0.3, 3.0, 20.0])
    world.calm_s = max(world.calm_s, scheduler.now_s + asleep_s + 90)
    strike = Strike(random.randint(0, CALLS_MAX), random.choice(WHEN), asleep_s)
    world.destinations.strikes[process.name] = strike
    for _ in range(random.randint(1, 2)):
        scheduler.after(scheduler.between(0.0, asleep_s), None, partial(second_delivery, world))


def late_zombie(world: World) -> None:
    """A process claims a delivery and sleeps before or during ``open``; others continue."""
    random, scheduler = world.scheduler.random, world.scheduler
    sink = random.choice(list(world.laws.sinks.values()))
    asleep_s = random.choice([1.0, 5.0])
    world.calm_s = max(world.calm_s, scheduler.now_s + asleep_s + 90)
    zombie = deliver(world, sink)
    strike = Strike(0, random.choice(WHEN), asleep_s)
    world.destinations.strikes[zombie.process.name] = strike
    scheduler.after(scheduler.between(0.1, 1.0), None, partial(_deliver_too, world, sink))


def _deliver_too(world: World, sink: AnySink) -> None:
    if not world.state:
        deliver(world, sink)


def crash_delivery(world: World) -> None:
    """A ``jobmanager deliver`` is killed between two of its steps."""
    found = [d.process for d in world.deliverers if not d.is_over]
    if found:
        world.scheduler.random.choice(found).kill("killed while it delivers")


def mine_delivery(world: World) -> None:
    """A delivering process dies during an operation on the store."""
    if (process := _some(world)) is not None:
        random = world.scheduler.random
        world.disk.mines[process.name] = (random.randint(0, 12), random.choice(WAYS_TO_DIE))


WAYS_TO_DIE = ("before", "torn", "after")


def second_delivery(world: World) -> None:
    """A user starts the same deliveries in another process while the job runs."""
    if world.state:
        return
    sinks = list(world.laws.sinks.values())
    sink = world.scheduler.random.choice(sinks)
    deliver(world, sink)


def late_delivery(world: World) -> None:
    """A user adds a delivery with a random start, or runs the added one again."""
    random = world.scheduler.random
    sink: AnySink = SimSink("late", random.choice(["epochs", "sessions"]))
    topics = [other for other in world.workload.deliveries if isinstance(other, TopicSink)]
    if topics:
        sink = replace(topics[0], name=sink.name)
    if sink.name not in world.laws.sinks:
        world.laws.sinks[sink.name] = sink
        end = _durable_end(world)
        starts = [0, random.randint(0, end), end]
        # A topic with a later start would lack valid rows.
        world.laws.starts[sink.name] = 0 if topics else random.choice(starts)
    deliver(world, world.laws.sinks[sink.name])


def _durable_end(world: World) -> int:
    """The minimum durable position of all partitions."""
    names = [SEGMENT.fullmatch(name) for name in world.disk.blobs]
    ends = [
        max((int(m[3]) for m in names if m is not None and m[1] == root_of(uri)), default=0)
        for _, uri in world.workload.sinks
    ]
    return min(ends)


def deliver(world: World, sink: AnySink) -> DeliveryProcess:
    """Start a process that delivers to ``sink``, from its start or its position."""
    start_seq = world.laws.starts[sink.name] if world.scheduler.chance(0.5) else 0
    is_new = not any(name == sink.name for name, _ in world.destinations.shelves)
    return DeliveryProcess(world, [sink], world.laws.starts[sink.name] if is_new else start_seq)


#: They last as long as the job, and some seconds longer.
DELIVERY_KINDS: dict[str, Kind] = {
    f.__name__: Kind(f, by_s=8.0, pause_s=2.0)
    for f in (
        lose_answers,
        slow_destination,
        absent_destination,
        die_in_a_call,
        zombie_delivery,
        late_zombie,
        crash_delivery,
        mine_delivery,
        second_delivery,
        late_delivery,
    )
}
