"""Checkpoint bytes: what was encoded is decoded, and nothing else is accepted."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rvertex.errors import CorruptCheckpointError, SnapshotSchemaError
from rvertex.operators.protocol import OperatorState
from rvertex.state import decode_snapshot, encode_snapshot
from rvertex.types import Snapshot, VertexId

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


def test_round_trip() -> None:
    assert decode_snapshot(DATA, name="c", state_schema="abc") == SNAPSHOT


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(at: int, change: int) -> None:
    damaged = bytearray(DATA)
    damaged[at] ^= change
    with pytest.raises(CorruptCheckpointError, match="checkpoint c is corrupt"):
        decode_snapshot(bytes(damaged), name="c", state_schema="abc")


@given(st.integers(0, len(DATA) - 1))
def test_any_cut_is_noticed(length: int) -> None:
    with pytest.raises(CorruptCheckpointError, match="checkpoint c is corrupt"):
        decode_snapshot(DATA[:length], name="c", state_schema="abc")


def test_a_checkpoint_of_another_plan_is_refused() -> None:
    with pytest.raises(SnapshotSchemaError, match="another plan"):
        decode_snapshot(DATA, name="c", state_schema="xyz")
