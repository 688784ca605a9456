"""A batch arrives unchanged, whichever dictionaries both ends have cached."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from rstream import Items
from rstream.transport import wire
from rstream.transport.wire import SLOTS, WireDecoder, WireEncoder

SCHEMA = pa.schema([("a", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int64())])


def batch(values: pa.Array, rows: int) -> pa.RecordBatch:
    indices = pa.array([k % len(values) for k in range(rows)], pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, values)
    return pa.RecordBatch.from_arrays([column, pa.array(range(rows))], names=SCHEMA.names)


@pytest.mark.parametrize("kept_bytes_max", [1, 2_000, 8 << 20])
@pytest.mark.parametrize("dictionaries", [1, SLOTS - 1, SLOTS, SLOTS + 1, 3 * SLOTS])
def test_evicted_dictionaries_are_sent_again(
    dictionaries: int, kept_bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each limit, by number or bytes, evicts each dictionary before its next use, or none."""
    monkeypatch.setattr(wire, "KEPT_BYTES_MAX", kept_bytes_max)
    order = random.Random(7)
    known = [pa.array([f"{k}-{i}" for i in range(1 + k % 5)]) for k in range(dictionaries)]
    encoder = WireEncoder(SCHEMA)
    decoder = WireDecoder(encoder.schema)
    turns = [*range(dictionaries)] * 3 + [order.randrange(dictionaries) for _ in range(60)]
    seq = 0
    for k in turns:
        given = Items(seq, batch(known[k], 5))
        found = decoder.decode(*encoder.encode(given))
        assert found.first_seq == seq
        assert found.batch.to_pylist() == given.batch.to_pylist(), k
        seq = given.next_seq
