"""Two sites join a day of clicks under failures; planted bugs are detected.

Not covered: real processes, servers and disks (``make photon``).
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from rvertex.registry.joiner.joiner import IdJoiner
from rvertex.registry.joiner.steps import Step, StepLog
from rvertex.registry.registry import IdRegistry
from rvertex.registry.shard import Shard
from tests.rvertex.joiner.day import World
from tests.support.budget import scaled, seeds

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.slow
def test_a_small_day_with_four_deaths_violates_nothing() -> None:
    world = World(0, 400, 400, tick_s=1800)
    assert world.run() == []
    assert world.met["died"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 1))
def test_each_click_is_joined_once(seed: int) -> None:
    world = World(seed, scaled(50_000), scaled(50_000), tick_s=600)
    assert world.run() == []
    kinds = {"died", "cut off", "server away", "lost", "lost answer", "joined", "marked", "wasted"}
    assert kinds <= {kind for kind, times in world.met.items() if times}, world.met


def token_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A restarted process gets another joiner token."""
    open_, tokens = StepLog.open, count()

    def begin(self: StepLog, first: Step) -> Any:
        state = open_(self, first)
        object.__setattr__(state.last, "token", f"{state.last.token}/{next(tokens)}")
        return state

    patch.setattr(StepLog, "open", begin)


def claimed_before_the_entry(patch: pytest.MonkeyPatch) -> None:
    """The claims of a killed process are not in the journal."""
    append = StepLog.append

    def late(self: StepLog, step: Step) -> None:
        if len(step.joined) and self.number % 2:
            step = Step(step.token, step.next_seq, step.append, step.claim, step.primary_seq)
        append(self, step)

    patch.setattr(StepLog, "append", late)


def begun_step_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A restarted process does not complete the last step of its predecessor."""
    patch.setattr(IdJoiner, "_begin_again", lambda *_: None)


def delivered_before_the_append(patch: pytest.MonkeyPatch) -> None:
    """The registry counts a claim as delivered at once, so it rejects a repeat."""
    apply = Shard.apply

    def noted(self: Shard, seq: int, entry: Any) -> Any:
        verdicts = apply(self, seq, entry)
        for part in entry.claims:
            self._close(part.token, None)
        return verdicts

    patch.setattr(Shard, "apply", noted)


def appended_whatever_the_verdict(patch: pytest.MonkeyPatch) -> None:
    """Rows are appended even if the other site has their ids."""
    from rvertex.registry.shard import Verdict

    def all_ours(_: Any, __: str, ids: list[bytes], *___: Any) -> list[Verdict]:
        return [Verdict.OURS] * len(ids)

    patch.setattr(IdRegistry, "claim", all_ours)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant",
    [
        appended_whatever_the_verdict,
        token_forgotten,
        claimed_before_the_entry,
        begun_step_is_forgotten,
        delivered_before_the_append,
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(World(seed, 2000, 2000, tick_s=1800).run() for seed in range(12))
