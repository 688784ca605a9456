"""Two sites join a day of clicks under failures; planted bugs are found."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from rvertex.joiner.joiner import IdJoiner
from rvertex.joiner.steps import Step, StepLog
from rvertex.registry.shard import Shard, Verdict
from tests.rvertex.joiner.day import World
from tests.support.budget import one_in, scaled, seeds

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_small_day() -> None:
    world = World(0, 400, 400, tick_s=1800)
    assert world.run() == []
    assert world.met["died"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 2))
def test_each_click_is_joined_once(seed: int) -> None:
    world = World(seed, scaled(25_000), scaled(25_000), tick_s=300)
    assert world.run() == []
    kinds = {"died", "cut off", "server away", "lost", "lost answer", "joined", "marked", "wasted"}
    assert kinds <= {kind for kind, times in world.met.items() if times}, world.met
