"""``python -m tests.kills --kills 300 --seed 0``: prints the faults and any wrong results.

Each job is killed and frozen about forty times at random moments, sometimes before it has
recovered. Then its delivered rows are compared. Each fault and each comparison is a line of
``--log``, so an aborted run is not lost. ``--cluster`` runs on a standalone cluster of one master
and two workers, and also kills executors. ``--rate 50000`` rescales a job that counts events of a
log at that rate, and compares its windows with the right counts.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.kills.changes import only_rescaled, with_changes
from tests.kills.check import check
from tests.kills.faults import CLUSTER_KINDS, KINDS
from tests.kills.feed import PARTITIONS, feed_of
from tests.kills.queries import EVENTS, PAIRS, SIDES, JobSpec
from tests.kills.scene import START_S_MAX, Processes, Scene, is_whole
from tests.spark.cluster import Cluster
from tests.support.brokers import Broker
from tests.support.postgres_server import PostgresServer

KILLS_PER_JOB = 40
#: The share of faults that come before the job has recovered from the previous one.
SHARE_AT_ONCE = 0.6
AT_ONCE_S_MAX, PAUSE_S_MAX = 0.8, 2.0
#: Before the first fault, and after the last.
WARM_S = 1.0
OUTPUTS = 2
#: The time limit for reading a whole topic.
READ_S_MAX = 600.0
IDLE = ("follow", "wait")
MASTER = "local[4]"


class Log:
    """A log of all actions, one line each, and their counts."""

    def __init__(self, path: Path | None, seconds: float) -> None:
        """``seconds``: no further fault is done after this time."""
        self._path, self._until_s = path, time.monotonic() + seconds
        self._faults: list[dict[str, Any]] = []
        self._jobs: list[dict[str, Any]] = []

    def fault(self, job: JobSpec, kind: str, **facts: Any) -> None:
        """Log that an action was done."""
        self._faults.append(self._add(job, kind=kind, **facts))

    def job(self, job: JobSpec, **facts: Any) -> None:
        """Log that a run was compared, or failed."""
        self._jobs.append(self._add(job, **facts))

    @property
    def is_over(self) -> bool:
        """Whether its time is over."""
        return time.monotonic() > self._until_s

    def count(self) -> int:
        """The number of faults so far."""
        return len(self._faults)

    def wrong(self) -> list[dict[str, Any]]:
        """The jobs with wrong results."""
        return [job for job in self._jobs if job["wrong"]]

    def summary(self) -> str:
        """Faults by kind, strategy and query; pauses; rows."""
        checked = {job["name"] for job in self._jobs if not job["wrong"]}
        faults = [fault for fault in self._faults if fault["name"] in checked]
        lines = [f"{len(faults)} faults in {len(checked)} jobs whose answers were compared"]
        for name in ("kind", "strategy", "query", "idle"):
            counts = Counter(fault[name] for fault in faults)
            lines.append(f"by {name}: " + ", ".join(f"{n} {k}" for k, n in counts.most_common()))
        for kind in sorted({fault["kind"] for fault in faults}):
            found = sorted(
                f["pause_s"] for f in faults if f["kind"] == kind and f["pause_s"] is not None
            )
            if found:
                median, most = statistics.median(found), found[-1]
                lines.append(f"  {kind}: median {median:.1f} s, greatest {most:.1f} s to new rows")
        sums = {
            name: sum(job[name] for job in self._jobs if not job["wrong"])
            for name in ("events", "late", "answer", "restarts")
        }
        lines.append(", ".join(f"{count:,} {name}" for name, count in sums.items()))
        changes = Counter(one for job in self._jobs for one in job.get("changes", ()))
        lines += [f"  {count} {change}" for change, count in changes.most_common()]
        in_order = sum(bool(job.get("in_order")) for job in self._jobs)
        lines.append(f"{in_order} jobs compared in order with a run that nothing disturbed")
        lines += [f"WRONG: {job['name']} {job['root']}: {job['wrong']}" for job in self.wrong()]
        return "\n".join(lines)

    def _add(self, job: JobSpec, **facts: Any) -> dict[str, Any]:
        at = time.strftime("%H:%M:%S", time.gmtime())
        named = {k: getattr(job, k) for k in ("name", "query", "strategy", "idle", "root")}
        line = {"at": at, **named, **facts}
        if self._path is not None:
            with self._path.open("a") as log:
                log.write(json.dumps(line) + "\n")
        shown = ", ".join(f"{k} {v}" for k, v in facts.items() if v not in (None, ""))
        print(f"{at} {job.name}: {shown}", flush=True)
        return line


def main() -> int:
    """Run jobs until there were enough faults. Return 1 if a result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=1e9, help="then the last job ends")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-job", type=int, default=KILLS_PER_JOB)
    parser.add_argument("--only", default="", help="QUERY or QUERY/STRATEGY")
    parser.add_argument("--kinds", default="", help="of the faults, with commas between")
    parser.add_argument("--log", type=Path, help="a file; lines are added")
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument(
        "--changes", action="store_true", help="also change the jobs, most of them amid faults"
    )
    parser.add_argument("--customers", type=int, default=0, help="keys that come once, or nearly")
    parser.add_argument("--rate", type=int, default=0, help="events/s; only rescales and faults")
    options = parser.parse_args()
    # so that all started processes are ended
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    log = Log(options.log, options.seconds)
    only = options.only or ("windows" if options.rate else "")
    pairs = [p for p in PAIRS if "/".join(p).startswith(only)]
    first = options.seed % len(pairs)
    pairs = pairs[first:] + pairs[:first]
    folder = Path(tempfile.mkdtemp(prefix="live-kills-"))
    with ExitStack() as cleanup:
        master = MASTER
        if options.cluster:
            master = cleanup.enter_context(Cluster(folder, start_wait_s=START_S_MAX)).master
        number = 0
        while log.count() < options.kills and not log.is_over:  # ends: each job adds some
            query, strategy = pairs[number % len(pairs)]
            kills = min(options.per_job, options.kills - log.count())
            name = f"{query}-{strategy}-{options.seed}-{number}"
            idle = IDLE[(number // len(pairs) + number) % len(IDLE)]
            place = folder / name
            place.mkdir()
            spec = JobSpec(
                name, query, strategy, idle, str(place / "job"), "", "", master, options.rate
            )
            kinds = CLUSTER_KINDS if options.cluster else KINDS
            if options.rate:
                kinds = only_rescaled(kinds)
            elif options.changes:
                kinds = with_changes(kinds)
            if options.kinds:
                kinds = {kind: kinds[kind] for kind in options.kinds.split(",")}
            seed = f"{options.seed}-{number}"
            if run_job(spec, place, seed, kinds, kills, log, options.customers):
                shutil.rmtree(place)
            number += 1
    print(log.summary())
    if log.wrong():
        return 1
    shutil.rmtree(folder)
    return 0


def run_job(
    spec: JobSpec,
    folder: Path,
    seed: str,
    kinds: dict[str, Any],
    kills: int,
    log: Log,
    customers: int = 0,
) -> bool:
    """Run one job under ``kills`` faults, and compare. Return False if a result was wrong."""
    dice = random.Random(seed)
    done = 0
    with ExitStack() as cleanup:
        broker = Broker(folder / "broker", answer_s_max=READ_S_MAX, waits=True)
        broker.start()
        cleanup.callback(broker.stop)
        server = PostgresServer()
        cleanup.callback(server.close)
        spec = JobSpec(**{**vars(spec), "servers": broker.servers, "dsn": server.dsn})
        for name in (EVENTS, SIDES):
            broker.create_topic(spec.topic(name), PARTITIONS[name])
        broker.create_topic(spec.topic("answer"), OUTPUTS)
        processes = Processes(broker, server, folder)
        cleanup.callback(processes.close)
        scene = Scene(spec, processes, folder)
        try:
            scene.feed = feed = feed_of(spec, dice.randrange(1 << 30), customers=customers)
            cleanup.callback(feed.close)
            processes.begin_life()
            processes.run(spec)
            scene.until(is_whole, START_S_MAX, "all at work")
            scene.wait_delivered(time.time_ns() // 1000)
            time.sleep(WARM_S)
            is_last = False
            while not is_last:
                is_last = done == kills - 1 or log.is_over
                strike(scene, dice, kinds, log, is_last=is_last)
                done += 1
            time.sleep(WARM_S)
            feed.stop()
            if not spec.rate:
                scene.resume_until_all_is_read()
            processes.finish(spec)
            found = check(scene)
        except Exception as error:
            traceback.print_exc()
            wrong = f"after {done} faults: {error!r}"
            log.job(spec, wrong=wrong, folder=str(folder), changes=scene.changes)
            return False
        status = scene.status
        log.job(
            spec,
            wrong="",
            faults=done,
            restarts=status["restarts"],
            changes=scene.changes,
            **vars(found),
        )
        return True


def strike(
    scene: Scene, dice: random.Random, kinds: dict[str, Any], log: Log, *, is_last: bool
) -> None:
    """Do one fault. Usually wait until the job has recovered."""
    kind = dice.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
    at_us = time.time_ns() // 1000
    shown = kinds[kind][1](scene, dice)
    if not is_last and dice.random() < SHARE_AT_ONCE:
        log.fault(scene.spec, kind, done=shown, pause_s=None)
        time.sleep(dice.uniform(0.0, AT_ONCE_S_MAX))
        return
    scene.wait_delivered(at_us)
    pause_s = time.time() - at_us / 1e6
    scene.wait_whole()
    log.fault(scene.spec, kind, done=shown, pause_s=round(pause_s, 2))
    time.sleep(dice.uniform(0.0, PAUSE_S_MAX))


if __name__ == "__main__":
    sys.exit(main())
