"""``jobmanager gc``: deletes files that a stopped job no longer needs; it can still be resumed.

Theory of operation. A running job deletes obsolete files by itself. It leaves files kept by
retention, files needed only while the job runs, and files that no notice names. (Examples: a
checkpoint whose host died while writing it, if no vertex restarted afterwards; the state of a
production that another instance made.) The log decides which files are needed, as for a job manager
that takes over when no instance lives. So every resume that was possible before gc is possible
after it. The remaining checkpoints are logged before any deletion, so a resume never uses deleted
files. If all inputs of a damaged result are deleted, the result cannot be computed again, and
``resume`` reports that at once.

Invariants: (1) gc owns the root meanwhile, with its own epoch; (2) it never changes the result
(sinks and side outputs) or the log; (3) it leaves volatile channels of an unfinished job alone;
(4) it keeps the newest entry of a journal, which fences a suspended instance that resumes.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.errors import JobRunningError
from jobmanager.manager.collection import checkpoints_kept, kept_marks
from jobmanager.manager.manager import JobManager
from jobmanager.options import RunOptions, applied, merged
from jobmanager.state.messages import StateCopied
from jobmanager.state.topology import Topology
from jobmanager.storage.notice_log import NoticeLog, read_notices
from jobmanager.storage.root import CHECKPOINTS, display_uri
from jobmanager.storage.savepoints import incomplete, named_files
from rstream.clock import SystemClock
from rstream.log.durable import DurableLog
from rstream.store.blobs import open_store
from rstream.store.segment_names import parse_segment_name
from rvertex.checkpoint.journal import INTAKE, PRODUCTIONS, STATES, VALUES
from rvertex.checkpoint.productions import parts_of_entries
from rvertex.messages import CheckpointTaken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jobmanager.config import JobConfig
    from jobmanager.state.job_state import JobState
    from jobmanager.state.messages import Notice
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan


@dataclass(frozen=True, slots=True)
class Garbage:
    """Obsolete files: their uris, and their total size in bytes."""

    files: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Stream:
    id: str
    uri: str
    #: The seq below which items are obsolete. A segment is obsolete if all its items are. None: all
    #: segments are.
    mark: int | None


def collect_garbage(
    root: JobRoot, config: JobConfig, options: RunOptions, *, is_dry_run: bool
) -> Garbage:
    """Delete the files of a job that neither retention nor a resume needs. Return them.

    ``is_dry_run``: only return them.

    Raises:
        JobRunningError: a job manager works on the root.
        UsageError: the root holds no job, or one of another version; an option is invalid; or the
            root is not trusted.
    """
    root.check_trusted()
    recorded = root.readable_settings().get("options", {})
    config = applied(config, merged(recorded, options))
    plan = root.read_plan()
    if plan is None:
        return Garbage((), 0)
    with _owned_for_a_while(root, config, is_dry_run=is_dry_run) as log:
        manager = JobManager(Topology(plan.vertices), config)
        notices = [notice for _, notice in read_notices(root.store)]
        manager.recall(notices)
        marks = kept_marks(manager.job)
        streams = list(_streams(plan, manager.job, marks))
        obsolete = _obsolete_files(root, manager.job, _announced(notices))
        files = [(f"{display_uri(root.uri)}/{p}", root.store.size(p)) for p in obsolete]
        files += [f for s in streams for f in _segments(s)]
        if log is not None:
            if files:
                _record(log, manager.job, streams)
            root.check_owner()
            for name in obsolete:
                root.store.delete(name)
            for stream in streams:
                DurableLog(open_store(stream.uri), stream.id).collect(_mark(stream))
    return Garbage(tuple(uri for uri, _ in files), sum(size for _, size in files))


@contextlib.contextmanager
def _owned_for_a_while(
    root: JobRoot, config: JobConfig, *, is_dry_run: bool
) -> Iterator[NoticeLog | None]:
    """Own the root during the block, so that no process resumes the job. The status stays.

    Yields the log to write; None in a dry run.
    """
    now_us = SystemClock().now_us()
    root.check_idle(now_us)
    if is_dry_run:
        yield None
        return
    status = root.read_status()
    root.take_over(now_us)
    try:
        log = NoticeLog(root, SystemClock(), config, None)
        try:
            yield log
        finally:
            log.close()
    finally:
        with contextlib.suppress(JobRunningError):  # a new owner of the root writes the status
            root.check_owner()
            root.write_status(status)


def _record(log: NoticeLog, job: JobState, streams: Iterable[_Stream]) -> None:
    """Log durably which files remain, so that no job manager relies on a deleted file."""
    durable = [s for s in streams if job.topology.streams[s.id].is_durable]
    job.collected |= {s.id: max(_mark(s), job.collected.get(s.id, 0)) for s in durable}
    for vertex in job.topology.vertices.values():
        if vertex.is_exclusive and _is_over(job, vertex.id):
            job.collected[vertex.id] = 1
    log.append(checkpoints_kept(job))
    log.flush()


def _is_over(job: JobState, vertex: str) -> bool:
    """Return whether a vertex has no remaining checkpoint with a file."""
    return job.is_retired(vertex) and not any(r.name for r in job.tracker.refs(vertex))


def _announced(notices: Iterable[Notice]) -> set[str]:
    """Return all files of checkpoints that the log names."""
    names: set[str] = set()
    for notice in notices:
        if isinstance(notice, CheckpointTaken):
            names.update((notice.name, *notice.parts))
        elif isinstance(notice, StateCopied):
            for vertex in notice.vertices:
                names.update(vertex.parts, *((r.name, *r.parts) for r in vertex.refs))
    return names


def _obsolete_files(root: JobRoot, job: JobState, announced: set[str]) -> list[str]:
    """Return checkpoints, journal entries and states of productions that no resume can need."""
    needed = {
        name
        for vertex in job.topology.vertices
        for ref in job.tracker.refs(vertex)
        for name in (ref.name, *ref.parts)
    }
    needed |= named_files(root.store)
    obsolete = [path for path in root.store.list(CHECKPOINTS) if path not in needed]
    obsolete += incomplete(root.store)
    for vertex in job.topology.vertices:
        is_over = _is_over(job, vertex)
        for kind in (VALUES, PRODUCTIONS, INTAKE):
            # the newest entry fences suspended instances
            *entries, _ = root.store.list(f"{kind}/{vertex}") or [""]
            obsolete += [e for e in entries if is_over or (e in announced and e not in needed)]
        states = root.store.list(f"{STATES}/{vertex}")
        if states and not is_over:
            kept = [e for e in root.store.list(f"{PRODUCTIONS}/{vertex}") if e not in obsolete]
            needed |= parts_of_entries(root.store, kept)
        obsolete += [path for path in states if is_over or path not in needed]
    return obsolete


def _streams(plan: PhysicalPlan, job: JobState, marks: dict[str, int | None]) -> Iterator[_Stream]:
    """Yield the channels that may have obsolete segments."""
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
    """Return the seq below which items of the stream are obsolete."""
    if stream.mark is not None:
        return stream.mark
    ranges = [parse_segment_name(name) for name in open_store(stream.uri).list()]
    return max((seqs.hi for seqs in ranges if seqs is not None), default=0)
