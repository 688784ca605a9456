"""The status that the driver builds from a job manager's state."""

from __future__ import annotations

import json
import os
import socket

from jobmanager import JobConfig
from jobmanager.driver.report import output_digest, status_of
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import CancelRequested, JobStarted
from jobmanager.state.topology import Topology
from planner.physical.lower import lower
from rstream.types import INF_TIME
from rvertex.messages import Counts, HostReady, VertexFinished
from tests.support.queries import two_phases

SECOND = 1_000_000


def started(hosts: int = 2) -> JobManager:
    plan = lower(two_phases(), root="ROOT", parallelism=2)
    manager = JobManager(Topology(plan.vertices), JobConfig())
    manager.handle(JobStarted(hosts, 0))
    manager.handle(HostReady("h0.0", 0, 11, "here", "grpc://a:1"))
    return manager


def finish(manager: JobManager, vertex: str, digest: bytes) -> None:
    state = manager.vertices[vertex].leader
    assert state is not None
    shape = manager.vertices[vertex].shape
    outputs = tuple(7 for _ in shape.outputs)
    digests = tuple(digest for _ in shape.outputs)
    inputs = (3,) * shape.input_count
    manager.handle(VertexFinished(vertex, state.epoch, inputs, outputs, digests, Counts(10, 4, 1)))


def test_a_status_has_only_json_types_and_names_its_writer() -> None:
    status = status_of(started(), now_us=5)
    assert json.loads(json.dumps(status)) == status
    assert (status["pid"], status["machine"]) == (os.getpid(), socket.gethostname())
    assert (status["state"], status["written_us"], status["output_digest"]) == ("running", 5, "")


def test_rows_show_the_hosts_of_instances() -> None:
    manager = started()
    rows = {row["vertex"]: row for row in status_of(manager, now_us=0)["vertices"]}
    assert list(rows) == list(manager.topology.vertices)
    first, second = list(rows.values())[:2]
    assert (first["state"], first["host"], first["pid"]) == ("starting", "h0.0", 11)
    assert (second["state"], second["host"], second["pid"]) == ("waiting", "", None)
    hosts = status_of(manager, now_us=0)["hosts"]
    assert [(h["host"], h["state"], h["pid"]) for h in hosts] == [
        ("h0.0", "ready", 11),
        ("h1.0", "starting", None),
    ]


def test_counts_are_those_of_sources_and_sinks() -> None:
    manager = started()
    for vertex in manager.topology.vertices:
        finish(manager, vertex, b"x" * 16)
    status = status_of(manager, now_us=0)
    assert status["state"] == "finished"
    assert (status["events_in"], status["events_out"]) == (20, 8)
    assert status["late_events"] == 4
    assert {h["state"] for h in status["hosts"]} == {"stopped"}


def test_the_digest_covers_all_sinks_in_order() -> None:
    sinks = [v.id for v in started().topology.vertices.values() if v.is_sink]
    assert len(sinks) == 2

    def digest(*parts: bytes) -> str:
        manager = started()
        for vertex, part in zip(sinks, parts, strict=False):
            finish(manager, vertex, part)
        return output_digest(manager)

    assert digest(b"a" * 16) == "", "not before every sink has finished"
    assert digest(b"a" * 16, b"b" * 16) == digest(b"a" * 16, b"b" * 16)
    assert digest(b"a" * 16, b"b" * 16) != digest(b"b" * 16, b"a" * 16)


def test_lag_is_from_the_newest_event_read() -> None:
    manager = started()
    source, other, *rest = manager.vertices.values()
    assert status_of(manager, now_us=0)["vertices"][0]["cti_lag_s"] is None
    source.max_vs, source.cti = 9 * SECOND, 4 * SECOND
    other.max_vs, other.cti = 10 * SECOND, 12 * SECOND
    rest[0].cti = INF_TIME
    lags = [row["cti_lag_s"] for row in status_of(manager, now_us=0)["vertices"]]
    assert lags[:4] == [6.0, 0.0, 0.0, None]


def test_a_cancelled_job_keeps_its_rows() -> None:
    manager = started()
    manager.handle(CancelRequested())
    status = status_of(manager, now_us=0)
    assert status["state"] == "cancelled"
    assert len(status["vertices"]) == 4
