"""Planted bugs: each breaks one rule, and the simulation must detect it.

A mutant replaces a production function while a simulation runs (the right result is computed
before). ``python -m tests.sim.mutants`` runs at most :data:`RUNS_MAX` seeds with faults that can
reveal the bug, starting with the known seed (:mod:`tests.sim.killers`). The seed that detects a bug
must pass without it. The exit status is 1 if a bug survives.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from dataclasses import replace
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

import jobmanager.driver.driver
import jobmanager.manager.collection
import jobmanager.manager.damage
import jobmanager.manager.instances
import jobmanager.state.job_state
from jobmanager.driver.shell_parts import PatientClock
from jobmanager.manager.manager import JobManager
from jobmanager.state import low_water_marks
from jobmanager.state.job_state import JobState
from jobmanager.state.tracker import SnapshotTracker
from jobmanager.storage.notice_log import NoticeLog
from rstream import OperatingError
from rstream.log.durable import DurableLog
from rstream.log.reader import LocalReader
from rstream.log.stream import RStream
from rstream.store.marks import MARK_NAME
from rvertex.host.host import Host
from rvertex.host.runner import VertexRunner
from rvertex.messages import NOTICE_CODEC
from rvertex.vertex.merge import Merge
from rvertex.vertex.rvertex import RVertex
from streamscope.testing.simulation.storage import FaultyBlobs
from tests.sim.change_mutants import CHANGE_MUTANTS
from tests.sim.decision_mutants import DECISION_MUTANTS
from tests.sim.delivery_mutants import DELIVERY_MUTANTS
from tests.sim.frame_mutants import LINE_MUTANTS
from tests.sim.generation_mutants import GENERATION_MUTANTS
from tests.sim.growing_mutants import GROWING_MUTANTS
from tests.sim.killers import KILLERS
from tests.sim.live_mutants import LIVE_MUTANTS
from tests.sim.open_mutants import OPEN_MUTANTS
from tests.sim.planting import Mutant
from tests.sim.power_mutants import POWER_MUTANTS
from tests.sim.recovery_mutants import RECOVERY_MUTANTS
from tests.sim.retention_mutants import RETENTION_MUTANTS
from tests.sim.run import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sim.run import Outcome

RUNS_MAX = 200
REPLACED = ("drain", "straggler", "slow_network")
LOST = ("lost_spill", "straggler")
FIRST_SEED = 0
OUTDATED = ("AttributeError", "KeyError", "NameError", "TypeError")


class UnfitError(Exception):
    """The run proves nothing: the planted bug no longer fits the code."""


def merge_emits_one_cti_too_few() -> Mutant:
    """If several CTIs are released at once, the first is omitted, so batches matter."""
    original = Merge._new_ctis
    return Mutant(
        Merge,
        "_new_ctis",
        lambda self, times: (c := original(self, times))[1 if len(c) > 1 else 0 :],
    )


def low_water_mark_off_by_one() -> Mutant:
    """One needed item is collected."""
    original = low_water_marks.low_water_marks

    def one_more(*args: Any) -> Any:
        low = original(*args)
        return replace(low, marks={s: m and m + 1 for s, m in low.marks.items()})

    return Mutant(jobmanager.manager.collection, "low_water_marks", one_more, ("crash_host",))


def reader_skips_the_seam() -> Mutant:
    """Items that left memory are not read from Parquet."""
    original = LocalReader.read_next

    def read_next(self: Any, max_items: int) -> Any:
        self._seq = max(self._seq, self._stream.tail_first_seq)
        return original(self, max_items)

    return Mutant(LocalReader, "read_next", read_next)


def old_marks_collect_a_new_instance() -> Mutant:
    """A host applies earlier collections to instances that it starts later."""
    original, original_run = Host._collect, Host._run

    def collect(self: Any, marks: Any) -> None:
        self.told = {**getattr(self, "told", {}), **marks}
        original(self, marks)

    def run(self: Any, starting: Any) -> bool:
        starting.marks.update(getattr(self, "told", {}))
        return original_run(self, starting)

    return Mutant(Host, "_collect", collect, ("crash_reader",), ((Host, "_run", run),))


def checkpoint_announced_before_its_outputs_are_durable() -> Mutant:
    """A host breaks invariant (1) of rvertex.host.runner."""
    return Mutant(
        VertexRunner, "is_durable", lambda self, seqs, is_urgent: True, ("crash_host", "slow_store")
    )


def stale_epochs_are_believed() -> Mutant:
    """A notice of a replaced instance counts as one of the present one."""
    return Mutant(
        JobState,
        "instance",
        lambda self, vertex, epoch: self.vertices[vertex].leader,
        REPLACED,
    )


def restart_from_a_checkpoint_too_new() -> Mutant:
    """Use the newest checkpoint, even if readers of volatile outputs need earlier items."""
    return Mutant(
        SnapshotTracker,
        "usable",
        lambda self, vertex, limits, consumed=None: self.newest(vertex),
        ("crash_host", "crash_all"),
    )


def lost_items_are_ignored() -> Mutant:
    """A reader's request for recomputation is not answered."""
    return Mutant(jobmanager.manager.damage, "items_lost", lambda job, notice: None, LOST)


def deletes_before_notices_are_durable() -> Mutant:
    """Checkpoints and segments are deleted while the reason is only in memory."""
    return Mutant(NoticeLog, "flush", lambda self: None, ("crash_manager", "trap_manager"))


def repeated_writes_are_taken_as_new() -> Mutant:
    """Drop the law of uniqueness."""
    original = RStream.write
    return Mutant(
        RStream,
        "write",
        lambda self, seq, batch, **how: original(self, max(seq, self.next_seq), batch, **how),
        ("crash_host",),
    )


def the_cut_off_go_on() -> Mutant:
    """A host that lost its job manager does not shut down."""

    def notify(self: Any, notice: Any) -> None:
        with suppress(OperatingError):
            self._link.send(NOTICE_CODEC.encode(notice))

    more = ((Host, "_notify", notify),)
    return Mutant(Host, "_orphan", lambda self: None, ("cut_control", "zombie"), more)


def read_ahead_counts_as_consumed() -> Mutant:
    """A snapshot skips items that were read but not released."""
    return Mutant(RVertex, "consumed", RVertex.read_positions, ("crash_host",))


def a_failed_flush_counts_as_durable() -> Mutant:
    """An error of the store counts as success."""
    original = RStream._flushed
    return Mutant(
        RStream,
        "_flushed",
        lambda self, items, error, *more: original(self, items, None, *more),
        ("store_errors",),
    )


def a_full_tail_hides_a_failed_flush() -> Mutant:
    """A full tail hides that a flush has failed: a bug that the simulation found (seed 31)."""

    def has_room(self: Any) -> bool:
        with self._state:
            self._relieve()
            return bool(self._tail.bytes < self.limits.tail_bytes_max)

    return Mutant(RStream, "has_room", has_room, ("store_errors",))


def volatile_marks_are_kept() -> Mutant:
    """Each collection stores its mark, also of a volatile stream: a bug that seed 17 found."""
    original = DurableLog.collect
    return Mutant(
        DurableLog,
        "collect",
        lambda self, mark, is_final=True: original(self, mark, is_final=True),
        ("crash_spilled", "crash_reader"),
    )


def the_fenced_are_in_the_log() -> Mutant:
    """A takeover uses checkpoints that its predecessor rejected and deleted."""
    return Mutant(
        JobManager,
        "is_stale",
        lambda self, notice: False,
        (*REPLACED, "crash_manager"),
    )


def a_takeover_counts_epochs_on() -> Mutant:
    """The successor's instances get the names of its predecessor's."""
    more = ((jobmanager.state.job_state, "EPOCHS_PER_INSTANCE", 0),)
    return Mutant(jobmanager.state.job_state, "EPOCHS_PER_TAKEOVER", 0, ("crash_beginning",), more)


def a_replaced_writer_takes_the_mark_back() -> Mutant:
    """A writer does not check stored marks, and lowers them: a bug that seed 3790 found."""
    original = FaultyBlobs.exists
    return Mutant(
        FaultyBlobs,
        "exists",
        lambda self, path: path != MARK_NAME and original(self, path),
        ("zombie", "partition", "slow_store"),
    )


def wall_time_measures_silence() -> Mutant:
    """Silence is measured by wall time, which may jump: a bug that seed 16 found."""
    return Mutant(PatientClock, "now_us", lambda self: self._clock.now_us(), ("clock_jump",))


MUTANTS: tuple[Callable[[], Mutant], ...] = (
    merge_emits_one_cti_too_few,
    low_water_mark_off_by_one,
    reader_skips_the_seam,
    old_marks_collect_a_new_instance,
    checkpoint_announced_before_its_outputs_are_durable,
    stale_epochs_are_believed,
    restart_from_a_checkpoint_too_new,
    lost_items_are_ignored,
    deletes_before_notices_are_durable,
    repeated_writes_are_taken_as_new,
    the_cut_off_go_on,
    read_ahead_counts_as_consumed,
    a_failed_flush_counts_as_durable,
    a_full_tail_hides_a_failed_flush,
    volatile_marks_are_kept,
    the_fenced_are_in_the_log,
    a_takeover_counts_epochs_on,
    a_replaced_writer_takes_the_mark_back,
    wall_time_measures_silence,
    *RECOVERY_MUTANTS,
    *LINE_MUTANTS,
    *POWER_MUTANTS,
    *DECISION_MUTANTS,
    *GENERATION_MUTANTS,
    *LIVE_MUTANTS,
    *GROWING_MUTANTS,
    *DELIVERY_MUTANTS,
    *RETENTION_MUTANTS,
    *OPEN_MUTANTS,
    *CHANGE_MUTANTS,
)


def hunt(make: Callable[[], Mutant], runs_max: int = RUNS_MAX) -> Outcome | None:
    """Find a run that detects the bug and passes without it; None if there is none.

    The last known seed is tried first.
    """
    mutant = make()
    others = range(FIRST_SEED, FIRST_SEED + runs_max - 1)
    for seed in (KILLERS.get(make.__name__, FIRST_SEED + runs_max), *others):
        outcome = simulate(seed, mutant.kinds, mutant.planted, **_jobs(mutant))
        if not outcome.is_ok:
            _check_that_it_applies(make.__name__, outcome)
            _check_that_it_is_the_reason(seed, mutant)
            return outcome
    return None


def _check_that_it_is_the_reason(seed: int, mutant: Mutant) -> None:
    """Check that the same run without the bug breaks no law."""
    outcome = _without(seed, mutant.kinds, **_jobs(mutant))
    if not outcome.is_ok:
        kinds = ",".join(mutant.kinds) or "none"
        what = "".join(
            f" --{name.replace('_', '-')}" for name, is_so in _jobs(mutant).items() if is_so
        )
        again = f"python -m tests.sim{what} --runs 1 --seed {seed} --kinds {kinds}"
        raise UnfitError(f"without it {again} fails, too: {outcome.violations[0]}")


def _jobs(mutant: Mutant) -> dict[str, bool]:
    """The jobs in which the bug shows."""
    return {
        "live": mutant.live,
        "deliver": mutant.deliver,
        "grow": mutant.grow,
        "open_rows": mutant.open_rows,
        "change": mutant.change,
    }


@cache
def _without(seed: int, kinds: tuple[str, ...], **jobs: bool) -> Outcome:
    """Run without the bug; the result is cached, because many bugs show in the same runs."""
    return simulate(seed, kinds, **jobs)


def _check_that_it_applies(name: str, outcome: Outcome) -> None:
    """Check that the replacement fits the code; otherwise its own errors would be detected."""
    found = [e for e in OUTDATED if any(e in violation for violation in outcome.violations)]
    if found:
        raise UnfitError(f"{name} does not fit the code any more: {outcome.violations[0]}")


def main() -> int:
    """Search for all planted bugs, or for the named ones."""
    known = {make.__name__: make for make in MUTANTS}
    wanted = sys.argv[1:] or list(known)
    survivors = []
    gc.freeze()  # imported objects stay: the garbage collector can skip them
    started_s = perf_counter()
    for make in (known[name] for name in wanted):
        try:
            caught = hunt(make)
        except UnfitError as error:
            survivors.append(make.__name__)
            print(f"UNFIT    {make.__name__}: {error}", flush=True)
            continue
        if caught is None:
            survivors.append(make.__name__)
            print(f"SURVIVED {make.__name__} ({RUNS_MAX} runs)", flush=True)
        else:
            law = caught.violations[0].splitlines()[0][:90]
            new = "" if caught.seed == KILLERS.get(make.__name__) else " (not in killers.py)"
            print(f"caught   {make.__name__}: seed {caught.seed}{new}: {law}", flush=True)
    took_s = perf_counter() - started_s
    print(f"{len(wanted) - len(survivors)} of {len(wanted)} caught, {took_s:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
