"""``jobmanager gc``: what a job that does not run keeps, and nobody needs.

Theory of operation. A running job collects by itself; what it leaves is what retention held, what
was kept for a job that has since ended, and files that no notice tells of (a checkpoint that was
stored when its host died). What is needed follows from the log, as for a job manager that takes
over: nobody lives. So whatever could be resumed before can be resumed after.

Invariants: (1) the root is owned meanwhile; (2) the answer (sinks and side outputs) and the log are
never touched; (3) volatile channels of an unfinished job are left alone.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.collection import kept_marks
from jobmanager.errors import JobRunningError
from jobmanager.manager import JobManager
from jobmanager.notice_log import NoticeLog
from jobmanager.options import RunOptions, applied, merged
from jobmanager.root import display_uri, is_owned
from jobmanager.topology import Topology
from rstream.blobs import open_store
from rstream.clock import SystemClock
from rstream.durable import DurableLog
from rstream.segments import parse_segment_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.config import JobConfig
    from jobmanager.ledger import Ledger
    from jobmanager.root import JobRoot
    from planner.physical import PhysicalPlan

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Garbage:
    """Files that nobody needs, by uri, and their bytes."""

    files: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Stream:
    id: str
    uri: str
    #: Segments wholly below are needless; None: all are.
    mark: int | None


def collect_garbage(
    root: JobRoot, config: JobConfig, options: RunOptions, *, is_dry_run: bool
) -> Garbage:
    """Delete what retention does not hold and no resume can need (or only say what that is).

    Raises:
        JobRunningError: a job manager works on it.
        UsageError: the root holds no job, or an option cannot be.
    """
    config = applied(config, merged(root.settings().get("options", {}), options))
    plan = root.read_plan()
    if plan is None:
        return Garbage((), 0)
    with _owned_for_a_while(root):
        manager = JobManager(Topology(plan.vertices), config)
        log = NoticeLog(root, SystemClock(), config, None)
        manager.recall(log.replay())
        log.close()
        marks = kept_marks(manager.job)
        streams = list(_streams(plan, manager.job, marks))
        found = [*_checkpoints(root, manager.job), *(f for s in streams for f in _segments(s))]
        if not is_dry_run:
            for name in _needless_checkpoints(root, manager.job):
                root.store.delete(name)
            for stream in streams:
                DurableLog(open_store(stream.uri), stream.id).collect(_mark(stream))
    return Garbage(tuple(uri for uri, _ in found), sum(size for _, size in found))


@contextlib.contextmanager
def _owned_for_a_while(root: JobRoot) -> Iterator[None]:
    """Nobody resumes the job meanwhile; its status is then as it was."""
    status, now_us = root.read_status(), SystemClock().now_us()
    if is_owned(status, now_us):
        raise JobRunningError(display_uri(root.uri), f"pid {status['pid']} on {status['machine']}")
    root.take_over(now_us)
    try:
        yield
    finally:
        root.write_status(status)


def _needless_checkpoints(root: JobRoot, job: Ledger) -> list[str]:
    needed = {
        name
        for vertex in job.topology.vertices
        for ref in job.tracker.refs(vertex)
        for name in (ref.name, *ref.parts)
    }
    return [path for path in root.store.list(CHECKPOINTS) if path not in needed]


def _checkpoints(root: JobRoot, job: Ledger) -> Iterator[tuple[str, int]]:
    for path in _needless_checkpoints(root, job):
        yield f"{display_uri(root.uri)}/{path}", root.store.size(path)


def _streams(plan: PhysicalPlan, job: Ledger, marks: dict[str, int | None]) -> Iterator[_Stream]:
    """The channels of which something may be needless."""
    has_ended = all(v.is_finished for v in job.vertices.values())
    for vertex in plan.vertices:
        for edge in vertex.outputs:
            for stream, uri in zip(edge.streams, edge.uris, strict=True):
                shape = job.topology.streams[stream]
                if shape.reader is not None and (shape.is_durable or has_ended):
                    yield _Stream(stream, uri, marks[stream])


def _segments(stream: _Stream) -> Iterator[tuple[str, int]]:
    store = open_store(stream.uri)
    for name in store.list():
        seqs = parse_segment_name(name)
        if seqs is not None and (stream.mark is None or seqs.hi <= stream.mark):
            yield f"{display_uri(store.uri)}/{name}", store.size(name)


def _mark(stream: _Stream) -> int:
    """Below this the stream can go."""
    if stream.mark is not None:
        return stream.mark
    ranges = [parse_segment_name(name) for name in open_store(stream.uri).list()]
    return max((seqs.hi for seqs in ranges if seqs is not None), default=0)
