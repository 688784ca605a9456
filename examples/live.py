"""``make live``: delivers live flights exactly once, in spite of failures.

Starts a broker, replays the flights of 2013 into it, runs ``live_query.py`` on Spark and shows the
committed messages of the topic ``delays``. Meanwhile it kills a worker, freezes the broker, and
kills the driver and resumes the job. At the end it compares the topic with the batch answer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import flights
import noida_db
import pyarrow.dataset as pads
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from live_feed import PARTITIONS, PHASES
from live_query import DELAYS, FLIGHTS, WEATHER
from rich.console import Console
from rich.live import Live
from rich.table import Table

import streamscope as ss

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
BROKER_START_S = 20.0
#: How long the job may take to deliver the remaining rows once the year is over, s.
FINISH_S = 90.0
STATUS_WAIT_S = 60.0
#: Shares of the year at which the failures happen.
WORKER_KILLED, BROKER_FROZEN, DRIVER_KILLED = 0.25, 0.375, 0.7
FROZEN_FOR = 0.05
READ_S = 30.0
TOPICS = {FLIGHTS: PARTITIONS, WEATHER: 1, DELAYS: PARTITIONS}
SHOWN_ROWS = 8
Row = dict[str, Any]
#: A failure: the condition under which it is due, given the elapsed share of the time; its name;
#: its action.
Trouble: TypeAlias = tuple["Callable[[float], bool]", str, "Callable[[], None]"]


def main() -> None:
    """Run the demo; exit with 1 if the topic differs from the batch result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="how long the year takes")
    parser.add_argument("--executor", choices=["spark", "local"], default="spark")
    args = parser.parse_args()
    console = Console()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that child processes are ended
    flights.inputs()
    folder = Path(tempfile.mkdtemp(prefix="streamscope-live-"))
    began = time.monotonic()
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        broker = Broker(folder / "broker")
        cleanup.callback(broker.stop)
        job = LiveJob(folder / "job", broker.servers, args.executor)
        cleanup.callback(job.kill)
        arrived = Arrivals(broker.servers)
        cleanup.callback(arrived.stop)
        job.start()
        job.wait_running()
        feed = Feed(broker.servers, args.seconds)
        cleanup.callback(feed.kill)
        frozen_s = FROZEN_FOR * args.seconds
        troubles: list[Trouble] = [
            (after(WORKER_KILLED), "a worker was killed", job.kill_worker),
            (
                in_silence,
                f"the broker was frozen for {frozen_s:.1f} s",
                lambda: broker.freeze(frozen_s),
            ),
            (
                after(DRIVER_KILLED),
                "the driver was killed and the job resumed",
                job.kill_and_resume,
            ),
        ]
        show_until(feed, arrived, troubles, console)
        feed.check()
        job.finish()
        console.print(f"{time.monotonic() - began:.0f} s; comparing with the batch answer ...")
        expected = batch_answer(folder)
        found = all_rows(broker.servers)
        verdict = compare(found, expected)
        if late := job.late_rows():
            verdict += f"; {late} rows were late"
    console.print(verdict)
    if not verdict.startswith("equal"):
        raise SystemExit(1)


def after(moment: float) -> Callable[[float], bool]:
    """Return a condition: whether this share of the time has passed."""
    return lambda share: share > moment


def in_silence(share: float) -> bool:
    """Return a condition: whether partition 3 has just become silent.

    If it resumed while the broker is frozen, the rows of the other partitions would be read first,
    and its own would be late.
    """
    return share > BROKER_FROZEN and 1 < share * PHASES % 2 < 1 + 1 / 5


class Broker:
    """A separate broker process for the demo, with its topics."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.servers = f"127.0.0.1:{port}"
        folder.mkdir(parents=True)
        # Run the module: the script on the path would run it in a further child process.
        command = [str(Path(noida_db.__file__).parent / "noida-db"), "start", "--only", "kafka"]
        command += ["--kafka-port", str(port), "--data-dir", str(folder)]
        self._log = (folder.parent / "broker.log").open("wb")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        wait_for(lambda: is_up(admin), BROKER_START_S, "the broker to start")
        for future in admin.create_topics([NewTopic(t, n, 1) for t, n in TOPICS.items()]).values():
            future.result(BROKER_START_S)

    def freeze(self, seconds: float) -> None:
        """Stop the broker from answering for some seconds."""
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the broker."""
        self._process.kill()
        self._process.wait()
        self._log.close()


class Feed:
    """The process that produces the flights, and reports when each phase begins."""

    def __init__(self, servers: str, seconds: float) -> None:
        self._phase_s = seconds / PHASES
        #: The current phase, and when it began.
        self._phase = 0, float("inf")
        command = [sys.executable, str(HERE / "live_feed.py"), servers, str(seconds)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        threading.Thread(target=self._listen, daemon=True).start()

    def share(self) -> float:
        """Return which share of the year has been produced."""
        phase, began = self._phase
        past = max(0.0, time.monotonic() - began) / self._phase_s
        return (phase + min(past, 0.99)) / PHASES

    def is_running(self) -> bool:
        """Return whether it is still producing."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raise an error unless the whole year was produced."""
        if self._process.wait() != 0:
            raise SystemExit("the feed failed")

    def kill(self) -> None:
        """End the process."""
        self._process.kill()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "phase" in said:
                self._phase = said["phase"], time.monotonic()


class LiveJob:
    """The job as a process, started by ``jobmanager run``."""

    def __init__(self, root: Path, servers: str, executor: str) -> None:
        self._root = root
        self._executor = executor
        self._environment = {**os.environ, "LIVE_SERVERS": servers}
        self._process: subprocess.Popen[bytes] | None = None
        #: Number of drivers started so far; each has its own epoch.
        self._lives = 0
        self._log = (root.parent / "job.log").open("wb")

    def start(self) -> None:
        """Run the query."""
        query, options = str(HERE / "live_query.py"), ["--executor", self._executor]
        self._launch("run", query, "--root", str(self._root), *options)

    def wait_running(self) -> None:
        """Wait until every vertex runs."""
        wait_for(lambda: self._status().get("state") == "running", STATUS_WAIT_S, "the job to run")

    def kill_worker(self) -> None:
        """Send SIGKILL to one of the processes in which vertices run."""
        pids = {v["pid"] for v in self._status()["vertices"] if v.get("pid")}
        others = pids - {self._process.pid if self._process else 0}
        if others:
            os.kill(min(others), signal.SIGKILL)

    def kill_and_resume(self) -> None:
        """Send SIGKILL to the driver; a new one continues the job."""
        self.kill()
        self._launch("resume", str(self._root))

    def finish(self) -> None:
        """End the sources at their positions, and wait until all rows are delivered."""
        # A driver that starts ignores requests to its predecessor.
        wait_for(
            lambda: self._status().get("manager_epoch", 0) >= self._lives,
            STATUS_WAIT_S,
            "the resumed job to update its root",
        )
        self._jobmanager("stop", "--finish", str(self._root))
        assert self._process is not None
        try:
            failed = self._process.wait(FINISH_S) != 0
        except subprocess.TimeoutExpired:
            told = self._jobmanager("status", str(self._root))
            raise SystemExit(
                f"the job does not end:\n{told}\n{tail(Path(self._log.name))}"
            ) from None
        if failed:
            raise SystemExit(f"the job failed:\n{tail(Path(self._log.name))}")

    def late_rows(self) -> int:
        """Return how many flights and reports arrived too late to be counted."""
        return int(self._told()["late_events"])

    def kill(self) -> None:
        """Send SIGKILL to the driver."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _launch(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "jobmanager", *arguments]
        self._lives += 1
        self._process = subprocess.Popen(
            command, env=self._environment, stdout=self._log, stderr=self._log
        )

    def _status(self) -> Row:
        assert self._process is not None
        if self._process.poll() is not None:
            raise SystemExit(f"the job ended:\n{tail(Path(self._log.name))}")
        return self._told()

    def _told(self) -> Row:
        answer = self._jobmanager("status", str(self._root), "--json")
        status: Row = json.loads(answer.splitlines()[-1]) if answer.strip() else {}
        return status

    def _jobmanager(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "jobmanager", *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, check=False)
        return done.stdout.decode()


class Arrivals:
    """Reads the committed messages of the topic ``delays``."""

    def __init__(self, servers: str) -> None:
        self._consumer = committed_reader(servers)
        self._rows: list[Row] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def newest(self, n: int) -> list[Row]:
        """Return the last rows that arrived."""
        return self._rows[-n:]

    def count(self) -> int:
        """Return how many rows arrived."""
        return len(self._rows)

    def stop(self) -> None:
        """Stop reading."""
        self._stopped.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._stopped.is_set():
            for message in self._consumer.consume(1000, timeout=0.1):
                error = message.error()
                if error is None:
                    self._rows.append(json.loads(message.value()))
                elif error.code() != KafkaError._PARTITION_EOF and error.fatal():
                    raise SystemExit(str(error))


def committed_reader(servers: str) -> Consumer:
    """Return a consumer of the committed messages of ``delays``, from the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "table",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(DELAYS, k, 0) for k in range(TOPICS[DELAYS])])
    return consumer


def all_rows(servers: str) -> list[Row]:
    """Return all messages of the topic, read again."""
    consumer = committed_reader(servers)
    rows: list[Row] = []
    unread = set(range(TOPICS[DELAYS]))
    until = time.monotonic() + READ_S
    while unread and time.monotonic() < until:
        for message in consumer.consume(1000, timeout=0.5):
            error = message.error()
            if error is None:
                rows.append(json.loads(message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
    consumer.close()
    return rows


def show_until(
    feed: Feed,
    arrived: Arrivals,
    troubles: list[Trouble],
    console: Console,
) -> None:
    """Show arriving rows until the feed ends, and cause each failure at its time."""
    began = time.monotonic()
    events: list[str] = []
    with Live(console=console, refresh_per_second=4) as live:
        while feed.is_running():
            elapsed = time.monotonic() - began
            if troubles and troubles[0][0](feed.share()):
                _, text, act = troubles.pop(0)
                act()
                events.append(f"{elapsed:5.1f} s: {text}")
            live.update(table_of(arrived, events))
            time.sleep(0.2)
    for _, text, act in troubles:
        act()
        console.print(text)


def table_of(arrived: Arrivals, events: list[str]) -> Table:
    """Return the newest windows, and the failures so far."""
    title = f"topic {DELAYS}: {arrived.count():,} windows, read committed"
    table = Table(title=title, caption="\n".join(events))
    columns = ("window_start", "origin", "sky", "flights", "cancelled", "mean_delay")
    for name in columns:
        table.add_column(name, justify="left" if name in columns[:3] else "right")
    for row in arrived.newest(SHOWN_ROWS):
        table.add_row(*(shown(row.get(name)) for name in columns))
    return table


def shown(value: object) -> str:
    """Return a cell of the table."""
    return f"{value:.1f}" if isinstance(value, float) else "" if value is None else str(value)


def batch_answer(folder: Path) -> list[Row]:
    """Return the same windows, computed over the files that the feed replays."""
    job = ss.run(flights.query(), root=str(folder / "batch"), executor="local")
    job.wait()
    rows: list[Row] = pads.dataset(job.output).to_table().to_pylist()
    return rows


def compare(found: list[Row], expected: list[Row]) -> str:
    """Return a sentence that begins with "equal" if both have the same rows, each once."""
    left, right = (sorted(map(key_of, rows)) for rows in (found, expected))
    if left == right:
        return f"equal: {len(left):,} windows, each exactly once"
    missing, extra = len(set(right) - set(left)), len(left) - len(set(left) & set(right))
    told = f"{len(left):,} arrived, {len(right):,} expected, {missing} missing, {extra} extra"
    return f"NOT EQUAL: {told}"


def key_of(row: Row) -> str:
    """Return a row as text, which is equal for equal values."""
    times = {k: moment(v) for k, v in row.items() if k in ("window_start", "window_end")}
    # JSON has only one kind of number, so a reader of 5.0 may get 5.
    values = {k: float(v) if isinstance(v, int) else v for k, v in row.items()}
    return json.dumps({**values, **times}, sort_keys=True)


def moment(value: object) -> str:
    """Return a time of a message or of a table as text."""
    time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return time.replace(tzinfo=None).isoformat()


def is_up(admin: AdminClient) -> bool:
    """Return whether the broker answers."""
    with suppress(KafkaException):
        return bool(admin.list_topics(timeout=1).brokers)
    return False


def wait_for(is_true: Callable[[], bool], limit_s: float, what: str) -> None:
    """Wait until the condition is true."""
    until = time.monotonic() + limit_s
    while not is_true():
        if time.monotonic() > until:
            raise SystemExit(f"waited {limit_s:.0f} s for {what}")
        time.sleep(0.2)


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def tail(log: Path) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


if __name__ == "__main__":
    main()
