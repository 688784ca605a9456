"""Two sites with one registry: each id leaves one of them; planted bugs are detected.

Not covered: several threads of one process, which share commits (test_registry.py).
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from rvertex.registry.once import OnceDestination
from rvertex.registry.shard import Shard, Verdict
from rvertex.registry.shard_map import ShardMap
from tests.rvertex.registry.sites import KEEP_US, World, broken_in
from tests.support.budget import one_in, seeds

if TYPE_CHECKING:
    from collections.abc import Callable

#: Runs that must detect a planted bug.
SEEDS = range(40)


@pytest.mark.parametrize("seed", one_in(6, seeds(0, 24)))
def test_each_id_is_emitted_by_one_site(seed: int) -> None:
    assert World(seed).run() == []


@pytest.mark.slow
def test_all_simulated_events_occur() -> None:
    met: Counter[str] = Counter()
    for seed in range(8):
        world = World(seed)
        assert world.run() == []
        met += world.met
        met["old"] += sum(len(site.old) for site in world.sites)
    kinds = {
        "late copy",
        "lost answer",
        "died",
        "away",
        "cut off",
        "grown",
        "trimmed",
        "old",
        "delivered",
    }
    assert kinds <= {kind for kind, times in met.items() if times > 2}, met


def token_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A claim of the same joiner counts as that of another joiner."""
    verdict = Shard.verdict

    def found(self: Shard, id_: bytes, time_us: int, token: str) -> Verdict | None:
        return Verdict.TAKEN if (v := verdict(self, id_, time_us, token)) is Verdict.OURS else v

    patch.setattr(Shard, "verdict", found)


def collected_too_early(patch: pytest.MonkeyPatch) -> None:
    """Ids are deleted while claims for them are still accepted."""
    raise_floor = Shard._raise_floor

    def early(self: Shard, floor_us: int) -> None:
        raise_floor(self, floor_us)
        self._held = {
            step: held
            for step, held in self._held.items()
            if step * self._step_us > self._newest_us - KEEP_US // 4
        }
        self._open = {key: token for key, token in self._open.items() if key[0] in self._held}

    patch.setattr(Shard, "_raise_floor", early)


def map_applied_at_once(patch: pytest.MonkeyPatch) -> None:
    """A new number of shards takes effect at once."""
    proposed = ShardMap.proposed

    def at_once(self: ShardMap, shards: int, now_us: int, _: int) -> ShardMap | None:
        return proposed(self, shards, now_us, 0)

    patch.setattr(ShardMap, "proposed", at_once)


def retry_with_a_new_token(patch: pytest.MonkeyPatch) -> None:
    """A restarted process gets another joiner token."""
    init, tokens = OnceDestination.__init__, count()

    def begin(self: OnceDestination, *given: Any) -> None:
        init(self, *given)
        self._token += f"/{next(tokens)}"

    patch.setattr(OnceDestination, "__init__", begin)


def trimmed_without_a_floor(patch: pytest.MonkeyPatch) -> None:
    """Entries are deleted before one with the floor follows, so newcomers accept old ids."""

    def trimmable(self: Shard) -> int:
        while self._entries and self._entries[0][1] < self._newest_us - KEEP_US // 4:
            self._entries.popleft()
        return self._entries[0][0] if self._entries else 0

    patch.setattr(Shard, "trimmable", trimmable)


def collected_before_the_output_is_noted(patch: pytest.MonkeyPatch) -> None:
    """After a long absence, a site's claims are deleted."""
    patch.setattr(Shard, "_due_floor_us", lambda self: self._newest_us - self._keep_us)


def claims_without_a_look_at_the_log(patch: pytest.MonkeyPatch) -> None:
    """Each claim succeeds, even if another one precedes it."""

    def claim(_: Shard, part: Any) -> list[Verdict]:
        return [Verdict.OURS] * len(part.ids)

    patch.setattr(Shard, "_claim", claim)


def written_before_the_answer(patch: pytest.MonkeyPatch) -> None:
    """Rows are delivered regardless of the result of their claims."""

    def verdicts_of_all(self: Any, token: str, ids: list[bytes], *_: Any) -> list[Verdict]:
        return [Verdict.OURS] * len(ids)

    patch.setattr("rvertex.registry.registry.IdRegistry.claim", verdicts_of_all)


@pytest.mark.parametrize(
    "plant",
    [
        token_forgotten,
        collected_too_early,
        map_applied_at_once,
        retry_with_a_new_token,
        trimmed_without_a_floor,
        collected_before_the_output_is_noted,
        claims_without_a_look_at_the_log,
        written_before_the_answer,
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert broken_in(SEEDS), f"{plant.__name__} is not found"
