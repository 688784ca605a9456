"""Which states must spill, and the estimated sizes of objects.

Not covered: memory that allocators keep beyond the size of arrays.
"""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa

from rvertex.keys.key_table import KeyTable
from rvertex.messages import Memory
from rvertex.state.memory import UNLIMITED, StateMemory, held_bytes


def test_a_vertex_above_its_share_spills_once_the_budget_is_exceeded() -> None:
    memory = StateMemory(160)  # a quarter is reserved for work, an eighth for pages
    busy, idle = memory.holder(), memory.holder()
    busy.used_bytes = 100
    assert [busy.must_spill] == [False], "the idle one does not need its share"
    idle.used_bytes = 40
    assert (busy.must_spill, idle.must_spill) == (True, False)
    del idle
    gc.collect()
    assert memory.used_bytes == 100
    assert (busy.must_spill, busy.may_spill) == (False, True)


def test_vertices_share_the_budget_of_their_host_and_have_counts_of_their_own() -> None:
    host = StateMemory(160)
    busy, idle = host.of_vertex(), host.of_vertex()
    holders = busy.holder(), idle.holder()
    holders[0].used_bytes, holders[1].used_bytes = 90, 20
    assert (busy.used_bytes, idle.used_bytes, host.used_bytes) == (90, 20, 110)
    assert [holder.must_spill for holder in holders] == [True, False]
    holders[0].store([pa.record_batch({"x": pa.array(range(10))})])
    assert (busy.spills, busy.spilled_bytes, idle.spills) == (1, 80, 0)
    kept = holders[1].store_array(np.arange(9))
    holders[0].keys, holders[1].keys = 7, 5
    assert (busy.keys, idle.keys, host.keys) == (7, 5, 12)
    assert (busy.stored.files, idle.stored.files, idle.stored.nbytes) == (0, 1, kept.nbytes)
    del holders, kept
    gc.collect()
    assert (host.used_bytes, host.keys, idle.stored.files, idle.stored.nbytes) == (0, 0, 0, 0)


def test_without_a_budget_nothing_spills() -> None:
    holder = UNLIMITED.holder()
    holder.used_bytes = 2**60
    assert not holder.may_spill
    assert not holder.must_spill


def test_a_host_reports_the_size_of_its_state() -> None:
    memory = StateMemory(100)
    holder = memory.holder()
    holder.used_bytes = 70
    told = memory.added_to(Memory(1, 2, 3))
    assert (told.state_bytes, told.state_budget_bytes, told.spilled_files) == (70, 100, 0)


def test_the_estimated_size_of_an_object_is_near_its_real_size() -> None:
    table = KeyTable([pa.int64()])
    empty = held_bytes(table)
    table.codes([pa.array(np.arange(100_000) * 7919)], 100_000)
    assert 1_600_000 < held_bytes(table) - empty < 8_000_000
    words = KeyTable([pa.string()])
    words.codes([pa.array([f"key number {i}" for i in range(10_000)])], 10_000)
    assert 500_000 < held_bytes(words) < 4_000_000
    assert held_bytes([np.zeros(10, np.int64)] * 3, {"a": np.zeros(5, np.int64)}) >= 280
