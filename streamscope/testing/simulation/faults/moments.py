"""Faults at critical moments: after a decision and before its log entry, in joins, in takeovers.

A fault at a random time seldom hits these targets: a host with work after its last checkpoint; the
instance whose checkpoint a new instance will load; a job manager with a decision that is not logged
yet; its successor while it reads the log. As in ``strikes``, each fault waits for its moment, and
the seed decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.storage.root import DRAIN, REQUESTS
from streamscope.testing.simulation.faults.strikes import slot_of, strike, user_root

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.state.records import InstanceState, VertexState
    from streamscope.testing.simulation.world import HostProcess, World

#: Notices after which something is started, stopped or deleted.
DECISIVE = ("CheckpointTaken", "HostLost", "TwinLevel", "VertexFinished", "VertexFailed")
WAYS_TO_DIE = ("before", "torn", "after")


def _vertices(world: World) -> list[VertexState]:
    """Return the running vertices of the current job manager."""
    core = world.core
    return [] if core is None else [v for v in core.vertices.values() if not v.is_finished]


def _hosts_of(world: World, instances: list[InstanceState]) -> list[HostProcess]:
    slots = {i.slot for i in instances}
    return [host for host in world.live_hosts() if slot_of(host) in slots]


def crash_checkpointed(world: World) -> None:
    """Kill a host that has done work since its last checkpoint and is not finished."""

    def find() -> list[HostProcess]:
        core = world.core
        rows = [v for v in _vertices(world) if core and core.tracker.newest(v.shape.id).name]
        return _hosts_of(world, [i for v in rows for i in v.instances if i.state == "running"])

    strike(world, find, lambda host: host.process.kill("killed behind a checkpoint"))


def crash_behind(world: World) -> None:
    """Kill all hosts of a vertex, and one host of an upstream or downstream vertex."""

    def find() -> list[VertexState]:
        core = world.core
        return [v for v in _vertices(world) if core and core.tracker.newest(v.shape.id).name]

    def kill(vertex: VertexState) -> None:
        core, shape = world.core, vertex.shape
        assert core is not None
        beside = [s.writer.vertex for s in shape.inputs]
        beside += [s.reader.vertex for s in shape.outputs if s.reader is not None]
        names = [world.scheduler.random.choice(beside)] if beside else []
        rows = [i for name in names for i in core.vertices[name].instances] + vertex.instances
        for host in _hosts_of(world, rows):
            host.process.kill("killed with a neighbour")

    strike(world, find, kill)


def crash_source(world: World) -> None:
    """Kill the host of a join's source, or of one of two instances that has just started."""

    def find() -> list[HostProcess]:
        rows = _vertices(world)
        sources = {j.source for v in rows for j in v.joins if j.source is not None}
        concerned = [i for v in rows for i in v.instances if i.epoch in sources]
        concerned += [i for v in rows if len(v.instances) > 1 for i in v.instances]
        return _hosts_of(world, concerned)

    strike(world, find, lambda host: host.process.kill("killed in a join"))


def drain_working(world: World) -> None:
    """Drain a host that has done work since its last checkpoint: its instances get twins."""

    def find() -> list[HostProcess]:
        core = world.core
        if core is None or sum(h.is_open and h.state == "ready" for h in core.hosts) < 2:
            return []
        rows = [v for v in _vertices(world) if core.tracker.newest(v.shape.id).name]
        return _hosts_of(world, [i for v in rows for i in v.instances if i.state == "running"])

    def ask(host: HostProcess) -> None:
        user_root(world).put(f"{REQUESTS}/{DRAIN}{host.spec.host}", b"")

    strike(world, find, ask)


def trap_deciding(world: World) -> None:
    """Kill the job manager in one of its next store operations after a decision."""
    met = world.scheduler.met

    def decided() -> int:
        return sum(met[f"notice {kind}"] for kind in DECISIVE)

    known = decided()

    def find() -> list[str]:
        nonlocal known
        former, known = known, decided()
        return [world.manager.name] if known > former and not world.manager.is_dead else []

    def trap(name: str) -> None:
        random = world.scheduler.random
        world.disk.mines[name] = (random.randint(0, 3), random.choice(WAYS_TO_DIE))

    strike(world, find, trap)


def trap_takeover(world: World) -> None:
    """Kill the job manager, and its successor in one of its first store operations."""
    random, former = world.scheduler.random, world.current
    if former.process.is_dead:
        return
    former.process.kill("killed before a takeover")

    def find() -> list[str]:
        is_new = world.current is not former and not world.manager.is_dead
        return [world.manager.name] if is_new else []

    def trap(name: str) -> None:
        world.disk.mines[name] = (random.randint(0, 20), random.choice(WAYS_TO_DIE))

    strike(world, find, trap, left=400)


MOMENTS: tuple[Callable[[World], None], ...] = (
    crash_checkpointed,
    crash_behind,
    crash_source,
    drain_working,
    trap_deciding,
    trap_takeover,
)
