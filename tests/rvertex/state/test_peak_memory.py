"""The peak memory of a process whose windows need far more than their budget, also at their end.

Not covered: memory of hosts, channels and checkpoints, which other tests limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "bench_state.py"
ROWS, KEYS, BUDGET = 3_000_000, 1_500_000, 20_000_000
#: Memory besides the budget: a batch and its temporary arrays, sorted rows, a piece of output.
BESIDE = 200_000_000
#: Freed memory that allocators may keep.
ALLOCATOR = 30_000_000


def measured(engine: str, budget: int, rows: int = ROWS, keys: int = KEYS) -> dict[str, int]:
    point = ["--one", engine, f"{budget}", "--rows", f"{rows}", "--keys", f"{keys}"]
    command = [sys.executable, f"{BENCHMARK}", *point]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "needed"), [("text", 330_000_000), ("hopping", 600_000_000)])
def test_peak_memory_is_the_budget_and_a_constant(engine: str, needed: int) -> None:
    whole, little = measured(engine, 0), measured(engine, BUDGET)
    assert little["digest"] == whole["digest"]
    assert whole["peak_bytes"] > needed
    assert little["peak_bytes"] < BUDGET + BESIDE
    assert little["written_bytes"] > BUDGET


@pytest.mark.slow
def test_a_budget_of_many_pieces_contains_the_memory_of_their_work() -> None:
    budget, rows, keys = 256_000_000, 6_000_000, 5_000_000
    whole, little = (measured("window", bytes_, rows, keys) for bytes_ in (0, budget))
    assert little["digest"] == whole["digest"]
    assert whole["peak_bytes"] > budget + 3 * ALLOCATOR
    assert little["peak_bytes"] < budget + ALLOCATOR
    assert little["written_bytes"] > budget
