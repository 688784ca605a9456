"""Control messages: every type can be sent and received; anything else is rejected."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given, strategies as st

from rstream.errors import InvalidMessageError
from rstream.format.message_codec import PROTOCOL_VERSION
from rvertex.messages import (
    INSTRUCTION_CODEC,
    NOTICE_CODEC,
    CheckpointTaken,
    Collect,
    HostInstruction,
    HostNotice,
    HostReady,
    ItemsLost,
    Locate,
    Mark,
    Progress,
    StartVertex,
    StopHost,
    StopVertex,
    TakeCheckpoint,
    VertexFailed,
    VertexFinished,
    VertexStarted,
)

NOTICES = [HostReady, Progress, VertexStarted, CheckpointTaken, VertexFinished, VertexFailed]
INSTRUCTIONS = [Locate, StartVertex, TakeCheckpoint, StopVertex, Collect, StopHost]


@given(st.one_of([st.from_type(t) for t in [*NOTICES, ItemsLost]]))
def test_notices_can_be_encoded_and_decoded(notice: HostNotice) -> None:
    try:
        data = NOTICE_CODEC.encode(notice)
    except OverflowError:
        return  # beyond 64 bits, which no field can hold
    assert NOTICE_CODEC.decode(data) == notice


@given(st.one_of([st.from_type(t) for t in INSTRUCTIONS]))
def test_instructions_can_be_encoded_and_decoded(instruction: HostInstruction) -> None:
    try:
        data = INSTRUCTION_CODEC.encode(instruction)
    except OverflowError:
        return
    assert INSTRUCTION_CODEC.decode(data) == instruction


def wire(kind: str, **fields: object) -> bytes:
    data: bytes = msgpack.packb([PROTOCOL_VERSION, kind, fields])
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xc1", "not a message"),
        (b"", "not a message"),
        (b"\x93\x06\xa1\xff\x80", "not a message"),
        (msgpack.packb([1]), "not a message"),
        (msgpack.packb([99, "StopHost", {}]), "StopHost has version 99, this release reads"),
        (wire("Nothing"), "unknown type of message: Nothing"),
        (wire("HostReady"), "unknown type of message: HostReady"),
        (wire("StopHost", host="h"), "missing required field `flush`"),
        (wire("StopHost", host="h", flush=1), "Expected `bool`"),
        (wire("Collect", host="h", marks={"a": 1}), "Expected `array`"),
        (wire("Collect", host="h", marks=[1]), "Expected `object`"),
    ],
)
def test_other_objects_are_rejected(data: bytes, message: str) -> None:
    with pytest.raises(InvalidMessageError, match=message):
        INSTRUCTION_CODEC.decode(data)


@given(st.binary(max_size=64))
def test_invalid_bytes_only_raise_the_documented_error(data: bytes) -> None:
    with pytest.raises(InvalidMessageError):
        INSTRUCTION_CODEC.decode(data)


def test_nested_records_keep_their_types() -> None:
    collect = Collect("h0.0", (Mark("a", 1), Mark("b", 2)))
    assert INSTRUCTION_CODEC.decode(INSTRUCTION_CODEC.encode(collect)) == collect
