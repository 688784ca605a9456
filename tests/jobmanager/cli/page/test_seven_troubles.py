"""Seven problems of live jobs: page, metrics, doctor and alerts report each.

Each job is real and gets its problem while it runs. ``-s`` prints the seconds, at most 15 on an
idle machine; the test asserts no limit, because other tests run at the same time. Alerts are those
of docs/howto/monitoring/alerts.yml, which promtool evaluates over the scraped values.

Not covered: the time until Prometheus scrapes, which its configuration sets.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

import streamscope as ss
from jobmanager import JobConfig
from jobmanager.cli.page import verbs
from tests.jobmanager.cli.page.served import Served
from tests.rooms import ROOT
from tests.support.feed import Feed
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import Watch, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.brokers import Broker

pytestmark = pytest.mark.slow
ALERTS = ROOT / "docs" / "howto" / "monitoring" / "alerts.yml"
#: The kind of the finding, per job.
KINDS = {
    "dead-delivery": "delivery ended",
    "idle-partition": "idle partition",
    "far-future": "odd times",
    "hot-key": "skew",
    # The job can no longer write its status there, so the page checks the disk itself.
    "full-disk": "disk",
    # Its output is on the full disk, so the job itself reports the store's error.
    "full-output": "store",
    "no-memory": "memory",
    "slow-lookup": "slow calls",
}
REPEATED_S = 0.2
PLACES = ("page", "metrics", "alert", "doctor")
QUICK = with_limits(JobConfig(), checkpoint_interval_s=0.2, lease_s=0.5)


@dataclass
class Trial:
    """The jobs, when each got its problem, and when each place reported it."""

    folder: Path
    closing: contextlib.ExitStack
    jobs: list[ss.Job] = field(default_factory=list)
    began_s: dict[str, float] = field(default_factory=dict)
    shown_s: dict[tuple[str, str], float] = field(default_factory=dict)

    def run(self, name: str, query: ss.Query | ss.Stream) -> Watch:
        watch = Watch()
        self.jobs.append(
            ss.run(
                query,
                root=str(self.folder / name),
                executor="local",
                config=QUICK,
                on_status=watch,
            )
        )
        return watch

    def repeat(self, action: Callable[[], None]) -> None:
        """Call ``action`` in a thread, several times a second, until the end of the test."""
        has_ended = threading.Event()

        def work() -> None:
            while not has_ended.wait(REPEATED_S):
                action()

        thread = threading.Thread(target=work)
        self.closing.callback(thread.join)
        self.closing.callback(has_ended.set)
        thread.start()

    def begins(self, name: str) -> None:
        self.began_s[name] = time.monotonic()

    def note(self, place: str, kinds: dict[str, set[str]]) -> None:
        for name in self.began_s:
            if KINDS[name] in kinds.get(name, ()):
                self.shown_s.setdefault((name, place), time.monotonic() - self.began_s[name])

    @property
    def missing(self) -> list[tuple[str, str]]:
        pairs = [(name, place) for name in self.began_s for place in PLACES]
        return [pair for pair in pairs if pair not in self.shown_s]


class Copied(ss.KeyedProcess):
    output = {"t": "int64"}  # noqa: RUF012

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        ctx.emit(t=event.t)


def refuse(first_seq: int, batch: Any) -> None:
    raise NotImplementedError("no receiver is there")


def fetched(t: int) -> int:
    time.sleep(0.4)
    return t


def grown(folder: Path) -> ss.Stream:
    """The rows of a folder that grows, with one file so far."""
    folder.mkdir()
    write_file(folder, 0)
    return ss.Stream.from_json(str(folder), vs="t", delay="1s", follow=True, poll_every="50ms")


def has_begun(status: dict[str, Any]) -> bool:
    return any(log["position"] for row in status.get("vertices", ()) for log in row["logs"])


def dead_delivery(trial: Trial, broker: Broker) -> None:
    inputs = trial.folder.parent / "dead"
    trial.run("dead-delivery", grown(inputs).to_function(refuse))
    write_file(inputs, 1)
    trial.begins("dead-delivery")


def idle_partition(trial: Trial, broker: Broker) -> None:
    feed, second = Feed(broker, 2), int(time.time()) - 60
    feed.write(0, second)
    feed.write(1, second)
    watch = trial.run("idle-partition", feed.query())
    watch.until(feed.was_read)
    seconds = iter(range(second + 1, second + 10_000))
    trial.repeat(lambda: feed.write(0, next(seconds), rows=5))
    trial.begins("idle-partition")


def far_future(trial: Trial, broker: Broker) -> None:
    feed, second = Feed(broker, 2), int(time.time()) - 5
    feed.write(0, second)
    watch = trial.run("far-future", feed.query())
    watch.until(feed.was_read)
    feed.write(1, second + 10 * 365 * 86_400, rows=1)
    trial.begins("far-future")


def hot_key(trial: Trial, broker: Broker) -> None:
    inputs = trial.folder.parent / "hot"
    stream = grown(inputs).group_by("key").process(Copied, deterministic=True)
    watch = trial.run("hot-key", stream.to_parquet())
    watch.until(has_begun)
    rows = "\n".join(json.dumps({"t": 1_000_000 + 1_000 * t, "key": 3}) for t in range(14_000))
    (inputs / ".part").write_text(rows + "\n")
    (inputs / ".part").rename(inputs / "1.json")
    trial.begins("hot-key")


def slow_lookup(trial: Trial, broker: Broker) -> None:
    inputs = trial.folder.parent / "looked-up"
    stream = grown(inputs).lookup(fetched, {"u": "int64"}, ["t"], concurrency=2)
    trial.run("slow-lookup", stream.to_parquet())
    write_file(inputs, 1)
    trial.begins("slow-lookup")


def full_disk(trial: Trial, broker: Broker) -> None:
    filled(trial, "full-disk", trial.folder / "full-disk")


def full_output(trial: Trial, broker: Broker) -> None:
    filled(trial, "full-output", trial.folder.parent / "output")


def filled(trial: Trial, name: str, disk: Path) -> None:
    """A file system of 4 MiB that another program fills; needs root."""
    inputs = trial.folder.parent / "filling"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        return
    trial.closing.callback(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
    rows, output = grown(inputs), str(disk / "rows")
    watch = trial.run(name, rows.to_parquet(output if name == "full-output" else None))
    watch.until(has_begun)
    with (disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
    numbers = iter(range(1, 10_000))
    trial.repeat(lambda: write_file(inputs, next(numbers)))
    trial.begins(name)


#: A job in its own control group, whose process then uses nearly all of the group's memory.
NEARLY_ALL = """
import pathlib, sys
import streamscope as ss
group, root, inputs, *files = sys.argv[1:]
pathlib.Path(group, "cgroup.procs").write_text("0")
stream = ss.Stream.from_json(inputs, vs="t", delay="1s", follow=True, poll_every="50ms")
job = ss.run(stream.to_parquet(), root=root, executor="local")
print("started", flush=True)
sys.stdin.readline()
limit, used = (int(pathlib.Path(group, name).read_text()) for name in files)
ballast = b"x" * (limit - used - limit // 20)
print("full", flush=True)
sys.stdin.readline()
job.cancel()
job.wait()
"""
#: Bytes of that group: the needs of a Python process with Arrow, plus the ballast.
GROUP_BYTES = 1 << 30
GROUPS = {
    "/sys/fs/cgroup/memory": ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    "/sys/fs/cgroup": ("memory.max", "memory.current"),
}


def no_memory(trial: Trial, broker: Broker) -> None:
    """A job without enough memory; needs root and permission to create control groups."""
    name = f"streamscope-test-{os.getpid()}"
    for home, files in GROUPS.items():
        group = Path(home, name)
        with contextlib.suppress(OSError):
            group.mkdir()
            (group / files[0]).write_text(str(GROUP_BYTES))
            break
    else:
        return
    inputs = trial.folder.parent / "small"
    inputs.mkdir()
    write_file(inputs, 0)
    places = [str(group), str(trial.folder / "no-memory"), str(inputs), *files]
    process = subprocess.Popen(
        [sys.executable, "-c", NEARLY_ALL, *places],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )

    def end() -> None:
        process.communicate("\n", timeout=WAIT_S)
        group.rmdir()

    trial.closing.callback(end)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "started\n"
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "full\n"
    trial.begins("no-memory")


TROUBLES = (
    *(dead_delivery, idle_partition, far_future, slow_lookup, full_disk, full_output),
    *(no_memory, hot_key),
)


def by_doctor(folder: Path) -> dict[str, set[str]]:
    """Return the kinds of findings per job, from ``jobmanager doctor FOLDER --json``."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(typer.Exit):
        verbs.doctor(str(folder), as_json=True)
    found = json.loads(printed.getvalue())
    return {Path(root).name: {f["kind"] for f in rows} for root, rows in found.items()}


def by_metrics(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for labels in re.findall(r"^streamscope_findings\{(.*)\} ", text, re.MULTILINE):
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        found.setdefault(pairs["job"], set()).add(pairs["kind"])
    return found


def by_alerts(text: str, folder: Path) -> dict[str, set[str]]:
    """The alerts of StreamScopeFinding that promtool raises over scraped values."""
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#"]
    series = [{"series": name, "values": f"{value}x4"} for name, value in lines]
    checked = {"eval_time": "30s", "alertname": "StreamScopeFinding", "exp_alerts": []}
    test = {"interval": "15s", "input_series": series, "alert_rule_test": [checked]}
    wanted = {"rule_files": [str(ALERTS)], "evaluation_interval": "15s", "tests": [test]}
    (folder / "scraped.yml").write_text(json.dumps(wanted))  # JSON is YAML
    done = subprocess.run(
        ["promtool", "test", "rules", str(folder / "scraped.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    fired = re.findall(r'Labels:\{alertname="StreamScopeFinding"(.*?)\}', done.stdout + done.stderr)
    return by_metrics("".join(f"streamscope_findings{{{labels}}} 1\n" for labels in fired))


def watched(trial: Trial, served: Served) -> None:
    """Poll page, metrics, doctor and alerts until each reports all problems."""
    deadline_s = time.monotonic() + WAIT_S
    has_promtool = shutil.which("promtool") is not None
    while trial.missing and time.monotonic() < deadline_s:
        for name in trial.began_s:
            answered, text = served.ask(f"/api/jobs/{name}/findings")
            rows = json.loads(text) if answered == 200 else []  # the page checks each second
            trial.note("page", {name: {row["kind"] for row in rows}})
        text = served.ask("/metrics")[1]
        trial.note("metrics", by_metrics(text))
        trial.note(
            "alert", by_alerts(text, trial.folder.parent) if has_promtool else by_metrics(text)
        )
        trial.note("doctor", by_doctor(trial.folder))


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    (tmp_path / "jobs").mkdir()
    with contextlib.ExitStack() as closing:
        trial = Trial(tmp_path / "jobs", closing)
        yield trial
        for filler in (*trial.folder.glob("*/filler"), *tmp_path.glob("output/filler")):
            filler.unlink()
        for job in trial.jobs:
            job.cancel()
        for job in trial.jobs:
            with contextlib.suppress(ss.StreamEngineError):
                job.wait(WAIT_S)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_each_problem_is_shown_in_every_view(
    trouble: Callable[[Trial, Broker], None], trial: Trial, broker: Broker
) -> None:
    served = Served(trial.folder)
    trial.closing.callback(served.close)
    trouble(trial, broker)
    if not trial.began_s:
        pytest.skip("this machine does not let the test make the trouble")
    watched(trial, served)
    for name in trial.began_s:
        shown = ", ".join(f"{place} {trial.shown_s.get((name, place), -1):.1f}" for place in PLACES)
        print(f"{name}: seconds until {shown}", flush=True)
    assert not trial.missing
