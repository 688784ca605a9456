"""Clocks: the manual one advances only on request."""

from __future__ import annotations

import pytest

from rstream import ManualClock, SystemClock


def test_a_manual_clock_advances_by_the_given_time() -> None:
    clock = ManualClock(now_us=5)
    clock.advance(1_500_000)
    assert clock.now_us() == 1_500_005
    assert clock.monotonic_s() == pytest.approx(1.500005)


def test_system_clock_moves_forward() -> None:
    clock = SystemClock()
    assert clock.now_us() > 1_700_000_000_000_000
    assert clock.monotonic_s() <= clock.monotonic_s()
