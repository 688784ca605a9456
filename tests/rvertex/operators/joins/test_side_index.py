"""The index of a join side: few runs, few expired rows, the same matches as a scan."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rstream.items.batch import event_schema
from rvertex.events.run import Run
from rvertex.keys.code_map import CodeMap
from rvertex.keys.key_index import KeyIndex
from rvertex.operators.joins.anti import AntiJoin
from rvertex.operators.joins.inner import TemporalJoin
from rvertex.operators.joins.side_index import (
    IndexedRun,
    JoinSide,
    Rows,
    living_rows,
)
from rvertex.operators.joins.stored_rows import ORDINAL, Probes
from rvertex.state.memory import StateMemory
from rvertex.state.scratch import Scratch

if TYPE_CHECKING:
    from pathlib import Path

STORED = pa.schema([("k", pa.int64())])


def rows_of(codes: np.ndarray, ve: np.ndarray, first_ordinal: int) -> Rows:
    stored = pa.RecordBatch.from_arrays([pa.array(codes * 10)], schema=STORED)
    return Rows(codes, ve, first_ordinal + np.arange(len(codes)), stored)


@pytest.mark.parametrize(
    ("lifetime", "searched_min", "budget"),
    [(5, 1, None), (200, 1 << 22, None), (10_000, 1, None), (200, 1 << 22, 0), (900, 1, 4_000)],
)
def test_a_side_equals_a_list_of_current_rows(
    lifetime: int,
    searched_min: int,
    budget: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rvertex.operators.joins.side_index._SEARCHED_MIN", searched_min)
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 1)
    rng = np.random.default_rng(lifetime)
    memory = StateMemory(budget, Scratch(str(tmp_path)))
    side, frontier = JoinSide(STORED, ["k"], memory), 0
    everything: list[tuple[int, int, int]] = []
    for step in range(150 if budget is None else 60):  # each step reads and writes files
        frontier = step * 3
        codes = rng.integers(0, 1500, rng.integers(0, 8))
        ve = frontier + 1 + rng.integers(0, lifetime, len(codes))
        side.insert(rows_of(codes, ve, side.next_ordinal), frontier)
        numbered = range(side.next_ordinal, side.next_ordinal + len(codes))
        everything += zip(codes.tolist(), ve.tolist(), numbered, strict=True)
        side.next_ordinal += len(codes)
        side.expire(frontier)
        side.check(frontier)
        everything = [row for row in everything if row[1] > frontier]
        stored_ordinals = set(side.table().column(ORDINAL).to_pylist())
        assert {ordinal for _, _, ordinal in everything} <= stored_ordinals
        assert len(side) <= 2 * len(everything)
        assert budget is not None or side.runs <= 1 + len(side).bit_length()
        assert budget != 0 or side.rows_in_memory == 0
        probes = rng.integers(0, 1600, 4)
        vs = np.sort(frontier + rng.integers(0, 4, 4))
        assert found(side, probes, vs) == scanned(everything, probes, vs)
    ve, ordinal, stored = living_rows(side.table(), frontier)
    assert list(zip(stored.column("k").to_pylist(), ve, ordinal, strict=True)) == [
        (code * 10, ve, ordinal) for code, ve, ordinal in everything
    ]
    side.expire(10**9)
    assert (len(side), side.runs) == (0, 0)
    assert (memory.spills > 0) == (budget is not None)
    del side
    gc.collect()
    assert memory.scratch.used_bytes == 0, "files of dropped rows are gone"


def found(side: JoinSide, probes: np.ndarray, vs: np.ndarray) -> list[tuple[int, int]]:
    return sorted(
        (int(i), int(ordinal))
        for pairs in side.find(Probes(probes, vs, lambda: [pa.array(probes * 10)]))
        for i, ordinal in zip(pairs.probe, pairs.ordinal, strict=True)
    )


def scanned(
    rows: list[tuple[int, int, int]], probes: np.ndarray, vs: np.ndarray
) -> list[tuple[int, int]]:
    return [
        (i, ordinal)
        for i, (probe, time) in enumerate(zip(probes, vs, strict=True))
        for code, ve, ordinal in rows
        if code == probe and ve > time
    ]


def test_short_runs_of_high_codes_are_merged_and_stay_in_memory(tmp_path: Path) -> None:
    """Short runs of high codes are merged; their long code maps do not count as rows."""
    memory = StateMemory(8 << 20, Scratch(str(tmp_path)))
    side = JoinSide(STORED, ["k"], memory)
    for _ in range(40):
        codes = 5_000_000 + side.next_ordinal + np.arange(100)
        side.insert(rows_of(codes, np.full(100, 10**9), side.next_ordinal), 0)
        side.next_ordinal += 100
    assert side.runs <= 1 + len(side).bit_length()
    assert memory.spills == 0


def test_the_filter_of_a_run_is_in_memory_once(tmp_path: Path) -> None:
    memory = StateMemory(0, Scratch(str(tmp_path)))
    side, count = JoinSide(STORED, ["k"], memory), 1 << 18
    rows = rows_of(np.arange(count), np.full(count, 10**9), 0)
    side.insert(rows, 0)  # imports modules
    before = memory.used_bytes
    tracemalloc.start()
    try:
        side.insert(rows, 0)
        gc.collect()
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert side.rows_in_memory == 0
    assert 0 < memory.used_bytes - before < held_bytes < 1.5 * (memory.used_bytes - before)


def test_a_probe_does_not_lengthen_a_code_map() -> None:
    """A spilled map would be copied into memory."""
    codes = CodeMap(np.int32, -1)
    before = codes.nbytes
    assert codes.get(np.array([5_000_000])).tolist() == [-1]
    assert codes.nbytes == before


def test_a_code_map_drops_cleared_codes() -> None:
    codes = CodeMap(np.int32, -1)
    codes.put(np.array([3, 5_000]), np.array([7, 8]))
    assert codes.get(np.array([5_000, 3, 4, 90_000])).tolist() == [8, 7, -1, -1]
    codes.clear(np.array([3]))
    assert codes.get(np.array([3, 5_000])).tolist() == [-1, 8]


def test_living_rows_of_an_empty_side() -> None:
    ve, ordinal, stored = living_rows(JoinSide(STORED, ["k"]).table(), 0)
    assert len(ve) == len(ordinal) == stored.num_rows == 0
    assert stored.schema == STORED


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_side_is_restored_by_reference(
    tmp_path: Path, is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matches are the same, no payload is copied, and the next checkpoint has the same batches."""
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 1)
    monkeypatch.setattr("rvertex.operators.joins.stored_rows._RUN_ROWS", 100)
    monkeypatch.setattr("rvertex.operators.joins.side_index._REFERENCED_MIN", 1)
    rng = np.random.default_rng(1)
    side = JoinSide(STORED, ["k"])
    everything: list[tuple[int, int, int]] = []
    for _ in range(4):  # the later runs have keys of the earlier ones
        codes, first = rng.integers(0, 90, 40), side.next_ordinal
        ve = rng.integers(1, 50, len(codes))
        side._runs.append(IndexedRun(rows_of(codes, ve, first), CodeMap(np.int32, -1)))
        everything += zip(codes.tolist(), ve.tolist(), range(first, first + 40), strict=True)
        side.next_ordinal += len(codes)
    memory = StateMemory(0 if is_stored else None, Scratch(str(tmp_path)))
    for table in (side.table(), side.table().slice(60), shuffled(side.table())):
        if is_stored:
            stored = [memory.store([b])[0] for b in table.to_batches() if b.num_rows]
            table = pa.Table.from_batches(stored)
        keys = KeyIndex([pa.int64()])
        again = JoinSide(STORED, ["k"], memory)
        again.next_ordinal = side.next_ordinal
        again.load("rows", {"rows": table}, 10, keys)
        assert (len(keys) == 0) == is_stored, "keys on scratch have no codes"
        assert again.table().to_batches() == [b for b in table.to_batches() if b.num_rows]
        first, second = (t.column("k").chunk(0).buffers()[1] for t in (table, again.table()))
        assert first.address == second.address
        again.check(10)
        there = set(table.column(ORDINAL).to_pylist())
        alive = [row for row in everything if row[1] > 10 and row[2] in there]
        probes, vs = rng.integers(0, 100, 60), np.sort(rng.integers(10, 50, 60))
        known = keys.codes([pa.array(probes * 10)], insert=True)
        pairs = Probes(known, vs, lambda probes=probes: [pa.array(probes * 10)])
        pairs_found = [
            (i, ordinal)
            for each in again.find(pairs)
            for i, ordinal in zip(each.probe.tolist(), each.ordinal.tolist(), strict=True)
        ]
        assert sorted(pairs_found) == scanned(alive, probes, vs)
        again.expire(10**6)
        assert len(again) == 0


def test_a_checkpoint_has_the_index_of_rows_on_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs share the batches of a checkpoint, and the next checkpoint has the same batches."""
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 1)
    memory, rng = StateMemory(0, Scratch(str(tmp_path))), np.random.default_rng(3)
    side, everything = JoinSide(STORED, ["k"], memory), list[tuple[int, int, int]]()
    for frontier in range(0, 60, 10):
        codes, first = rng.integers(0, 50, 40), side.next_ordinal
        ve = frontier + rng.integers(1, 90, len(codes))
        side.insert(rows_of(codes, ve, first), frontier)
        everything += zip(codes.tolist(), ve.tolist(), range(first, first + 40), strict=True)
        side.next_ordinal += len(codes)
        side.expire(frontier)
        tables = {
            name: pa.Table.from_batches(memory.store(table.combine_chunks().to_batches()))
            for name, table in side.tables("rows").items()
        }
        side, keys = JoinSide(STORED, ["k"], memory), KeyIndex([pa.int64()])
        side.next_ordinal = first + 40
        side.load("rows", tables, frontier, keys)
        side.check(frontier)
        assert side.rows_in_memory == 0
        again = side.tables("rows")
        assert again == tables
        for name in tables.keys() - {"rows#runs"}:
            before, after = (t[name].to_batches()[0].column(0) for t in (tables, again))
            assert before.buffers()[1].address == after.buffers()[1].address
            assert len(again[name].to_batches()) == 1, "the batch, instead of its slices"
        probes, vs = rng.integers(0, 55, 60), np.sort(frontier + rng.integers(0, 80, 60))
        alive = [row for row in everything if row[1] > frontier]
        assert found(side, probes, vs) == scanned(alive, probes, vs)
    assert side.runs > 1


def test_keys_with_the_hash_of_another_key_do_not_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 1)
    monkeypatch.setattr(
        "rvertex.operators.joins.stored_rows.hash_rows",
        lambda columns: columns[0].to_numpy().astype(np.uint64) % np.uint64(3),
    )
    side = JoinSide(STORED, ["k"], StateMemory(0, Scratch(str(tmp_path))))
    side.insert(rows_of(np.arange(20), np.full(20, 9), 0), 0)
    assert side.rows_in_memory == 0
    probes = np.array([25, 7, 7, 3])
    assert found(side, probes, np.zeros(4, np.int64)) == [(1, 7), (2, 7), (3, 3)]


def test_files_have_only_the_used_values_of_a_dictionary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file has only the dictionary values that its rows use."""
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 4_000)
    memory, n = StateMemory(0, Scratch(str(tmp_path))), 400
    many, few = pa.array([f"{i:010d}" * 16 for i in range(1_000)]), pa.array([None, "x"])
    columns = {
        "k": pa.array(np.arange(n) * 10),
        "many": pa.DictionaryArray.from_arrays(pa.array(np.arange(n) * 2, pa.int32()), many),
        "few": pa.DictionaryArray.from_arrays(pa.array(np.arange(n) % 2, pa.int32()), few),
    }
    rows = pa.RecordBatch.from_pydict(columns)
    side = JoinSide(rows.schema, ["k"], memory)
    side.insert(Rows(np.arange(n), np.arange(n) + 1, np.arange(n), rows), 0)
    for frontier in (0, 300):
        side.expire(frontier)
        assert memory.scratch.used_bytes < 400 * len(side)
        probes = Probes(np.arange(n), np.full(n, frontier), lambda: [columns["k"]])
        found = pa.Table.from_batches([each.stored for each in side.find(probes)])
        values = [len(chunk.dictionary) for chunk in found.column("many").chunks]
        assert sum(values) == len(found) == n - frontier
        assert found.select(rows.schema.names).sort_by("k").to_pylist() == (
            rows.slice(frontier).to_pylist()
        )


def test_what_remains_of_runs_on_scratch_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with one endless row is merged, instead of keeping its dead rows for ever."""
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 1_000)
    memory = StateMemory(0, Scratch(str(tmp_path)))
    side = JoinSide(STORED, ["k"], memory)
    everything: list[tuple[int, int, int]] = []
    for step in range(60):
        frontier, first, codes = 10 * step, side.next_ordinal, np.arange(100)
        ve = frontier + 5 + np.arange(100) // 2
        ve[-2:] = 10**9
        side.insert(rows_of(codes, ve, first), frontier)
        side.next_ordinal += 100
        everything += zip(codes.tolist(), ve.tolist(), range(first, first + 100), strict=True)
        everything = [row for row in everything if row[1] > frontier]
        side.expire(frontier)
        side.check(frontier)
        assert side.table().num_rows <= 2 * len(everything) + side.runs
        assert side.runs <= 8, "5 with living rows, and 120 endless rows of 24 bytes in 3"
        if step in (9, 11, 49):
            table, side = side.tables("rows"), JoinSide(STORED, ["k"], memory)
            side.next_ordinal = first + 100
            side.load("rows", table, frontier, KeyIndex([pa.int64()]))
            assert side.rows_in_memory == 0 < side.holder.used_bytes
    probes, vs = np.arange(90, 100), np.full(10, frontier)
    assert found(side, probes, vs) == scanned(everything, probes, vs)


@pytest.mark.parametrize(("restored_at", "frontier"), [(40, 60), (70, 70)])
def test_dead_rows_of_a_restored_run_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restored_at: int, frontier: int
) -> None:
    """Rows that were dead before a restore count, so that runs of mostly dead rows are merged."""
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 1)
    memory = StateMemory(0, Scratch(str(tmp_path)))
    side, again = JoinSide(STORED, ["k"], memory), JoinSide(STORED, ["k"], memory)
    side.insert(rows_of(np.arange(100), 1 + np.arange(100), 0), 0)
    again.load("rows", {"rows": side.table()}, restored_at, KeyIndex([pa.int64()]))
    again.expire(frontier)
    assert again.table().num_rows == len(again) == 100 - frontier


def test_dead_rows_do_not_pile_up_over_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rvertex.operators.joins.side_index._REFERENCED_MIN", 1)
    spec = TemporalJoin(("k",), ("k",), (("left", "k", "k"),))
    join, life = spec.open([STORED, STORED]), 30
    for step in range(200):
        keys, vs = np.arange(20 * step, 20 * step + 20), np.full(20, step)
        columns = [pa.array(vs), pa.array(vs + life), pa.array(keys)]
        events = pa.RecordBatch.from_arrays(columns, schema=event_schema(STORED))
        ctis = np.array([step])
        join.process([Run(events, ctis), Run(events.slice(0, 0), ctis)])
        state = join.snapshot()
        assert state.tables["left"].num_rows <= 2 * 20 * life + 40
        join = spec.open([STORED, STORED])
        join.load(state)


def test_left_rows_of_an_anti_join_are_restored_by_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rvertex.operators.joins.side_index._REFERENCED_MIN", 1)
    spec = AntiJoin(("k",), ("k",), (("k", "k"),))
    keys, vs = np.arange(50), np.arange(50)
    columns = [pa.array(vs), pa.array(vs + 1_000), pa.array(keys)]
    events = pa.RecordBatch.from_arrays(columns, schema=event_schema(STORED))
    anti, ctis = spec.open([STORED, STORED]), np.array([60])
    anti.process([Run(events, ctis), Run(events.slice(0, 0), ctis)])
    saved = anti.snapshot()
    again = spec.open([STORED, STORED])
    again.load(saved)
    both = (state.tables["alive"].column("k").chunk(0) for state in (saved, again.snapshot()))
    before, after = (column.buffers()[1].address for column in both)
    assert before == after
    closing = np.array([500])
    match = pa.RecordBatch.from_arrays([*map(pa.array, ([400], [450], [7]))], schema=events.schema)
    rows = again.process([Run(events.slice(0, 0), closing), Run(match, closing)])
    ended = np.array([2_000])
    late = again.process([Run(events.slice(0, 0), ended)] * 2)
    pieces = pa.Table.from_batches([rows.events, late.events]).filter(pc.field("k") == 7)
    lives = [(row["_vs"], row["_ve"]) for row in pieces.to_pylist()]
    assert lives == [(7, 400), (450, 1_007)], "the second piece is of a row in the checkpoint"


def shuffled(table: pa.Table) -> pa.Table:
    """As in merged state of several vertices: the ordinals of a key are unordered."""
    return table.take(np.random.default_rng(2).permutation(len(table)))
