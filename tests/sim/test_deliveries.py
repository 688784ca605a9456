"""Whole jobs with deliveries, under a seeded scheduler: each row once and in order.

The faults are lost answers, processes that die or sleep between any two calls, a slow or absent
destination, rival deliveries, and all faults of the job itself. More seeds: ``python -m tests.sim
--live --deliver --runs n --seed s``; the planted bugs are in :mod:`tests.sim.delivery_mutants`.

Not covered: behaviour of real destinations (tests/rvertex/sinks), and of real threads between two
calls of the store, the clock or the destination.
"""

from __future__ import annotations

import pytest

from tests.sim.run import simulate
from tests.support.budget import seeds


@pytest.mark.parametrize("seed", seeds(5_100_000, 3))
def test_live_jobs_with_deliveries(seed: int) -> None:
    outcome = simulate(seed, live=True, deliver=True)
    assert outcome.violations == (), "\n".join(outcome.tail)


def test_one_seed_gives_one_trace() -> None:
    one, two = (simulate(5_000_004, live=True, deliver=True) for _ in range(2))
    assert one == two
    assert one.violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(5_200_000, 8))
def test_a_job_with_deliveries_and_faults_violates_nothing(seed: int) -> None:
    outcome = simulate(seed, deliver=True)
    assert outcome.violations == (), "\n".join(outcome.tail)
