"""The status of a job: one dictionary, for the status file, the CLI and ``Job.status()``."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

from jobmanager.driver.lost_rows import bad_sources, late_sources, lost_lines
from jobmanager.manager.hosts import drain_refusals
from jobmanager.state.held_time import held_of
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.state.odd_times import odd_times
from jobmanager.state.records import HostState
from rstream.store.requests import requests_sent
from rstream.types import INF_TIME, MIN_TIME
from rvertex.host.allocator import killed_for_memory
from rvertex.messages import Counts, Memory, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobmanager.manager.manager import JobManager
    from jobmanager.state.records import InstanceState, Join, VertexState

_US_PER_S = 1_000_000
#: Counters of events that do not reach the output, in the status of the job and of each vertex.
_LOST = [name for name in Counts.__slots__ if name not in ("events_in", "events_out", "lateness")]
#: The status row for a vertex that has no instance.
NOBODY: dict[str, Any] = {
    "epoch": 0,
    "host": "",
    "pid": None,  # not 0, because `kill -9 0` would kill the caller's own processes
    "checkpoint": "",
    "inputs": [],
    "outputs": [],
    "durable": [],
}


def status_of(manager: JobManager, *, now_us: int) -> dict[str, Any]:
    """Return the present status of the job, in JSON types."""
    states = manager.vertices.values()
    newest = max((v.max_vs for v in states), default=MIN_TIME)
    holding = _held_back_by(states)
    rows = [
        _vertex(manager, v, newest)
        | {
            "logs": _logs_of(v, holding, now_us=now_us),
            "checkpoint_age_s": _checkpoint_age_s(manager, v, now_us),
        }
        for v in states
    ]
    why_not = drain_refusals(manager.job)
    return {
        "state": manager.state,
        "error": manager.error,
        "waiting": manager.job.waiting if manager.state in OPEN_STATES else "",
        "pid": os.getpid(),
        "machine": socket.gethostname(),
        "written_us": now_us,
        "kernel_kills": killed_for_memory(),
        "store_requests": list(requests_sent()),
        "events_in": sum(v.counts.events_in for v in states if v.shape.is_source),
        "events_out": sum(v.counts.events_out for v in states if v.shape.is_sink),
        **{name: sum(getattr(v.counts, name) for v in states) for name in _LOST},
        "late": late_sources(states),
        "odd_times": odd_times(states, now_us),
        "bad": bad_sources(states),
        "restarts": sum(v.restarts for v in states),
        "output_digest": output_digest(manager),
        "held": held_of(list(states)) if manager.state in OPEN_STATES else [],
        "calls": _calls(states) if manager.state in OPEN_STATES else [],
        "trouble": manager.job.trouble,
        "losses": [{"host": h.name, "count": len(h.losses)} for h in manager.hosts if h.losses],
        "failing": [
            {"vertex": v.shape.id, "count": len(v.fruitless_restarts)}
            for v in states
            if v.fruitless_restarts
        ],
        "hosts": [_host(manager, h, why_not) for h in manager.hosts],
        "vertices": rows,
    }


def _calls(states: Iterable[VertexState]) -> list[dict[str, Any]]:
    """Return a row per vertex and function whose asynchronous calls have not returned yet."""
    return [
        {"vertex": state.shape.id, **asdict(counts)}
        for state in states
        if state.leader is not None
        for counts in state.leader.calls
    ]


def output_digest(manager: JobManager) -> str:
    """Return the digest over all output items in order of seq, sink vertex after sink vertex.

    It is empty until every sink has finished.
    """
    sinks = [v for v in manager.vertices.values() if v.shape.is_sink]
    if not sinks or any(v.state != "finished" for v in sinks):
        return ""
    total = hashlib.blake2b(digest_size=16)
    for vertex in sinks:
        for stream, digest in zip(vertex.shape.outputs, vertex.digests, strict=True):
            if stream.reader is None and not stream.is_side:
                total.update(digest)
    return total.hexdigest()


def _vertex(manager: JobManager, vertex: VertexState, newest_us: int) -> dict[str, Any]:
    """Return the row of a vertex: the report of its furthest instance, then all its instances.

    ``newest_us``: the time of the newest event that any source has read.
    """
    instances = [_instance(manager, vertex, i) for i in vertex.instances]
    leader = vertex.leader
    furthest = next((row for row in instances if leader and row["epoch"] == leader.epoch), NOBODY)
    return {
        "vertex": vertex.shape.id,
        "stage": vertex.shape.stage,
        "state": vertex.state,
        "strategy": vertex.shape.recovery.strategy,
        **{key: furthest[key] for key in NOBODY},
        "restarts": vertex.restarts,
        **{name: getattr(vertex.counts, name) for name in ("events_in", "events_out", *_LOST)},
        "cti_us": vertex.cti,
        "cti_lag_s": _lag_s(vertex, newest_us),
        "waiting": "" if leader is None else leader.waiting,
        "tail_bytes": sum(row["tail_bytes"] for row in instances),
        "state_bytes": vertex.state_bytes,
        "blocked": leader is not None and leader.is_blocked,
        **_flat(Timing() if leader is None else leader.timing),
        "instances": [*instances, *(_joining(manager, join) for join in vertex.joins)],
    }


def _flat(record: Timing | Memory) -> dict[str, Any]:
    """Return a record as a dict of JSON types, faster than ``asdict``, which copies each value."""
    return {name: _plain(getattr(record, name)) for name in record.__slots__}


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _instance(manager: JobManager, vertex: VertexState, instance: InstanceState) -> dict[str, Any]:
    host = _host_named(manager, instance.host)
    return {
        "role": _role(manager, vertex, instance),
        "state": instance.state,
        "epoch": instance.epoch,
        "host": instance.host,
        "pid": (host.pid or None) if host is not None else None,
        "checkpoint": instance.checkpoint,
        "inputs": list(instance.consumed),
        "outputs": list(instance.outputs),
        "durable": list(instance.durable),
        "cti_us": instance.cti,
        "tail_bytes": instance.tail_bytes if manager.state in OPEN_STATES else 0,
    }


def _role(manager: JobManager, vertex: VertexState, instance: InstanceState) -> str:
    """Return the role of an instance, such as twin or replica."""
    if manager.hosts[instance.slot].is_draining:
        return "draining"
    if instance.replaces is not None:
        return "twin"
    if instance.state in ("waiting", "starting") and len(vertex.instances) > 1:
        return "joining"
    return "primary" if instance is vertex.instances[0] else "replica"


def _joining(manager: JobManager, join: Join) -> dict[str, Any]:
    """Return the row of an instance that will start once its checkpoint arrives."""
    return {
        **NOBODY,
        "role": "joining" if join.replaces is None else "twin",
        "state": "waiting",
        "host": manager.hosts[join.slot].name,
        "cti_us": MIN_TIME,
        "tail_bytes": 0,
    }


def _lag_s(vertex: VertexState, newest_us: int) -> float | None:
    """Return event time from the vertex's CTI (watermark) to the newest event that was read, s."""
    if vertex.cti == INF_TIME or vertex.state == "finished":
        return 0.0
    if MIN_TIME in (newest_us, vertex.cti):
        return None
    return max(0.0, (newest_us - vertex.cti) / _US_PER_S)


def _checkpoint_age_s(manager: JobManager, vertex: VertexState, now_us: int) -> float | None:
    """Return the time since the vertex's last checkpoint, s; None: it has none, or has finished."""
    taken_us = manager.job.tracker.newest(vertex.shape.id).taken_us
    return (now_us - taken_us) / _US_PER_S if taken_us and not vertex.is_finished else None


def _host_named(manager: JobManager, name: str) -> HostState | None:
    slot = HostState.slot_of(name)
    host = manager.hosts[slot] if 0 <= slot < len(manager.hosts) else None
    return host if host is not None and host.name == name else None


def _host(
    manager: JobManager, host: HostState, why_not: Callable[[HostState], str]
) -> dict[str, Any]:
    is_open = manager.state in OPEN_STATES
    return {
        "host": host.name,
        "state": host.condition if is_open else "stopped",
        "machine": host.machine,
        "pid": host.pid or None,
        "address": host.address,
        "memory": _flat(host.memory) if is_open and host.memory is not None else None,
        "cannot_drain": why_not(host) if is_open else "the job has ended",
        "busy": host.busy if is_open else "",
    }


def status_html(status: dict[str, Any]) -> str:
    """Return a status as HTML for notebooks: a row for the job, then a table of its vertices."""
    title = f"{status.get('job', '')}: {status['state']}"
    error = f"<p>{escape(status['error'])}</p>" if status.get("error") else ""
    about = "".join(f"<li>{escape(line)}</li>" for line in lost_lines(status))
    keys = ("vertex", "state", "events_in", "events_out", "late_events", "bad_rows")
    rows = [[str(v.get(key, "")) for key in keys] for v in status.get("vertices", ())]
    cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    head = "".join(f"<th>{key.replace('_', ' ')}</th>" for key in keys)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    place = escape(str(status.get("root", "")))
    return (
        f"<b>{escape(title)}</b> <code>{place}</code>{error}"
        f"<table><tr>{head}</tr>{body}</table><ul>{about}</ul>"
    )


def _held_back_by(vertices: Iterable[VertexState]) -> list[tuple[str, int]]:
    """Return vertex and log partition of each active partition with the smallest frontier.

    The output's watermark cannot pass this frontier, so these partitions delay event time.
    """
    active = [
        (log.frontier, vertex.shape.id, log.partition)
        for vertex in vertices
        if not vertex.is_finished and vertex.leader is not None
        for log in vertex.leader.logs
        if log.state == "active"
    ]
    least = min((frontier for frontier, *_ in active), default=None)
    return [(vertex, partition) for frontier, vertex, partition in active if frontier == least]


def _logs_of(
    vertex: VertexState, holding: list[tuple[str, int]], *, now_us: int
) -> list[dict[str, Any]]:
    """Return a row per log partition of a source vertex, in JSON types.

    ``lag_rows``: rows of the log that are not read yet; None if the log's end is unknown.
    ``lag_s``: seconds from the newest read event's time to now; None before the first event.
    """
    leader = vertex.leader
    return [
        {
            "partition": log.partition,
            "state": log.state,
            "position": log.position,
            "lag_rows": None if log.lag < 0 else log.lag,
            "lag_s": None if log.max_vs == MIN_TIME else (now_us - log.max_vs) / _US_PER_S,
            "frontier_us": log.frontier,
            "holds_back": (vertex.shape.id, log.partition) in holding,
            "lost": log.lost,
            "dead": log.dead,
        }
        for log in (leader.logs if leader is not None else ())
    ]
