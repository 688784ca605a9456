"""Adds partitions that a topic gets while its job runs, without stopping the job.

Theory of operation. Hosts report the number of partitions of a source vertex's topic. If it is
greater than in the plan, a background thread requests the list of partitions from the brokers. It
assigns the new ones to vertices (:mod:`jobmanager.driver.running.added_partitions`) and writes the
plan with them. Once the plan is durable, the job manager gets a notice. It restarts only the
affected vertices, from their checkpoints.

Invariants: (1) a plan has no effect before it is durable, so a successor of a crashed driver reads
it; (2) one thread at a time writes the plan, and none after ``stop``; (3) the plan is a function of
the job's first plan and the numbers of partitions. So a plan that a replaced driver writes late is
an earlier version of the same plan.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.driver.running.added_partitions import (
    dealt,
    find_added,
    note_of,
    topics_of,
    with_sources,
)
from jobmanager.errors import JobRunningError
from jobmanager.state.messages import AddedTo, PartitionsAdded
from rstream.errors import StreamEngineError
from rstream.log.background import ThreadBackground
from rvertex.sources.logs.kafka.positions import added_units

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from jobmanager.driver.running.added_partitions import Look, Readers
    from jobmanager.manager.manager import JobManager
    from jobmanager.state.job_state import JobState
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan
    from rstream.clock import Clock
    from rstream.log.background import Background
    from rvertex.sources.spec import SourcePartition

    #: A stage, and a topic that it reads.
    Place = tuple[str, str]
_log = logging.getLogger(__name__)
#: Seconds before a failed attempt is repeated.
RETRY_S = 5.0


@dataclass(frozen=True)
class _Grown:
    """The readers of topics in the durable plan. ``trouble``: the error of a topic, or None."""

    topics: list[Readers]
    trouble: StreamEngineError | None


class GrowingTopics:
    """Watches the topics of one job. The driver's thread calls it."""

    def __init__(
        self,
        plan: PhysicalPlan,
        root: JobRoot,
        clock: Clock,
        take_in: Callable[[PhysicalPlan, PartitionsAdded], None],
        *,
        background: Background | None = None,
        look: Look = added_units,
    ) -> None:
        """Start to watch; ``take_in``: gets the new plan and the notice for the job manager.

        The plan is durable then.
        """
        self._plan, self._root, self._clock = plan, root, clock
        self._topics = topics_of(plan)
        self._take_in, self._look = take_in, look
        self._background = background or ThreadBackground("growing-topics")
        self._growing: Future[_Grown] | None = None
        self._next_s = 0.0
        self._notes: tuple[str, ...] = ()
        self._trouble = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for users: the added partitions, and the error if some cannot be added yet."""
        return (*self._notes, self._trouble) if self._trouble else self._notes

    def note(self, manager: JobManager) -> None:
        """Check the reports of hosts and the background work. Called between two notices."""
        if self._growing is not None:
            if self._growing.done():
                growing, self._growing = self._growing, None
                self._finish(growing)
            return
        job = manager.job
        is_to_go_on = job.state == "running" and not job.is_finishing
        # Otherwise the job only reads the partitions that it had at its start
        waits = job.config.at_end == "wait"
        if is_to_go_on and waits and self._clock.monotonic_s() >= self._next_s:
            more = [place for place, readers in self._topics.items() if _has_more(job, readers)]
            if more:
                self._growing = self._background.submit(lambda: self._grow(more))

    def start(self) -> None:
        """Do nothing, because work starts when hosts report more partitions."""

    def stop(self, state: str) -> None:
        """Wait for running work and ignore its result. Idempotent."""
        self._background.close()

    def _grow(self, places: list[Place]) -> _Grown:
        """Write a plan with the new partitions of these topics. Return the plan's readers.

        Runs in the background. It starts from the durable plan, not from the one in memory: an
        earlier write may have succeeded although the store reported a failure. If the brokers of
        one topic fail, the other topics are still extended.
        """
        plan = self._root.read_plan()
        assert plan is not None, "a job that runs has a plan"
        topics = topics_of(plan)
        changed: dict[str, SourcePartition] = {}
        trouble = None
        for place in places:
            try:
                new_units = find_added(topics[place], self._look)
            except StreamEngineError as error:
                trouble = error
                continue
            changed |= dealt(topics[place], new_units, {}) if new_units else {}
        if changed:
            plan = with_sources(plan, changed)
            self._root.replace_plan(plan)
        return _Grown([topics_of(plan)[place] for place in places], trouble)

    def _finish(self, growing: Future[_Grown]) -> None:
        """Pass the durable plan on. An attempt without all partitions is repeated after RETRY_S."""
        self._next_s = self._clock.monotonic_s() + RETRY_S
        try:
            grown = growing.result()
        except JobRunningError:
            return  # another driver has taken over, which this driver's next check notices
        except StreamEngineError as error:
            self._note_trouble(error)
            return
        self._note_trouble(grown.trouble)
        readers = {name: reader for topic in grown.topics for name, reader in topic.items()}
        vertices = [v for v in self._plan.vertices if v.id in readers]
        added: list[AddedTo] = []
        for vertex in vertices:
            assert vertex.source is not None
            more = readers[vertex.id].added[len(vertex.source.added) :]
            if more:
                partitions = tuple(unit.stream for unit in readers[vertex.id].added)
                added.append(AddedTo(vertex.id, partitions))
                self._notes = (*self._notes, note_of(f"vertex {vertex.id}", more))
        self._plan = with_sources(self._plan, readers)
        self._topics = topics_of(self._plan)
        if added:
            if grown.trouble is None:
                self._next_s = 0.0  # a topic may grow again at once
            self._take_in(self._plan, PartitionsAdded(tuple(added)))

    def _note_trouble(self, error: StreamEngineError | None) -> None:
        self._trouble = ""
        if error is not None:
            _log.warning("added partitions are not read yet: %s", error)
            self._trouble = f"partitions that were added to a topic are not read yet: {error}"


def _has_more(job: JobState, readers: Readers) -> bool:
    """Return whether an instance reports more partitions of a topic than its readers know."""
    known = max(unit.log_partitions for reader in readers.values() for unit in reader.log_units)
    instances = (i for name in readers for i in job.vertices[name].instances)
    return bool(known) and any(instance.log_partitions > known for instance in instances)
