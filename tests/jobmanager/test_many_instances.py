"""Random histories of jobs with replicas, twins, drains, replay and takeovers: every job ends.

The model (model.py) deletes what the job manager releases, so anything that a strategy still needs
would be missing. Not covered: wrong contents (tests/sim), or needless recomputation.
"""

from __future__ import annotations

import random

import pytest

from jobmanager.state.topology import Topology
from rvertex.vertex.spec import Durability, Recovery
from tests.support.budget import seeds
from tests.support.model import Model
from tests.support.shapes import vertex

KINDS = (
    Recovery(),
    Recovery(),
    Recovery("replay", 1, 7),
    Recovery("replication", 2),
    Recovery("replication", 3),
)


def random_chain(rng: random.Random) -> Topology:
    """Three to five vertices in a row, each with its own strategy and kind of channel."""
    n = rng.randint(3, 5)
    kinds: list[Durability] = [rng.choice(["volatile", "async"]) for _ in range(n - 1)]
    specs = []
    for k in range(n):
        reads = [f"s{k - 1}"] if k else []
        durability = "async" if k == n - 1 else kinds[k]
        how = rng.choice(KINDS)
        specs.append(
            vertex(
                f"v{k}",
                reads=reads,
                writes=[f"s{k}"],
                durability=durability,
                is_sink=k == n - 1,
                recovery=how,
            )
        )
    return Topology(specs)


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(k, marks=pytest.mark.slow) for k in seeds(10, 140))]
)
def test_nothing_that_any_strategy_needs_is_ever_deleted(seed: int) -> None:
    rng = random.Random(seed)
    model = Model(random_chain(rng), hosts=rng.randint(3, 5), rng=rng)
    for _ in range(300):
        model.disturb()
        model.check()
        if model.manager.state != "running":
            break
    model.finish()
