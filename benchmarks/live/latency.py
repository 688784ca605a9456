"""One system with one query at rising rates: the latency of results, and the rate it sustains.

Each rate is a step of open load. The system keeps up with a step if all results can be read within
``KEPT_UP_S`` after the due time of the last event. The sweep ends at the first step with which it
does not keep up; the results per second during this step are the sustained rate. If it keeps up
with all steps, one more step requests more than the generator can send.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import KafkaError
from processes import usage_of

from live.events import (
    OUT_TOPIC,
    PARTITIONS,
    SIDE_TOPIC,
    SIDES_PER_S,
    TOPIC,
    Step,
    expected,
    judged,
    rows_of,
)
from live.reading import consumer_of
from live.systems import Order, Running, System
from tests.support.brokers import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KEPT_UP_S = 1.0
READY_WAIT_S = 120.0
WARM_RATE, WARM_STEP_S = 1_000, 1.0
#: If no further result arrives in this time, the first step is over, s.
SETTLED_S = 0.5
#: The first moments of a step do not count.
WARM_S = 0.5
#: The last windows of a step close only when something later arrives: the next step. The same holds
#: for the last events of a join. So the end of a step is not measured, us.
TAIL_US = {"filter": 0, "scarce": 0, "window": 150_000, "join": 150_000}
#: How long to wait for rows after the last step, before they count as missing, s.
LATE_WAIT_S = 3.0
#: More than any system, and the generator, can process on two cores.
MOST_RATE, MOST_S = 300_000, 1.2
HERE = Path(__file__).parent.parent
_ASKED_S = 0.02
#: Share of the rows of a step. With fewer, the system is behind, rather than losing rows.
NEARLY_ALL = 0.98
#: Share of the first rows after which the system counts as running.
SOME = 0.3


@dataclass
class Measured:
    """A step that was sent, and its measurements."""

    step: Step
    kept_up: bool
    behind_ms: float
    #: Processor time of the system during the step and until its results arrived, s.
    cpu_s: float
    broker_cpu_s: float


@dataclass
class Bench:
    """The broker, the generator and the reader of one run."""

    broker: Broker
    generator: subprocess.Popen[str]
    reader: subprocess.Popen[str]
    query: str
    steps: list[Step] = field(default_factory=list)
    #: Rows that result from the warm-up step; late rows among them are ignored.
    warm_rows: int = 0

    def ask(self, words: str = "count") -> int:
        """Return the number of messages that the reader has; ``save PATH`` makes it write them."""
        return asked(self.reader, words)

    def send(self, rate: int, seconds: float) -> int:
        """Order a step; return when it starts."""
        sides = SIDES_PER_S if self.query == "join" else 0
        number = len(self.steps)
        order = {"number": number, "rate": rate, "seconds": seconds, "sides_per_s": sides}
        return int(_answer(self.generator, json.dumps(order)))

    def sent(self) -> dict[str, Any]:
        """Return the report of the generator at the end of a step."""
        assert self.generator.stdout is not None
        told: dict[str, Any] = json.loads(self.generator.stdout.readline())
        self.steps.append(Step(**told["step"]))
        return told

    def wanted(self) -> int:
        """Return the number of rows that all steps together must produce."""
        tail_us = TAIL_US[self.query]
        rows = expected(self.query, self.steps[bool(self.warm_rows) :])
        return self.warm_rows + int((rows[:, 0] <= self.steps[-1].last_us - tail_us).sum())

    def answered(self, until_s: float, share: float = NEARLY_ALL) -> bool:
        """Wait for all rows until a wall time; return whether this share of them has arrived.

        A system that drops late events never returns all rows: then it is wrong, not slow.
        """
        wanted = self.wanted()
        while (count := self.ask()) < wanted and time.time() < until_s:
            time.sleep(_ASKED_S)
        return count >= wanted * share


def asked(reader: subprocess.Popen[str], words: str) -> int:
    """Send a command to a reader, and return its answer: its number of messages."""
    return int(_answer(reader, words))


def _answer(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline()


@contextlib.contextmanager
def bench(query: str, folder: Path) -> Iterator[Bench]:
    """Return a separate broker with empty topics, a generator and a reader."""
    (folder / "broker").mkdir()
    broker = Broker(folder / "broker", waits=True)
    broker.start()
    children = []
    try:
        for topic in (TOPIC, SIDE_TOPIC, OUT_TOPIC):
            broker.create_topic(topic, PARTITIONS)
        children += [child("live.load", broker.servers)]
        children += [child("live.reading", broker.servers, OUT_TOPIC)]
        yield Bench(broker, *children, query=query)
    finally:
        for process in children:
            process.kill()
            process.communicate()
        broker.stop()


def child(module: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a process that runs a module of this benchmark."""
    environment = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}"}
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def swept(
    system: System,
    query: str,
    rates: Sequence[int],
    seconds: float,
    folder: Path,
    executor: str = "spark",
    most: int = MOST_RATE,
    wait_ms: int = 50,
) -> dict[str, Any]:
    """Return latencies by rate, the sustained rate, processor time, memory, and correctness."""
    (folder / "system").mkdir()
    with bench(query, folder) as run:
        order = Order(
            query,
            run.broker.servers,
            TOPIC,
            OUT_TOPIC,
            str(folder / "system"),
            executor=executor,
            wait_ms=wait_ms,
        )
        running = Running(system, order)
        try:
            if not warmed(run, running):
                return {"problem": f"no answer in {READY_WAIT_S:g} s", "told": running.told()}
            measured = []
            for rate in [*rates, most] if most else rates:
                step_s = MOST_S if rate == most else seconds
                measured.append(one_step(run, running, rate, step_s))
                if not measured[-1].kept_up:
                    break
            if measured[-1].kept_up:
                run.answered(time.time() + LATE_WAIT_S)
            path = folder / "read.npy"
            run.ask(f"save {path}")
            told = running.told() if running.ended else ""
        finally:
            running.stop(at_once=True)
        return {**result_of(run, measured, path), "peak_bytes": running.peak_bytes, "told": told}


def warmed(run: Bench, running: Running) -> bool:
    """Send events until the system answers; return whether it does."""
    run.send(WARM_RATE, WARM_STEP_S)
    run.sent()
    until_s = time.time() + READY_WAIT_S
    while not run.answered(time.time() + 1, SOME):
        if time.time() > until_s or running.ended:
            return False
    while run.warm_rows < (count := run.ask()):  # ends with the answers to this step
        run.warm_rows = count
        time.sleep(SETTLED_S)
    return True


def one_step(run: Bench, running: Running, rate: int, seconds: float) -> Measured:
    """Send one step and wait for its results."""
    started_us = run.send(rate, seconds)
    time.sleep(max(0.0, started_us / 1e6 - time.time()))
    used_s, broker_s = running.cpu_s(), usage_of([run.broker.pid]).cpu_s
    told = run.sent()
    step = run.steps[-1]
    kept_up = not told["left"] and run.answered(step.last_us / 1e6 + KEPT_UP_S)
    return Measured(
        step,
        kept_up,
        told["behind_ms"],
        running.cpu_s() - used_s,
        usage_of([run.broker.pid]).cpu_s - broker_s,
    )


def result_of(run: Bench, measured: list[Measured], path: Path) -> dict[str, Any]:
    """Return the results of a run, from the rows that were read."""
    at_us = np.load(path)
    values = Path(f"{path}.values").read_bytes().split(b"\n") if len(at_us) else []
    found = rows_of(run.query, values)
    kept = [one.step for one in measured if one.kept_up] or run.steps[:1]
    tail_us = TAIL_US[run.query]
    since_us, settled_us = measured[0].step.started_us, kept[-1].last_us - tail_us
    verdict = judged(run.query, found, run.steps, since_us, settled_us)
    missing = verdict.missing
    # a consumer that has run for long may miss committed messages, so a new one reads them again
    if missing:
        again = rows_of(run.query, all_values(run.broker.servers, OUT_TOPIC))
        missing = judged(run.query, again, run.steps, since_us, settled_us).missing
    rates = {}
    for one in measured:
        step = one.step
        due_us = found[:, 0]
        mine = (due_us > step.started_us + WARM_S * 1e6) & (due_us <= step.last_us - tail_us)
        late_ms = (at_us[mine] - due_us[mine]) / 1e3
        p50, p99 = np.percentile(late_ms, [50, 99]).round(1) if len(late_ms) else (None, None)
        rates[step.rate] = {
            "kept_up": one.kept_up,
            "sent_per_s": int(step.rows / max(1e-9, (step.last_us - step.started_us) / 1e6)),
            "answered_per_s": answered_per_s(run.query, step, at_us, due_us),
            "p50_ms": p50 if one.kept_up else None,
            "p99_ms": p99 if one.kept_up else None,
            "cpu_us_per_event": round(one.cpu_s / step.rows * 1e6, 1) if one.kept_up else None,
            "broker_cpu_us_per_event": round(one.broker_cpu_s / step.rows * 1e6, 1),
            "generator_behind_ms": one.behind_ms,
        }
    return {
        "right": missing == verdict.wrong == 0,
        "rows": len(found),
        "missing": missing,
        "wrong": verdict.wrong,
        "rates": rates,
        "sustained_per_s": max(
            rate["sent_per_s"] if rate["kept_up"] else rate["answered_per_s"]
            for rate in rates.values()
        ),
    }


def answered_per_s(query: str, step: Step, at_us: np.ndarray, due_us: np.ndarray) -> int:
    """Return the events per second whose results could be read during the step."""
    mine = (due_us > step.started_us) & (due_us <= step.last_us)
    read_us = at_us[mine & (at_us <= step.last_us)]
    if len(read_us) < 2 or read_us[-1] == read_us[0]:
        return 0
    share = (read_us > read_us[0]).sum() / max(1, len(expected(query, [step])))
    return int(share * step.rows / (read_us[-1] - read_us[0]) * 1e6)


def all_values(servers: str, topic: str) -> list[bytes]:
    """Return the messages that a new consumer can read."""
    consumer = consumer_of(servers, topic, **{"enable.partition.eof": True})
    unread, values = PARTITIONS, list[bytes]()
    while unread:  # ends at the partitions' ends
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                values.append(message.value())
            else:
                unread -= message.error().code() == KafkaError._PARTITION_EOF
    consumer.close()
    return values
