"""Simulated jobs with half of the vertices strong: all faults, and no broken law.

Their code is repeatable, so the result is known. Not covered: code with another result each time
(tests/rvertex/checkpoint/test_productions.py).
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from streamscope.testing.simulation.workload import with_strong
from tests.sim import run as run_module
from tests.sim.run import simulate
from tests.sim.workload import Workload, make_workload
from tests.support.budget import seeds

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _half_of_them_strong() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "make_workload", _strong_workload)
        yield


def _strong_workload(seed: int) -> Workload:
    work = make_workload(seed)
    return replace(work, vertices=with_strong(work.vertices, Random(seed)))


@pytest.mark.parametrize(
    "seed",
    [*range(7000, 7002), *(pytest.param(s, marks=pytest.mark.slow) for s in seeds(7002, 12))],
)
def test_strong_vertices_under_faults_of_all_kinds(seed: int) -> None:
    outcome = simulate(seed)
    assert outcome.violations == (), "\n".join(outcome.tail)
