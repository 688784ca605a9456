"""Copies the state of a job to another root while the job runs, as a crash would leave it.

Theory of operation. The job manager of a root that lost all its hosts starts each vertex from a
checkpoint that its log names, and then reads channels and journals. An *image* contains only these
files, so ``resume`` continues it like the job after a crash. Outputs begin empty, at the positions
of these checkpoints. The job may delete a file before it is copied, because a newer checkpoint has
replaced it; then the copy starts again.

Invariants: (1) no file is written to the root of the job; (2) a channel of the image has all items
from its reader's checkpoint to its writer's; (3) journals are copied before the log is read and
after the channels, so that no decision is missing on which an item of a channel depends.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jobmanager.config import JobConfig
from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.changes.errors import ChangePendingError
from jobmanager.driver.running.changes.snapshots import time_of_input
from jobmanager.driver.running.inputs import INPUTS
from jobmanager.errors import NoJobError
from jobmanager.manager.collection import kept_marks
from jobmanager.manager.manager import JobManager
from jobmanager.manager.takeover import copy_of
from jobmanager.state.topology import Topology
from jobmanager.storage.notice_log import read_notices
from jobmanager.storage.root import display_uri
from rstream.errors import OperatingError, UsageError, error_class
from rstream.log.durable import DurableLog
from rstream.store.local_files import link_file
from rstream.store.marks import raise_mark
from rstream.store.segment_names import parse_segment_name
from rstream.types import INF_TIME, MIN_TIME
from rvertex.checkpoint.checkpointer import read_checkpoint
from rvertex.checkpoint.journal import INTAKE
from rvertex.errors import CorruptCheckpointError
from rvertex.sources.versions import local_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobmanager.state.job_state import JobState
    from jobmanager.state.messages import StateCopied
    from jobmanager.state.tracker import CheckpointRef
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore

#: Most attempts to copy. The copy starts again if the job has deleted a file meanwhile.
COPIES_MAX = 30


@error_class
class NotCopiedError(OperatingError):
    """The job deleted files faster than they could be copied."""

    root: str
    file: str

    message = (
        "the state of {root} could not be copied: the job deletes files faster ({file}). Take a "
        "savepoint first: jobmanager savepoint {root}"
    )


@error_class
class NotRetainedError(UsageError):
    """No state from before the requested time is left."""

    root: str
    reason: str

    message = "{root} has no savepoint at or before that time, and {reason}"

    @classmethod
    def of_vertex(cls, root: JobRoot, vertex: str) -> NotRetainedError:
        """Make the error: no checkpoint of a vertex from before the time is left."""
        left = f"no checkpoint of {vertex} from then is left"
        more = "start jobs with --retain to keep more, or name a later time"
        return cls(display_uri(root.uri), f"{left}: {more}")

    @classmethod
    def of_ended_source(cls, root: JobRoot, vertex: str) -> NotRetainedError:
        """Make the error: a source has read its whole input, so its last checkpoint is too late."""
        ended = f"its source {vertex} has ended, so no checkpoint counts as one from then"
        more = f"name the time of a savepoint (jobmanager savepoint {display_uri(root.uri)})"
        return cls(display_uri(root.uri), f"{ended}: {more}, or leave out @TIME")


@dataclass(frozen=True, slots=True)
class PresentPlan:
    """The plan of a job, and the content of its file, which shows whether the plan has changed."""

    root: JobRoot
    plan: PhysicalPlan
    content: bytes

    @classmethod
    def read(cls, root: JobRoot) -> PresentPlan:
        """Read the plan of a root.

        Raises:
            NoJobError: the root contains no job.
        """
        # read the content first: if the plan changes in between, the check finds other content
        content = root.plan_file()
        plan = root.read_plan(to_run=True)
        if plan is None:
            raise NoJobError(display_uri(root.uri))
        return cls(root, plan, content)

    def check_unchanged(self) -> None:
        """Raise ChangePendingError if a change is committed, or the plan is a different one now."""
        root = self.root
        if pending.committed(root.store) is not None or root.plan_file() != self.content:
            raise ChangePendingError(display_uri(root.uri))


@dataclass(frozen=True, slots=True)
class Image:
    """A set of checkpoints from which to start.

    ``time_us``: event time that all sources had reached.
    """

    plan: PhysicalPlan
    job: JobState
    #: By channel: the first seq that its reader needs; None: it needs no items.
    marks: Mapping[str, int | None]
    time_us: int

    def ref(self, vertex: str) -> CheckpointRef:
        """Return the checkpoint from which a vertex starts."""
        return self.job.tracker.refs(vertex)[0]

    def ends(self, vertex: str) -> tuple[int, ...]:
        """Return the ends (seqs) of a vertex's outputs in this state."""
        state = self.job.vertices[vertex]
        return state.ends if state.is_finished else self.ref(vertex).outputs

    @property
    def copied(self) -> StateCopied:
        """Return the first record of a log whose root has this state."""
        copy = copy_of(self.job)
        rows = tuple(
            replace(row, refs=row.refs[:1], parts=row.refs[0].parts) for row in copy.vertices
        )
        return replace(copy, vertices=rows)


def find_image(present: PresentPlan, at_us: int | None) -> Image:
    """Return the newest state of a job, or the newest retained state at or before an event time.

    Raises:
        ChangePendingError: the job is being changed, or was changed since its plan was read.
        NotRetainedError: no checkpoint from before ``at_us`` is left.
        NoCheckpointError: a necessary checkpoint is corrupt.
    """
    root, plan = present.root, present.plan
    notices = [notice for _, notice in read_notices(root.store)]
    present.check_unchanged()  # check now that the log belongs to the plan
    manager = JobManager(Topology(plan.vertices), JobConfig())
    manager.recall(notices)
    job = manager.job
    if at_us is not None:
        _restrict(root, plan, job, at_us)
    marks = kept_marks(job)
    for stream, seq in job.collected.items():
        mark = marks.get(stream)
        if mark is not None and mark < seq:
            raise NotRetainedError.of_vertex(root, job.topology.streams[stream].writer.vertex)
    sources = [v.id for v in plan.vertices if v.source is not None]
    times = [_time(root, plan, job, v, job.tracker.refs(v)[0]) for v in sources]
    return Image(plan, job, marks, min(times, default=MIN_TIME))


def _restrict(root: JobRoot, plan: PhysicalPlan, job: JobState, at_us: int) -> None:
    """Drop checkpoints of all vertices that contain rows from after a time."""
    tracker = job.tracker
    for vertex in job.topology.vertices.values():
        if vertex.is_source and job.vertices[vertex.id].is_finished:
            raise NotRetainedError.of_ended_source(root, vertex.id)
    for vertex in job.topology.vertices.values():
        for ref in reversed(tracker.refs(vertex.id)):
            if vertex.is_source:
                is_early = _time(root, plan, job, vertex.id, ref) <= at_us
            else:
                ends = [tracker.newest(s.writer.vertex).outputs for s in vertex.inputs]
                read = zip(ref.inputs, ends, vertex.inputs, strict=False)
                is_early = all(seq <= end[s.writer.index] for seq, end, s in read)
            if is_early:
                refs = tracker.refs(vertex.id)
                tracker.restore(vertex.id, refs[: refs.index(ref) + 1])
                break
        else:
            raise NotRetainedError.of_vertex(root, vertex.id)


def _time(root: JobRoot, plan: PhysicalPlan, job: JobState, vertex: str, ref: CheckpointRef) -> int:
    """Return the event time that a source had reached at its checkpoint."""
    if job.vertices[vertex].is_finished:
        return int(INF_TIME)
    if not ref.name:
        return int(MIN_TIME)
    return time_of_input(read_checkpoint(root.store, ref.name, plan.vertex(vertex)).snapshot)


def copy_image(
    present: PresentPlan, target: JobRoot, there: PhysicalPlan, at_us: int | None
) -> Image:
    """Copy a state of the job to another root. ``there``: the plan in that root.

    ``at_us``: see :func:`find_image`.

    Raises:
        NotCopiedError: the job deletes files faster than they can be copied.
        ChangePendingError, NotRetainedError, NoCheckpointError: see :func:`find_image`.
    """
    gone, copies = "", _Copies(present.root.store, target.store)
    for _ in range(COPIES_MAX):
        try:
            return _copied(present, target, there, at_us, copies)
        except (FileNotFoundError, CorruptCheckpointError) as error:
            gone = str(error)
    raise NotCopiedError(display_uri(present.root.uri), gone)


class _Copies:
    """Copies files between two stores, to the same paths. The files never change.

    So a file that an earlier attempt has copied is not copied again, and later attempts are
    shorter.
    """

    def __init__(self, store: BlobStore, target: BlobStore) -> None:
        self._store, self._target = store, target
        self._paths: set[str] = set()
        folders = local_path(store.uri), local_path(target.uri)
        self._folders = None if None in folders else folders

    def copy(self, path: str) -> None:
        if path in self._paths:
            return
        if self._folders is not None:
            link_file(f"{self._folders[0]}/{path}", f"{self._folders[1]}/{path}", sync=True)
        else:
            self._target.put(path, self._store.get(path))
        self._paths.add(path)

    def copy_folder(self, folder: str) -> None:
        """Copy the files that exist now. A file that is deleted meanwhile is left out."""
        for path in self._store.list(folder):
            with contextlib.suppress(FileNotFoundError):
                self.copy(path)


def _copied(
    present: PresentPlan,
    target: JobRoot,
    there: PhysicalPlan,
    at_us: int | None,
    copies: _Copies,
) -> Image:
    copies.copy_folder(INTAKE)
    image = find_image(present, at_us)
    for vertex in present.plan.vertices:
        ref = image.ref(vertex.id)
        for path in (ref.name, *ref.parts):
            if path and not path.startswith(f"{INTAKE}/"):
                copies.copy(path)
    _copy_channels(present.root, target, image, copies)
    copies.copy_folder(INTAKE)
    copies.copy_folder(INPUTS)
    present.check_unchanged()
    for vertex in there.vertices:
        edges = [(edge, uri) for edge in vertex.outputs for uri in edge.uris]
        for (edge, uri), end in zip(edges, image.ends(vertex.id), strict=True):
            if end and (edge.is_sink or edge.side):
                raise_mark(target.open_store(uri), end, ())
    return image


def _copy_channels(root: JobRoot, target: JobRoot, image: Image, copies: _Copies) -> None:
    """Copy the items that readers need. Raises FileNotFoundError if the job has deleted any."""
    for vertex in image.plan.vertices:
        edges = [(e, u, s) for e in vertex.outputs for u, s in zip(e.uris, e.streams, strict=True)]
        for (_, uri, stream), end in zip(edges, image.ends(vertex.id), strict=True):
            shape, mark = image.job.topology.streams[stream], image.marks.get(stream)
            if shape.reader is None or not shape.is_durable or mark is None:
                continue
            folder = uri.removeprefix(f"{image.plan.root}/")
            for path in root.store.list(folder):
                seqs = parse_segment_name(path.rpartition("/")[2])
                if seqs is not None and seqs.hi > mark:
                    copies.copy(path)
            if mark:
                raise_mark(target.store.child(folder), mark, ())
            log = DurableLog(target.store.child(folder), stream)
            if log.contiguous_end(mark) < end:
                raise FileNotFoundError(f"{stream}: items {mark} to {end - 1} are no longer stored")
