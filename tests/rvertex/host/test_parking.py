"""Processes that wait for their next host: who runs what, and what arrives over the connection.

Not covered: a death of the process of a Spark task (tests/spark/test_parked_hosts.py).
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jobmanager import JobConfig
from rstream import open_store
from rstream.errors import OperatingError
from rstream.format.message_codec import MessageCodec
from rvertex.host.environment import HostLimits
from rvertex.host.host import HostSpec
from rvertex.host.parking import (
    PARKED_WAIT_S,
    PLAN_FILE,
    NextHost,
    OtherPlanError,
    Parked,
    Parking,
    Processes,
)
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "s"


class Peers:
    """The former hosts of parked processes."""

    def __init__(self) -> None:
        self.present: set[str] = set()
        self._changed = threading.Condition()

    def parked(self, host: str) -> None:
        with self._changed:
            self.present.add(host)
            self._changed.notify_all()

    def left(self, host: str) -> None:
        with self._changed:
            self.present.discard(host)
            self._changed.notify_all()

    def wait_for(self, present: set[str]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.present == present, WAIT_S), self.present


@pytest.fixture
def peers() -> Peers:
    return Peers()


@pytest.fixture
def parking(peers: Peers) -> Iterator[Parking]:
    parking = Parking(SECRET, "127.0.0.1", peers.parked, peers.left)
    yield parking
    parking.close()


def spec(root: Path, host: str) -> HostSpec:
    return HostSpec(host, "job", str(root), "nowhere", SECRET, HostLimits())


def test_a_parked_process_gets_its_next_host(
    tmp_path: Path, peers: Peers, parking: Parking
) -> None:
    parked = Parked(spec(tmp_path, "h0.0"), parking.address)
    peers.wait_for({"h0.0"})
    following = replace(spec(tmp_path, "h0.1.0"), limits=HostLimits(report_interval_s=7.5))
    parking.send("h0.0", following, b"a plan")
    assert parked.wait() == (following, b"a plan")
    peers.wait_for(set())
    with pytest.raises(OperatingError):
        parking.send("h0.0", following, b"a plan")
    parking.close()
    assert not open_store(str(tmp_path)).exists(PLAN_FILE)


def test_a_process_that_is_not_needed_or_lost_its_job_manager_exits(
    tmp_path: Path, peers: Peers, parking: Parking
) -> None:
    hosts = ["h0.0", "h1.0"]
    dismissed, orphaned = (Parked(spec(tmp_path, host), parking.address) for host in hosts)
    peers.wait_for(set(hosts))
    parking.dismiss("h0.0")
    assert dismissed.wait() is None
    parking.close()
    assert orphaned.wait() is None
    with pytest.raises(OperatingError):
        Parked(spec(tmp_path, "h2.0"), parking.address)


@pytest.mark.parametrize("other", [b"another plan", None])
def test_a_plan_of_another_writer_is_rejected(
    other: bytes | None, tmp_path: Path, peers: Peers, parking: Parking
) -> None:
    parked = Parked(spec(tmp_path, "h0.0"), parking.address)
    peers.wait_for({"h0.0"})
    parking.send("h0.0", spec(tmp_path, "h0.1.0"), b"a plan")
    store = open_store(str(tmp_path))
    if other is None:
        store.delete(PLAN_FILE)
    else:
        store.put(PLAN_FILE, other)
    with pytest.raises(OtherPlanError, match="the plan that the job manager"):
        parked.wait()


def test_a_plan_is_read_only_from_the_root_the_process_had(
    tmp_path: Path, peers: Peers, parking: Parking
) -> None:
    """The sender of a message cannot choose the pickled plan that a process loads."""
    own, elsewhere = tmp_path / "own", tmp_path / "elsewhere"
    parked = Parked(spec(own, "h0.0"), parking.address)
    peers.wait_for({"h0.0"})
    following = spec(elsewhere, "h0.1.0")
    plan = b"a plan"
    open_store(str(elsewhere)).put(PLAN_FILE, plan)
    named = NextHost(replace(following, secret=""), hashlib.sha256(plan).digest())
    parking._server.send("h0.0", MessageCodec((NextHost,)).encode(named))
    with pytest.raises(OtherPlanError, match=str(own)):
        parked.wait()


def test_a_parked_process_frees_its_slot_before_a_new_host_gives_up() -> None:
    assert JobConfig().host_start_wait_s > PARKED_WAIT_S


def test_a_process_runs_one_host_after_another() -> None:
    processes: Processes[str] = Processes()
    assert processes.take("h0.0") == (None, "")
    for process, host in (("p", "h0.0"), ("q", "h1.0")):
        processes.began(process, host)
    assert processes.running == ["p", "q"]
    assert processes.park("h1.0") == "q"
    assert processes.park("h9.0") is None
    assert processes.running == ["p"]
    assert processes.take("h0.1.0") == ("q", "h1.0")
    assert processes.of("h0.1.0") == "q"
    assert processes.of("h1.0") is None
    assert processes.take("h1.1.0") == (None, "")
    assert not processes.has_taken("h0.1.0"), "it is still connected"
    assert processes.lose("h1.0") is None, "it has left for its next host"
    assert processes.has_taken("h0.1.0")
    assert processes.park("h0.1.0") == "q"
    assert processes.has_taken("h0.1.0"), "it has run it, and waits again"
    assert processes.take("h0.2.0") == ("q", "h0.1.0")
    assert processes.end("q") == "h0.2.0"
    assert processes.end("q") == ""


def test_the_end_of_a_parked_process_is_not_the_end_of_a_host() -> None:
    processes: Processes[str] = Processes()
    for process in "pqr":
        processes.began(process, f"host of {process}")
        processes.park(f"host of {process}")
    assert processes.end("p") == ""
    assert processes.lose("host of q") == "q"
    assert processes.take("next") == ("r", "host of r")
    assert processes.take("another") == (None, "")
    assert processes.end("q") == "host of q", "it was not parked any more"


def test_surplus_processes_are_dismissed() -> None:
    processes: Processes[str] = Processes()
    for process in "pqr":
        processes.began(process, process)
        processes.park(process)
    assert processes.dismiss(keep=1) == ["q", "r"]
    assert processes.running == ["q", "r"]
    assert processes.take("next") == ("p", "p")
    assert processes.take("another") == (None, "")
