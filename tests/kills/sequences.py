"""``python -m tests.kills.sequences FIRST COUNT``: short sequences of changes on Spark, by seed.

Several jobs run side by side in one Spark. Each is changed two to four times while its own workers
and the processes that all share (driver, broker, database server) are killed and frozen. Then its
topic and its table are compared with the batch result. A line of ``--log`` per sequence.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kills import faults
from tests.kills.changes import CHANGE_S_MAX, VERBS, Asked
from tests.kills.check import check
from tests.kills.feed import PARTITIONS, Feed
from tests.kills.queries import EVENTS, PAIRS, SIDES, JobSpec
from tests.kills.scene import START_S_MAX, Processes, Scene, is_whole
from tests.support.brokers import Broker
from tests.support.postgres_server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kills.changes import Fault

AT_ONCE, CHANGES = 4, (2, 3, 4)
OUTPUTS, IDLE, READ_S_MAX = 2, ("follow", "wait"), 600.0
#: Fewer events than in long runs: the jobs share a broker and a server.
RATES_SHARE = 0.3
#: Of hosts, and of those that a change starts while others still end.
SLOTS_PER_JOB = 4
#: Shares of the changes that meet a strike on the job's own workers, and on what all jobs share.
SHARE_OWN, SHARE_SHARED = 0.5, 0.7
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


@dataclass
class Sequence:
    """A job, the changes and strikes that it went through, and the error if one was found."""

    seed: int
    scene: Scene
    dice: random.Random
    changes: int
    asked: Asked | None = None
    outcomes: list[str] = field(default_factory=list)
    strikes: list[str] = field(default_factory=list)
    wrong: str = ""

    def tries(self, step: Callable[..., Any], *given: Any) -> Any:
        """Return the result of ``step``, or note that the job failed."""
        if self.wrong:
            return None
        try:
            return step(*given)
        except Exception as error:
            traceback.print_exc()
            self.wrong = repr(error)
            return None

    def ask(self) -> None:
        """Request a random change."""
        weights = [weight for weight, _ in VERBS.values()]
        ((_, change),) = self.dice.choices(list(VERBS.values()), weights)
        self.asked = Asked(self.scene, self.dice, change)

    def end_change(self) -> None:
        """Wait for the outcome of the change, and until the job runs."""
        if self.asked is not None:
            self.outcomes.append(self.asked.outcome())
        self.asked = None
        self.scene.wait_whole()


def main() -> int:
    """Run the sequences. Return 1 if a result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--seconds", type=float, default=1e9, help="then no further jobs begin")
    parser.add_argument("--log", type=Path, help="a file; lines are added")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all processes are ended
    until_s, rows = time.monotonic() + options.seconds, list[dict[str, Any]]()
    folder = Path(tempfile.mkdtemp(prefix="live-sequences-"))
    with ExitStack() as cleanup:
        server = PostgresServer()
        cleanup.callback(server.close)
        last = options.first + options.count
        for first in range(options.first, last, options.at_once):
            if time.monotonic() > until_s:
                break
            seeds = range(first, min(last, first + options.at_once))
            place = folder / f"from-{first}"
            place.mkdir()
            of_these = run_together(seeds, place, server)
            for row in of_these:
                print(json.dumps(row), flush=True)
                if options.log is not None:
                    with options.log.open("a") as log:
                        log.write(json.dumps(row) + "\n")
            if not any(row["wrong"] for row in of_these):
                shutil.rmtree(place)
            rows += of_these
    if options.log is not None:
        rows = [json.loads(line) for line in options.log.read_text().splitlines()]
    print(summary(rows))
    return int(any(row["wrong"] for row in rows))


def run_together(seeds: range, folder: Path, server: PostgresServer) -> list[dict[str, Any]]:
    """Run a sequence per seed, side by side; a row of the log for each."""
    dice, begun_s, used_s = random.Random(f"shared-{seeds[0]}"), time.monotonic(), _processor_s()
    with ExitStack() as cleanup:
        broker = Broker(folder / "broker", answer_s_max=READ_S_MAX)
        broker.start()
        cleanup.callback(broker.stop)
        master = f"local[{SLOTS_PER_JOB * len(seeds)}]"
        specs = [_spec(seed, folder, broker, server, master) for seed in seeds]
        processes = Processes(specs, broker, server, folder)
        cleanup.callback(processes.close)
        found = []
        for seed, spec in zip(seeds, specs, strict=True):
            scene, own = Scene(spec, processes, Path(spec.root).parent), random.Random(seed)
            found.append(Sequence(seed, scene, own, own.choice(CHANGES)))
        processes.begin_life()
        for one in found:
            one.scene.feed = _feed(one.scene, one.dice)
        for one in found:
            one.tries(one.scene.until, is_whole, START_S_MAX, "all at work")
        for number in range(max(CHANGES)):
            _change_all([one for one in found if number < one.changes and not one.wrong], dice)
        for one in found:
            assert one.scene.feed is not None
            one.scene.feed.stop()
        try:
            processes.life.finish()
        except Exception as error:
            traceback.print_exc()
            print(f"seeds from {seeds[0]}: {error}", flush=True)
        processes.await_server()
        rows = [_compared(one) for one in found]
    share = round((time.monotonic() - begun_s) / len(seeds), 1)
    cpu_s = round((_processor_s() - used_s) / len(seeds), 1)
    return [{**row, "s": share, "cpu_s": cpu_s} for row in rows]


def _change_all(together: list[Sequence], dice: random.Random) -> None:
    """Change each job once, amid strikes in random order."""
    for one in together:
        one.ask()
    strikes: list[tuple[str, Fault, list[Sequence]]] = []
    for one in together:
        if one.dice.random() < SHARE_OWN:
            kind = one.dice.choice(list(OWN))
            strikes.append((kind, OWN[kind], [one]))
    if together and dice.random() < SHARE_SHARED:
        (kind,) = dice.choices(list(SHARED), [weight for weight, _ in SHARED.values()])
        strikes.insert(dice.randint(0, len(strikes)), (kind, SHARED[kind][1], together))
    for kind, strike, struck in strikes:
        time.sleep(dice.uniform(0.0, CHANGE_S_MAX / len(strikes)))
        struck[0].tries(strike, struck[0].scene, dice)
        for one in struck:
            one.strikes.append(kind)
    for one in together:
        one.tries(one.end_change)


def _spec(seed: int, folder: Path, broker: Broker, server: PostgresServer, master: str) -> JobSpec:
    query, strategy = PAIRS[seed % len(PAIRS)]
    place = folder / f"{query}-{strategy}-{seed}"
    place.mkdir()
    idle = IDLE[(seed // len(PAIRS) + seed) % len(IDLE)]
    root = str(place / "job")
    spec = JobSpec(place.name, query, strategy, idle, root, broker.servers, server.dsn, master)
    for name in (EVENTS, SIDES):
        broker.create_topic(spec.topic(name), PARTITIONS[name])
    broker.create_topic(spec.topic("answer"), OUTPUTS)
    return spec


def _feed(scene: Scene, dice: random.Random) -> Feed:
    topics = {name: scene.spec.topic(name) for name in (EVENTS, SIDES)}
    silent = scene.spec.idle == "follow"
    number, servers = dice.randrange(1 << 30), scene.broker.servers
    return Feed(servers, topics, number, silent=silent, share=RATES_SHARE)


def _compared(one: Sequence) -> dict[str, Any]:
    """Compare the result of a job; its row of the log."""
    status, spec = one.scene.status, one.scene.spec
    checked = one.tries(check, one.scene)
    if checked is None:
        one.wrong += f"; {status['state']}: {status.get('error')}; {one.scene.folder}"
    return {
        "seed": one.seed,
        "query": spec.query,
        "strategy": spec.strategy,
        "changes": one.scene.changes,
        "outcomes": one.outcomes,
        "strikes": one.strikes,
        "restarts": status.get("restarts", 0),
        "wrong": one.wrong,
        **(vars(checked) if checked is not None else {}),
    }


def _processor_s() -> float:
    """Processor time of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def summary(rows: list[dict[str, Any]]) -> str:
    """The counts of a log."""
    right = [row for row in rows if not row["wrong"]]
    names = {"query": [row["query"] for row in right]}
    names |= {name: [one for row in right for one in row[name]] for name in ("changes", "strikes")}
    head = f"{len(rows)} sequences; wrong: {[row['seed'] for row in rows if row['wrong']]}"
    return "\n".join([head, *(f"{name}: {dict(Counter(of))}" for name, of in names.items())])


if __name__ == "__main__":
    sys.exit(main())
