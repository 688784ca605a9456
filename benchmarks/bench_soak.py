"""Checks whether disk, memory or handles grow while a job runs for hours, with a fault each minute.

A generator feeds a topic; a job on Spark counts windows and delivers them, exactly once, into
another topic. Every minute a worker is killed, the driver is killed and the job resumed, or the
broker is frozen. Disk, files, handles, threads and memory of each process, the time until results
arrive again, and their latency are printed by tenths of the run. It fails if one of them grows, or
if the delivered topic is not the batch answer. The broker's own disk does not count, since it keeps
all messages. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from confluent_kafka import TopicPartition  # noqa: E402
from live.reading import next_messages  # noqa: E402
from processes import end_in_order  # noqa: E402
from soak.events import FLUSH_WAIT_S, OUT, PARTITIONS, TOPIC, answer  # noqa: E402
from soak.samples import Sampler, Samples  # noqa: E402
from soak.trimming import Trimming  # noqa: E402
from soak.verdict import has_grown, tenths  # noqa: E402

from tests.support.brokers import Broker  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message

SEED = 13
FROZEN_S = 3.0
RUNNING_S_MAX = 120.0
#: Time from a fault until results arrive again, s; more counts as a failure.
BACK_S_MAX = 300.0
FINISH_S_MAX = 180.0
#: No fault is done in this time before the end, s, so that the remaining rows are delivered.
CALM_S = 30.0
LOG_LINES = 30
DELAY_US = 8_000_000


def main() -> None:
    """Run, print a table and one JSON line; exit with 1 if something grew or a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=20_000, help="events a second")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two faults")
    parser.add_argument("--faults", nargs="*", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--executor", choices=["spark", "local"], default="spark")
    parser.add_argument("--retention", default="delivered", help="of the output")
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    end_in_order()
    with contextlib.ExitStack() as cleanup:
        folder = Path(tempfile.mkdtemp(prefix="streamscope-soak-"))
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        (folder / "broker").mkdir()
        broker = Broker(folder / "broker", waits=True)
        broker.start()
        cleanup.callback(broker.kill)
        broker.create_topic(TOPIC, PARTITIONS)
        broker.create_topic(OUT, 1)
        cleanup.callback(Trimming(broker, TOPIC, PARTITIONS).stop)
        result = Soak(broker, folder, args, cleanup).run()
    print(json.dumps(result))
    if result["grew"] or not result["exact"]:
        raise SystemExit(1)


class Soak:
    """One run of the benchmark."""

    def __init__(
        self,
        broker: Broker,
        folder: Path,
        args: argparse.Namespace,
        cleanup: contextlib.ExitStack,
    ) -> None:
        self.broker, self._args, self._folder = broker, args, folder
        self.samples = Samples()
        self.root = folder / "job"
        self._sampler = Sampler(self.root, self.samples)
        self._environment = {
            **os.environ,
            "SOAK_SERVERS": broker.servers,
            "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}",
        }
        self._log = cleanup.enter_context((folder / "job.log").open("wb"))
        self._process: subprocess.Popen[bytes] | None = None
        cleanup.callback(self.kill_driver)
        self._arrivals = Arrivals(broker, self.samples)
        cleanup.callback(self._arrivals.stop)
        self._events: list[str] = []

    def run(self) -> dict[str, Any]:
        """Run the job with its faults, and return the measurements."""
        args = self._args
        self._launch("run", str(HERE / "soak" / "windows.py"), "--root", str(self.root))
        wait_for(lambda: self.status().get("state") == "running", RUNNING_S_MAX, "the job to run")
        self._sampler.start()
        seconds = args.minutes * 60
        command = [sys.executable, "-m", "soak.events", self.broker.servers, TOPIC]
        load = subprocess.Popen(
            [*command, str(args.rate), str(seconds)],
            env=self._environment,
            stdout=subprocess.PIPE,
        )
        try:
            assert load.stdout is not None
            told = json.loads(load.stdout.readline())
            began_s = time.monotonic()
            self._make_faults(began_s, began_s + seconds - CALM_S)
            said = load.communicate(timeout=CALM_S + FLUSH_WAIT_S + seconds)[0]
        finally:
            load.kill()
            load.wait()
        ended_s = time.monotonic()
        self._sampler.stop()
        self._finish()
        expected = answer(told["began_us"], told["rows"], args.rate)
        found = delivered(self.broker)
        table = {k: tenths(v, began_s, ended_s) for k, v in sorted(self.samples.seen.items())}
        grew = [name for name, values in table.items() if has_grown(name, values)]
        show(table, grew, self._events)
        status = self.status()
        return {
            "minutes": args.minutes,
            "rate": args.rate,
            "events": told["rows"],
            "windows": len(expected),
            "exact": found == sorted((*place, *row) for place, row in expected.items()),
            "delivered": len(found),
            "late_events": status.get("late_events"),
            "generator": json.loads(said),
            "faults": len(self._events),
            "grew": grew,
            "tenths": table,
        }

    def _make_faults(self, began_s: float, until_s: float) -> None:
        chance = random.Random(self._args.seed)
        due_s = began_s + self._args.every
        while self._args.faults and due_s < until_s:
            time.sleep(max(0.0, due_s - time.monotonic()))
            name = chance.choice(self._args.faults)
            at_s, due_us = time.monotonic(), time.time_ns() // 1000 - DELAY_US
            FAULTS[name](self)
            is_back = functools.partial(self._arrivals.has, due_us)
            try:
                wait_for(is_back, BACK_S_MAX, f"answers after {name}")
            except SystemExit as failure:
                raise SystemExit(f"{failure}: {self.status()}\n{self._last_lines()}") from None
            back_s = time.monotonic() - at_s
            self.samples.add(f"after_{name}_s", at_s, back_s)
            self._events.append(f"{(at_s - began_s) / 60:6.1f} min: {name}, {back_s:.1f} s")
            print(self._events[-1], flush=True)
            due_s += self._args.every

    def kill_driver(self) -> None:
        """Send SIGKILL to the process of the job manager."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def resume(self) -> None:
        """Start another job manager, which continues the job."""
        self._launch("resume", str(self.root))

    def workers(self) -> list[int]:
        """Return the processes in which vertices run, besides the driver."""
        assert self._process is not None
        pids = {v["pid"] for v in self.status().get("vertices", ()) if v.get("pid")}
        return sorted(pids - {self._process.pid})

    def status(self) -> dict[str, Any]:
        """Return the newest status that the job wrote."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.root / "status.json").read_text())
            return found.get("document", found)
        return {}

    def _launch(self, verb: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "jobmanager", verb, *arguments]
        command += ["--executor", self._args.executor, "--retention", self._args.retention]
        if self._args.executor == "spark":
            command += ["--master", "local[4]"]
        self._process = subprocess.Popen(
            command, env=self._environment, stdout=self._log, stderr=self._log
        )
        self._sampler.pid = self._process.pid

    def _finish(self) -> None:
        assert self._process is not None
        command = [sys.executable, "-m", "jobmanager", "stop", "--finish", str(self.root)]
        subprocess.run(command, env=self._environment, check=True, capture_output=True)
        if self._process.wait(FINISH_S_MAX) != 0:
            raise SystemExit(f"the job failed:\n{self._last_lines()}")

    def _last_lines(self) -> str:
        log = (self._folder / "job.log").read_text(errors="replace")
        return "\n".join(log.splitlines()[-LOG_LINES:])


def kill_worker(soak: Soak) -> None:
    """Kill one process that runs vertices."""
    workers = soak.workers()
    if workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(workers[0], signal.SIGKILL)


def kill_driver(soak: Soak) -> None:
    """Kill the driver; another one resumes the job at once."""
    soak.kill_driver()
    soak.resume()


def freeze_broker(soak: Soak) -> None:
    """Stop the broker from answering for a while."""
    with soak.broker.frozen():
        time.sleep(FROZEN_S)


FAULTS: dict[str, Callable[[Soak], None]] = {
    "worker": kill_worker,
    "driver": kill_driver,
    "broker": freeze_broker,
}


class Arrivals:
    """Reads committed results and records their latency."""

    def __init__(self, broker: Broker, samples: Samples) -> None:
        self._broker, self._samples = broker, samples
        self._newest_us = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)
        self._thread.start()

    def has(self, end_us: int) -> bool:
        """Return whether a window with a later end has arrived."""
        return self._newest_us > end_us

    def stop(self) -> None:
        """Stop reading."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with self._broker.consumer(isolation_level="read_committed") as consumer:
            consumer.assign([TopicPartition(OUT, 0, 0)])
            while not self._over.is_set():
                for message in next_messages(consumer, 0.05):
                    if message.error() is None:
                        self._take(message)

    def _take(self, message: Message) -> None:
        now_us = time.time_ns() // 1000
        value = message.value()
        assert value is not None
        end_us = window_end(json.loads(value))
        self._newest_us = max(end_us, self._newest_us)
        self._samples.add("latency_ms", time.monotonic(), (now_us - end_us - DELAY_US) / 1000)


def delivered(broker: Broker) -> list[tuple[int, ...]]:
    """Return all committed results, sorted: window end, key, number, total."""
    rows = (json.loads(r.value) for r in broker.read_committed(OUT) if r.value is not None)
    return sorted((window_end(row), row["key"], row["n"], row["total"]) for row in rows)


def window_end(row: dict[str, Any]) -> int:
    """Return the end of the window, microseconds since 1970."""
    found = datetime.fromisoformat(row["window_end"]).replace(tzinfo=UTC)
    return (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def show(table: dict[str, list[float | None]], grew: list[str], events: list[str]) -> None:
    """Return the results as a readable table."""
    for name, values in table.items():
        cells = " ".join("       -" if v is None else f"{v:8.1f}" for v in values)
        print(f"{name:22} {cells}{'  GREW' if name in grew else ''}")
    print(f"{len(events)} faults")


def wait_for(is_true: Callable[[], bool], limit_s: float, what: str) -> None:
    """Wait until the condition is true."""
    until = time.monotonic() + limit_s
    while not is_true():
        if time.monotonic() > until:
            raise SystemExit(f"waited {limit_s:.0f} s for {what}")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
