"""Spilled state in checkpoints: a run is uploaded once, also after a restore.

Not covered: bytes changed by a disk (``test_codec.py`` checks the digests of parts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from rstream.store.blobs import open_store
from rvertex.aggregates.spec import AggregateSpec
from rvertex.checkpoint.checkpointer import read_checkpoint
from rvertex.checkpoint.codec import CheckpointWriter, load_checkpoint
from rvertex.errors import CorruptCheckpointError
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.windows.hopping import PartialAggregate
from rvertex.state.memory import StateMemory, give_memory
from rvertex.state.scratch import Scratch
from rvertex.vertex.spec import Snapshot, VertexId, VertexSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rvertex.operators.protocol import OperatorState

SPEC = VertexSpec(VertexId("v"), "v", 0, (), None, (), (), pa.schema([]), "schema")
NAME = "c/00000001-000001.ckpt"
ROWS, SIZE = 4_000, 1 << 40
PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.float64())])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 50_000)
    monkeypatch.setattr("rvertex.state.key_runs.BLOCK_ROWS", 500)
    monkeypatch.setattr("rvertex.operators.windows.grouping._MEASURE_ROWS", 10)


def opened(memory: StateMemory) -> Any:
    sums = (AggregateSpec("sum", "x", "x"),)
    operator = PartialAggregate(("k",), SIZE, SIZE, sums, points=True).open([PAYLOAD])
    give_memory(operator, memory)
    return operator


def feed(operator: Any, first: int) -> None:
    """Rows of one window, each with its own key."""
    vs = np.arange(first, first + ROWS)
    keys = (vs * 7_919 % 1_000_003) * 10**9
    columns = [pa.array(c) for c in (vs, vs + 1, keys, vs / 3)]
    events = pa.RecordBatch.from_arrays(columns, names=["_vs", "_ve", "k", "x"])
    operator.process([Run(events, NO_CTIS)])


def snapshot(state: OperatorState) -> Snapshot:
    return Snapshot(VertexId("v"), "schema", (0,), (0,), (b"",), (state,))


def test_runs_are_uploaded_once() -> None:
    store: dict[str, bytes] = {}
    memory = StateMemory(0)
    operator, writer = opened(memory), CheckpointWriter("c", 1, inline_bytes_max=100)

    def write(writer: CheckpointWriter, operator: Any, count: int) -> int:
        steps = writer.write(
            snapshot(operator.snapshot()), count, lambda n, d: store.update({n: bytes(d)})
        )
        while True:  # ends with the steps
            try:
                next(steps)
            except StopIteration as end:
                return int(end.value.uploaded_bytes)

    feed(operator, 0)
    for step in range(1, 6):
        feed(operator, step * ROWS)
    assert memory.scratch.used_bytes > 400_000
    first = write(writer, operator, 1)
    assert first > 400_000
    again = write(writer, operator, 2)
    assert again < 0.05 * first, "nothing changed"
    feed(operator, 6 * ROWS)
    assert write(writer, operator, 3) < 0.6 * first, "old runs are named, not uploaded"

    spilled = memory.scratch.used_bytes

    def fetch(names: Sequence[str]) -> list[bytes | None]:
        return [store.get(name) for name in names]

    loaded = load_checkpoint(
        store["c/00000001-000003.ckpt"],
        name="c",
        state_schema="schema",
        fetch=fetch,
        place=memory.placed,
    )
    assert memory.scratch.used_bytes > spilled + 400_000, "what was read is on scratch, too"
    restored = opened(StateMemory(0))
    restored.load(loaded.snapshot.states[0])
    successor = CheckpointWriter("c", 2, inline_bytes_max=100)
    successor.adopt(loaded)
    assert write(successor, restored, 1) < 0.3 * first
    end = Run(
        pa.RecordBatch.from_pylist(
            [], schema=pa.schema([("_vs", pa.int64()), ("_ve", pa.int64()), *PAYLOAD])
        ),
        np.array([SIZE]),
    )
    assert restored.process([end]).events.equals(operator.process([end]).events)


def written(root: Path) -> Any:
    """An operator with a checkpoint in a folder."""
    operator = opened(StateMemory(0))
    for step in range(6):
        feed(operator, step * ROWS)
    writer = CheckpointWriter("c", 1, inline_bytes_max=100)
    steps = writer.write(snapshot(operator.snapshot()), 1, open_store(f"file://{root}").put)
    assert all(step is None for step in steps)
    return operator


def test_a_restore_maps_parts_in_place(tmp_path: Path) -> None:
    operator = written(tmp_path)
    memory = StateMemory(0, Scratch(str(tmp_path)))
    state = read_checkpoint(open_store(f"file://{tmp_path}"), NAME, SPEC, memory).snapshot.states[0]
    assert memory.scratch.written_bytes == 0
    assert memory.scratch.used_bytes > 400_000
    for part in (tmp_path / "c" / "parts").iterdir():
        part.unlink()
    restored = opened(memory)
    restored.load(state)
    feed(restored, 7 * ROWS)
    feed(operator, 7 * ROWS)
    schema = pa.schema([("_vs", pa.int64()), ("_ve", pa.int64()), *PAYLOAD])
    end = Run(pa.RecordBatch.from_pylist([], schema=schema), np.array([SIZE]))
    assert restored.process([end]).events.equals(operator.process([end]).events)


def test_a_changed_part_is_not_mapped(tmp_path: Path) -> None:
    written(tmp_path)
    part = max((tmp_path / "c" / "parts").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    memory = StateMemory(0, Scratch(str(tmp_path)))
    with pytest.raises(CorruptCheckpointError, match=part.name):
        read_checkpoint(open_store(f"file://{tmp_path}"), NAME, SPEC, memory)


def test_a_window_verifies_rows_when_it_closes(tmp_path: Path) -> None:
    operator = written(tmp_path)
    part = max((tmp_path / "c" / "parts").iterdir(), key=lambda path: path.stat().st_size)
    schema = pa.schema([("_vs", pa.int64()), ("_ve", pa.int64()), *PAYLOAD])
    end = Run(pa.RecordBatch.from_pylist([], schema=schema), np.array([SIZE]))

    def restored() -> Any:
        memory = StateMemory(0, Scratch(str(tmp_path)))
        store = open_store(f"file://{tmp_path}")
        loaded = read_checkpoint(store, NAME, SPEC, memory, verifies_later=True)
        (state,), memory.unverified = loaded.snapshot.states, loaded.unverified
        again = opened(memory)
        loaded.unverified.verify_tables(state.tables, again)
        again.load(state)
        feed(again, 7 * ROWS)
        assert len(loaded.unverified) > 0
        return again

    change(part)
    damaged, mended = restored(), restored()
    with pytest.raises(CorruptCheckpointError, match=part.name):
        damaged.process([end])
    change(part)
    feed(operator, 7 * ROWS)
    assert mended.process([end]).events.equals(operator.process([end]).events)


def change(part: Path) -> None:
    """Invert a byte of the last column, or mend it."""
    with part.open("r+b") as file:  # the same file, which is mapped
        file.seek(part.stat().st_size * 7 // 8)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([255 - byte]))
