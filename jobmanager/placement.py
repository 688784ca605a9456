"""On which slot an instance goes. Pure.

Instances of one vertex are on different slots; a slot that is drained gets nothing new. What
recurs stays where it was, what is new goes where least is. The rest is a tie-break: the same ledger
gives the same slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobmanager.ledger import Ledger
    from jobmanager.state import VertexState


def first_slots(index: int, replicas: int, hosts: int) -> list[int]:
    """Where the instances of the vertex number ``index`` of a plan begin."""
    return [(index + k) % hosts for k in range(replicas)]


def slots_for_restart(job: Ledger, vertex: VertexState) -> list[int]:
    """A slot for each replica of a vertex without instances: its homes, if they are open."""
    homes = [slot for slot in vertex.homes if job.hosts[slot].is_open]
    others = sorted(
        (h.slot for h in job.hosts if h.is_open and h.slot not in homes),
        key=lambda slot: (job.load(slot), slot),
    )
    return (homes + others)[: vertex.shape.recovery.replicas]


def free_slot(job: Ledger, vertex: VertexState, *, ready_only: bool) -> int | None:
    """The least loaded slot without an instance of this vertex; None if there is none."""
    taken = {i.slot for i in vertex.instances} | {j.slot for j in vertex.joins}
    free = [
        host.slot
        for host in job.hosts
        if host.is_open and host.slot not in taken and (host.state == "ready" or not ready_only)
    ]
    return min(free, key=lambda slot: (job.load(slot), slot), default=None)
