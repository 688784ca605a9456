"""Random sequences of rescales, deployments, savepoints, rollbacks and kills: the same rows.

Cannot catch: deaths of processes (tests/kills, test_killed_in_change.py).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.support.budget import seeds
from tests.support.changed_jobs import COUNTS, STATEFUL
from tests.support.random_changes import RandomChanges

if TYPE_CHECKING:
    from pathlib import Path

TOTALS = COUNTS.replace("ss.agg.count()", 'ss.agg.count(), total=ss.agg.sum("x")')
#: The query, and the one that it is exchanged with.
PAIRS = {"tumbling": (COUNTS, TOTALS), **{name: (q, q) for name, q in STATEFUL.items()}}


@pytest.mark.slow
@pytest.mark.usefixtures("brittle_lines")
@pytest.mark.parametrize("seed", seeds(120, 3))
def test_a_job_under_random_changes_gives_the_same_rows(seed: int, tmp_path: Path) -> None:
    name = list(PAIRS)[seed % len(PAIRS)]
    RandomChanges(tmp_path, *PAIRS[name], random.Random(seed)).run()
