"""A registry in one process: group commits, tokens, shards, and the same result everywhere.

Not covered: several processes (test_sites.py), a real store (test_nats_log.py).
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, Event

import msgpack
import pytest
from hypothesis import given, strategies as st

from rstream.clock import ManualClock
from rstream.errors import UsageError
from rstream.types import MIN_TIME
from rvertex.registry.entries import Entry, Ids
from rvertex.registry.errors import (
    RegistryAwayError,
    RegistryChangeError,
    RegistryTimeError,
    RegistryUseError,
)
from rvertex.registry.registry import IdRegistry
from rvertex.registry.shard import Shard, Verdict
from rvertex.registry.shard_map import ShardMap
from tests.rvertex.registry.sites import KEEP_US, LIMITS, MARGIN_US, SKEW_US, MemoryLog
from tests.support.budget import examples

WAIT_S = 120.0
OURS, TAKEN, OLD = Verdict.OURS, Verdict.TAKEN, Verdict.OLD


def registry(log: MemoryLog, now_us: int = 10_000) -> IdRegistry:
    return IdRegistry(log, ManualClock(now_us), "r", LIMITS)


def test_threads_share_a_commit_which_resolves_conflicts() -> None:
    log = MemoryLog()
    ids = registry(log)
    ids.claim("first", [b"map"], [0], 9)
    log.gate.clear()
    log.arrived.clear()
    with ThreadPoolExecutor(4) as pool:
        leader = pool.submit(ids.claim, "leader", [b"a"], [0], 9)
        assert log.arrived.wait(WAIT_S)
        calls = [pool.submit(ids.claim, token, [b"x"], [0], 9) for token in "uvw"]
        deadline_s = time.monotonic() + WAIT_S
        while len(ids._open[0].waiting) < 3:  # each call puts its claim there
            assert time.monotonic() < deadline_s
        log.gate.set()
        assert leader.result(WAIT_S) == [OURS]
        verdicts = [call.result(WAIT_S)[0] for call in calls]
    assert sorted(v.value for v in verdicts) == ["ours", "taken", "taken"]
    assert log.appends == 3


def test_a_retry_succeeds_and_known_ids_are_not_written_again() -> None:
    log = MemoryLog()
    ids, other = registry(log), registry(log)
    assert ids.claim("a", [b"x", b"y"], [5, 6], 9) == [OURS, OURS]
    assert ids.claim("a", [b"y", b"x"], [6, 5], 9) == [OURS, OURS]
    assert other.claim("b", [b"x", b"y"], [5, 6], 9) == [TAKEN, TAKEN]
    assert log.appends == 1


def test_an_unreachable_store_is_an_error_after_some_attempts_and_a_repeat_succeeds() -> None:
    log = MemoryLog()
    ids = registry(log)
    log.is_away = True
    with pytest.raises(RegistryAwayError, match="away"):
        ids.claim("a", [b"x"], [5], 9)
    assert log.appends == LIMITS.tries
    log.is_away = False
    assert ids.claim("a", [b"x"], [5], 9) == [OURS]


def test_tokens_are_deleted_after_delivery_and_ids_can_be_released() -> None:
    log = MemoryLog()
    ids = registry(log)
    names = [bytes([n]) for n in range(20)]
    ids.claim("a", names[:12], [5] * 12, 12)
    ids.claim("a", names[12:], [5] * 8, 20)
    assert ids.undelivered() == dict.fromkeys(names, "a")
    ids.delivered("a", 15)
    ids.flush()
    assert set(ids.undelivered()) == set(names[12:])
    appends = log.appends
    ids.flush()
    assert log.appends == appends
    ids.release("a", 12)
    assert registry(log).claim("b", names, [5] * 20, 9) == [TAKEN] * 12 + [OURS] * 8
    assert ids.claim("a", names, [5] * 20, 9) == [TAKEN] * 20


def test_a_successor_records_the_deliveries_of_its_predecessor() -> None:
    log = MemoryLog()
    registry(log).claim("a", [b"x"], [5], 3)
    registry(log).claim("a", [b"y"], [5], 7)
    successor = registry(log)
    successor.resume("a", 4)
    assert successor.undelivered() == {b"y": "a"}
    assert successor.claim("a", [b"y", b"x"], [5, 5], 7) == [OURS, TAKEN]


def test_ids_are_kept_until_their_delivery_is_recorded() -> None:
    log = MemoryLog()
    registry(log).claim("east", [b"x"], [0], 1)
    west = registry(log)
    west.claim("west", [b"y"], [4 * KEEP_US], 1)
    assert registry(log).claim("east", [b"x"], [0], 1) == [OURS]
    assert west.claim("west", [b"x"], [0], 1) == [TAKEN]
    west.resume("east", 1)
    west.claim("west", [b"z"], [4 * KEEP_US], 1)
    assert west.claim("east", [b"x"], [0], 1) == [OLD]


def test_ids_that_are_too_old_are_rejected_and_their_entries_deleted() -> None:
    log = MemoryLog()
    ids = registry(log)
    for time_us in range(0, 3 * KEEP_US, 50):
        assert ids.claim("a", [str(time_us).encode()], [time_us], 9) == [OURS]
        ids.delivered("a", 9)
    assert ids.claim("b", [b"new", b"0"], [KEEP_US, 0], 9) == [OLD, OLD]
    assert len(log.store.logs[0]) < 30
    assert registry(log).claim("b", [b"new", b"2900"], [KEEP_US, 2900], 9) == [OLD, TAKEN]


def test_a_change_of_shards_starts_later_and_one_at_a_time() -> None:
    log = MemoryLog()
    ids = registry(log, now_us=1000)
    assert ids.claim("a", [b"x"], [1000], 9) == [OURS]
    assert ids.change_shards(4) == 1000 + 2 * MARGIN_US
    with pytest.raises(RegistryChangeError, match="has not started yet"):
        ids.change_shards(8)
    with pytest.raises(RegistryChangeError, match="1 to 4096 shards, not 0"):
        ids.change_shards(0)
    late = registry(log, now_us=2000)
    names = [str(n).encode() for n in range(40)]
    assert late.claim("a", names, [2000] * 40, 9) == [OURS] * 40
    assert late.claim("b", [b"x"], [1000], 9) == [TAKEN]
    assert len(log.store.logs) == 4
    assert registry(log, now_us=2000).claim("b", names, [2000] * 40, 9) == [TAKEN] * 40


def test_an_id_far_ahead_of_the_clock_is_rejected() -> None:
    with pytest.raises(RegistryTimeError, match="ahead of the clock"):
        registry(MemoryLog(), now_us=0).claim("a", [b"x"], [MARGIN_US], 9)


def test_a_shard_map_of_an_older_release_is_read_and_one_of_a_newer_is_rejected() -> None:
    first, rest = ShardMap.of(3), [[MIN_TIME], [3], True]
    assert ShardMap.from_bytes(msgpack.packb([1, *rest])) == first
    with pytest.raises(UsageError, match=r"version 3.*install the release of the other sites"):
        ShardMap.from_bytes(msgpack.packb([3, *rest, None, 7]))


def test_an_id_has_one_shard_in_every_version_of_the_map() -> None:
    first = ShardMap.of(3)
    proposed = first.proposed(5, 100, MARGIN_US)
    assert proposed is not None
    second = proposed.confirmed()
    for shard_map in (proposed, second):
        assert ShardMap.from_bytes(shard_map.to_bytes()) == shard_map
    assert proposed.withdrawn() == first
    start = 100 + 2 * MARGIN_US
    assert proposed.known_until_us(start, MARGIN_US, SKEW_US) == start
    assert second.known_until_us(start, MARGIN_US, SKEW_US) == start + MARGIN_US - SKEW_US
    names = [str(n).encode() for n in range(200)]
    for name in names:
        assert first.shard_of(name, start - 1) == second.shard_of(name, start - 1)
        assert first.shard_of(name, MIN_TIME) == second.shard_of(name, MIN_TIME)
    assert {second.shard_of(name, start) for name in names} == set(range(5))


def test_an_unconfirmed_change_is_withdrawn_at_its_start() -> None:
    log = MemoryLog()
    ids = registry(log, now_us=1000)
    ids.claim("a", [b"x"], [1000], 1)
    assert log.store.map is not None
    proposed = ShardMap.from_bytes(log.store.map[1]).proposed(4, 1000, MARGIN_US)
    assert proposed is not None
    assert log.write_map(proposed.to_bytes(), log.store.map[0])
    later = registry(log, now_us=1000 + 2 * MARGIN_US)
    assert later.claim("a", [b"y"], [1000 + 2 * MARGIN_US], 2) == [OURS]
    assert ShardMap.from_bytes(log.store.map[1]) == ShardMap.of(1)


CLAIMS = st.tuples(
    st.sampled_from("abc"),
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
)


@examples(60)
@given(st.lists(CLAIMS, min_size=1, max_size=80), st.integers(0, 79))
def test_a_process_that_starts_later_has_the_same_results(
    claims: list[tuple[str, list[int]]], begin: int
) -> None:
    """A process that starts after old entries were deleted decides the same."""
    log: list[tuple[int, Entry]] = []
    shard = Shard(800)
    floors = []
    for seq, (token, numbers) in enumerate(claims):
        # Times grow with the entry numbers; some rows are late.
        times = tuple(seq * 40 - 13 * n for n in numbers)
        ids = tuple(str(seq // 3 * 100 + n).encode() for n in numbers)
        notes = ((token, seq - 2), ("abc"[seq % 3], seq - 20))
        entry = Entry(shard.floor_us, (Ids(token, seq, ids, times),), notes)
        assert Entry.from_bytes(entry.to_bytes()) == entry
        log.append((seq, entry))
        verdicts = shard.apply(seq, entry)
        floors.append((shard.trimmable(), verdicts))
    trimmed = max((below for below, _ in floors[: begin + 1]), default=0)
    newcomer = Shard(800)
    for seq, entry in log:
        if seq >= trimmed:
            found = newcomer.apply(seq, entry)
            if seq > begin:
                assert found == floors[seq][1], seq


def test_another_answer_or_keep_is_rejected_until_the_use_is_reset() -> None:
    log = MemoryLog()
    first = registry(log)
    first.create()
    first.use_for("billed")
    registry(log).use_for("billed")
    other_keep = IdRegistry(log, ManualClock(10_000), "r", replace(LIMITS, keep_us=2 * KEEP_US))
    with pytest.raises(RegistryUseError, match=r"with keep '2.77778e-07 h'.*'5.55556e-07 h'"):
        other_keep.use_for("billed")
    with pytest.raises(RegistryUseError, match="with answer 'billed', and this one has 'shown'"):
        registry(log).use_for("shown")
    first.change_shards(4)
    with pytest.raises(RegistryUseError, match="stop all sites"):
        registry(log).use_for("shown")
    first.reset_use()
    other_keep.use_for("shown")


def test_one_of_two_sites_that_open_a_registry_together_is_rejected() -> None:
    log, late = MemoryLog(), MemoryLog()
    late.store = log.store
    write = late.write_map

    def overtaken(data: bytes, version: int | None) -> bool:
        late.write_map = write  # type: ignore[method-assign]
        registry(log).use_for("billed")
        return write(data, version)

    registry(log).create()
    late.write_map = overtaken  # type: ignore[method-assign]
    with pytest.raises(RegistryUseError, match="'billed'"):
        registry(late).use_for("shown")


def test_a_site_that_opens_a_registry_during_a_reshard_disturbs_nothing() -> None:
    log, other = MemoryLog(), MemoryLog()
    other.store = log.store
    write, writes = log.write_map, iter((False, True, True))

    def opened_before_the_confirmation(data: bytes, version: int | None) -> bool:
        if next(writes):
            registry(other).use_for("billed")
        return write(data, version)

    registry(log).create()
    log.write_map = opened_before_the_confirmation  # type: ignore[method-assign]
    registry(log).change_shards(4)
    assert log.store.map is not None
    stored = ShardMap.from_bytes(log.store.map[1])
    assert (stored.counts, stored.is_confirmed) == ((1, 4), True)
    assert stored.use is not None
    assert stored.use.answer == "billed"


@pytest.mark.parametrize("away", [0, 2])
def test_a_claim_fails_after_all_its_shards_have_ended(away: int) -> None:
    """One shard's log fails at once; the others write all their entries."""
    log = MemoryLog()
    append, ended, is_away = log.append, [], True
    failed = Event()

    def slow(shard: int, data: bytes) -> int:
        if is_away and shard == away:
            failed.set()
            raise RegistryAwayError("r", "away")
        assert failed.wait(WAIT_S)
        seq = append(shard, data)
        ended.append(shard)
        return seq

    log.append = slow  # type: ignore[method-assign]
    names = [str(n).encode() for n in range(400)]
    with ThreadPoolExecutor(4) as pool:
        ids = IdRegistry(log, ManualClock(10_000), "r", LIMITS, shards=4, pool=pool)
        with pytest.raises(RegistryAwayError, match="away"):
            ids.claim("a", names, [0] * 400, 9)
        written = len(ended)
        assert {*ended, away} == {0, 1, 2, 3}
        is_away = False
        assert ids.claim("a", names, [0] * 400, 9) == [OURS] * 400
    assert set(ended[written:]) == {away}, "the other shards had finished"


def test_shards_are_requested_concurrently() -> None:
    """Each append waits until all shards have theirs."""
    log, together = MemoryLog(), Barrier(4)
    append = log.append

    def waiting(shard: int, data: bytes) -> int:
        together.wait(WAIT_S)
        return append(shard, data)

    log.append = waiting  # type: ignore[method-assign]
    names = [str(n).encode() for n in range(40)]
    with ThreadPoolExecutor(4) as pool:
        limits = replace(LIMITS, entry_ids_max=40)
        ids = IdRegistry(log, ManualClock(10_000), "r", limits, shards=4, pool=pool)
        assert ids.claim("a", names, [5] * 40, 9) == [OURS] * 40
    assert registry(log).claim("b", names, [5] * 40, 9) == [TAKEN] * 40
