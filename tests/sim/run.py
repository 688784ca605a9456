"""A run: a seed decides about the job, the faults and every order.

Laws are checked all the time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from streamscope.testing.simulation.faults.kinds import KINDS
from streamscope.testing.simulation.run import Outcome, run_job
from tests.sim.change_laws import ChangeCheckers
from tests.sim.changing import CHANGE_KINDS, make_changing_workload
from tests.sim.checkers import Checkers
from tests.sim.delivered_workload import with_deliveries
from tests.sim.delivery_faults import DELIVERY_KINDS
from tests.sim.growing import make_growing_workload
from tests.sim.live_workload import make_live_workload
from tests.sim.open_workload import make_open_workload
from tests.sim.workload import make_workload
from tests.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Outcome", "simulate"]
ALL_KINDS = {**KINDS, **DELIVERY_KINDS, **CHANGE_KINDS}


def simulate(
    seed: int,
    kinds: Sequence[str] | None = None,
    mutation: Callable[[], AbstractContextManager[object]] = nullcontext,
    *,
    workload_seed: int | None = None,
    live: bool = False,
    deliver: bool = False,
    grow: bool = False,
    open_rows: bool = False,
    change: bool = False,
) -> Outcome:
    """Run one job under one seed. ``mutation`` is active after the right result is known.

    ``workload_seed``: run the job of another seed, under the faults and orders of this one.
    ``kinds``: of the faults; None: of all kinds that such a job has. ``live``: the job reads a live
    log. ``deliver``: its results are delivered, and their order is a law. ``grow``: the log gets
    partitions. ``open_rows``: the ends of rows arrive later, for delivery by key. ``change``: users
    change it while it runs.
    """
    make = make_live_workload if live else make_growing_workload if grow else make_workload
    make = make_open_workload if open_rows else make_changing_workload if change else make
    workload = make(seed if workload_seed is None else workload_seed)
    if live or grow:  # the expected result becomes known at the end
        workload = replace(workload, expected={}, answers={})
    if deliver:
        workload = with_deliveries(workload, seed if workload_seed is None else workload_seed)
    if kinds is None:
        kinds = (*KINDS, *(DELIVERY_KINDS if deliver else ()), *(CHANGE_KINDS if change else ()))
    found = {name: ALL_KINDS[name] for name in kinds}
    checkers = ChangeCheckers if change else Checkers
    with mutation():
        return run_job(seed, workload, found, open_world=World, open_checkers=checkers)
