"""Checkpoint bytes: everything can be read back; unchanged data is not written again.

Not covered: an operator that changes data of a snapshot; the operator harness does.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import rvertex.checkpoint.chunks
from rstream import MemoryBlobs
from rstream.errors import StoreError
from rvertex.checkpoint.chunks import fingerprint
from rvertex.checkpoint.codec import (
    CheckpointWriter,
    WrittenCheckpoint,
    checkpoint_path,
    decode_snapshot,
    encode_snapshot,
    load_checkpoint,
)
from rvertex.errors import CheckpointFormatError, CorruptCheckpointError, SnapshotSchemaError
from rvertex.operators.protocol import OperatorState
from rvertex.vertex.spec import ReplayFrom, Snapshot, VertexId

if TYPE_CHECKING:
    from rvertex.checkpoint.codec import LoadedCheckpoint

FOLDER = "checkpoints/s01-join.0"
SNAPSHOT = Snapshot(
    vertex=VertexId("s01-join.0"),
    state_schema="abc",
    inputs=(7, 12),
    outputs=(5,),
    digests=(b"\0" * 16,),
    states=(
        OperatorState({"last_cti": -(2**63)}),
        OperatorState({"n": 1}, {"rows": pa.table({"x": [1, None], "s": ["a", "b"]})}),
    ),
    events_in=19,
    events_out=5,
)
DATA = encode_snapshot(SNAPSHOT)


def snapshot_of(**tables: pa.Table) -> Snapshot:
    return replace(SNAPSHOT, states=(OperatorState({}), OperatorState({"n": 1}, tables)))


def write(
    store: MemoryBlobs, writer: CheckpointWriter, snapshot: Snapshot, count: int
) -> WrittenCheckpoint:
    steps = writer.write(snapshot, count, store.put)
    while True:  # ends with the generator
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def load(store: MemoryBlobs, count: int, epoch: int = 1) -> LoadedCheckpoint:
    path = checkpoint_path(FOLDER, epoch, count)
    return load_checkpoint(
        store.get(path), name=path, state_schema="abc", fetch=store.child("").get_many
    )


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rvertex.checkpoint.chunks, "PIECE_ROWS_MAX", 8)


def small_writer() -> CheckpointWriter:
    return CheckpointWriter(FOLDER, 1, inline_bytes_max=0)


class Blobs(MemoryBlobs):
    """A store with all blobs at its root; it can fail after some puts."""

    left = 1 << 30

    def child(self, folder: str) -> Blobs:
        return self

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        self.left -= 1
        if self.left < 0:
            raise StoreError(path, "no room")
        super().put(path, data)


def test_a_decoded_snapshot_equals_the_original() -> None:
    assert decode_snapshot(DATA, name="c", state_schema="abc") == SNAPSHOT


@pytest.mark.parametrize("length", range(8))
def test_decoded_columns_are_aligned_for_arrow(length: int) -> None:
    snapshot = replace(SNAPSHOT, state_schema="a" * length)
    again = decode_snapshot(encode_snapshot(snapshot), name="c", state_schema="a" * length)
    assert again == snapshot
    for table in again.states[1].tables.values():
        for chunk in (c for column in table.columns for c in column.chunks):
            assert all(b is None or b.address % 8 == 0 for b in chunk.buffers())


def test_round_trip_of_positions() -> None:
    positions = replace(
        SNAPSHOT,
        states=(SNAPSHOT.states[0],),
        replay_from=ReplayFrom((3, 4), OperatorState({"times": [1, 2]})),
    )
    assert decode_snapshot(encode_snapshot(positions), name="c", state_schema="abc") == positions


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_any_changed_byte_is_detected(at: int, change: int) -> None:
    damaged = bytearray(DATA)
    damaged[at] ^= change
    with pytest.raises(CorruptCheckpointError, match="checkpoint c is corrupt"):
        decode_snapshot(bytes(damaged), name="c", state_schema="abc")


@given(st.integers(0, len(DATA) - 1))
def test_any_truncation_is_detected(length: int) -> None:
    with pytest.raises(CorruptCheckpointError, match="checkpoint c is corrupt"):
        decode_snapshot(DATA[:length], name="c", state_schema="abc")


def test_a_checkpoint_of_another_version_is_rejected_as_such() -> None:
    older = b"SSCKPT02" + DATA[8:-16]
    older += hashlib.blake2b(older, digest_size=16).digest()
    with pytest.raises(
        CheckpointFormatError, match=r"format is SSCKPT02, this version has SSCKPT\d\d\); resume"
    ):
        decode_snapshot(older, name="c", state_schema="abc")


def test_a_checkpoint_of_another_plan_is_rejected() -> None:
    with pytest.raises(SnapshotSchemaError, match="another plan"):
        decode_snapshot(DATA, name="c", state_schema="xyz")


def test_a_small_state_is_one_file() -> None:
    store = Blobs()
    written = write(store, CheckpointWriter(FOLDER, 1), SNAPSHOT, 1)
    assert store.list() == [checkpoint_path(FOLDER, 1, 1)]
    assert written.parts == ()
    assert load(store, 1).snapshot == SNAPSHOT


def big(rows: int, start: int = 0) -> pa.RecordBatch:
    values = np.arange(start, start + rows)
    return pa.record_batch({"x": values, "s": pa.array([f"row {v}" for v in values])})


def test_unchanged_pieces_are_not_uploaded_again() -> None:
    store, writer = Blobs(), CheckpointWriter(FOLDER, 1)
    run, ends = big(100_000), np.arange(1_000_000)
    first = pa.Table.from_batches([run])
    snapshot = snapshot_of(rows=first, ends=pa.table({"end": ends}))
    one = write(store, writer, snapshot, 1)
    assert one.uploaded_bytes == one.size_bytes > snapshot.states[1].tables["ends"].nbytes
    second = pa.Table.from_batches([run.slice(10), big(10, 100_000)])
    snapshot = snapshot_of(rows=second, ends=pa.table({"end": ends}))
    two = write(store, writer, snapshot, 2)
    assert set(one.parts) & set(two.parts)
    assert two.uploaded_bytes < two.size_bytes / 3
    assert load(store, 2).snapshot == snapshot
    copied = snapshot_of(rows=second, ends=pa.table({"end": ends.copy()}))
    three = write(store, writer, copied, 3)
    assert three.parts == two.parts, "equal content is recognised where it was copied"
    changed = ends.copy()
    changed[500_000] = 7
    four = write(store, writer, snapshot_of(rows=second, ends=pa.table({"end": changed})), 4)
    assert len(set(four.parts) - set(three.parts)) == 1
    assert load(store, 4).snapshot.states[1].tables["ends"]["end"][500_000].as_py() == 7


def test_fingerprints_include_the_buffers_of_dictionaries() -> None:
    indices = pa.array([0, 1, 0], pa.int32())
    flat, other = (pa.DictionaryArray.from_arrays(indices, pa.array([*v])) for v in ("ab", "cd"))
    prints = [fingerprint(pa.record_batch({"d": d})) for d in (flat, flat, other)]
    assert None not in prints
    assert prints[0] == prints[1] != prints[2], "they share indices alone"
    nested = pa.DictionaryArray.from_arrays(indices, pa.array([{"x": 1}, {"x": 2}]))
    assert fingerprint(pa.record_batch({"d": nested})) is None


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.string()])
def test_fingerprints_include_each_buffer_of_a_column(kind: pa.DataType) -> None:
    """A column that shares only some buffers with a stored piece is not taken for that piece."""
    texts = kind == pa.string()
    values = pa.py_buffer(b"abcdef") if texts else pa.array([1, 2, 3, 4, 5, 6])
    width = np.int64 if pa.types.is_large_list(kind) else np.int32
    first, other = (pa.py_buffer(np.array(ends, width)) for ends in ([0, 2, 6], [0, 5, 6]))
    ends, valid = [first, other, first], [None, None, pa.py_buffer(b"\x01")]

    def column(k: int, values: pa.Buffer | pa.Array) -> pa.Array:
        if texts:
            return pa.Array.from_buffers(kind, 2, [valid[k], ends[k], values])
        return pa.Array.from_buffers(kind, 2, [valid[k], ends[k]], children=[values])

    columns = [column(k, values) for k in range(3)]
    columns.append(column(0, pa.py_buffer(b"ABCDEF") if texts else pa.array([6, 5, 4, 3, 2, 1])))
    prints = [fingerprint(pa.record_batch({"c": c})) for c in (columns[0], *columns)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == len(columns)


def test_a_restored_instance_reuses_the_parts_it_loaded() -> None:
    store = Blobs()
    one = write(store, CheckpointWriter(FOLDER, 1), snapshot_of(rows=pa.table(big(200_000))), 1)
    loaded = load(store, 1)
    writer = CheckpointWriter(FOLDER, 2)
    writer.adopt(loaded)
    rows = loaded.snapshot.states[1].tables["rows"]
    grown = snapshot_of(rows=pa.concat_tables([rows, pa.table(big(5, 200_000))]))
    two = write(store, writer, grown, 1)
    assert set(one.parts) <= set(two.parts)
    assert two.uploaded_bytes < 10_000
    assert load(store, 1, epoch=2).snapshot == grown


@pytest.mark.usefixtures("small_pieces")
def test_a_damaged_or_missing_part_is_named() -> None:
    store = Blobs()
    written = write(store, small_writer(), snapshot_of(rows=pa.table(big(40))), 1)
    part = written.parts[2]
    whole = store.get(part)
    for damaged in (whole[:-1], whole[:90] + bytes([whole[90] ^ 1]) + whole[91:], b""):
        store.put(part, damaged)
        with pytest.raises(CorruptCheckpointError, match=f"its part {part}"):
            load(store, 1)
    store.delete(part)
    with pytest.raises(CorruptCheckpointError, match=f"its part {part} is gone"):
        load(store, 1)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("puts", range(5))
def test_files_of_a_failed_checkpoint_are_deleted_soon(puts: int) -> None:
    store, writer = Blobs(), small_writer()
    steady, dropped, late = big(16), big(16, 100), big(16, 200)
    store.left = puts
    with pytest.raises(StoreError):
        write(store, writer, snapshot_of(rows=pa.Table.from_batches([steady, dropped])), 1)
    store.left = 1 << 30
    snapshot = snapshot_of(rows=pa.Table.from_batches([steady, late]))
    written = write(store, writer, snapshot, 2)
    for path in written.obsolete:
        store.delete(path)
    assert sorted([*written.parts, checkpoint_path(FOLDER, 1, 2)]) == [
        p for p in store.list() if p != checkpoint_path(FOLDER, 1, 1)
    ]
    assert load(store, 2).snapshot == snapshot


TYPES: dict[str, list[object]] = {
    "string": ["a", None, "ccc"],
    "dictionary<values=string, indices=int32, ordered=0>": ["a", "b", None],
    "list<item: int64>": [[1], None, [2, 3]],
    "bool": [True, None, False],
    "decimal128(9, 2)": [None, None, None],
    "struct<a: int64>": [{"a": 1}, {"a": None}, None],
    "null": [None, None, None],
    "timestamp[us]": [1, 2, None],
}
PA_TYPES = {
    "dictionary<values=string, indices=int32, ordered=0>": pa.dictionary(pa.int32(), pa.string()),
    "list<item: int64>": pa.list_(pa.int64()),
    "decimal128(9, 2)": pa.decimal128(9, 2),
    "struct<a: int64>": pa.struct([("a", pa.int64())]),
    "timestamp[us]": pa.timestamp("us"),
}


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("kind", TYPES)
def test_every_type_of_column(kind: str) -> None:
    store, writer = Blobs(), small_writer()
    column = pa.array(TYPES[kind] * 9, PA_TYPES.get(kind, kind))
    for count in range(1, 12):
        table = pa.Table.from_batches(
            [
                pa.record_batch({"x": column.slice(lo, 2 * count)})
                for lo in range(count, 27 - count, 3)
            ],
            pa.schema([("x", column.type)]),
        )
        snapshot = snapshot_of(rows=table)
        write(store, writer, snapshot, count)
        read = load(store, count).snapshot.states[1].tables["rows"]
        assert read.to_pylist() == table.to_pylist()
        assert read.schema.equals(table.schema)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Steps of a table that grows at its end, shrinks at its front and is sometimes copied."""
    step = st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(0, 9))
    return draw(st.lists(step, min_size=1, max_size=12))


@pytest.mark.usefixtures("small_pieces")
@given(histories(), st.sampled_from([0, 500, 1 << 20]))
def test_any_history_of_states_is_restored(
    history: list[tuple[int, int, int]], inline_bytes_max: int
) -> None:
    store = Blobs()
    writer = CheckpointWriter(FOLDER, 1, inline_bytes_max=inline_bytes_max)
    chunks: list[pa.RecordBatch] = [big(20)]
    kept: set[str] = set()
    for count, (grow, drop, copy) in enumerate(history, 1):
        if grow:
            chunks.append(big(grow, 1000 * count))
        while drop and chunks:
            here = min(drop, chunks[0].num_rows)
            chunks[0] = chunks[0].slice(here)
            drop -= here
            if chunks[0].num_rows == 0:
                chunks.pop(0)
        if copy < 2 and chunks:
            chunks = [pa.concat_batches(chunks).take(list(range(sum(map(len, chunks)))))]
        table = pa.Table.from_batches(chunks, big(1).schema)
        written = write(store, writer, snapshot_of(rows=table), count)
        assert load(store, count).snapshot.states[1].tables["rows"] == table
        fresh = set(written.parts) - kept
        assert all(f"/00000001-{count:06d}-" in path for path in fresh), "no name comes back"
        kept = set(written.parts)
        store.blobs = {p: d for p, d in store.blobs.items() if p in kept}


def test_rows_larger_than_a_piece_are_separate_pieces() -> None:
    store, writer = Blobs(), CheckpointWriter(FOLDER, 1)
    snapshot = snapshot_of(t=pa.table({"x": [b"a" * 3_000_000, b"b" * 5_000_000]}))
    written = [write(store, writer, snapshot, count) for count in (1, 2)]
    assert [len(w.parts) for w in written] == [2, 2]
    assert written[1].parts == written[0].parts
    assert load(store, 2).snapshot == snapshot


@pytest.mark.usefixtures("small_pieces")
def test_a_table_that_grows_row_by_row_has_few_parts() -> None:
    store, writer = Blobs(), small_writer()
    chunks: list[pa.RecordBatch] = []
    uploads = 0
    for count in range(1, 101):
        chunks.append(big(1, count))
        snapshot = snapshot_of(rows=pa.Table.from_batches(chunks))
        before = len(store.list())
        written = write(store, writer, snapshot, count)
        uploads += len(store.list()) - before - 1
        assert len(written.parts) <= count / 4 + 4
    assert uploads < 200


def test_a_table_that_grows_by_less_each_time_has_few_parts() -> None:
    """Each part is more than twice as large as the next, regardless of the added sizes."""
    store, writer = Blobs(), small_writer()
    chunks: list[pa.RecordBatch] = []
    for count, rows in enumerate(range(60, 0, -3), 1):
        chunks.append(pa.record_batch({"x": np.arange(rows)}))
        table = pa.Table.from_batches(chunks)
        written = write(store, writer, snapshot_of(rows=table), count)
        assert len(written.parts) <= math.log2(table.num_rows / rows) + 1
    assert load(store, count).snapshot == snapshot_of(rows=table)
