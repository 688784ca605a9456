"""Jobs over rows whose ends arrive later, under a seeded scheduler: a topic has the valid rows.

More seeds: ``python -m tests.sim --open-rows --deliver --runs n --seed s``.

Not covered: the handling of records by a broker or a database (tests/jobmanager/delivery).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sim.mutants import hunt
from tests.sim.open_mutants import OPEN_MUTANTS
from tests.sim.run import simulate
from tests.support.budget import seeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sim.planting import Mutant


@pytest.mark.parametrize("seed", seeds(0, 2))
def test_a_job_with_open_rows_and_no_fault_violates_nothing(seed: int) -> None:
    assert simulate(seed, (), deliver=True, open_rows=True).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(6_000_000, 6))
def test_jobs_under_faults_of_all_kinds(seed: int) -> None:
    outcome = simulate(seed, deliver=True, open_rows=True)
    again = f"python -m tests.sim --open-rows --deliver --runs 1 --seed {seed}"
    assert outcome.violations == (), again


@pytest.mark.slow
@pytest.mark.parametrize("make", OPEN_MUTANTS)
def test_planted_bugs_are_caught(make: Callable[[], Mutant]) -> None:
    """The seeds of :mod:`tests.sim.killers` come first."""
    assert hunt(make, runs_max=4) is not None
