"""An OpenTelemetry collector and a lineage server receive the data of two jobs.

Not covered: collectors that expect another encoding than protobuf over HTTP.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

import streamscope as ss
from jobmanager import JobFailedError
from jobmanager.cli.page.board import Board
from jobmanager.cli.page.export.lineage import LineageExport, _dataset
from rstream.clock import SystemClock
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


class Collector(ThreadingHTTPServer):
    """A server that records requests. ``answers``: its first status codes; after them 200."""

    def __init__(self, *answers: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.requests = list(answers), []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.answers.pop(0) if self.server.answers else 200
        if answer == 200:
            self.server.requests.append((self.path, self.headers, body))
        self.send_response(answer)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def collecting(*answers: int) -> Iterator[Collector]:
    server = Collector(*answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def refuse(batch: Any) -> Any:
    raise ValueError("no")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """A finished job over a file, and a failed job."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / "in.csv").write_text("t,k\n" + "\n".join(f"{t},{t % 3}" for t in range(50)))
    rows = ss.Stream.from_csv(str(folder / "in.csv"), vs="t")
    counts = rows.group_by("k").window(ss.tumbling(10)).agg(n=ss.agg.count())
    ss.run(counts.to_parquet(), root=str(folder / "jobs/good"), executor="local").wait()
    items = ss.Stream.from_items({"x": "int64"}, [ss.event(1, x=1), ss.cti(INF_TIME)])
    bad = items.apply(refuse, schema={"x": "int64"}, deterministic=True).to_parquet()
    with pytest.raises(JobFailedError):
        ss.run(bad, root=str(folder / "jobs/bad"), executor="local").wait()
    found = Board(str(folder / "jobs"), SystemClock())
    found.look()
    return found


def test_a_collector_receives_metrics_and_vertex_spans_with_seqs(board: Board) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb

    from jobmanager.cli.page.export.otlp import OtlpExport

    with collecting() as server:
        export = OtlpExport(server.url, board)
        export.send()
        count = len(server.requests)
        export.send()
        assert len(server.requests) == count, "nothing is sent twice"
        export.close()
        bodies = [(path, body) for path, _, body in server.requests]
    spans = [
        span
        for path, body in bodies
        if path == "/v1/traces"
        for resource in trace_pb.ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    names = {span.name for span in spans}
    assert {"job good", "job bad", "s01-in.0", "s02-agg.0"} <= names, names
    (good,) = (span for span in spans if span.name == "job good")
    (source,) = (span for span in spans if span.name == "s01-in.0")
    assert source.parent_span_id == good.span_id
    assert source.trace_id == good.trace_id
    seqs = {a.key: [v.int_value for v in a.value.array_value.values] for a in source.attributes}
    assert seqs["inputs.next_seq"] == [50]
    assert {span.name for span in spans if span.status.code == 2} >= {"job bad"}
    points = {
        metric.name: [point.as_double for point in (metric.sum or metric.gauge).data_points]
        for path, body in bodies
        if path == "/v1/metrics"
        for resource in metrics_pb.ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert 50.0 in points["streamscope_events_in"]


def test_a_restarted_server_sends_the_same_spans(board: Board) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.resources import Resource

    from jobmanager.cli.page.export.otlp import spans_of

    job = board.job("good")
    sent = [
        [(s.context.trace_id, s.context.span_id, s.name) for s in found]
        for found in (
            spans_of("good", job.status, job.notices(), 0, Resource.create()) for _ in range(2)
        )
    ]
    assert sent[0] == sent[1]
    assert len({span for _, span, _ in sent[0]}) == len(sent[0])


def test_lineage_names_inputs_outputs_and_the_end_of_a_run(board: Board, tmp_path: Path) -> None:
    with collecting(503) as server:
        export = LineageExport(server.url + "/api/v1/lineage", board)
        with pytest.raises(OSError, match="503"):
            export.send()
        export.close()
        export.send()
        events = [json.loads(body) for _, _, body in server.requests]
    assert [(e["job"]["name"], e["eventType"]) for e in events] == [
        ("bad", "START"),
        ("bad", "FAIL"),
        ("good", "START"),
        ("good", "COMPLETE"),
    ]
    start, end = events[2:]
    assert start["run"] == end["run"]
    assert [d["name"].rpartition("/")[2] for d in start["inputs"]] == ["in.csv"]
    assert start["outputs"][0]["namespace"] == "file"
    LineageExport(str(tmp_path / "events"), board).send()
    assert [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()] == events


#: The required fields of an event, from the JSON schema of the specification (2-0-2).
_TEXT = {"type": "string", "minLength": 1}
_NAMED = {"required": ["namespace", "name"], "properties": {"namespace": _TEXT, "name": _TEXT}}
_RUN = {"required": ["runId"], "properties": {"runId": {"type": "string", "format": "uuid"}}}
_STATES = ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]
RUN_EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventTime": {"type": "string", "format": "date-time"},
        "producer": {"type": "string", "format": "uri"},
        "schemaURL": {"type": "string", "format": "uri"},
        "eventType": {"enum": _STATES},
        "run": {"type": "object", **_RUN},
        "job": _NAMED,
        "inputs": {"type": "array", "items": _NAMED},
        "outputs": {"type": "array", "items": _NAMED},
    },
}


def running(board: Board, minute: int) -> Board:
    """The jobs, but the finished one still runs and has just written its status."""
    status = {**board.jobs["good"].status, "state": "running", "written_us": minute * 60_000_000}
    found = Board("unused", SystemClock())
    found.jobs = {"good": replace(board.jobs["good"], status=status)}
    return found


def test_events_conform_to_the_specification(board: Board, tmp_path: Path) -> None:
    schemas = pytest.importorskip("jsonschema")
    check = schemas.Draft202012Validator(RUN_EVENT, format_checker=schemas.FormatChecker())
    LineageExport(str(tmp_path / "events"), board).send()
    LineageExport(str(tmp_path / "events"), running(board, 7)).send()
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert {event["eventType"] for event in events} == {"START", "RUNNING", "COMPLETE", "FAIL"}
    for event in events:
        check.validate(event)
        assert event["outputs"], event
        for field in RUN_EVENT["required"]:
            assert not check.is_valid({key: event[key] for key in event if key != field}), field
        for part, field in (("run", "runId"), ("job", "name"), ("job", "namespace")):
            lacks = {key: value for key, value in event[part].items() if key != field}
            assert not check.is_valid({**event, part: lacks}), (part, field)


def test_a_running_job_sends_one_event_per_minute(board: Board, tmp_path: Path) -> None:
    export = LineageExport(str(tmp_path / "events"), board)
    for minute in (7, 7, 8, 8, 9):
        export._board = running(board, minute)
        export.send()
    kinds = [json.loads(line)["eventType"] for line in (tmp_path / "events").open()]
    assert kinds == ["START", "RUNNING", "RUNNING", "RUNNING"]


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("/data/in.csv", ("file", "/data/in.csv")),
        ("s3://bucket/a/b", ("s3://bucket", "/a/b")),
        ("ftp://me:secret@host/a", ("ftp://host", "/a")),
    ],
)
def test_datasets_contain_no_password(uri: str, found: tuple[str, str]) -> None:
    assert tuple(_dataset(uri).values()) == found
