"""Stragglers: finds instances that have been behind their siblings for too long. Pure.

An instance is a straggler if the median CTI of its siblings passed its own CTI more than
``straggler_after_s`` ago. Its siblings are the other vertices of its stage and the other instances
of its vertex: they have similar work. A straggler becomes a notice, so a job manager that takes
over needs nothing from this module.
"""

from __future__ import annotations

import bisect
import statistics
from typing import TYPE_CHECKING

from jobmanager.manager.joining import twins
from jobmanager.state.job_state import US_PER_S
from jobmanager.state.messages import Feed, StragglerFound
from jobmanager.state.placement import free_slot
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    from jobmanager.state.job_state import JobState
    from jobmanager.state.records import InstanceState, VertexState

#: Entries (time, us; median of the siblings' CTIs from that time on), oldest first.
History = list[tuple[int, int]]


class Stragglers:
    """Remembers recent medians of siblings' CTIs, and finds stragglers at every tick."""

    def __init__(self) -> None:
        self._medians: dict[int, History] = {}
        #: Per vertex: the number of twins that it got as a straggler, and when it may get the next,
        #: us.
        self._pauses: dict[str, tuple[int, int]] = {}

    def find(self, job: JobState) -> None:
        """Notify the job manager of stragglers, at most as many as may get a twin now."""
        after_us = int(job.config.straggler_after_s * US_PER_S)
        room = job.config.twins_max - twins(job)
        stages = _stages(job)
        former, self._medians = self._medians, {}
        for vertex, instance in job.instances():
            if vertex.is_finished or not job.is_running(instance):
                continue
            median = _median_of_siblings(vertex, instance, stages[vertex.shape.stage])
            if median is None:
                continue
            history = former.get(instance.epoch, [])
            _remember(history, job.now_us, median, after_us)
            self._medians[instance.epoch] = history
            is_behind = history[0][0] <= job.now_us - after_us and history[0][1] > instance.cti
            is_old = job.now_us - instance.opened_us > after_us
            if is_behind and is_old and room > 0 and self._may_try(job, vertex):
                room -= 1
                self._count(job, vertex)
                job.out.append(Feed(StragglerFound(vertex.shape.id, instance.epoch)))

    def _may_try(self, job: JobState, vertex: VertexState) -> bool:
        """Return whether the vertex has no twin, its pause is over, and a host has a free slot."""
        is_single = not vertex.replaced() and not vertex.shape.is_exclusive
        _, next_us = self._pauses.get(vertex.shape.id, (0, 0))
        has_host = free_slot(job, vertex, ready_only=True) is not None
        return is_single and has_host and vertex.due_us is None and job.now_us >= next_us

    def _count(self, job: JobState, vertex: VertexState) -> None:
        """Count a twin for a straggler.

        The next pause grows, as a vertex may be slow on every host.
        """
        tries, _ = self._pauses.get(vertex.shape.id, (0, 0))
        pause_s = (job.config.straggler_after_s + job.config.twin_wait_s) * 2.0 ** min(tries, 20)
        self._pauses[vertex.shape.id] = (tries + 1, job.now_us + int(pause_s * US_PER_S))


def _stages(job: JobState) -> dict[str, list[int]]:
    """Return per stage the sorted CTIs of its vertices."""
    stages: dict[str, list[int]] = {}
    for vertex in job.vertices.values():
        stages.setdefault(vertex.shape.stage, []).append(_cti(vertex))
    for ctis in stages.values():
        ctis.sort()
    return stages


def _median_of_siblings(
    vertex: VertexState, instance: InstanceState, stage: list[int]
) -> int | None:
    """Return the lower median of the siblings' CTIs; None if there are no siblings."""
    own = bisect.bisect_left(stage, _cti(vertex))
    replicas = [i.cti for i in vertex.instances if i is not instance and i.replaces is None]
    if replicas:
        return statistics.median_low([*stage[:own], *stage[own + 1 :], *replicas])
    if len(stage) == 1:
        return None
    middle = (len(stage) - 2) // 2
    return stage[middle if middle < own else middle + 1]


def _cti(vertex: VertexState) -> int:
    if vertex.is_finished:
        return INF_TIME
    return max((i.cti for i in vertex.instances), default=MIN_TIME)


def _remember(history: History, now_us: int, median: int, after_us: int) -> None:
    """Append the median, and drop old entries, so that the first is the median ``after_us`` ago."""
    if not history or history[-1][1] != median:
        history.append((now_us, median))
    while len(history) > 1 and history[1][0] <= now_us - after_us:
        del history[0]
