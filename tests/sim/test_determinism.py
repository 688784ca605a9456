"""The simulation itself: a seed determines a run, in this process and in any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.run import simulate
from tests.support.budget import one_in

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", one_in(2, [4, 2024]))
def test_one_seed_gives_one_trace(seed: int) -> None:
    one, two = simulate(seed), simulate(seed)
    assert one == two
    assert one.steps > 50


def test_another_seed_gives_another_trace() -> None:
    assert simulate(1, ()).trace != simulate(2, ()).trace


@pytest.mark.slow
def test_another_process_gives_the_same_trace() -> None:
    """Built-in hashes differ there, but a failing seed must fail there, too."""
    command = [sys.executable, "-c", "from tests.sim.run import simulate; print(simulate(7).trace)"]
    for salt in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": salt}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == simulate(7).trace
