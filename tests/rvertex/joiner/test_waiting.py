"""Waiting rows: when each is due, and their order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rvertex.registry.joiner.waiting import Waiting

PAYLOAD = pa.schema([("a", pa.int64())])
S = 1_000_000


def waiting(count: int) -> Waiting:
    found = Waiting(PAYLOAD, 1.0, 5.0)
    rows = pa.RecordBatch.from_arrays([pa.array(range(count), pa.int64())], schema=PAYLOAD)
    found.add(np.arange(count), rows, np.zeros(count, bool), np.zeros(count, np.int64))
    return found


def test_pauses_double_up_to_their_limit() -> None:
    rows, now_us, pauses = waiting(1), 0, []
    for _ in range(6):
        rows.postpone(np.array([0]), now_us)
        due_us = next(t for t in range(now_us, now_us + 9 * S, S) if len(rows.due(t, 9)))
        pauses.append((due_us - now_us) / S)
        assert not len(rows.due(due_us - 1, 9))
        now_us = due_us
    assert pauses == [1, 2, 4, 5, 5, 5]


def test_the_longest_waiting_rows_are_first() -> None:
    rows = waiting(4)
    rows.postpone(np.array([0, 2]), 0)
    assert rows.due(0, 9).tolist() == [1, 3]
    assert rows.due(S, 3).tolist() == [0, 1, 3]
    rows.remove(np.array([1]))
    assert rows.seqs.tolist() == [0, 2, 3]
    assert rows.rows.column(0).to_pylist() == [0, 2, 3]
