"""Placement: chooses the slot of an instance. Pure.

Instances of one vertex are on different slots, and a drained slot gets no new instance. A restarted
instance returns to its slot; a new one goes to the least loaded slot. Ties are broken
deterministically: the same job state gives the same slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobmanager.state.job_state import JobState
    from jobmanager.state.records import VertexState


def first_slots(index: int, replicas: int, hosts: int) -> list[int]:
    """Return the first slots for the instances of vertex number ``index`` of a plan."""
    return [(index + k) % hosts for k in range(replicas)]


def slots_for_restart(job: JobState, vertex: VertexState, moved: dict[int, int]) -> list[int]:
    """Return a slot per replica of a vertex without instances: its former slots, if possible.

    If the host of a slot has not started yet, all vertices of that slot go to one idle host.
    ``moved`` remembers that host per slot, for a restart of several vertices.
    """
    replicas = vertex.shape.recovery.replicas
    homes = [slot for slot in vertex.homes if job.hosts[slot].is_open]
    homes = [_spare(job, slot, homes, moved) for slot in homes]
    if len(homes) >= replicas:
        return homes[:replicas]
    loads = job.loads()
    others = sorted(
        (h.slot for h in job.hosts if h.is_open and h.slot not in homes),
        key=lambda slot: (loads[slot], slot),
    )
    return (homes + others)[:replicas]


def _spare(job: JobState, slot: int, homes: list[int], moved: dict[int, int]) -> int:
    """Return the slot if its host is ready or no host is idle; else the slot of an idle host."""
    if job.hosts[slot].state != "ready" and slot not in moved:
        taken, loads = {*homes, *moved.values()}, job.loads()
        ready = (h.slot for h in job.hosts if h.state == "ready" and h.is_open)
        idle = (s for s in ready if s not in taken and loads[s] == 0)
        moved[slot] = next(idle, slot)
    there = moved.get(slot, slot)
    return slot if there in homes else there


def free_slot(job: JobState, vertex: VertexState, *, ready_only: bool) -> int | None:
    """Return the least loaded slot without an instance of this vertex; None if there is none."""
    taken = {i.slot for i in vertex.instances} | {j.slot for j in vertex.joins}
    free = [
        host.slot
        for host in job.hosts
        if host.is_open and host.slot not in taken and (host.state == "ready" or not ready_only)
    ]
    loads = job.loads() if free else []
    return min(free, key=lambda slot: (loads[slot], slot), default=None)
