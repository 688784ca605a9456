"""The faults: each is done to a scene at a random moment, and returns a description."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobmanager.storage.liveness import STATUS_STALE_US
from tests.kills.feed import Feed
from tests.kills.life import HOST_SILENCE_S
from tests.kills.queries import EVENTS
from tests.kills.scene import (
    START_S_MAX,
    ZOMBIE_S_MAX,
    Frozen,
    Scene,
    WrongError,
)
from tests.spark.cluster import executor_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

#: A freeze of a worker is up to this long: some wake up after another has taken over.
WORKER_FROZEN_S_MAX = 2 * HOST_SILENCE_S
FROZEN_S_MIN, FROZEN_S_MAX = 0.3, 4.0
SERVER_AWAY_S_MAX = 2.0
#: A frozen driver is not succeeded on another machine before its status is older than this.
STALE_S = STATUS_STALE_US / 1e6 + 1.0


def kill_worker(scene: Scene, dice: random.Random) -> str:
    """SIGKILL of the process of any host."""
    return _kill(scene, [dice.choice(_hosts(scene))])


def kill_workers(scene: Scene, dice: random.Random) -> str:
    """SIGKILL of several hosts at once, sometimes of all."""
    pids = _hosts(scene)
    return _kill(scene, dice.sample(pids, dice.randint(2, len(pids))) if len(pids) > 1 else pids)


def kill_source(scene: Scene, dice: random.Random) -> str:
    """SIGKILL of a consumer of the topics."""
    return _kill(scene, [dice.choice(_holders(scene, sources=True))])


def kill_sink(scene: Scene, dice: random.Random) -> str:
    """SIGKILL of a host that computes the result."""
    return _kill(scene, [dice.choice(_holders(scene, sources=False))])


def freeze_source(scene: Scene, dice: random.Random) -> str:
    """A consumer is suspended, and wakes up before or after it was replaced."""
    return _freeze_worker(scene, dice, sources=True)


def freeze_sink(scene: Scene, dice: random.Random) -> str:
    """A host that computes the result is suspended."""
    return _freeze_worker(scene, dice, sources=False)


def freeze_broker(scene: Scene, dice: random.Random) -> str:
    """The broker is suspended: topics cannot be read or written."""
    seconds = dice.uniform(FROZEN_S_MIN, FROZEN_S_MAX)
    scene.processes.freeze(scene.broker.pid, seconds)
    return f"broker {scene.broker.pid} for {seconds:.1f} s"


def kill_server(scene: Scene, dice: random.Random) -> str:
    """SIGKILL of PostgreSQL, also within a commit."""
    seconds = dice.uniform(0.0, SERVER_AWAY_S_MAX)
    scene.processes.kill_server(seconds)
    return f"server for {seconds:.1f} s"


def kill_driver(scene: Scene, dice: random.Random) -> str:
    """SIGKILL of the driver, which also delivers; another one resumes the job."""
    pid = scene.processes.life.process.pid
    scene.processes.replace_life(dice.uniform(0.0, 0.5))  # its hosts continue for a while
    return f"driver {pid}"


def freeze_driver(scene: Scene, dice: random.Random) -> str:
    """The driver, which also delivers, is suspended; its hosts keep running."""
    seconds = dice.uniform(FROZEN_S_MIN, FROZEN_S_MAX)
    scene.processes.freeze(scene.processes.life.process.pid, seconds)
    return f"driver {scene.processes.life.process.pid} for {seconds:.1f} s"


def succeed_driver(scene: Scene, dice: random.Random) -> str:
    """A driver is suspended until another one delivers in its place, and then wakes up.

    Raises:
        WrongError: it continues.
    """
    old = scene.processes.life
    scene.processes.wake()
    frozen = Frozen(old.process.pid)
    try:
        time.sleep(STALE_S)
        new = scene.processes.begin_life(machine=f"other-{dice.randrange(1_000_000)}")
        scene.until(lambda status: status["state"] == "running", START_S_MAX, "a successor")
        time.sleep(dice.uniform(0.0, 3.0))
    finally:
        frozen.thaw()
    old.close()
    deadline_s = time.monotonic() + ZOMBIE_S_MAX
    while old.process.poll() is None:
        if time.monotonic() > deadline_s:
            raise WrongError(f"the driver that was succeeded still runs: {old.statuses}")
        time.sleep(0.05)
    return f"driver {old.process.pid} succeeded by {new.process.pid}"


def add_partition(scene: Scene, dice: random.Random) -> str:
    """Add a partition with events to a topic; the job or its successor reads it."""
    assert isinstance(scene.feed, Feed)
    topic = scene.spec.topic(EVENTS)
    scene.broker.add_partitions(topic, scene.feed.partitions[EVENTS] + 1)
    count = scene.feed.add_partition(EVENTS)
    time.sleep(dice.uniform(0.0, 1.0))
    return f"partition {count - 1}, {kill_driver(scene, dice)}"


def kill_executor(scene: Scene, dice: random.Random) -> str:
    """SIGKILL of a whole executor: its Java process and so all its Python workers."""
    pid = executor_of(dice.choice(_hosts(scene)))
    os.kill(pid, signal.SIGKILL)
    return f"executor {pid}"


KINDS: dict[str, tuple[int, Callable[[Scene, random.Random], str]]] = {
    "worker killed": (6, kill_worker),
    "workers killed at once": (6, kill_workers),
    "consumer killed": (6, kill_source),
    "worker of the answer killed": (6, kill_sink),
    "consumer frozen": (6, freeze_source),
    "worker of the answer frozen": (6, freeze_sink),
    "broker frozen": (6, freeze_broker),
    "database server killed": (6, kill_server),
    "driver killed": (3, kill_driver),
    "driver frozen": (5, freeze_driver),
    "driver succeeded, then woken up": (1, succeed_driver),
    "partition added and driver killed": (2, add_partition),
}
#: Only where there are executors: in ``local`` mode the driver's Java is the only one.
EXECUTOR_KILLED = "executor killed"
#: A driver that sleeps keeps all executors, so none can succeed it.
CLUSTER_KINDS = {kind: found for kind, found in KINDS.items() if found[1] is not succeed_driver}
CLUSTER_KINDS[EXECUTOR_KILLED] = (20, kill_executor)


def _hosts(scene: Scene) -> list[int]:
    """The live hosts; waits until there is one, for example after the driver was killed."""

    def living(status: dict[str, Any]) -> list[int]:
        pids = {host["pid"] for host in status["hosts"]} - {None} - scene.killed
        return sorted(pid for pid in pids if Path(f"/proc/{pid}").exists())

    return living(scene.until(lambda status: bool(living(status)), START_S_MAX, "a host"))


def _holders(scene: Scene, *, sources: bool) -> list[int]:
    """The hosts of the sources, or of the last stage."""
    living, rows = _hosts(scene), scene.status["vertices"]
    found = {
        i["pid"]
        for row in rows
        if (row["is_source"] if sources else row["stage"] == rows[-1]["stage"])
        for i in row["instances"]
    }
    return [pid for pid in living if pid in found] or living


def _freeze_worker(scene: Scene, dice: random.Random, *, sources: bool) -> str:
    pid, seconds = (
        dice.choice(_holders(scene, sources=sources)),
        dice.uniform(FROZEN_S_MIN, WORKER_FROZEN_S_MAX),
    )
    scene.processes.freeze(pid, seconds)
    return f"worker {pid} for {seconds:.1f} s"


def _kill(scene: Scene, pids: list[int]) -> str:
    scene.killed.update(pids)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has just died
            os.kill(pid, signal.SIGKILL)
    return f"workers {pids}"
