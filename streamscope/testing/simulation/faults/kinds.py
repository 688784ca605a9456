"""Faults at random times: one small function per kind of fault, all driven by the seed.

Faults that wait for a condition are in ``strikes`` and ``moments``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jobmanager.storage.root import DRAIN, REQUESTS, STOP
from streamscope.testing.simulation.faults.moments import MOMENTS
from streamscope.testing.simulation.faults.strikes import (
    STRIKES,
    slot_of,
    spilled,
    user_root,
    volatile_streams,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streamscope.testing.simulation.world import HostProcess, World

#: Faults begin within this time, s: hosts start after 0.5 s, and an undisturbed job takes 1 to 2 s.
FIRST_BY_S = 0.8
PAUSE_S = 0.4
#: Share of runs that have a given fault of streamscope.testing.simulation.faults.moments.
MOMENTS_SHARE = 0.4
WAYS_TO_DIE = ("before", "torn", "after")


class Kind(NamedTuple):
    """A kind of fault: its action, its latest first time, and the mean pause until it repeats."""

    happen: Callable[[Any], None]
    by_s: float = FIRST_BY_S
    pause_s: float = PAUSE_S


def inject(world: World, kinds: Mapping[str, Kind]) -> list[str]:
    """Choose some kinds and schedule each a few times; return the names of the chosen kinds."""
    random = world.scheduler.random
    share = max(0.2, min(1.0, 2 / len(kinds)))
    moments = {f.__name__ for f in MOMENTS}
    chosen = [k for k in kinds if random.random() < (MOMENTS_SHARE if k in moments else share)]
    for name in chosen:
        kind = kinds[name]
        at_s = random.uniform(0.0, kind.by_s)
        for _ in range(random.randint(1, 4)):
            at_s += random.expovariate(1 / kind.pause_s)
            world.calm_s = max(world.calm_s, at_s + 60)
            world.scheduler.after(at_s, None, partial(_happen, world, name, kind))
    return chosen


def _happen(world: World, name: str, kind: Kind) -> None:
    if not world.state:
        world.scheduler.note(f"fault {name}")
        world.scheduler.met[f"fault {name}"] += 1
        kind.happen(world)


def _some_host(world: World) -> HostProcess | None:
    hosts = world.live_hosts()
    return world.scheduler.random.choice(hosts) if hosts else None


def crash_host(world: World) -> None:
    """Kill a host between two of its steps."""
    if (host := _some_host(world)) is not None:
        host.process.kill("killed")


def crash_all(world: World) -> None:
    """Kill all hosts at once."""
    for host in world.live_hosts():
        host.process.kill("killed with all")


def power_loss(world: World) -> None:
    """Cut the power of one machine, sometimes of all: unsynced data are lost."""
    random = world.scheduler.random
    hosts = world.live_hosts()
    processes = [world.manager, *(host.process for host in hosts)]
    dying = processes if random.random() < 0.4 else [random.choice(processes)]
    machines = {process.name for process in dying}
    if dying is processes:
        machines = {blob.machine for blob in world.disk.unsynced.values()}
    for process in dying:
        if not process.is_dead:
            process.kill("lost its power")
    world.disk.lose_power(machines)


def crash_manager(world: World) -> None:
    """Kill the job manager; another takes over."""
    if not world.manager.is_dead:
        world.manager.kill("killed")


def trap_host(world: World) -> None:
    """Kill a host inside an operation of the store: before it, after it, or with a torn write."""
    if (host := _some_host(world)) is not None:
        random = world.scheduler.random
        how = random.choice(WAYS_TO_DIE)
        world.disk.mines[host.process.name] = (random.randint(0, 30), how)


def trap_manager(world: World) -> None:
    """Kill the job manager inside an operation of the store."""
    random = world.scheduler.random
    how = random.choice(WAYS_TO_DIE)
    world.disk.mines[world.manager.name] = (random.randint(0, 10), how)


def cut_control(world: World) -> None:
    """Break a host's control connection; the two ends notice at different times."""
    if world.network.links:
        world.scheduler.random.choice(world.network.links).cut()


def cut_data(world: World) -> None:
    """Break a data connection."""
    if world.network.readers:
        world.scheduler.random.choice(world.network.readers).cut()


def partition(world: World) -> None:
    """Block all frames between two processes, for less or more than the time-outs."""
    host, other = _some_host(world), _some_host(world)
    seconds = world.scheduler.random.choice([0.5, 5.0, 40.0])
    world.calm_s = max(world.calm_s, world.scheduler.now_s + seconds + 60)
    if host is not None and other is not None:
        peer = world.manager if host is other else other.process
        world.network.partition(host.process, peer, seconds)


def duplicate(world: World) -> None:
    """Deliver some messages and batches twice, the second time up to seconds later."""
    random = world.scheduler.random
    for line in ("up", "down", "data"):
        world.network.fates.expect(f"{line} copy", random.randint(1, 20))


def reorder(world: World) -> None:
    """Delay some messages or batches so that later ones overtake them."""
    random = world.scheduler.random
    world.network.fates.expect(f"{random.choice(['up', 'down'])} late", random.randint(0, 2))
    world.network.fates.expect("data late", random.randint(0, 5))


def lose(world: World) -> None:
    """Lose a message on a connection that does not break."""
    line = world.scheduler.random.choice(["up", "down"])
    world.network.fates.expect(f"{line} loss", 1)


def slow_network(world: World) -> None:
    """Delay all messages by up to a second for a while."""
    world.network.delay_s = 1.0

    def heal() -> None:
        world.network.delay_s = 0.002

    world.scheduler.after(world.scheduler.between(0.5, 5.0), None, heal)


def store_errors(world: World) -> None:
    """Let operations of the store fail at random for a while."""
    random = world.scheduler.random
    world.disk.error_rate = random.choice([0.02, 0.2, 1.0])

    def heal() -> None:
        world.disk.error_rate = 0.0

    world.scheduler.after(world.scheduler.between(0.1, 2.0), None, heal)


def slow_store(world: World) -> None:
    """Make some background work slow from now on."""
    world.slow_store_s = 2.0


def zombie(world: World) -> None:
    """Suspend a host until it is replaced, then resume it: it works until it learns of that."""
    host = _some_host(world)
    if host is None:
        return
    random = world.scheduler.random
    seconds = random.choice([0.3, 2.0, 12.0, 40.0])
    world.calm_s = max(world.calm_s, world.scheduler.now_s + seconds + 60)
    host.process.pause(world.scheduler.now_s + seconds)
    if random.random() < 0.7:
        for link in list(world.network.links):
            if link.host is host.process:
                link.cut(host_notices_s=seconds + random.choice([0.0, 0.2, 2.0]))


def pause_manager(world: World) -> None:
    """Suspend the job manager for a while."""
    seconds = world.scheduler.random.choice([0.5, 5.0, 30.0])
    world.calm_s = max(world.calm_s, world.scheduler.now_s + seconds + 60)
    world.manager.pause(world.scheduler.now_s + seconds)


def clock_jump(world: World) -> None:
    """Set a process's wall clock forward or back, by seconds or by years."""
    processes = [world.manager, *(h.process for h in world.live_hosts())]
    random = world.scheduler.random
    jump_us = random.choice([10**6, 10**8, 10**14]) * random.choice([-1, 1])
    random.choice(processes).skew_us += jump_us


def lost_spill(world: World) -> None:
    """Delete the files that volatile streams have spilled, now and a little later."""

    def vanish(left: int) -> None:
        for name in sorted(spilled(world)):
            del world.disk.blobs[name]
        if left:
            world.scheduler.after(0.1, None, partial(vanish, left - 1))

    if volatile_streams(world):
        vanish(10)


def second_attempt(world: World) -> None:
    """Start hosts twice from now on, as Spark may."""
    world.second_attempts = True


def drain(world: World) -> None:
    """Drain a host on a user's request, perhaps repeatedly, or one that has ended."""
    if (host := _some_host(world)) is not None:
        user_root(world).put(f"{REQUESTS}/{DRAIN}{host.spec.host}", b"")


def stop(world: World) -> None:
    """Stop the job on a user's request, then resume it."""
    user_root(world).put(f"{REQUESTS}/{STOP}", b"")


def straggler(world: World) -> None:
    """Slow a host for a while, or until it ends."""
    if (host := _some_host(world)) is not None:
        random = world.scheduler.random
        seconds = random.choice([1.0, 10.0, 60.0])
        host.slowness = random.choice([10.0, 30.0, 100.0])
        world.calm_s = max(world.calm_s, world.scheduler.now_s + seconds + 60)

        def recover() -> None:
            host.slowness = 1.0

        world.scheduler.after(seconds, None, recover)


def crash_joining(world: World) -> None:
    """Kill a host, and when an instance joins in its place kill a host of that join."""
    crash_host(world)

    def look(left: int) -> None:
        slots = _slots_of_joins(world)
        hosts = [h for h in world.live_hosts() if slot_of(h) in slots]
        if hosts and not world.state:
            world.scheduler.random.choice(hosts).process.kill("killed while one joins")
        elif left and not world.state:
            world.scheduler.after(0.02, None, partial(look, left - 1))

    world.scheduler.after(world.scheduler.between(0.0, 1.0), None, partial(look, 200))


def _slots_of_joins(world: World) -> list[int]:
    """Slots of instances that join or have just joined, and of their source instances."""
    core = world.core
    rows = [] if core is None else list(core.vertices.values())
    sources = [v for v in rows if any(j.source is not None for j in v.joins)]
    begun = [
        v for v in rows if len(v.instances) > 1 and any(i.state == "starting" for i in v.instances)
    ]
    slots = [j.slot for v in sources for j in v.joins]
    return slots + [i.slot for v in [*sources, *begun] for i in v.instances]


def second_manager(world: World) -> None:
    """Resume the job on other machines repeatedly while its job manager may be suspended."""
    random = world.scheduler.random
    asleep_s = random.choice([0.0, 10.0, 30.0, 60.0])
    world.calm_s = max(world.calm_s, world.scheduler.now_s + asleep_s + 90)
    if asleep_s:
        world.manager.pause(world.scheduler.now_s + asleep_s)

    def again(left: int, takeovers: int) -> None:
        if left and not world.state and world.takeovers == takeovers:
            world.start_rival()
            pause_s = world.scheduler.between(1.0, 8.0)
            world.scheduler.after(pause_s, None, partial(again, left - 1, takeovers))

    again(6, world.takeovers)


KINDS: dict[str, Kind] = {
    f.__name__: Kind(f)
    for f in (
        crash_host,
        crash_all,
        power_loss,
        crash_manager,
        trap_host,
        trap_manager,
        cut_control,
        cut_data,
        partition,
        slow_network,
        store_errors,
        slow_store,
        zombie,
        pause_manager,
        clock_jump,
        lost_spill,
        second_attempt,
        drain,
        straggler,
        crash_joining,
        second_manager,
        *STRIKES,
        *MOMENTS,
        duplicate,
        reorder,
        lose,
        stop,
    )
}
