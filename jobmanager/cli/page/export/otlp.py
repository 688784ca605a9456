"""Metrics and spans of jobs for an OpenTelemetry collector, over OTLP and HTTP.

It sends the metrics of :mod:`jobmanager.cli.page.metrics`. Spans are derived from the jobs' logs:
one per job, and below it one per instance of a vertex and per checkpoint, with sequence numbers.

Invariant: the ids of a span are derived from the job and the notice. So a restarted server sends
the same spans again, and no duplicates under other ids.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext, TraceFlags
from opentelemetry.trace.status import Status as SpanStatus, StatusCode

from jobmanager.cli.page.metrics import METRICS, PREFIX
from rvertex import messages as sent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jobmanager.cli.page.board import Board
    from jobmanager.cli.page.metrics import Metric
    from jobmanager.state.messages import Notice

#: Seconds between two transmissions of metrics, and most seconds of one call.
EVERY_S, CALL_S_MAX = 10.0, 5.0
#: Most spans of one call.
SPANS_MAX = 512
_NS_PER_US = 1_000


class OtlpExport:
    """Sends metrics periodically in a separate thread, and new spans at each ``send``."""

    def __init__(self, endpoint: str, board: Board) -> None:
        self._board = board
        #: By root: the number of notices in its log whose spans were sent.
        self._sent: dict[str, int] = {}
        base = endpoint.rstrip("/")
        self._resource = Resource.create({"service.name": "streamscope"})
        self._spans = OTLPSpanExporter(f"{base}/v1/traces", timeout=CALL_S_MAX)
        exporter = OTLPMetricExporter(f"{base}/v1/metrics", timeout=CALL_S_MAX)
        reader = PeriodicExportingMetricReader(exporter, EVERY_S * 1000)
        self._provider = MeterProvider([reader], self._resource)
        meter = self._provider.get_meter("streamscope")
        for metric in METRICS:
            make = (
                meter.create_observable_counter
                if metric.kind == "counter"
                else meter.create_observable_gauge
            )
            make(PREFIX + metric.name, [self._observe(metric)], description=metric.help)

    def send(self) -> None:
        """Send the spans that have ended since the last call. Failed spans are sent again."""
        for name, job in list(self._board.jobs.items()):
            notices = job.notices()
            begin = self._sent.get(job.root, 0)
            if begin > len(notices):
                begin = 0  # a copy of the state has replaced the log, which is shorter now
            spans = list(spans_of(name, job.status, notices, begin, self._resource))
            parts = [spans[k : k + SPANS_MAX] for k in range(0, len(spans), SPANS_MAX)]
            if all(self._spans.export(part) is SpanExportResult.SUCCESS for part in parts):
                self._sent[job.root] = len(notices)

    def close(self) -> None:
        """Send the remaining spans and a last set of metrics."""
        self.send()
        self._provider.shutdown()
        self._spans.shutdown()  # type: ignore[no-untyped-call]

    def _observe(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observed(_: CallbackOptions) -> Iterator[Observation]:
            for job, status in self._board.examined():
                for values, value in metric.samples(status):
                    labels = dict(zip(metric.labels, values, strict=True))
                    yield Observation(value, {"job": job, **labels})

        return observed


def spans_of(
    job: str,
    status: dict[str, Any],
    notices: list[tuple[int, Notice]],
    begin: int,
    resource: Resource,
) -> Iterator[ReadableSpan]:
    """Yield the spans that end at a notice with index ``begin`` or later."""
    started_us = notices[0][0] if notices else 0
    trace = _number(16, status.get("root", job), started_us)
    of_job = SpanContext(trace, _number(8, trace), False, TraceFlags(TraceFlags.SAMPLED))
    running: dict[str, tuple[int, sent.VertexStarted]] = {}
    for number, (at_us, notice) in enumerate(notices):
        if isinstance(notice, sent.VertexStarted):
            running[notice.vertex] = at_us, notice
        span = None
        if isinstance(notice, sent.CheckpointTaken):
            span = f"checkpoint {notice.vertex}", notice.taken_us or at_us, ""
        elif isinstance(notice, sent.VertexFinished | sent.VertexFailed):
            since_us, _ = running.pop(notice.vertex, (at_us, None))
            error = notice.message if isinstance(notice, sent.VertexFailed) else ""
            span = notice.vertex, since_us, error
        if span is not None and number >= begin:
            title, since_us, error = span
            context = SpanContext(
                trace,
                _number(8, trace, type(notice).__name__, at_us, title),
                False,
                of_job.trace_flags,
            )
            marks = {"job": job, **_ranges(notice)}
            yield _span(title, context, of_job, (since_us, at_us), marks, error, resource)
    if notices and begin < len(notices) and status["state"] in ("finished", "failed", "cancelled"):
        times, error = (started_us, notices[-1][0]), status.get("error", "")
        yield _span(f"job {job}", of_job, None, times, {"job": job}, error, resource)


def _ranges(notice: Any) -> dict[str, Any]:
    """Return a vertex's positions at the end of a span: exclusive ends of its input and output."""
    fields = {"vertex": notice.vertex, "epoch": notice.epoch}
    if hasattr(notice, "inputs"):
        fields |= {"inputs.next_seq": list(notice.inputs), "outputs.next_seq": list(notice.outputs)}
    return fields


def _span(
    name: str,
    context: SpanContext,
    parent: SpanContext | None,
    times_us: tuple[int, int],
    attributes: dict[str, Any],
    error: str,
    resource: Resource,
) -> ReadableSpan:
    code = SpanStatus(StatusCode.ERROR, error) if error else SpanStatus(StatusCode.OK)
    start_ns, end_ns = (us * _NS_PER_US for us in times_us)
    return ReadableSpan(
        name,
        context,
        parent,
        resource,
        attributes,
        status=code,
        start_time=min(start_ns, end_ns),
        end_time=end_ns,
    )


def _number(size: int, *parts: Any) -> int:
    """Derive an id of ``size`` bytes from its parts."""
    text = repr(parts).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=size).digest()) or 1
