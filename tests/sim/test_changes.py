"""Jobs that users rescale, deploy, save and roll back, with faults: the result never changes.

Not covered: effects of real threads and processes between two steps, and real destinations
(``tests/jobmanager/driver/changes``, ``python -m tests.kills --changes``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sim.change_mutants import CHANGE_MUTANTS
from tests.sim.changing import RANGES_FROM
from tests.sim.killers import KILLERS
from tests.sim.run import simulate
from tests.support.budget import seeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sim.planting import Mutant

#: Seeds that once broke a law, without faults; the commits say why.
ONCE_BROKEN = [2, 20, 34, 82]
#: As above, with faults: a host of the former job manager wakes up and writes output.
WOKEN = [1212, 5046]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*ONCE_BROKEN, *seeds(40, 2)])
def test_a_changed_job_without_faults_violates_nothing(seed: int) -> None:
    outcome = simulate(seed, (), change=True)
    assert outcome.violations == (), f"python -m tests.sim --change --runs 1 --seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*WOKEN, *seeds(100, 5)])
def test_a_changed_job_with_faults_violates_nothing(seed: int) -> None:
    outcome = simulate(seed, change=True)
    assert outcome.violations == (), f"python -m tests.sim --change --runs 1 --seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(50, 3))
def test_ranges_are_split_and_joined_amid_faults(seed: int) -> None:
    outcome = simulate(RANGES_FROM + seed, change=True)
    again = f"python -m tests.sim --change --runs 1 --seed {RANGES_FROM + seed}"
    assert outcome.violations == (), again


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(30, 2))
def test_changes_of_jobs_that_deliver(seed: int) -> None:
    outcome = simulate(seed, change=True, deliver=True)
    again = f"python -m tests.sim --change --deliver --runs 1 --seed {seed}"
    assert outcome.violations == (), again


@pytest.mark.slow
@pytest.mark.parametrize("make", [m for m in CHANGE_MUTANTS if m.__name__ in KILLERS])
def test_a_planted_bug_breaks_a_law(make: Callable[[], Mutant]) -> None:
    mutant = make()
    outcome = simulate(
        KILLERS[make.__name__], mutant.kinds, mutant.planted, change=True, deliver=mutant.deliver
    )
    assert outcome.violations != ()
