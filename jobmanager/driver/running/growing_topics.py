"""Takes partitions in that a topic gets while its job runs, without stopping the job.

Theory of operation. Hosts report how many partitions the topic of a source vertex has. If there are
more than the plan knows, a background thread asks the brokers which, deals them to the vertices
(:mod:`jobmanager.driver.running.added_partitions`) and writes the plan that has them. When it is
durable, the job manager is told, which has just these vertices start anew from their checkpoints.

Invariants: (1) nothing follows from a plan before it is durable: a driver that dies in between is
followed by one that reads it; (2) one thread at a time writes the plan, none after ``stop``; (3)
the plan is a function of the plan that the job began with and of the number of partitions. So one
that a driver writes who hangs while another has taken over is the plan of some time before.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.driver.running.added_partitions import (
    dealt,
    look_for_more,
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
#: What fails is tried again so often.
RETRY_S = 5.0


@dataclass(frozen=True)
class _Grown:
    """What the durable plan has the readers of these topics read, and why not all of it."""

    topics: list[Readers]
    trouble: StreamEngineError | None


class GrowingTopics:
    """Of one job; the driver's thread calls it."""

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
        """``take_in``: gets the grown plan, which is durable, and what to tell the job manager."""
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
        """What users are to know: what was taken in, and what could not be yet."""
        return (*self._notes, self._trouble) if self._trouble else self._notes

    def note(self, manager: JobManager) -> None:
        """See what hosts report, and what the background has done; between two notices."""
        if self._growing is not None:
            if self._growing.done():
                growing, self._growing = self._growing, None
                self._finish(growing)
            return
        job = manager.job
        is_to_go_on = job.state == "running" and not job.is_finishing
        waits = job.config.at_end == "wait"  # else the job reads what there was when it began
        if is_to_go_on and waits and self._clock.monotonic_s() >= self._next_s:
            more = [place for place, readers in self._topics.items() if _has_more(job, readers)]
            if more:
                self._growing = self._background.submit(lambda: self._grow(more))

    def start(self) -> None:
        """Nothing is done before there is more to read."""

    def stop(self, state: str) -> None:
        """Let what is under way end; nothing follows from it in this life. Idempotent."""
        self._background.close()

    def _grow(self, places: list[Place]) -> _Grown:
        """Make a plan durable that has what the topics of these places have, and give its readers.

        In the background. What is durable may have more than this life knows, if a store took what
        it said that it did not. A topic whose brokers do not tell holds up no other one.
        """
        plan = self._root.read_plan()
        assert plan is not None, "a job that runs has a plan"
        topics = topics_of(plan)
        changed: dict[str, SourcePartition] = {}
        trouble = None
        for place in places:
            try:
                found = look_for_more(topics[place], self._look)
            except StreamEngineError as error:
                trouble = error
                continue
            changed |= dealt(topics[place], found, {}) if found else {}
        if changed:
            plan = with_sources(plan, changed)
            self._root.replace_plan(plan)
        return _Grown([topics_of(plan)[place] for place in places], trouble)

    def _finish(self, growing: Future[_Grown]) -> None:
        """Tell of what is durable; what failed is tried again."""
        self._next_s = self._clock.monotonic_s() + RETRY_S
        try:
            grown = growing.result()
        except JobRunningError:
            return  # another driver has taken over, as this one will find out
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
            self._take_in(self._plan, PartitionsAdded(tuple(added)))

    def _note_trouble(self, error: StreamEngineError | None) -> None:
        self._trouble = ""
        if error is not None:
            _log.warning("partitions are not taken in yet: %s", error)
            self._trouble = f"partitions that were added to a topic are not read yet: {error}"


def _has_more(job: JobState, readers: Readers) -> bool:
    """Whether an instance reports more partitions of a topic than its readers know."""
    known = max(unit.log_partitions for reader in readers.values() for unit in reader.log_units)
    instances = (i for name in readers for i in job.vertices[name].instances)
    return bool(known) and any(instance.log_partitions > known for instance in instances)
