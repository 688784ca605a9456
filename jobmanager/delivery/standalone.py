"""Delivers the output of a job from a process of its own, as ``jobmanager deliver`` does.

It reads what the job has flushed, while the job runs or after: the memory of the hosts is open to
the job's own process only. So it is behind by as much as the flush interval of outputs, and a job
whose process died does not stop it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from jobmanager.delivery.deliveries import Deliveries
from jobmanager.delivery.output_tap import Endpoints
from jobmanager.errors import NoDeliveryError
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.root import JobRoot, display_uri
from jobmanager.storage.shown import shown_status
from rstream.clock import SystemClock
from rvertex.messages import Locate
from rvertex.sinks.limits import DeliveryLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.sinks.spec import SinkSpec

#: How often it is looked whether the job still runs, and the caller is told how far it is.
TICK_S = 0.5


def deliver(
    root: str,
    destinations: Sequence[SinkSpec] = (),
    *,
    start_seq: int = 0,
    trust: bool = False,
    limits: DeliveryLimits | None = None,
    on_rows: Callable[[list[dict[str, Any]]], None] = lambda rows: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> list[dict[str, Any]]:
    """Deliver until the output is complete, or the job has ended; gives the rows of the status.

    ``destinations``: none: those that the query names. ``start_seq``: where deliveries that are new
    begin, in each partition. ``on_rows`` is called at each tick.

    Raises:
        NoJobError: the root holds no job, or one that has not begun.
        NoDeliveryError: neither the query nor the caller names a destination.
    """
    job_root = JobRoot(root, trust=trust)
    job_root.check_trusted()
    settings = job_root.readable_settings()
    plan = job_root.read_plan()
    specs = tuple(destinations) or (() if plan is None else plan.deliveries)
    if plan is None or not specs:
        raise NoDeliveryError(display_uri(job_root.uri))
    endpoints, is_written = Endpoints(), threading.Event()
    for vertex in set(plan.writers().values()):
        endpoints.note(Locate(vertex, 1, ()))
    deliveries = Deliveries(
        specs,
        plan,
        job_id=settings["id"],
        store=job_root.store,
        endpoints=endpoints,
        secret="",
        has_ended=is_written.is_set,
        limits=limits or DeliveryLimits(),
        start_seq=start_seq,
    )
    deliveries.start()
    clock = SystemClock()
    while not deliveries.wait(TICK_S):  # until all are done
        if shown_status(job_root, clock.now_us())["state"] not in OPEN_STATES:
            is_written.set()
        if is_cancelled():
            deliveries.stop()
        on_rows(deliveries.rows())
    return deliveries.rows()
