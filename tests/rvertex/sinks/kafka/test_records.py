"""The records of a topic: rows, ends of rows, and the items that they represent."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rvertex.sinks.errors import RowsRefusedError
from rvertex.sinks.kafka import records
from rvertex.sinks.kafka.records import Record, RecordEncoder
from rvertex.sinks.protocol import DeliveredRows
from rvertex.sinks.spec import KafkaSink

KEYED = pa.schema([("k", pa.string()), ("v", pa.int64()), ("until", pa.int64())])
#: Key, value, whether the row ends, and the end in us.
Change = tuple[str, int, bool, int]
#: "a" changes from 1 to 2 and ends later, "b" ends, and "c" begins.
CHANGES: list[Change] = [
    ("a", 1, True, 5_000),
    ("b", 7, True, 5_000),
    ("a", 2, False, 5_000),
    ("c", 3, False, 5_000),
    ("a", 2, True, 9_000),
]


def delivered(changes: list[Change]) -> DeliveredRows:
    keys, values, ends, instants = zip(*changes, strict=True)
    until = [at if is_end else None for _, _, is_end, at in changes]
    batch = pa.RecordBatch.from_pydict({"k": keys, "v": values, "until": until}, KEYED)
    seqs = np.arange(10, 10 + len(changes))
    return DeliveredRows(
        10, 10 + len(changes), seqs, batch, np.array(ends), np.array(instants, np.int64)
    )


def encoded(rows: DeliveredRows, end: str | None = None, **given: Any) -> list[Record]:
    return list(RecordEncoder(KafkaSink("t", "s", **given), rows.table.schema, end).of(rows))


def test_an_upsert_keeps_one_value_for_each_key() -> None:
    """If a key's row ends and its next row begins at the same instant, no tombstone is sent."""
    found = encoded(delivered(CHANGES), "until", upsert=True, key=("k",))
    shown = [(r.key, None if r.value is None else json.loads(r.value)["v"], r.seq) for r in found]
    assert shown == [(b"b", None, 11), (b"a", 2, 12), (b"c", 3, 13), (b"a", None, 14)]
    assert [r.next_seq - r.seq for r in found] == [1, 1, 1, 1]


def test_change_events_have_the_row_before_and_after() -> None:
    found = encoded(delivered(CHANGES), "until", format="debezium-json", key=("k",))
    events = [json.loads(r.value or b"") for r in found]
    shown = [
        (e["op"], (e["before"] or {}).get("v"), (e["after"] or {}).get("v"), e["ts_ms"])
        for e in events
    ]
    assert shown == [("d", 7, None, 5), ("u", 1, 2, 5), ("c", None, 3, 5), ("d", 2, None, 9)]
    rows = [event[side] for event in events for side in ("before", "after") if event[side]]
    assert {row["until"] for row in rows} == {None}, "a row that ends is the one that began"


@pytest.mark.parametrize("rows", [1, 5, 7])
def test_an_arrow_record_contains_the_rows_of_its_items(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "ARROW_ROWS_MAX", 3)
    batch = pa.RecordBatch.from_pydict({"v": list(range(rows))})
    seqs = np.arange(rows) * 2 + 20  # CTIs are in between
    found = encoded(DeliveredRows(20, 20 + 2 * rows, seqs, batch), format="arrow")
    read = [pa.ipc.open_stream(r.value).read_all().column(0).to_pylist() for r in found]
    assert [value for values in read for value in values] == list(range(rows))
    assert max(map(len, read)) <= 3
    assert [(r.seq, r.next_seq) for r in found] == [
        (20 + 2 * values[0], 21 + 2 * values[-1]) for values in read
    ]


@pytest.mark.parametrize(
    ("kind", "values", "keys"),
    [
        (pa.string(), ['a"b', "", None], [b'a"b', b"", None]),
        (pa.binary(), [b"\xff\x00", b'"', None], [b"\xff\x00", b'"', None]),
        (pa.int64(), [-5, 0, None], [b"-5", b"0", None]),
        (pa.date32(), [0, 1, None], [b"1970-01-01", b"1970-01-02", None]),
    ],
)
def test_a_key_is_the_text_of_its_column(
    kind: pa.DataType, values: list[Any], keys: list[bytes | None]
) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], ["k"])
    rows = DeliveredRows(0, 3, np.arange(3), batch)
    assert [r.key for r in encoded(rows, key=("k",))] == keys


def test_a_null_key_is_rejected_if_a_key_has_one_value() -> None:
    batch = pa.RecordBatch.from_pydict({"k": ["a", None]})
    with pytest.raises(RowsRefusedError, match="a key is null"):
        encoded(DeliveredRows(0, 2, np.arange(2), batch), upsert=True, key=("k",))
