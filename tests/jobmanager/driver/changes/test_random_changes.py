"""Random sequences of rescales, deployments, savepoints, rollbacks and kills: the same rows.

Not covered: deaths of processes (tests/kills, test_killed_in_change.py).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.support.budget import seeds
from tests.support.changed_jobs import PAIRS
from tests.support.random_changes import RandomChanges

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.usefixtures("brittle_lines")
@pytest.mark.parametrize("seed", seeds(120, 3))
def test_a_job_under_random_changes_has_the_same_rows(seed: int, tmp_path: Path) -> None:
    name = list(PAIRS)[seed % len(PAIRS)]
    RandomChanges(tmp_path, *PAIRS[name], random.Random(seed)).run()
