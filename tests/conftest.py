"""Options and fixtures that all tests share; Hypothesis; real servers, one per session."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from rstream.errors import StreamEngineError
from tests.support.budget import DEPTH, scaled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from rstream import BlobStore


#: Servers and golden files. If the project is installed, its entry point loads the plugin.
pytest_plugins = ("streamscope_pytest",)

# Compiled modules are kept, whatever the environment says: each worker would rewrite all assertions
# again, and each of a hundred processes that tests start would compile all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Thousands of tests are collected, and each garbage collection would walk through all of them. So
# it is off until they exist, and ignores them afterwards.
gc.disable()

# No test loses power, so waiting for the disk, which all workers share, gains nothing. The tests of
# files (tests/rstream/store) use the real one.
REAL_FSYNC = os.fsync


def _no_fsync(file: int) -> None:
    """Replace ``os.fsync``: do nothing."""


os.fsync = _no_fsync

# The machine is shared, so the time of an example proves nothing. `make test` draws the same
# examples each time, so it fails only because of a change; `make deep` draws others.
settings.register_profile(
    "shared",
    deadline=None,
    derandomize=DEPTH <= 1,
    max_examples=scaled(12),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("shared")

# Hypothesis reads the source of every module that is loaded, for constants to draw. That takes each
# worker seconds, and makes the examples depend on which tests run in one process.
if DEPTH <= 1 and hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants


#: How long a failed test waits for the jobs that it has left to end, s.
LEFT_JOBS_WAIT_S = 5.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Cancel the jobs of this process that a failed test has left.

    Otherwise they work on while other tests run, and Python waits minutes for them at its exit.
    """
    before = _live_jobs()
    try:
        return (yield)
    except BaseException:
        left = _live_jobs() - before
        for uri in left:
            _cancel(uri)
        until_s = time.monotonic() + LEFT_JOBS_WAIT_S
        while left & _live_jobs() and time.monotonic() < until_s:
            threading.Event().wait(0.02)
        raise


def _live_jobs() -> frozenset[str]:
    """The roots of jobs that run in this process."""
    ownership = sys.modules.get("jobmanager.storage.ownership")
    return frozenset() if ownership is None else ownership.live_here()


def _cancel(uri: str) -> None:
    from jobmanager.storage.root import CANCEL, JobRoot

    with contextlib.suppress(OSError, StreamEngineError):
        JobRoot(uri).request(CANCEL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--rewrite``: write golden files instead of comparing with them."""
    parser.addoption("--rewrite", action="store_true", help="rewrite golden files")


#: Fixtures with servers. The broker answers empty fetches at once, so each of its consumers uses
#: most of a processor; a fast suite that waited for one would take half as long again.
LIVE_PARTS = {"broker", "own_broker", "postgres"}


def pytest_collection_finish() -> None:
    """Turn garbage collection on; objects made so far are never collected before the end."""
    gc.freeze()
    gc.enable()


#: Wall time after which a slow test counts as hung; on an idle machine it takes at most a minute.
#: Fast tests have the ``timeout`` of pyproject.toml.
SLOW_TIMEOUT_S = 600


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that share the Java of their process come first, so that one worker has all of them.

    Tests that need a broker or a database server are slow. Slow tests have a longer timeout, unless
    ``--timeout`` sets one for all.
    """
    for item in items:
        if LIVE_PARTS & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.slow)
        is_slow = item.get_closest_marker("slow") or item.get_closest_marker("spark")
        if is_slow and config.getoption("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))
    items.sort(key=lambda item: not _shares_java(item))


def _shares_java(item: pytest.Item) -> bool:
    spark = item.get_closest_marker("spark")
    return spark is not None and not spark.kwargs.get("own_java")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether to write golden files instead of comparing with them."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def fresh_s3() -> Iterator[None]:
    """Forget cached S3 file systems: they would connect to another test's endpoint."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    yield
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def s3_bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    import s3fs

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    bucket = f"bucket-{uuid.uuid4().hex[:8]}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(bucket)
    return f"s3://{bucket}"


@pytest.fixture(params=["path", "memory", pytest.param("s3", marks=pytest.mark.slow)])
def shared_store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    """A store of every kind that supports exclusive creation, so several processes can share it."""
    from rstream import open_store

    match request.param:
        case "path":
            return open_store(str(tmp_path / "root"))
        case "memory":
            return open_store(f"memory://{tmp_path}")
        case _:
            return open_store(f"{request.getfixturevalue('s3_bucket')}/root")


@pytest.fixture
def spark() -> SparkSession:
    """A session on the Spark context that jobs share; a test cannot start a second context."""
    from pyspark.sql import SparkSession

    from jobmanager.config import SPARK_DAEMON
    from rvertex.host.spark import spark_context

    return SparkSession(spark_context("local[2]", SPARK_DAEMON))
