"""The soak's criterion for growth, and its expected output, computed from the event numbers."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.rooms import ROOT

pytest.importorskip("confluent_kafka")
sys.path.insert(0, str(ROOT / "benchmarks"))

from soak.events import KEYS, WINDOW_US, amounts_of, answer, keys_of, times_of
from soak.verdict import has_grown, tenths


@pytest.mark.parametrize(
    ("name", "values", "grew"),
    [
        ("driver_mb", [90, 200, 201, 199, 200, 202, 201, 200, 203, 201], False),
        ("driver_mb", [90, 200, 220, 240, 260, 280, 300, 320, 340, 360], True),
        ("driver_mb", [90, 20, 21, 22, 23, 24, 25, 30, 35, 40], False),
        ("worker_mb", [200, 141, 142, 207, 210, 202, 194, 198, 198, 190], False),
        ("checkpoints_files", [12, 12, 12, 12, 12, 14, 26, 30, 30, 35], True),
        ("checkpoints_disk_mb", [10, 10, 10, 10, 10, 11, 23, 28, 28, 33], True),
        ("output_files", [3, 100, 200, 300, 400, 500, 600, 700, 800, 900], True),
        ("notices_files", [3, 100, 200, 300, 400, 500, 600, 700, 800, 900], False),
        ("after_driver_s", [None, 5, None, 6, None, None, 7, None, 30, 40], True),
        ("after_driver_s", [None, 5, None, 6, None, None, None, None, None, None], False),
        ("latency_ms", [900, 100, 100, 400, 100, 120, 90, 380, 100, 100], False),
    ],
)
def test_only_steady_growth_counts_as_growth(
    name: str, values: list[float | None], grew: bool
) -> None:
    assert has_grown(name, values) is grew


def test_numbers_are_reported_by_tenths() -> None:
    values = [(float(second), float(second)) for second in range(100)]
    assert tenths(values, 0.0, 100.0) == [4.5 + 10 * k for k in range(10)]
    assert tenths(values[:20], 0.0, 100.0)[2:] == [None] * 8


def test_the_result_follows_from_the_events() -> None:
    rows, rate, began_us = 1_234, 100, 1_790_000_000_123_456
    numbers = np.arange(rows)
    at_us, keys, amounts = times_of(numbers, began_us, rate), keys_of(numbers), amounts_of(numbers)
    found = answer(began_us, rows, rate)
    assert sum(n for n, _ in found.values()) == rows
    assert len(set(keys.tolist())) == KEYS
    for (end_us, key), (n, total) in list(found.items())[:50]:
        mine = (keys == key) & (at_us >= end_us - WINDOW_US) & (at_us < end_us)
        assert (n, total) == (mine.sum(), amounts[mine].sum())
