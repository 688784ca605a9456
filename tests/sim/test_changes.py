"""Jobs that users rescale, deploy, save and roll back, amid faults: the answer never changes.

What it cannot catch: what real threads and processes do between two steps, and deliveries at a
change (``tests/jobmanager/driver/changes``, ``python -m tests.kills --changes``).
"""

from __future__ import annotations

import pytest

from tests.sim.run import simulate
from tests.support.budget import seeds

#: Seeds that once broke a law, without faults; the commits say why.
ONCE_BROKEN = [2, 20, 34, 82]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*ONCE_BROKEN, *seeds(40, 2)])
def test_changes_without_faults(seed: int) -> None:
    outcome = simulate(seed, (), change=True)
    assert outcome.violations == (), f"python -m tests.sim --change --runs 1 --seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(100, 5))
def test_changes_amid_faults(seed: int) -> None:
    outcome = simulate(seed, change=True)
    assert outcome.violations == (), f"python -m tests.sim --change --runs 1 --seed {seed}"
