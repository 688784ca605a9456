"""Messages become rows with times and positions: any batches give the same rows and bad rows."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rvertex.sources.logs.decode.arrow_stream import ArrowDecoder
from rvertex.sources.logs.decode.json_objects import JsonDecoder
from rvertex.sources.logs.decode.messages import METADATA, MessageDecoder, Messages, by_value
from rvertex.sources.logs.errors import LogRowError
from rvertex.sources.spec import Checks, Live, SourceSpec, Topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.logs.protocol import LogRows
    from rvertex.sources.spec import OnBadRow

VALUES = pa.schema([("t", pa.string()), ("x", pa.int64())])
#: (key, timestamp in ms, value)
Row = tuple[bytes | None, int | None, bytes | None]


def spec(on_error: OnBadRow, vs: str = "t") -> SourceSpec:
    columns = pa.schema([*VALUES, *METADATA])
    return SourceSpec(
        kind=Topic("json", ()),
        path="kafka://b:1/topic",
        shown="topic topic",
        schema=columns,
        columns=columns,
        vs=vs,
        checks=Checks(on_error),
        live=Live(),
    )


def messages(first_offset: int, rows: Sequence[Row], gap: int = 2) -> Messages:
    """Messages at every other offset."""
    offsets = np.array([first_offset + gap * i for i in range(len(rows))], np.int64)
    return Messages(
        3,
        offsets,
        [value for _, _, value in rows],
        first_offset + gap * len(rows),
        lambda i: rows[i][0],
        lambda i: rows[i][1],
        lambda i: [("h", rows[i][0])] if i % 2 else None,
    )


def seen(rows: LogRows) -> tuple[list[Any], list[Any]]:
    events = rows.batch.to_pylist()
    dead = [] if rows.dead is None else rows.dead.to_pylist()
    assert [event["kafka_offset"] for event in events] == rows.positions.tolist()
    return events, dead


GOOD: list[Row] = [
    (b"k", 1_000, b'{"t": "1970-01-01T00:00:01", "x": 1}'),
    (None, 2_000, b'{"t": "1970-01-01T00:00:00.000002Z"}'),
]
BAD: list[Row] = [
    (b"b", None, b'{"t": "yesterday", "x": 1}'),
    (None, 1, b'{"x": 1}'),
    (None, 1, b"?"),
    (None, 1, None),
]


def test_a_message_has_its_times_and_metadata() -> None:
    decoder = MessageDecoder(spec("fail"), by_value(JsonDecoder(VALUES)))
    rows, error = decoder.decode(messages(10, GOOD))
    assert error is None
    assert rows.next_position == 14
    assert rows.dead is None
    (first, second), _ = seen(rows)
    assert (first["_vs"], first["_ve"], first["x"]) == (1_000_000, 1_000_001, 1)
    assert (first["kafka_key"], first["kafka_partition"], first["kafka_offset"]) == (b"k", 3, 10)
    assert first["kafka_headers"] == []
    assert second["kafka_headers"] == [{"key": "h", "value": None}]
    assert second["kafka_timestamp"].timestamp() == 2


def test_the_time_of_the_record_may_be_the_event_time() -> None:
    decoder = MessageDecoder(spec("skip", "kafka_timestamp"), by_value(JsonDecoder(VALUES)))
    rows, _ = decoder.decode(messages(0, [GOOD[0], BAD[0]]))
    events, dead = seen(rows)
    assert [event["_vs"] for event in events] == [1_000_000]
    assert "the time is null" in dead[0]["reason"]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_message_ends_the_batch_and_is_named(bad: Row) -> None:
    decoder = MessageDecoder(spec("fail"), by_value(JsonDecoder(VALUES)))
    rows, error = decoder.decode(messages(10, [GOOD[0], bad, GOOD[1]]))
    assert rows.positions.tolist() == [10]
    assert rows.next_position == 12
    assert isinstance(error, LogRowError)
    assert "topic topic, partition 3, position 12: " in str(error)
    assert "on_bad_row" in str(error)


def test_bad_messages_are_kept_with_their_metadata() -> None:
    decoder = MessageDecoder(spec("dead_letter"), by_value(JsonDecoder(VALUES)))
    rows, error = decoder.decode(messages(10, [BAD[0], GOOD[0], BAD[3]]))
    assert error is None
    _, dead = seen(rows)
    assert [(row["position"], row["key"], row["raw"]) for row in dead] == [
        (10, b"b", BAD[0][2]),
        (14, None, None),
    ]
    assert dead[0]["column"] == "t"


def test_a_null_in_a_not_null_column_is_bad() -> None:
    required = replace(spec("dead_letter"), checks=Checks("dead_letter", ("x", "gone")))
    rows, _ = MessageDecoder(required, by_value(JsonDecoder(VALUES))).decode(messages(10, GOOD))
    events, dead = seen(rows)
    assert [event["x"] for event in events] == [1]
    assert [(row["column"], row["reason"]) for row in dead] == [
        ("x", "null, and the column is NOT NULL")
    ]


def ipc(times: list[str]) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"t": pa.array(times, pa.string())})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_an_arrow_message_with_one_bad_row_has_no_rows() -> None:
    decoder = MessageDecoder(spec("skip"), by_value(ArrowDecoder(VALUES)))
    good, bad = ipc(["1970-01-01"] * 3), ipc(["1970-01-01", "?", "1970-01-02"])
    rows, _ = decoder.decode(messages(0, [(None, 1, good), (None, 1, bad), (None, 1, good)]))
    events, dead = seen(rows)
    assert [event["kafka_offset"] for event in events] == [0, 0, 0, 4, 4, 4]
    assert [row["position"] for row in dead] == [2]


@given(
    rows=st.lists(st.sampled_from([*GOOD, *BAD]), max_size=14),
    cuts=st.lists(st.integers(0, 14), max_size=4),
)
def test_batch_boundaries_do_not_change_rows(rows: list[Row], cuts: list[int]) -> None:
    decoder = MessageDecoder(spec("dead_letter"), by_value(JsonDecoder(VALUES)))
    whole = seen(decoder.decode(messages(0, rows, 1))[0])
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    events, dead = [], []
    for lo, hi in itertools.pairwise(bounds):
        found, _ = decoder.decode(messages(lo, rows[lo:hi], 1))
        assert found.next_position == hi
        mine = seen(found)
        events += mine[0]
        dead += mine[1]
    for event in (*whole[0], *events):
        event.pop("kafka_headers")  # here by position in the piece
    assert (events, dead) == whole
