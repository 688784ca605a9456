"""Columns by row number in chunks: equal to one array, at any sizes, in memory and on scratch."""

from __future__ import annotations

import numpy as np
import pytest

from rvertex.state import numbered
from rvertex.state.array_spill import ArraySpill
from rvertex.state.memory import StateMemory
from rvertex.state.numbered import Numbered
from tests.support.small_limits import small_limits


@pytest.mark.parametrize(("budget", "chunk_rows"), [(None, 1 << 18), (None, 5), (0, 5)])
def test_the_structure_equals_a_window_of_two_arrays(
    budget: int | None, chunk_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(chunk_rows)
    whole = np.empty((2, 0), np.int64)
    with small_limits():
        monkeypatch.setattr(numbered, "_CHUNK_ROWS", chunk_rows)
        memory = StateMemory(budget)
        rows = Numbered(2, memory)
        spill = ArraySpill([rows], memory)
        for _ in range(300):
            new = np.cumsum(rng.integers(0, 9, (2, rng.integers(0, 9))), axis=1)
            new += whole[:, -1:].max(initial=0)
            assert rows.append(list(new)) == whole.shape[1]
            whole = np.concatenate([whole, new], axis=1)
            if len(rows):
                numbers = rng.integers(rows.first, rows.next, 4)
                saved, before = rows.shared(1), whole[1, rows.first : rows.next].copy()
                whole[1, numbers] = -numbers
                rows.put(1, numbers, -numbers)
                assert (np.concatenate(saved) == before).all(), "a snapshot does not change"
                del saved
                assert (rows.get(1, numbers) == -numbers).all()
                value = int(rng.integers(0, whole[0, -1] + 2))
                assert rows.below(0, value) == whole[0, rows.first :].searchsorted(value)
                rows.change(1, np.abs)
                whole[1, rows.first :] = np.abs(whole[1, rows.first :])
            lo = int(rng.integers(rows.first, rows.next + 1))
            assert (rows.read(1, lo, rows.next) == whole[1, lo:]).all()
            rows.drop(int(rng.integers(0, min(len(rows), 8) + 1)))
            assert np.array_equal(np.concatenate([*rows.parts(1), []]), whole[1, rows.first :])
            spill.fit(1)
    assert (memory.spills > 0) == (budget is not None)
