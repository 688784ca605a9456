"""The metrics of a job for Prometheus, one declaration each.

A metric's value is read from the job's status (:mod:`jobmanager.driver.report`). The job writes its
status in any case, so a scrape costs the job nothing. Names and units follow the conventions of
Prometheus: seconds, bytes, and ``_total`` for counters. A counter starts again at 0 with its job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest

from jobmanager.cli.page.samples import (
    US_PER_S,
    dead_deliveries,
    each,
    each_log,
    findings,
    health,
    idle_logs,
    is_up,
    memory,
    one,
    reasons,
    requests,
    watermarks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jobmanager.cli.page.samples import Sample, Status

PREFIX = "streamscope_"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of every job. ``samples`` extracts its values from a status."""

    name: str
    kind: Literal["counter", "gauge"]
    #: Names of the labels; every metric also has the label ``job``.
    labels: tuple[str, ...]
    help: str
    samples: Callable[[Status], Iterable[Sample]]


_VERTEX = ("stage", "vertex")
_DELIVERY = ("delivery", "partition")
_LOG = ("stage", "partition")

METRICS = [
    Metric("up", "gauge", (), "1 while a job manager works on the job, else 0.", is_up),
    Metric("health", "gauge", (), "0 ok, 1 waiting, 2 degraded.", health),
    Metric("reasons", "gauge", ("health", "kind"), "Reasons of the health, by kind.", reasons),
    Metric(
        "findings",
        "gauge",
        ("gravity", "kind"),
        "What the doctor finds, by kind: degraded, waiting or note.",
        findings,
    ),
    Metric(
        "status_written_seconds",
        "gauge",
        (),
        "When the job last wrote its status, in seconds since 1970.",
        lambda status: [((), status["written_us"] / US_PER_S)] if status.get("written_us") else [],
    ),
    Metric(
        "events_in",
        "counter",
        (),
        "Events that have left the sources, or that their filters dropped.",
        one("events_in"),
    ),
    Metric("events_out", "counter", (), "Events of the output.", one("events_out")),
    Metric("late_events", "counter", (), "Events behind the watermark.", one("late_events")),
    Metric("bad_rows", "counter", (), "Rows that could not be read.", one("bad_rows")),
    Metric(
        "poisoned_events",
        "counter",
        (),
        "Events that were skipped because user code failed on them.",
        one("poisoned_events"),
    ),
    Metric("duplicates", "counter", (), "Rows that deduplicate dropped.", one("duplicates")),
    Metric("restarts", "counter", (), "Restarts of vertices.", one("restarts")),
    Metric(
        "vertex_events_in",
        "counter",
        _VERTEX,
        "Events that a vertex consumed.",
        each("vertices", _VERTEX, "events_in"),
    ),
    Metric(
        "vertex_events_out",
        "counter",
        _VERTEX,
        "Events that a vertex emitted.",
        each("vertices", _VERTEX, "events_out"),
    ),
    Metric(
        "vertex_restarts",
        "counter",
        _VERTEX,
        "Restarts of a vertex.",
        each("vertices", _VERTEX, "restarts"),
    ),
    Metric(
        "vertex_watermark_seconds",
        "gauge",
        _VERTEX,
        "The watermark (CTI) of a vertex, in seconds since 1970.",
        watermarks,
    ),
    Metric(
        "vertex_watermark_lag_seconds",
        "gauge",
        _VERTEX,
        "Event time from the newest event read by any source to the vertex's watermark.",
        each("vertices", _VERTEX, "cti_lag_s"),
    ),
    Metric(
        "vertex_busy_seconds",
        "counter",
        _VERTEX,
        "Time that the vertex was busy, sampled.",
        each("vertices", _VERTEX, "busy_us", scale=1 / US_PER_S),
    ),
    Metric(
        "vertex_user_code_seconds",
        "counter",
        _VERTEX,
        "Time that the vertex spent in user code, sampled.",
        each("vertices", _VERTEX, "user_us", scale=1 / US_PER_S),
    ),
    Metric(
        "vertex_blocked",
        "gauge",
        _VERTEX,
        "1 while a vertex waits for its readers (back-pressure).",
        each("vertices", _VERTEX, "blocked"),
    ),
    Metric(
        "vertex_hot_key_share",
        "gauge",
        _VERTEX,
        "Share of the rows sent to the next stage that have the most frequent key, sampled.",
        each("vertices", _VERTEX, "hot_share"),
    ),
    Metric(
        "vertex_state_bytes",
        "gauge",
        _VERTEX,
        "State of a vertex in its last checkpoint.",
        each("vertices", _VERTEX, "state_bytes"),
    ),
    Metric(
        "vertex_checkpoint_age_seconds",
        "gauge",
        _VERTEX,
        "Time since the last checkpoint of a vertex.",
        each("vertices", _VERTEX, "checkpoint_age_s"),
    ),
    Metric(
        "vertex_state_memory_bytes",
        "gauge",
        _VERTEX,
        "State in memory that can be spilled.",
        each("vertices", _VERTEX, "memory_bytes"),
    ),
    Metric(
        "vertex_spilled_bytes",
        "counter",
        _VERTEX,
        "State that a vertex has written to scratch since it started.",
        each("vertices", _VERTEX, "spilled_bytes"),
    ),
    Metric(
        "vertex_spills",
        "counter",
        _VERTEX,
        "Files that a vertex has written to scratch since it started.",
        each("vertices", _VERTEX, "spills"),
    ),
    Metric(
        "vertex_state_keys",
        "gauge",
        _VERTEX,
        "Keys of a vertex in memory and on scratch, without rows of windows on scratch.",
        each("vertices", _VERTEX, "state_keys"),
    ),
    Metric(
        "vertex_scratch_bytes",
        "gauge",
        _VERTEX,
        "State of a vertex on scratch.",
        each("vertices", _VERTEX, "scratch_bytes"),
    ),
    Metric(
        "vertex_scratch_files",
        "gauge",
        _VERTEX,
        "Files with state of a vertex on scratch.",
        each("vertices", _VERTEX, "scratch_files"),
    ),
    Metric(
        "vertex_unflushed_bytes",
        "gauge",
        _VERTEX,
        "Output that is in memory: not flushed yet, or not read yet.",
        each("vertices", _VERTEX, "tail_bytes"),
    ),
    Metric(
        "log_lag_rows",
        "gauge",
        _LOG,
        "Rows of a log's partition that are not read yet.",
        each_log("lag_rows"),
    ),
    Metric(
        "log_lag_seconds",
        "gauge",
        _LOG,
        "Time from the newest event read from a log's partition to now.",
        each_log("lag_s"),
    ),
    Metric("log_idle", "gauge", _LOG, "1 for a partition without new rows.", idle_logs),
    Metric(
        "log_holds_time_back",
        "gauge",
        _LOG,
        "1 for the partition whose time is the furthest behind.",
        each_log("holds_back"),
    ),
    Metric(
        "delivery_rows",
        "counter",
        _DELIVERY,
        "Rows delivered by this process.",
        each("deliveries", _DELIVERY, "rows"),
    ),
    Metric(
        "delivery_commits",
        "counter",
        _DELIVERY,
        "Commits at the destination by this process.",
        each("deliveries", _DELIVERY, "commits"),
    ),
    Metric(
        "delivery_lag_items",
        "gauge",
        _DELIVERY,
        "Items of the output that are not delivered yet.",
        each("deliveries", _DELIVERY, "lag_items"),
    ),
    Metric(
        "store_requests",
        "counter",
        ("process", "operation"),
        "Requests to stores by the driver's process and by each host's.",
        requests,
    ),
    Metric("delivery_failed", "gauge", _DELIVERY, "1 after the delivery failed.", dead_deliveries),
    Metric(
        "host_memory_used_bytes",
        "gauge",
        ("host",),
        "Memory of the host's process.",
        memory("used_bytes"),
    ),
    Metric(
        "host_memory_limit_bytes",
        "gauge",
        ("host",),
        "Memory limit of the host's machine or container.",
        memory("limit_bytes"),
    ),
    Metric(
        "host_state_memory_bytes",
        "gauge",
        ("host",),
        "State in memory that can be spilled.",
        memory("state_bytes"),
    ),
    Metric(
        "host_state_memory_budget_bytes",
        "gauge",
        ("host",),
        "State in memory beyond which the host spills (state_memory).",
        memory("state_budget_bytes"),
    ),
    Metric(
        "host_spilled_bytes",
        "gauge",
        ("host",),
        "State on the host's scratch disk.",
        memory("spilled_bytes"),
    ),
    Metric(
        "host_spilled_files",
        "gauge",
        ("host",),
        "Files with state on the host's scratch disk.",
        memory("spilled_files"),
    ),
]


class _Families:
    """The collector interface of Prometheus's client library."""

    def __init__(self, jobs: Sequence[tuple[str, Status]]) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[Any]:
        """Yield one metric family per metric, with the samples of all jobs."""
        for metric in METRICS:
            make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = make(PREFIX + metric.name, metric.help, labels=("job", *metric.labels))
            for job, status in self._jobs:
                for labels, value in metric.samples(status):
                    family.add_metric((job, *labels), value)
            yield family


def exposition(jobs: Sequence[tuple[str, Status]]) -> bytes:
    """Return the response to a scrape, as text. ``jobs``: name and status of each job."""
    return generate_latest(_Families(jobs))
