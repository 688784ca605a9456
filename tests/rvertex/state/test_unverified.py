"""Blocks of a mapped part: a reader's rows depend on verified bytes only; any damage is noticed."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pyarrow as pa
import pytest

from rvertex.checkpoint import header
from rvertex.checkpoint.chunks import encoded, encoded_bytes
from rvertex.checkpoint.header import MappedPart, Part, with_block_crcs
from rvertex.errors import CorruptCheckpointError
from rvertex.state.unverified import Unverified

BLOCK = 16
TEXTS = [None, "", "b", "a text that is longer than two blocks", "c"]
VALUES = {
    pa.int64(): [None, 1, -2],
    pa.float64(): [1.5, float("inf")],
    pa.bool_(): [None, True, False],
    pa.int8(): [7, 8],
    pa.timestamp("us"): [None, 5],
    pa.string(): TEXTS,
    pa.binary(): [b"", b"x"],
    pa.null(): [None],
    pa.list_(pa.string()): [None, [], ["a", None], TEXTS],
    pa.list_(pa.int64()): [[], [1], [2, 3, 4]],
    pa.struct({"x": pa.int64()}): [{"x": 1}, None],
    pa.decimal128(9, 2): [None],
}


def drawn(draw: random.Random, rows: int) -> pa.RecordBatch:
    columns = [pa.array(draw.choices(of, k=rows), kind) for kind, of in VALUES.items()]
    return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])


@pytest.mark.parametrize("seed", range(20))
def test_rows_depend_on_verified_bytes_only(seed: int) -> None:
    draw = random.Random(seed)
    data = bytearray(encoded(drawn(draw, draw.randrange(1, 90))))
    batch, part = pa.ipc.open_stream(data).read_next_batch(), pa.py_buffer(data)
    lo = draw.randrange(batch.num_rows)
    batch = batch.slice(lo, draw.randrange(1, batch.num_rows - lo + 1))
    rows = np.array(sorted(draw.choices(range(batch.num_rows), k=draw.randrange(1, 5))))
    expected, checked, unverified = batch.take(pa.array(rows)).to_pydict(), set(), Unverified()
    unverified.add(part, BLOCK, checked.add)
    total = len(unverified)
    unverified.verify(batch, rows)
    if None in checked:  # all blocks together
        checked = set(range(total))
    assert len(unverified) == total - len(checked)
    for at in range(len(data)):
        if at // BLOCK not in checked:
            data[at] ^= 255
    assert batch.take(pa.array(rows)).to_pydict() == expected


@pytest.mark.parametrize("rows", [0, 1, 7, 60])
@pytest.mark.parametrize("block", [24, 64, 1 << 15])
def test_each_damaged_byte_is_detected(
    rows: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(header, "BLOCK_BYTES", block)
    batch = drawn(random.Random(1), rows).select([0, 5])
    data = bytearray(with_block_crcs(batch, encoded_bytes(batch)))
    assert data.startswith(encoded(batch).to_pybytes())
    part, blocks = Part.of("p", pa.py_buffer(bytes(data)), b"d"), -(-len(data) // block)
    for number in (None, *range(blocks)):
        MappedPart(part, pa.py_buffer(data), "c").check(number)
    for at in range(0, len(data), 5):
        data[at] ^= 1
        for number in (None, at // block):
            with pytest.raises(CorruptCheckpointError):
                MappedPart(part, pa.py_buffer(data), "c").check(number)
        data[at] ^= 1


def test_a_part_without_blocks_is_verified_as_a_whole() -> None:
    data = bytearray(encoded(drawn(random.Random(1), 40)))
    part = Part("p", len(data), b"d", crc=zlib.crc32(data))
    mapped = MappedPart(part, pa.py_buffer(data), "c")
    assert mapped.block_bytes == len(data)
    mapped.check(0)
    data[-1] ^= 1
    with pytest.raises(CorruptCheckpointError):
        mapped.check(0)
