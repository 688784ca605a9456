"""Whole jobs under a seeded scheduler with faults: no law is broken.

Not covered: effects of real threads between two steps of one process, and the transports
themselves (Flight, fsspec, Spark), whose interfaces are simulated. ``make sim RUNS=n SEED=s`` runs
more seeds; ``make sim-mutants`` shows that the laws detect planted bugs.
"""

from __future__ import annotations

import pytest

from streamscope.testing.simulation.faults.kinds import KINDS
from streamscope.testing.simulation.faults.moments import MOMENTS
from streamscope.testing.simulation.faults.strikes import STRIKES
from tests.sim.run import simulate
from tests.support.budget import seeds


@pytest.mark.parametrize("seed", seeds(0, 3))
def test_a_job_without_faults_violates_nothing(seed: int) -> None:
    assert simulate(seed, ()).violations == ()


@pytest.mark.parametrize("seed", seeds(100, 4))
def test_jobs_under_faults_of_all_kinds(seed: int) -> None:
    outcome = simulate(seed)
    assert outcome.violations == (), f"make sim RUNS=1 SEED={seed}\n" + "\n".join(outcome.tail)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [707, *seeds(500, 6)])
def test_jobs_over_live_logs(seed: int) -> None:
    outcome = simulate(seed, live=True)
    assert outcome.violations == (), f"python -m tests.sim --live --runs 1 --seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(700, 6))
def test_jobs_over_logs_that_get_partitions(seed: int) -> None:
    outcome = simulate(seed, grow=True)
    assert outcome.violations == (), f"python -m tests.sim --grow --runs 1 --seed {seed}"


LATER_KINDS = {*(f.__name__ for f in (*STRIKES, *MOMENTS)), "duplicate", "reorder", "lose", "stop"}
#: The kinds of faults when these seeds were found: with another kind, the runs would differ.
FIRST_KINDS = tuple(kind for kind in KINDS if kind not in LATER_KINDS)
#: Seeds that once broke a law, and the kinds of fault that they need; the commits explain them.
ONCE_BROKEN = [
    (5, ()),
    (16, ("clock_jump",)),
    (18, ("trap_host",)),
    (31, ("store_errors",)),
    (3215, FIRST_KINDS),
    (9011, FIRST_KINDS),
    (312, ("pause_manager",)),
    (13, ("straggler", "crash_host")),
    *(
        pytest.param(*run, marks=pytest.mark.slow)  # longer jobs than the others
        for run in [
            (17, ("crash_all",)),
            (17, ("trap_host",)),
            (3790, FIRST_KINDS),
            (116, FIRST_KINDS),
        ]
    ),
]


@pytest.mark.parametrize(("seed", "kinds"), ONCE_BROKEN)
def test_seeds_that_once_failed(seed: int, kinds: tuple[str, ...]) -> None:
    outcome = simulate(seed, kinds)
    assert outcome.violations == (), "\n".join(outcome.tail)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault(kind: str) -> None:
    for seed in seeds(300, 2):
        outcome = simulate(seed, (kind,))
        assert outcome.violations == (), f"make sim RUNS=1 SEED={seed} KINDS={kind}"


@pytest.mark.slow
@pytest.mark.parametrize("part", seeds(0, 3))
def test_no_seed_violates_an_invariant(part: int) -> None:
    for seed in range(10_000 + 5 * part, 10_005 + 5 * part):
        outcome = simulate(seed)
        assert outcome.violations == (), f"make sim RUNS=1 SEED={seed}"
