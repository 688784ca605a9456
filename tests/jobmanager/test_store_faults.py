"""Whole jobs on stores that fail, fill up, vanish or are slow: the right result or a clear error.

The job either recovers, or fails with one message that names the store; ``resume`` then gives the
result of an undisturbed run. Not covered: a store that loses acknowledged writes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
import rstream.store.blobs
from jobmanager import JobConfig
from jobmanager.errors import JobFailedError
from jobmanager.storage.root import JobRoot
from rstream import StoreError, StreamLimits
from tests.rooms import ROOT
from tests.support import faulty_store
from tests.support.brokers import free_port
from tests.support.faulty_store import FAULTS
from tests.support.jobs import WAIT_S, outcome, two_exchanges, with_limits, write_events
from tests.support.trouble import Disturber

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.trouble import Gate

LIMITS = StreamLimits(segment_rows_max=500, flush_interval_ms=20, write_wait_s=5.0)
CONFIG = with_limits(
    JobConfig(tick_s=0.05, stall_wait_s=20.0, store_wait_s=1.0),
    checkpoint_interval_s=0.05,
    checkpoint_inline_bytes_max=1_000,
    step_rows_max=200,
    stream=LIMITS,
)
#: For faults that end in time, however slow the machine is.
PATIENT = with_limits(
    replace(CONFIG, stall_wait_s=300.0, store_wait_s=60.0),
    stream=replace(LIMITS, write_wait_s=60.0),
)
PACE = 40.0
PROJECT = ROOT


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


@pytest.fixture(scope="module")
def expected(events: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = str(tmp_path_factory.mktemp("expected") / "job")
    return jobmanager.run(two_exchanges(events), root=root, executor="local").wait(WAIT_S)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A root on the faulty store; the faults end with the test."""
    faulty_store.register()
    monkeypatch.setattr(rstream.store.blobs, "RETRY_DELAY_S", 0.002)
    calm = vars(faulty_store.Faults())
    vars(FAULTS).update(calm)
    yield f"faulty://{tmp_path}/job"
    vars(FAULTS).update(vars(faulty_store.Faults()))


def run(events: Path, root: str, **options: Any) -> jobmanager.Job:
    options = {"config": CONFIG, "hosts": 2, **options}
    return jobmanager.run(two_exchanges(events), root=root, executor="local", **options)


def failure_of(job: jobmanager.Job) -> str:
    with pytest.raises((JobFailedError, StoreError)) as caught:
        job.wait(WAIT_S)
    assert job.status()["state"] == "failed"
    assert job.status()["error"]
    return str(caught.value)


def resumed(root: str) -> dict[str, Any]:
    return jobmanager.resume(root, config=PATIENT).wait(WAIT_S)


@pytest.mark.slow
def test_one_call_in_five_fails(events: Path, expected: dict[str, Any], root: str) -> None:
    FAULTS.error_rate = 0.2
    status = run(events, root, config=PATIENT).wait(WAIT_S)
    assert FAULTS.failures > 20
    assert outcome(status) == outcome(expected)


@pytest.mark.slow
def test_every_call_is_slow(events: Path, expected: dict[str, Any], root: str) -> None:
    FAULTS.delay_s = 0.05
    status = run(events, root, config=PATIENT).wait(WAIT_S)
    assert outcome(status) == outcome(expected)


@pytest.mark.slow
def test_a_job_outlives_a_short_outage_of_the_store(
    events: Path, expected: dict[str, Any], gate: Gate, root: str
) -> None:
    job = run(events, root, paced=PACE, config=PATIENT, on_status=at(500, gate, outage_calls=3))
    assert outcome(job.wait(WAIT_S)) == outcome(expected)
    assert FAULTS.failures == 3


@pytest.mark.slow
def test_an_outage_longer_than_a_vertex_may_fail(
    events: Path, expected: dict[str, Any], gate: Gate, root: str
) -> None:
    """The status names what the job waits for; the job then continues by itself."""
    told: list[str] = []
    goes = at(500, gate, outage_calls=1 << 30)

    def on_status(status: dict[str, Any]) -> None:
        goes(status)
        told.append(status["waiting"])
        if sum(map(bool, told)) >= 3:  # again, in case a pending call still counts
            FAULTS.outage_calls = 0

    config = replace(
        PATIENT,
        store_pause_max_s=0.2,
        restart_pause_s=0.05,
        restart_pause_max_s=0.2,
        vertex_failures_max=1,
        vertex_restarts_max=1,
    )
    status = run(events, root, paced=PACE, on_status=on_status, config=config).wait(WAIT_S)
    assert outcome(status) == outcome(expected)
    assert any(what.startswith("store: ") and "nobody answers" in what for what in told)
    assert told[-1] == ""


@pytest.mark.slow
def test_a_job_fails_in_a_lasting_outage_and_can_be_resumed(
    events: Path, expected: dict[str, Any], gate: Gate, root: str
) -> None:
    job = run(events, root, paced=PACE, on_status=at(500, gate, outage_calls=1 << 30))
    assert "nobody answers" in failure_of(job)
    FAULTS.outage_calls = 0
    assert JobRoot(root).read_status()["state"] != "finished"
    assert outcome(resumed(root)) == outcome(expected)


@pytest.mark.slow
def test_a_store_that_becomes_full(
    events: Path, expected: dict[str, Any], gate: Gate, root: str
) -> None:
    job = run(events, root, paced=PACE, on_status=at(500, gate, bytes_left=0))
    assert "No space left on device" in failure_of(job)
    FAULTS.bytes_left = None
    assert outcome(resumed(root)) == outcome(expected)


def at(events_in: int, gate: Gate, **faults: Any) -> Disturber:
    """Return a status callback that sets these faults after this number of events."""
    return Disturber([events_in], lambda _: vars(FAULTS).update(faults), gate)


FULL_DISK = """
    import json, subprocess, sys
    import jobmanager
    from tests.jobmanager import test_store_faults as here
    from jobmanager.errors import JobFailedError
    from rstream import StoreError
    from rstream.store import blobs
    blobs.RETRY_DELAY_S = 0.002
    disk, events = sys.argv[1:]
    here.mount(disk, "100k")
    try:
        here.run(events, f"{disk}/job").wait(here.WAIT_S)
        failure = ""
    except (JobFailedError, StoreError) as error:
        failure = str(error)
    here.mount(disk, "remount,size=64m")
    print(json.dumps({"failure": failure, "status": here.resumed(f"{disk}/job")}))
"""


def mount(disk: str, size: str) -> None:
    options = size if size.startswith("remount") else f"size={size}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True)


@pytest.mark.slow
def test_a_full_disk(events: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    """A real full disk: a tmpfs of 100 kB in its own mount namespace."""
    in_namespace = ["unshare", "--map-root-user", "--mount"]
    disk = tmp_path / "disk"
    disk.mkdir()
    probe = [*in_namespace, "mount", "-t", "tmpfs", "tmpfs", str(disk)]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount")
    done = subprocess.run(
        [*in_namespace, sys.executable, "-c", textwrap.dedent(FULL_DISK), str(disk), str(events)],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert "No space left on device" in told["failure"]
    assert outcome(told["status"]) == outcome(expected)


@pytest.mark.slow
def test_an_object_store_with_an_outage(
    events: Path, expected: dict[str, Any], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moto.server import ThreadedMotoServer
    from werkzeug.serving import WSGIRequestHandler

    # A stopped server would keep answering on its open connections.
    monkeypatch.setattr(WSGIRequestHandler, "protocol_version", "HTTP/1.0", raising=False)
    host, port = "127.0.0.1", free_port()
    server = ThreadedMotoServer(ip_address=host, port=port, verbose=False)
    server.start()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rstream.store.blobs, "RETRY_DELAY_S", 0.01)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()  # instances of other tests connect to another server
    bucket = "faults"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(bucket)
    stop = Disturber([500], lambda _: server.stop(), gate)
    job = run(events, f"s3://{bucket}/job", paced=PACE, on_status=stop)
    assert "s3://" in failure_of(job)
    again = ThreadedMotoServer(ip_address=host, port=port, verbose=False)
    again.start()
    try:
        assert outcome(resumed(f"s3://{bucket}/job")) == outcome(expected)
    finally:
        again.stop()
        s3fs.S3FileSystem.clear_instance_cache()
