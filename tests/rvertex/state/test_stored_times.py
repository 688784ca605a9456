"""Due times against a list, restored between any two calls."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from rstream.types import INF_TIME
from rvertex.state.memory import StateMemory
from rvertex.state.stored_times import RUNS, TIMES, StoredTimes
from tests.support.small_limits import small_limits


def restored(times: StoredTimes, memory: StateMemory, rows_max: int) -> StoredTimes:
    tables, again = times.save(), StoredTimes(memory.holder())
    pieces = tables[TIMES].to_batches(max_chunksize=rows_max)
    again.load(pa.Table.from_batches(pieces, tables[TIMES].schema), tables[RUNS])
    return again


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("budget", [None, 0])
def test_entries_equal_a_list(seed: int, budget: int | None) -> None:
    draw, memory, now = random.Random(seed), StateMemory(budget), 0
    with small_limits():
        times, model, gone = StoredTimes(memory.holder()), list[tuple[int, int]](), set[int]()
        for number in range(0, 150, 5):
            new = [(now + draw.randrange(1, 30), number + i) for i in range(draw.randrange(5))]
            new = [(time, n) for time, n in new if n not in gone]
            times.add(*np.array(new, np.int64).reshape(-1, 2).T)
            model += new
            gone |= {draw.randrange(number + 5) for _ in range(2)}
            if draw.random() < 0.5:
                times = restored(times, memory, draw.randrange(1, 5))
            least = times.least(partial(np.isin, test_elements=[*gone], invert=True))
            assert least == min((t for t, n in model if n not in gone), default=INF_TIME)
            model = [(t, n) for t, n in model if n not in gone]
            if draw.random() < 0.5:
                until, numbers = times.take(now := now + draw.randrange(9), 3)
                due = {n for t, n in model if t <= until}
                assert due <= {*numbers.tolist()}
                assert until == now or len(due) > 0
                model = [(t, n) for t, n in model if t > until]
            assert times.next_at() <= min((t for t, _ in model), default=INF_TIME)


def test_the_number_of_runs_is_small() -> None:
    times = StoredTimes(StateMemory(None).holder())
    for number in range(300):
        times.add(np.array([1_000 - number]), np.array([number]))
        times.least(lambda numbers: np.ones(len(numbers), bool))
        times.take(number, 9)
    assert len(times) == 300
    assert len(times._runs) < 12
