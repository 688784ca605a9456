"""Connections are closed in one of our threads, regardless of the garbage collector.

If the library's own thread closes a connection, the process aborts. This happened in a failed job.
Not covered: references held by an exception inside the library.
"""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from rstream.clock import SystemClock
from rvertex.sources.logs.errors import LogUnreachableError
from rvertex.sources.logs.kafka import positions
from rvertex.sources.logs.kafka.client import Client
from rvertex.sources.logs.kafka.options import OWNED, consumer_options
from rvertex.sources.logs.kafka.reader import KafkaLog
from rvertex.sources.spec import Live, SourcePartition, SourceSpec, Topic, Unit
from tests.support.brokers import free_port
from tests.support.topics import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("confluent_kafka", reason="Kafka is an extra")


@pytest.fixture
def admins(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[object]]]:
    """Return the opened clients, while the garbage collector is off."""
    from confluent_kafka.admin import AdminClient

    opened: list[weakref.ref[object]] = []
    begin = AdminClient.__init__

    def noted(admin: AdminClient, options: dict[str, Any]) -> None:
        begin(admin, options)
        opened.append(weakref.ref(admin))

    monkeypatch.setattr(AdminClient, "__init__", noted)
    gc.disable()
    try:
        yield opened
    finally:
        gc.enable()


def away() -> SourceSpec:
    """A topic whose broker does not exist."""
    servers = f"127.0.0.1:{free_port()}"
    kind = Topic("json", (("bootstrap.servers", servers),))
    return SourceSpec(kind, f"kafka://{servers}/t", COLUMNS, COLUMNS, "t", live=Live())


def test_a_closed_client_ends_at_once(admins: list[weakref.ref[object]]) -> None:
    client = Client("t", {"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    pending = client.request_offsets([0], "latest")
    del client
    assert [admin() for admin in admins] == [None]
    assert not pending.done() or pending.answers(0)


def test_options_that_the_client_rejects_are_errors_of_the_log() -> None:
    """A running job continues if it cannot look for new partitions; a file may have moved."""
    config = {"bootstrap.servers": "127.0.0.1:9", "security.protocol": "ssl"}
    with pytest.raises(LogUnreachableError, match="rejects its options"):
        Client("t", {**config, "ssl.ca.location": "/nowhere.pem"})


@pytest.mark.parametrize(
    "option", [("fetch.max.bytes", "many"), ("fetch.min.bytes", "-1"), ("auto.offset.reset", "x")]
)
def test_reader_options_are_checked_at_planning(option: tuple[str, str]) -> None:
    servers = f"127.0.0.1:{free_port()}"
    kind = Topic("json", (("bootstrap.servers", servers), option))
    spec = SourceSpec(kind, f"kafka://{servers}/t", COLUMNS, COLUMNS, "t", live=Live())
    with pytest.raises(LogUnreachableError, match=r"rejects its options .*" + option[0]):
        positions.topic_units(spec)


def test_planning_leaves_no_connection(
    admins: list[weakref.ref[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "PLAN_S_MAX", 0.05)
    with pytest.raises(LogUnreachableError) as kept:
        positions.topic_units(away())
    assert [admin() for admin in admins] == [None], kept


def test_a_failed_reader_leaves_no_connection(admins: list[weakref.ref[object]]) -> None:
    """The error refers to its frames, and these to the reader, which must not stay connected."""
    from confluent_kafka import KafkaException

    spec = away()
    log = KafkaLog(SourcePartition(spec, (Unit(spec.path),), 0), [0], SystemClock(), _fail)
    log.skip_to(0, -5)  # an offset that the library rejects
    log._thread.join(120)
    with pytest.raises(KafkaException, match="_INVALID_ARG") as kept:
        log.read(0, 1)
    log.close()
    assert [admin() for admin in admins] == [None], kept


def _fail() -> None:
    """Fail in a thread: no caller waits for rows."""


def test_options_required_for_exactness_cannot_be_changed() -> None:
    """Users cannot change client options on which exactly-once depends."""
    exact: dict[str, str | int | bool] = {
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
    }
    assert exact.keys() <= OWNED.keys()
    asked = {"bootstrap.servers": "here", "fetch.wait.max.ms": "9", **dict.fromkeys(exact, "asked")}
    options = consumer_options(asked)
    assert options.items() >= {**exact, "fetch.wait.max.ms": "9"}.items()
    assert consumer_options({"bootstrap.servers": "here"}).items() >= exact.items()
