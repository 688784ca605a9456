"""Jobs that deliver their results while they run: the destinations and the interval."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from jobmanager.config import KEEP_ALL
from rvertex.sinks.limits import DeliveryLimits
from tests.sim.changing import ChangingWorkload
from tests.sim.destinations import SimSink

if TYPE_CHECKING:
    from tests.sim.destinations import AnySink, Kind
    from tests.sim.workload import Workload

#: Simulated destinations are more frequent than our own.
KINDS: tuple[Kind, ...] = ("epochs", "epochs", "sessions", "sessions", "function", "parquet")


def with_deliveries(workload: Workload, seed: int) -> Workload:
    """The job with one delivery or two."""
    random = Random(seed * 7_919 + 23)
    kinds = [random.choice(KINDS) for _ in range(random.choice([1, 1, 2]))]
    sinks: tuple[AnySink, ...] = workload.deliveries
    if not sinks:
        sinks = tuple(SimSink(f"{kind}-{k}", kind) for k, kind in enumerate(kinds))
    limits = DeliveryLimits(
        commit_interval_ms=random.choice([0.0, 5.0, 100.0]),
        commit_rows_max=random.choice([1, 3, 20, 20_000]),
        progress_interval_s=random.choice([0.05, 1.0]),
        reminder_interval_s=random.choice([3.0, 43_200.0]),
        retry_pause_s=random.choice([0.02, 0.1]),
        retry_pause_max_s=1.0,
        stop_wait_s=5.0,
    )
    #: Delivered items are deleted at once, or some seconds later; half of all jobs keep them.
    retention_us = random.choice([KEEP_ALL, KEEP_ALL, 0, 1_500_000])
    if isinstance(workload, ChangingWorkload):
        retention_us = KEEP_ALL  # its whole output is compared at the end
    config = replace(
        workload.config,
        delivery=limits,
        retention_us=retention_us,
        retention_look_s=random.choice([0.1, 0.5, 2.0]),
    )
    named = replace(
        workload,
        name=f"{workload.name} to {', '.join(sink.kind for sink in sinks)}",
        config=config,
    )
    return named.with_sinks(sinks)
