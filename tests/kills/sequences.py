"""``python -m tests.kills.sequences FIRST COUNT``: short sequences of changes on Spark, by seed.

Several jobs run side by side in one Spark; when one is over, the next begins. Each is changed two
to four times while its own workers and the processes that all share (driver, broker, database
server) are killed and frozen. Then its topic and its table are compared with the batch result.
Each sequence is a line of ``--log``. ``--cluster`` runs them on a standalone cluster of one master
and two workers, and also kills executors.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kills import faults
from tests.kills.changes import CHANGE_S_MAX, VERBS, Asked
from tests.kills.check import check
from tests.kills.feed import PARTITIONS, feed_of
from tests.kills.queries import EVENTS, PAIRS, SIDES, JobSpec
from tests.kills.scene import JAVA, START_S_MAX, Processes, Scene, is_whole
from tests.spark.cluster import Cluster
from tests.support.brokers import Broker
from tests.support.postgres_server import PostgresServer

if TYPE_CHECKING:
    from tests.kills.changes import Fault

AT_ONCE, CHANGES = 6, (2, 3, 4)
OUTPUTS, IDLE, READ_S_MAX = 2, ("follow", "wait"), 600.0
#: Fewer events than in long runs: the jobs share a broker and a server.
RATES_SHARE = 0.3
#: Of hosts, and of those that a change starts while others still end.
SLOTS_PER_JOB = 4
#: Shares of the changes that meet a strike on the job's own workers, and on what all jobs share.
#: The second strikes all jobs of the moment.
SHARE_OWN, SHARE_SHARED = 0.5, 0.17
OWN: dict[str, Fault] = {
    "worker killed": faults.kill_worker,
    "workers killed at once": faults.kill_workers,
    "consumer killed": faults.kill_source,
    "worker of the answer killed": faults.kill_sink,
    "consumer frozen": faults.freeze_source,
    "worker of the answer frozen": faults.freeze_sink,
}
SHARED: dict[str, tuple[int, Fault]] = {
    "broker frozen": (6, faults.freeze_broker),
    "database server killed": (6, faults.kill_server),
    "driver killed": (5, faults.kill_driver),
    "driver frozen": (5, faults.freeze_driver),
    "driver succeeded, then woken up": (1, faults.succeed_driver),
}
#: A driver that sleeps keeps all executors, so none can succeed it.
ON_CLUSTER = {
    name: found for name, found in SHARED.items() if found[1] is not faults.succeed_driver
}
ON_CLUSTER[faults.EXECUTOR_KILLED] = (6, faults.kill_executor)


class Runs:
    """Runs sequences on the processes that they share."""

    def __init__(self, processes: Processes, folder: Path, master: str) -> None:
        self._processes, self._folder, self._master = processes, folder, master
        self._shared = ON_CLUSTER if master.startswith("spark:") else SHARED
        #: The shared strikes so far: each sequence lists those of its time.
        self._struck: list[str] = []

    def run(self, seed: int) -> dict[str, Any]:
        """Run the sequence of a seed. Return its row of the log."""
        begun_s, dice, since = time.monotonic(), random.Random(seed), len(self._struck)
        spec = self._spec(seed)
        scene = Scene(spec, self._processes, Path(spec.root).parent)
        outcomes: list[str] = []
        strikes: list[str] = []
        wrong, found = "", dict[str, Any]()
        try:
            self._start(scene, dice)
            for _ in range(dice.choice(CHANGES)):
                outcomes += [self._change(scene, dice, strikes)]
            assert scene.feed is not None
            scene.feed.stop()
            self._processes.finish(spec)
            with self._processes.striking:  # so that no strike kills the server
                self._processes.await_server()
                found = vars(check(scene))
        except Exception as error:
            traceback.print_exc()
            wrong = f"{error!r}; {scene.status['state']}; {scene.folder}"
            self._processes.forget(spec)
        finally:
            if scene.feed is not None:
                scene.feed.close()
        row = {name: getattr(spec, name) for name in ("query", "strategy", "idle")}
        row |= {"seed": seed, "wrong": wrong, "s": round(time.monotonic() - begun_s, 1)}
        strikes += self._struck[since:]
        row |= {"changes": scene.changes, "outcomes": outcomes, "strikes": strikes, **found}
        if not wrong:
            shutil.rmtree(scene.folder)
            for name in (EVENTS, SIDES, "answer"):
                scene.broker.delete_topic(spec.topic(name))
        return row | {"restarts": scene.status.get("restarts", 0)}

    def _start(self, scene: Scene, dice: random.Random) -> None:
        spec, broker = scene.spec, scene.broker
        for name in (EVENTS, SIDES):
            broker.create_topic(spec.topic(name), PARTITIONS[name])
        broker.create_topic(spec.topic("answer"), OUTPUTS)
        scene.feed = feed_of(spec, dice.randrange(1 << 30), share=RATES_SHARE)
        self._processes.run(spec)
        scene.until(is_whole, START_S_MAX, "all at work")

    def _change(self, scene: Scene, dice: random.Random, strikes: list[str]) -> str:
        """Change the job once, amid strikes in random order. Return the outcome."""
        weights = [weight for weight, _ in VERBS.values()]
        ((_, change),) = dice.choices(list(VERBS.values()), weights)
        asked = Asked(scene, dice, change)
        todo: list[tuple[str, Fault, bool]] = []
        if dice.random() < SHARE_OWN:
            kind = dice.choice(list(OWN))
            todo.append((kind, OWN[kind], False))
        if dice.random() < SHARE_SHARED:
            weights = [weight for weight, _ in self._shared.values()]
            (kind,) = dice.choices(list(self._shared), weights)
            todo.insert(dice.randint(0, len(todo)), (kind, self._shared[kind][1], True))
        for kind, strike, is_shared in todo:
            time.sleep(dice.uniform(0.0, CHANGE_S_MAX / len(todo)))
            if not is_shared:
                strike(scene, dice)
                strikes.append(kind)
                continue
            with self._processes.striking:
                strike(scene, dice)
                self._struck.append(kind)
        outcome = asked.outcome()
        scene.wait_whole()
        return outcome

    def _spec(self, seed: int) -> JobSpec:
        query, strategy = PAIRS[seed % len(PAIRS)]
        place = self._folder / f"{query}-{strategy}-{seed}"
        place.mkdir()
        idle = IDLE[(seed // len(PAIRS) + seed) % len(IDLE)]
        servers, dsn = self._processes.broker.servers, self._processes.server.dsn
        root = str(place / "job")
        return JobSpec(place.name, query, strategy, idle, root, servers, dsn, self._master)


def main() -> int:
    """Run the sequences. Return 1 if a result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--seconds", type=float, default=1e9, help="then no further jobs begin")
    parser.add_argument("--log", type=Path, help="a file; lines are added")
    parser.add_argument("--cluster", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all processes are ended
    os.environ["JDK_JAVA_OPTIONS"] = JAVA  # of the batch and of the cluster
    until_s, rows = time.monotonic() + options.seconds, list[dict[str, Any]]()
    folder, writing = Path(tempfile.mkdtemp(prefix="live-sequences-")), threading.Lock()
    slots = SLOTS_PER_JOB * options.at_once
    with ExitStack() as cleanup:
        master = f"local[{slots}]"
        if options.cluster:
            cluster = Cluster(folder, cores=slots // 2, start_wait_s=START_S_MAX)
            master = cleanup.enter_context(cluster).master
        server = PostgresServer()
        cleanup.callback(server.close)
        broker = Broker(folder / "broker", answer_s_max=READ_S_MAX, waits=True)
        broker.start()
        cleanup.callback(broker.stop)
        processes = Processes(broker, server, folder)
        cleanup.callback(processes.close)
        processes.begin_life()
        runs = Runs(processes, folder, master)

        def run(seed: int) -> None:
            if time.monotonic() > until_s:
                return
            row = runs.run(seed)
            line = json.dumps(row)
            with writing:
                rows.append(row)
                print(line, flush=True)
                if options.log is not None:
                    with options.log.open("a") as log:
                        log.write(line + "\n")

        with ThreadPoolExecutor(options.at_once) as pool:
            runs_of_all = pool.map(run, range(options.first, options.first + options.count))
            try:
                list(runs_of_all)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                processes.close()  # so that those that run fail
                raise
    if not any(row["wrong"] for row in rows):
        shutil.rmtree(folder)
    if options.log is not None:
        rows = [json.loads(line) for line in options.log.read_text().splitlines()]
    print(summary(rows))
    return int(any(row["wrong"] for row in rows))


def summary(rows: list[dict[str, Any]]) -> str:
    """The counts of a log."""
    right = [row for row in rows if not row["wrong"]]
    names = {"query": [row["query"] for row in right]}
    names |= {name: [one for row in right for one in row[name]] for name in ("changes", "strikes")}
    head = f"{len(rows)} sequences; wrong: {[row['seed'] for row in rows if row['wrong']]}"
    return "\n".join([head, *(f"{name}: {dict(Counter(of))}" for name, of in names.items())])


if __name__ == "__main__":
    sys.exit(main())
