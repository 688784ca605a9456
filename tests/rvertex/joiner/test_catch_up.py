"""A site that catches up: it limits its rate, stores its positions, and doubles its pauses.

Not covered: the benefit of the limit for the other site (``make photon``).
"""

from __future__ import annotations

from itertools import pairwise

from tests.rvertex.joiner.day import S
from tests.rvertex.joiner.test_restart import OneSite

RATE, CLICKS, TICK_US = 100, 1000, S // 10


def test_the_rate_is_kept_and_a_successor_continues() -> None:
    site = OneSite(rows_per_s_max=float(RATE), step_rows_max=64, steps_per_record=4)
    site.search(1, 0)
    for click in range(CLICKS):
        site.click(click, 1, 0)
    joiner, before, read, joined = site.begin(), 0, [], [0]
    while joined[-1] < CLICKS:
        assert len(joined) < 20 * CLICKS // RATE, "it is too slow"
        site.time_us += TICK_US
        while joiner.step():
            pass
        joined.append(before + int(joiner.status()["joined"]))
        if before == 0 and joined[-1] >= CLICKS // 2:  # the process is killed
            before = joined[-1]
            read.append(int(joiner.status()["read"]))
            joiner = site.begin()
    read.append(int(joiner.status()["read"]))
    assert sorted(site.joined()) == [(click, 7) for click in range(CLICKS)]
    for lo, low in enumerate(joined):
        for hi in range(lo, len(joined)):
            assert joined[hi] - low <= RATE * (hi - lo) * TICK_US / S + RATE, (lo, hi)
    assert len(joined) - 1 >= (CLICKS - RATE) * S / (RATE * TICK_US)
    assert read[0] + read[1] <= CLICKS + 2 * 64, "only rows of no entry are read again"


def test_a_click_without_a_search_is_looked_up_at_doubling_intervals() -> None:
    site = OneSite(retry_first_s=1.0, retry_max_s=16.0)
    site.click(1, 1, 0)
    joiner, times = site.begin(), []
    for _ in range(700):
        site.time_us += TICK_US
        lookups = joiner.status()["retries"]
        while joiner.step():
            pass
        if joiner.status()["retries"] > lookups:
            times.append(site.time_us)
    assert [(hi - lo) / S for lo, hi in pairwise(times)] == [1, 2, 4, 8, 16, 16, 16]
