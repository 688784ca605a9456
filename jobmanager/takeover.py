"""Takeover: what a job manager learns from the notices of its predecessor. Pure.

Only facts count that outlive every process: which checkpoints there are, who has finished, which
names were used. What was decided then (who was restarted, joined, drained) ended with the hosts, so
a successor need not come to the same decisions, and may be told to work differently. It assumes
that nobody lives, and applies the marks at the places of the log where its predecessor did; that
keeps no checkpoint that was deleted or refused, because one that knows of living instances keeps at
least as much.

Invariants: (1) names of hosts and epochs of instances are never given twice; (2) the log holds no
notice of an instance that was fenced (:meth:`jobmanager.manager.JobManager.is_stale`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.collection import collect_durable, collect_now_and_then, record_checkpoint
from jobmanager.ledger import EPOCHS_PER_TAKEOVER
from jobmanager.messages import HostLost, JobResumed
from rvertex.messages import CheckpointTaken, HostReady, VertexFinished

if TYPE_CHECKING:
    from jobmanager.ledger import Ledger
    from jobmanager.messages import Notice


def recall(job: Ledger, notice: Notice) -> None:
    """Learn from a notice of the log."""
    job.epoch = max(job.epoch, getattr(notice, "epoch", 0))
    match notice:
        case CheckpointTaken():
            record_checkpoint(job, notice)
            collect_now_and_then(job)
        case VertexFinished(vertex=vertex):
            job.vertices[vertex].record_end(notice)
            collect_now_and_then(job)
        case HostReady(host=host):
            job.generation = max(job.generation, _generation(host))
        case HostLost(host=host):  # another one was ordered
            job.generation = max(job.generation, _generation(host) + 1)
        case JobResumed():
            job.epoch += EPOCHS_PER_TAKEOVER
            collect_durable(job)  # as it had done itself, when it had read the log until here
        case _:
            pass


def _generation(host: str) -> int:
    return int(host.rpartition(".")[2])
