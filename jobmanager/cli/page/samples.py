"""The values of metrics, extracted from a job's status."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from jobmanager.state.job_state import OPEN_STATES
from rstream.store.requests import KINDS
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Status = dict[str, Any]
#: The values of a metric's labels (without ``job``), and the value of the metric.
Sample = tuple[tuple[str, ...], float]

US_PER_S = 1_000_000
_HEALTH = {"ok": 0, "waiting": 1, "degraded": 2}


def one(key: str) -> Callable[[Status], Iterator[Sample]]:
    """Extract the value of ``key`` from the status, if present."""

    def samples(status: Status) -> Iterator[Sample]:
        if status.get(key) is not None:
            yield (), float(status[key])

    return samples


def each(
    rows: str, labels: tuple[str, ...], key: str, *, scale: float = 1.0
) -> Callable[[Status], Iterator[Sample]]:
    """Extract the value of ``key`` from each row of the status's list ``rows`` that has the key."""

    def samples(status: Status) -> Iterator[Sample]:
        for row in status.get(rows, ()):
            if row.get(key) is not None:
                yield tuple(str(row[label]) for label in labels), row[key] * scale

    return samples


def each_log(key: str) -> Callable[[Status], Iterator[Sample]]:
    """Extract the value of ``key`` from each partition of each live log."""

    def samples(status: Status) -> Iterator[Sample]:
        for vertex in status.get("vertices", ()):
            for log in vertex.get("logs", ()):
                if log.get(key) is not None and log["state"] != "ended":
                    yield (vertex["stage"], str(log["partition"])), float(log[key])

    return samples


def idle_logs(status: Status) -> Iterator[Sample]:
    for vertex in status.get("vertices", ()):
        for log in vertex.get("logs", ()):
            yield (vertex["stage"], str(log["partition"])), float(log["state"] == "idle")


def findings(status: Status) -> Iterator[Sample]:
    counts = Counter((row["gravity"], row["kind"]) for row in status.get("findings", ()))
    for labels, count in sorted(counts.items()):
        yield labels, float(count)


def memory(key: str) -> Callable[[Status], Iterator[Sample]]:
    def samples(status: Status) -> Iterator[Sample]:
        for host in status.get("hosts", ()):
            if host.get("memory"):  # a status of an older release has fewer keys
                yield (host["host"],), float(host["memory"].get(key, 0))

    return samples


def requests(status: Status) -> Iterator[Sample]:
    """Count each process once: a process may run several hosts, and the driver's may run some."""
    sent = {status.get("pid"): ("driver", status.get("store_requests", ()))}
    for host in status.get("hosts", ()):
        counts = (host.get("memory") or {}).get("store_requests", ())
        sent.setdefault(host["pid"], (host["host"], counts))
    for process, counts in sent.values():
        for kind, count in zip(KINDS, counts, strict=False):  # an older release counts none
            yield (process, kind), float(count)


def is_up(status: Status) -> Iterator[Sample]:
    yield (), float(status["state"] in OPEN_STATES)


def health(status: Status) -> Iterator[Sample]:
    yield (), float(_HEALTH[status["health"]])


def reasons(status: Status) -> Iterator[Sample]:
    kinds = sorted({(row["health"], row["kind"]) for row in status.get("reasons", ())})
    for health, kind in kinds:
        count = sum((r["health"], r["kind"]) == (health, kind) for r in status["reasons"])
        yield (health, kind), float(count)


def watermarks(status: Status) -> Iterator[Sample]:
    for row in status.get("vertices", ()):
        if row["cti_us"] not in (MIN_TIME, INF_TIME):
            yield (row["stage"], row["vertex"]), row["cti_us"] / US_PER_S


def dead_deliveries(status: Status) -> Iterator[Sample]:
    for row in status.get("deliveries", ()):
        labels = row["delivery"], str(row["partition"])
        yield labels, float(row["state"] == "failed")
