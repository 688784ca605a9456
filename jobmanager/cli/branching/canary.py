"""A canary: another query runs beside a job for a while, and both outputs are compared.

Both queries compute the same range of event time from the same input, so the comparison is exact:
rows that start in the range, as bags, in the columns that both outputs have. The range begins where
no row depends on the state that the branch continued (:mod:`jobmanager.cli.branching.onset`). It is
complete once both outputs have reached its end.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobmanager.cli.branching.abandoned import delete_abandoned, recorded
from jobmanager.cli.branching.branch import fresh_root, prepare
from jobmanager.cli.branching.onset import Onset, onsets
from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.deploying import LOOK_S
from jobmanager.errors import JobFailedError, NoJobError
from jobmanager.replay.rows.diffing import compared, pairing_keys, rows_between
from jobmanager.state.held_time import range_of
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.root import JobRoot, display_uri
from jobmanager.storage.savepoints import read_savepoint
from jobmanager.storage.shown import shown_status
from rstream.clock import SystemClock
from rstream.errors import OperatingError, UsageError, error_class
from rstream.items.batch import EVENT, KIND, VS, event_schema, int64_column, only_events, widened
from rstream.items.dictionaries import plain_schema
from rstream.log.durable import DurableLog
from rstream.log.reader import open_reader
from rstream.store.blobs import open_store
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.cli.branching.branch import Branch
    from jobmanager.config import JobConfig
    from jobmanager.driver.job import Job
    from jobmanager.replay.rows.diffing import VersionDiff
    from jobmanager.storage.query_file import LoadedFile
    from planner.physical.plan import PhysicalPlan

#: Most wall time of a canary: this many times its event time, plus the second number of seconds.
WALL_TIMES_MAX, WALL_MORE_S = 3, 600.0
#: Most rows of both outputs that a canary compares. They are in memory.
ROWS_MAX = 4_000_000
_HASH_DIGITS = 12


@error_class
class CanaryError(UsageError):
    """The job cannot have a canary."""

    root: str
    reason: str

    message = "{root} cannot have a canary: {reason}"


@error_class
class CanaryFailedError(OperatingError):
    """The canary could not be completed."""

    root: str
    reason: str

    message = "the canary failed, and {root} continues unchanged: {reason}"


@dataclass(frozen=True, slots=True)
class Canary:
    """The result of a canary: per output, the differences of rows in ``[begin_us, end_us)``."""

    comparison: str
    begin_us: int
    end_us: int
    differences: dict[str, VersionDiff]
    #: For each output, the stages that may use old rows, which only the former query read.
    mixed: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_equal(self) -> bool:
        """Whether all rows are equal in the columns that both queries have, and there are some.

        False for an output with ``mixed`` stages: its rows may be equal only because the former
        query has computed a part of them.
        """
        equal = all(difference.has_equal_rows for difference in self.differences.values())
        return equal and not self.without_rows and not any(self.mixed.values())

    @property
    def without_rows(self) -> list[str]:
        """The outputs without rows in the range, for which no rows were compared."""
        found = self.differences.items()
        return [name for name, d in found if not (d.old_rows or d.new_rows)]

    @property
    def hash(self) -> str:
        """The hash that approves these differences.

        It is computed from the comparison of the stages and from the kinds of differences
        (:func:`_kinds`). Numbers of rows do not count, so that another canary with the same kinds
        has the same hash.
        """
        outputs = sorted(self.differences.items())
        kinds = [[name, _kinds(d), sorted(self.mixed.get(name, ()))] for name, d in outputs]
        text = json.dumps([self.comparison, kinds])
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]

    def __str__(self) -> str:
        rows = sum(d.old_rows for d in self.differences.values())
        lines = [f"canary {range_of(self.begin_us, self.end_us)}:"]
        if self.is_equal:
            return f"{lines[0]} equal, {rows:,} rows"
        for name, difference in self.differences.items():
            prefix = f"output {name}: " if len(self.differences) > 1 else ""
            is_empty = name in self.without_rows
            lines.append(
                prefix + ("no rows, nothing was compared" if is_empty else f"{difference}")
            )
            if stages := self.mixed.get(name):
                lines.append(
                    f"{prefix}not compared for sure: {', '.join(stages)} may use rows of any age "
                    "that the former query has read"
                )
        return "\n".join([*lines, f"difference {self.hash}"])

    def to_json(self) -> dict[str, Any]:
        """Return the fields in JSON types."""
        known = {"equal": self.is_equal, "hash": self.hash}
        times = {"begin_us": self.begin_us, "end_us": self.end_us}
        mixed = {name: list(stages) for name, stages in self.mixed.items() if stages}
        outputs = {name: difference.to_json() for name, difference in self.differences.items()}
        return {**known, **times, "mixed": mixed, "outputs": outputs}


def _kinds(difference: VersionDiff) -> list[Any]:
    """Return the kinds of differences of an output.

    By column, whether values become null, become known, or change: in pairs of rows, and in all
    rows without a pair, as bags. Whether rows are missing or added. Whether a side has no row at
    all, and whether no row is equal. Which columns only one side has, and the columns by which rows
    were paired.
    """
    d = difference
    return [
        {name: sorted(kinds) for name, kinds in sorted(d.kinds.items())},
        {name: sorted(kinds) for name, kinds in sorted(d.unpaired.items())},
        [d.only_old > d.changed, d.only_new > d.changed],
        [d.old_rows == 0, d.new_rows == 0, 0 < d.old_rows == d.only_old],
        [sorted(d.removed_columns), sorted(d.added_columns), list(d.keys)],
    ]


def run_canary(
    file: str | LoadedFile,
    root: str,
    duration_us: int,
    *,
    comparison: str,
    trust: bool = False,
    config: JobConfig | None = None,
    on_started: Callable[[Branch], None] = lambda _: None,
    on_range: Callable[[int, int], None] = lambda begin_us, end_us: None,
) -> Canary:
    """Run the query of a file in a branch of a job, and compare both outputs. Delete the branch.

    ``duration_us``: the length of the range of event time that is compared. ``comparison``: the
    hash of the comparison of the stages. ``on_range``: called with the range, if it is known before
    the rows are read.

    Raises:
        CanaryError: the job does not run, or its output has rows without an end.
        CanaryFailedError: the branch failed, the job was changed, event time did not advance, or
            the range has more than ``ROWS_MAX`` rows.
        ChangeRefusedError, ChangeUndoneError: the query cannot continue the state.
    """
    job_root = JobRoot(root, trust=trust)
    plan, here = job_root.read_plan(), display_uri(job_root.uri)
    if plan is None:
        raise NoJobError(here)
    state = shown_status(job_root, SystemClock().now_us())["state"]
    if state not in OPEN_STATES:
        raise CanaryError(here, f"it is {state}, so there is no output to compare with")
    if any(output.changes is not None for output in plan.of_outputs):
        reason = "its output has rows whose end is not known yet; use jobmanager branch"
        raise CanaryError(here, reason)
    target, now_us = fresh_root(root, "canary"), SystemClock().now_us()
    delete_abandoned(job_root, now_us)
    with recorded(job_root, target, now_us):
        made = prepare(file, root, new_root=target, trust=trust)
        on_started(made)
        job, until_s = _started(made, here, duration_us, config)
        try:
            beside = _Beside(job_root, plan, made, job)
            if beside.begin_us != MIN_TIME:
                on_range(beside.begin_us, beside.begin_us + duration_us)
            begin_us, end_us = beside.wait(duration_us, until_s + WALL_TIMES_MAX * beside.ahead_s)
            differences = beside.differences(begin_us, end_us)
            return Canary(comparison, begin_us, end_us, differences, beside.mixed)
        except JobFailedError as error:
            raise CanaryFailedError(here, str(error)) from error
        finally:
            job.cancel()
            with contextlib.suppress(JobFailedError):
                job.wait()
            made.delete()


def _started(
    made: Branch, here: str, duration_us: int, config: JobConfig | None
) -> tuple[Job, float]:
    """Start the branch. Return it, and the time of its deadline, s of the monotonic clock."""
    until_s = SystemClock().monotonic_s() + _wall_s(duration_us)
    try:
        return made.start(config=config, until_s=until_s), until_s
    except JobFailedError as error:
        raise CanaryFailedError(here, str(error)) from error
    except TimeoutError as error:
        reason = f"its query has not begun within {_wall_s(duration_us):,.0f} s"
        raise CanaryFailedError(here, reason) from error


def _wall_s(duration_us: int) -> float:
    """Return the wall time that a canary may take, once its range begins."""
    return WALL_TIMES_MAX * duration_us / 1e6 + WALL_MORE_S


class _Output:
    """The rows of one output partition from a seq on, and the time up to which it is complete."""

    def __init__(self, uri: str, first_seq: int) -> None:
        self._reader = open_reader(open_store(uri), first_seq)
        self.events: list[pa.RecordBatch] = []
        self.rows = 0
        #: No later row starts before this time.
        self.reached_us = int(MIN_TIME)

    def read(self, begin_us: int, until_us: int) -> None:
        """Read the events from ``begin_us`` until the output has reached ``until_us``.

        Stop earlier after about ``ROWS_MAX`` rows.
        """
        while self.reached_us < until_us and self.rows <= ROWS_MAX:
            items = self._reader.read_next()
            if items is None:
                return
            last = items.batch.slice(items.batch.num_rows - 1)
            self.reached_us = int(int64_column(last, VS)[0])
            events = only_events(items.batch)
            events = events.filter(pa.array(int64_column(events, VS) >= begin_us))
            if events.num_rows:
                self.events.append(events)
                self.rows += events.num_rows

    def close(self) -> None:
        self._reader.close()


class _Beside:
    """Reads the outputs of a job and of its branch until both are complete up to a time."""

    def __init__(self, root: JobRoot, plan: PhysicalPlan, made: Branch, job: Job) -> None:
        self._root, self._plan, self._job = root, plan, job
        self._here, self._clock = display_uri(root.uri), SystemClock()
        self._id = root.settings()["id"], plan.plan_hash
        outcome = pending.outcome_of(made.root.store, made.change.id)
        assert outcome is not None
        cut = read_savepoint(made.root.store, outcome["savepoint"])
        found = onsets(made.root, cut, made.comparison)
        #: For each output, the stages that may use old rows, which only the former query read.
        self.mixed = {name: tuple(sorted(onset.mixed)) for name, onset in found.items()}
        #: From here on, all rows of the branch are rows of the new query alone.
        self.begin_us, self._outputs = Onset.latest([*found.values()]).time_us, {}
        for live, own in zip(plan.of_outputs, job.plan.of_outputs, strict=True):
            rows = zip(live.sink_streams(), own.sink_streams(), strict=True)
            self._outputs[live.name] = [self._pair(*row) for row in rows]
        began_us = int(outcome["time"])
        #: Event time from the change to the beginning of the range, s.
        self.ahead_s = max(self.begin_us - began_us, 0) / 1e6 if began_us != MIN_TIME else 0.0

    def _pair(self, live: tuple[str, str], own: tuple[str, str]) -> tuple[_Output, _Output]:
        """Open a partition of both outputs at the position of the branch's first checkpoint."""
        first_seq = DurableLog(open_store(own[1]), own[0]).mark
        if first_seq:  # the previous item is older than the checkpoint, so it is durable
            reader = open_reader(open_store(live[1]), first_seq - 1)
            items = reader.read_next(1)
            reader.close()
            assert items is not None, live
            is_event = items.batch.column(KIND)[0].as_py() == EVENT
            self.begin_us = max(self.begin_us, int(int64_column(items.batch, VS)[0]) + is_event)
        return _Output(live[1], first_seq), _Output(own[1], first_seq)

    def wait(self, duration_us: int, until_s: float) -> tuple[int, int]:
        """Wait until both outputs contain all rows of the range. Return the range.

        ``until_s``: the monotonic time at which to give up.

        Raises:
            CanaryFailedError: the job has ended or was changed, or event time does not advance.
            JobFailedError: the branch has failed.
        """
        everything = [one for pairs in self._outputs.values() for pair in pairs for one in pair]
        begin_us = self.begin_us
        while True:  # ends at until_s at the latest
            until_us = INF_TIME if begin_us == MIN_TIME else begin_us + duration_us
            self._read(everything, begin_us, min(until_us, INF_TIME))
            reached_us = min(one.reached_us for one in everything)
            if begin_us == MIN_TIME:  # no rows had been read, so the range begins with the input
                begin_us = reached_us
            if begin_us != MIN_TIME and reached_us >= min(begin_us + duration_us, INF_TIME):
                for one in everything:
                    one.close()
                return begin_us, begin_us + duration_us
            self._check_job()
            if self._clock.monotonic_s() > until_s:
                reason = (
                    f"the outputs have not reached its end within {_wall_s(duration_us):,.0f} s"
                )
                raise CanaryFailedError(self._here, reason)
            self._pause()

    def _read(self, outputs: list[_Output], begin_us: int, until_us: int) -> None:
        for one in outputs:
            one.read(begin_us, until_us)
            if sum(other.rows for other in outputs) > ROWS_MAX:
                reason = (
                    f"both outputs have more than {ROWS_MAX:,} rows in its range, the most that it "
                    "compares; give a shorter duration"
                )
                raise CanaryFailedError(self._here, reason)

    def _pause(self) -> None:
        """Wait a moment. Raise JobFailedError or CanaryFailedError if the branch has ended."""
        try:
            state = self._job.wait(LOOK_S)["state"]
        except TimeoutError:
            return
        if state != "finished":
            raise CanaryFailedError(self._here, f"its branch was {state}")
        threading.Event().wait(LOOK_S)  # the branch is done; the job is not yet

    def _check_job(self) -> None:
        state = shown_status(self._root, self._clock.now_us())["state"]
        if state not in (*OPEN_STATES, "finished"):
            raise CanaryFailedError(self._here, f"the job is {state}")
        plan = self._root.read_plan()
        if plan is None or (self._root.settings()["id"], plan.plan_hash) != self._id:
            raise CanaryFailedError(self._here, "the job was changed meanwhile")

    def differences(self, begin_us: int, end_us: int) -> dict[str, VersionDiff]:
        """Compare the rows that start in the range, by output."""
        found = {}
        for live, own in zip(self._plan.of_outputs, self._job.plan.of_outputs, strict=True):
            pairs = self._outputs[live.name]
            old = rows_between(live, _events(live, [p[0] for p in pairs]), begin_us, end_us)
            new = rows_between(own, _events(own, [p[1] for p in pairs]), begin_us, end_us)
            found[live.name] = compared(old, new, pairing_keys(live, old, new))
        return found


def _events(plan: PhysicalPlan, outputs: list[_Output]) -> list[pa.RecordBatch]:
    """Return the events of an output. In new columns, events of the former query have null."""
    schema = event_schema(plain_schema(plan.schema))
    return [widened(batch, schema) for output in outputs for batch in output.events]
