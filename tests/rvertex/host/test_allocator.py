"""When memory is given back. Cannot catch: whether the system gets it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rstream import ManualClock
from rvertex.host.allocator import GIVE_BACK_EVERY_S, LARGE_STEP_BYTES, LargeSteps


def batch_of(nbytes: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(np.zeros(nbytes // 8, np.int64))], ["v"])


def test_memory_is_given_back_after_large_steps_now_and_then() -> None:
    clock = ManualClock()
    steps = LargeSteps(clock)
    half, large = batch_of(LARGE_STEP_BYTES // 2), batch_of(LARGE_STEP_BYTES)
    assert not steps.is_due([])
    assert not steps.is_due([half, half]), "one batch that went to two streams"
    assert steps.is_due([half, batch_of(LARGE_STEP_BYTES // 2)])
    assert not steps.is_due([large]), "it was a moment ago"
    clock.advance(int(GIVE_BACK_EVERY_S * 1e6) - 1)
    assert not steps.is_due([])
    clock.advance(1)
    assert steps.is_due([]), "it is owed since"
    clock.advance(10_000_000)
    assert not steps.is_due([half])
    assert steps.is_due([large])
