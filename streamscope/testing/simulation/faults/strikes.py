"""Faults that wait for a condition: each waits until its target exists.

A fault at a random time seldom hits a rare target: items dropped from memory that no checkpoint
covers yet, an instance that no log names, a suspended job manager that resumes beside its
successor. These faults read the state of the job manager and the files. The seed decides which
moment they choose, and which target they hit.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from streamscope.testing.simulation.scheduler import Process
from streamscope.testing.simulation.storage import FaultyBlobs, root_of
from streamscope.testing.simulation.workload import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobmanager.state.records import VertexState
    from streamscope.testing.simulation.world import HostProcess, World

LOOKS_MAX = 200
LOOK_S = 0.01
SPILLED = re.compile(r"(.*/)\d{20}-(\d{20})\.parquet")
Target = TypeVar("Target")


def slot_of(host: HostProcess) -> int:
    """Return the slot of a host."""
    return int(host.spec.host.removeprefix("h").split(".")[0])


def user_root(world: World) -> FaultyBlobs:
    """Return the job's root as its user sees it: this store never fails."""
    user = Process("user", lambda reason: None)
    return FaultyBlobs(replace(world.disk, mines={}, error_rate=0.0), user, root_of(ROOT))


def volatile_streams(world: World) -> dict[str, str]:
    """Return the name of each volatile stream, by the folder to which it spills."""
    return {
        root_of(uri): stream
        for vertex in world.workload.vertices
        for edge in vertex.outputs
        if edge.durability == "volatile"
        for stream, uri in zip(edge.streams, edge.uris, strict=True)
    }


def spilled(world: World) -> set[str]:
    """Return the files that volatile streams have spilled."""
    roots = tuple(volatile_streams(world))
    return {n for n in world.disk.blobs if n.endswith(".parquet") and n.startswith(roots)}


def strike(
    world: World,
    find: Callable[[], Sequence[Target]],
    act: Callable[[Target], object],
    left: int = LOOKS_MAX,
) -> None:
    """Poll until targets exist, then act on a random one; sometimes skip a chance."""
    world.calm_s = max(world.calm_s, world.scheduler.now_s + left * LOOK_S + 60)
    if world.state or not left:
        return
    targets = find()
    if targets and world.scheduler.chance(0.5):
        act(world.scheduler.random.choice(targets))
    else:
        again = partial(strike, world, find, act, left - 1)
        world.scheduler.after(world.scheduler.between(0.0, 2 * LOOK_S), None, again)


def crash_reader(world: World) -> None:
    """Kill a host after its writers dropped items that no checkpoint of it covers."""

    def find() -> list[HostProcess]:
        core = world.core
        rows = [] if core is None else list(core.vertices.values())
        slots = {v.instances[0].slot for v in rows if _cannot_be_read_again(world, v)}
        return [host for host in world.live_hosts() if slot_of(host) in slots]

    strike(world, find, lambda host: host.process.kill("killed as a reader"))


def _cannot_be_read_again(world: World, vertex: VertexState) -> bool:
    """Return whether the death of its only instance would restart a live writer on another host."""
    core = world.core
    assert core is not None
    if len(vertex.instances) != 1 or vertex.is_finished:
        return False
    reads = core.tracker.newest(vertex.shape.id).reads
    # for a source, ``reads`` also has positions of its external input
    for stream, seq in zip(vertex.shape.inputs, reads, strict=False):
        writers = core.job.live(stream.writer.vertex)
        elsewhere = [i for i in writers if i.slot != vertex.instances[0].slot]
        if not stream.is_durable and elsewhere and core.job.released(stream.id) > seq:
            return True
    return False


def crash_spilled(world: World) -> None:
    """Slow a host so that its writers spill; kill a host when lost spilled items are needed."""
    known = spilled(world)
    hosts = world.live_hosts()
    if hosts:
        slow = world.scheduler.random.choice(hosts)
        slow.slowness = 30.0
        seconds = world.scheduler.between(0.2, 1.5)
        world.scheduler.after(seconds, None, lambda: setattr(slow, "slowness", 1.0))

    def find() -> list[HostProcess]:
        there = spilled(world)
        gone = sorted(known - there)
        known.update(there)
        slots = {slot for name in gone for slot in _slots_of_dependent_readers(world, name)}
        return [host for host in world.live_hosts() if slot_of(host) in slots]

    strike(world, find, lambda host: host.process.kill("killed after a spill"))


def _slots_of_dependent_readers(world: World, name: str) -> list[int]:
    """Return the slots of readers that would need a spilled file again if it were lost now."""
    match, core = SPILLED.fullmatch(name), world.core
    if match is None or core is None:
        return []
    reader = core.topology.streams[volatile_streams(world)[match[1]]].reader
    if reader is None or core.tracker.newest(reader.vertex).reads[reader.index] >= int(match[2]):
        return []
    return [i.slot for i in core.vertices[reader.vertex].instances]


def crash_beginning(world: World) -> None:
    """Kill the job manager soon after instances started, which its log may not have yet."""
    known: set[int] = set()

    def find() -> list[int]:
        core = world.core
        rows = [] if core is None else list(core.job.instances())
        new = [i.epoch for _, i in rows if i.state == "running" and i.epoch not in known]
        known.update(new)
        return new

    def kill(epoch: int) -> None:
        manager, pause_s = world.manager, world.scheduler.between(0.0, 0.05)
        world.scheduler.note(f"{manager.name} is to die after the beginning of {epoch}")
        world.scheduler.after(pause_s, None, lambda: manager.kill("killed at a beginning"))

    strike(world, find, kill)


def woken_manager(world: World) -> None:
    """Suspend the job manager until another has taken over, and resume it while that one runs."""
    asleep, scheduler = world.current, world.scheduler

    def doze(left: int) -> None:
        world.calm_s = max(world.calm_s, scheduler.now_s + 60)
        if world.state or asleep.process.is_dead or not left:
            return
        if world.current is asleep:
            asleep.process.pause(scheduler.now_s + 0.15)
            scheduler.after(0.1, None, partial(doze, left - 1))
        else:
            asleep.process.pause(scheduler.now_s + scheduler.between(0.1, 1.5))

    def rival(left: int) -> None:
        if left and world.current is asleep and not world.state:
            world.start_rival()
            scheduler.after(scheduler.between(1.0, 8.0), None, partial(rival, left - 1))

    doze(400)
    rival(10)


STRIKES: tuple[Callable[[World], None], ...] = (
    crash_reader,
    crash_spilled,
    crash_beginning,
    woken_manager,
)
