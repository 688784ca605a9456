"""A running total per key, live: how late a change can be read, and changes per second.

Events come from a topic with two partitions, all of a key in one of them, so that every system
counts a key's events in the same order. Our job writes the newest row of each key to a compacted
topic or to a PostgreSQL table; peers write to a topic. Latency is from when an event was due until
its total, or a newer one of its key, can be read there. Throughput: events of a backlog per second
from the first total that can be read to the last one. Every total is compared with the right one.
Peers come from ``make bench-peers``. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from live.changes import answered, totals  # noqa: E402
from live.events import OUT_TOPIC, PARTITIONS, SIDE_TOPIC, TOPIC, Step, value_of  # noqa: E402
from live.latency import READY_WAIT_S, asked, child  # noqa: E402
from live.systems import SYSTEMS, Order, Running, System  # noqa: E402

from tests.support.brokers import Broker  # noqa: E402
from tests.support.postgres_server import PostgresServer  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACES = ("kafka", "postgres")
PEERS = ("bytewax", "pathway", "flink")
NOT_INSTALLED = "not installed: make bench-peers"
WARM_RATE, WARM_STEP_S, WARM_S = 1_000, 1.0, 0.5
#: The last events of a partition are emitted only after later events of the other partition, us.
TAIL_US = 150_000
#: A system keeps up with a step if all results can be read within this time after it, s.
KEPT_UP_S = 2.0
#: Partitions without new events follow the clock after a second.
LAST_WAIT_S = 10.0
DRAINED_WAIT_S = 120.0
_ASKED_S = 0.02


class Bench:
    """The broker, the generator and the watcher of one run."""

    def __init__(self, folder: Path, keys: int, dsn: str, table: str) -> None:
        self._cleanup = contextlib.ExitStack()
        self.keys, self.steps = keys, list[Step]()
        (folder / "broker").mkdir(parents=True)
        self.broker = Broker(folder / "broker", waits=True)
        self.broker.start()
        self._cleanup.callback(self.broker.stop)
        for topic in (TOPIC, SIDE_TOPIC, OUT_TOPIC):
            self.broker.create_topic(topic, PARTITIONS)
        where = ("postgres", dsn, table) if dsn else ("kafka", self.broker.servers, OUT_TOPIC)
        self.watcher = self._child("live.changes", *where)
        self.generator = self._child("live.load", self.broker.servers)

    def _child(self, module: str, *arguments: str) -> Any:
        process = child(module, *arguments)
        self._cleanup.callback(process.communicate)
        self._cleanup.callback(process.kill)
        return process

    def close(self) -> None:
        """Stop all processes of the run."""
        self._cleanup.close()

    def send(self, rate: int, seconds: float) -> dict[str, Any]:
        """Send one step of load, and return the report of the generator."""
        order = {"number": len(self.steps), "rate": rate, "seconds": seconds}
        order |= {"keys": self.keys, "by_key": True}
        self.generator.stdin.write(json.dumps(order) + "\n")
        self.generator.stdin.flush()
        self.generator.stdout.readline()
        told: dict[str, Any] = json.loads(self.generator.stdout.readline())
        self.steps.append(Step(**told["step"]))
        return told

    def fill(self, rows: int) -> None:
        """Write a step of past events into the topic at once."""
        step = Step(0, (int(time.time()) - 3_600) * 1_000_000, 100_000, rows, 0, self.keys, True)
        producer = self.broker.producer(linger_ms=20, queue_buffering_max_messages=2_000_000)
        for row in zip(*(column.tolist() for column in step.events()), strict=True):
            producer.produce(TOPIC, value_of(*row), partition=row[1] % PARTITIONS)
        if left := producer.flush(DRAINED_WAIT_S):
            raise TimeoutError(f"{left} messages were not taken")
        self.steps.append(step)

    def read(self) -> int:
        """Return the number of events that the readable rows account for."""
        return asked(self.watcher, "count")

    def wait(self, events: int, until_s: float, running: Running) -> bool:
        """Wait until the results account for this number of events; return whether they do."""
        while (count := self.read()) < events and time.time() < until_s and not running.ended:
            time.sleep(_ASKED_S)
        return count >= events

    def saved(self, path: Path) -> np.ndarray:
        """Have the watcher save its results, and return them."""
        asked(self.watcher, f"save {path}")
        return np.load(path)


@contextlib.contextmanager
def running_on(
    system: System, place: str, aim: str, keys: int, executor: str
) -> Iterator[tuple[Bench, Order]]:
    """Return a bench with an empty topic, and the order for the system."""
    with contextlib.ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="changes-")))
        dsn, out = "", OUT_TOPIC
        if place == "postgres":
            server = PostgresServer(fsync=True)
            cleanup.callback(server.close)
            dsn, out = server.dsn, "totals"
        bench = Bench(folder, keys, dsn, out)
        cleanup.callback(bench.close)
        (folder / "system").mkdir()
        servers, place_ = bench.broker.servers, str(folder / "system")
        order = Order("total", servers, TOPIC, out, place_, aim, executor=executor, dsn=dsn)
        yield bench, order


def latency(
    system: System, place: str, rates: list[int], seconds: float, keys: int, executor: str
) -> dict[str, Any]:
    """Return percentiles by rate, and the missing or wrong events and totals."""
    with running_on(system, place, "latency", keys, executor) as (bench, order):
        running = Running(system, order)
        kept, used = {}, {}
        try:
            bench.send(WARM_RATE, WARM_STEP_S)
            if not bench.wait(1, time.time() + READY_WAIT_S, running):
                return {"problem": f"no answer in {READY_WAIT_S:g} s", "told": running.told()}
            bench.wait(bench.steps[0].rows // 2, time.time() + KEPT_UP_S, running)
            for rate in rates:
                before_s = running.cpu_s()
                told = bench.send(rate, seconds)
                settled = totals(bench.steps)[:, 0] <= bench.steps[-1].last_us - TAIL_US
                until_s = time.time() + KEPT_UP_S
                kept[rate] = bench.wait(int(settled.sum()), until_s, running) and not told["left"]
                used[rate] = (running.cpu_s() - before_s) / bench.steps[-1].rows * 1e6
                if not kept[rate]:
                    break
            right = totals(bench.steps)
            bench.wait(len(right), time.time() + LAST_WAIT_S, running)
            missing = len(right) - bench.read()
            found = bench.saved(Path(order.folder) / "read.npy")
        finally:
            running.stop(at_once=True)
        done = answered(found, right)
        steps = zip(rates, bench.steps[1:], strict=False)
        found_rates = {rate: late(step, right, done.read_us) for rate, step in steps}
    for rate, found_rate in found_rates.items():
        found_rate |= {"kept_up": kept[rate], "cpu_us_per_event": round(used[rate], 1)}
    return {"rates": found_rates, "missing": missing, "wrong": done.wrong}


def late(step: Step, right: np.ndarray, read_us: np.ndarray) -> dict[str, Any]:
    """Return the latencies of a step's results in ms, without the first moments and the end."""
    due = right[:, 0]
    counted = (due > step.started_us + WARM_S * 1e6) & (due <= step.last_us - TAIL_US)
    waited = (read_us - due)[counted & (read_us > 0)] / 1e3
    if not len(waited):
        return {"p50_ms": None, "p99_ms": None, "most_ms": None, "within_1_s": 0.0}
    p50, p99, most = np.percentile(waited, [50, 99, 100]).round(1).tolist()
    share = round(float((waited <= 1_000).sum() / counted.sum()), 5)
    return {"p50_ms": p50, "p99_ms": p99, "most_ms": most, "within_1_s": share}


def throughput(system: System, place: str, rows: int, keys: int, executor: str) -> dict[str, Any]:
    """Return the events of a backlog per second, and the missing or wrong rows at the end."""
    with running_on(system, place, "throughput", keys, executor) as (bench, order):
        bench.fill(rows)
        running = Running(system, order)
        try:
            if not bench.wait(1, time.time() + READY_WAIT_S, running):
                return {"problem": f"no answer in {READY_WAIT_S:g} s", "told": running.told()}
            used_s = running.cpu_s()
            bench.wait(rows, time.time() + DRAINED_WAIT_S, running)
            missing = rows - bench.read()
            used_s = running.cpu_s() - used_s
            found = bench.saved(Path(order.folder) / "read.npy")
        finally:
            running.stop(at_once=True)
        done = answered(found, totals(bench.steps))
    first_us = done.read_us[done.read_us > 0].min()
    after = done.read_us > first_us
    took_s = (done.read_us.max() - first_us) / 1e6
    return {
        "per_s": int(after.sum() / took_s) if took_s else None,
        "rows_read": len(found),
        "cpu_us_per_event": round(used_s / max(1, int(after.sum())) * 1e6, 2),
        "missing": missing,
        "wrong": done.wrong,
    }


def main() -> None:
    """Measure everything; print a line per measurement, then JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--systems", nargs="*", choices=["ours", *PEERS], default=["ours", *PEERS])
    parser.add_argument("--places", nargs="*", choices=PLACES, default=list(PLACES))
    parser.add_argument("--seconds", type=float, default=5.0, help="of load at each rate")
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=500_000, help="of the backlog; 0: none")
    parser.add_argument("--executor", choices=["spark", "local"], default="spark")
    args = parser.parse_args()
    result: dict[str, Any] = {}
    for name in args.systems:
        system = SYSTEMS[name]
        for place in args.places if name == "ours" else ["kafka"]:
            load, found = round(os.getloadavg()[0], 1), {"problem": NOT_INSTALLED}
            if system.is_installed:
                given = (args.keys, args.executor)
                found = {
                    "load": load,
                    "latency": latency(system, place, args.rates, args.seconds, *given),
                }
                if args.rows:
                    found["throughput"] = throughput(system, place, args.rows, *given)
            result[f"{name}, {place}"] = found
            print(f"{name}, {place}: {json.dumps(found)}", flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
