"""Bodies of posts: every type in its JSON form, and an error for a bad row names line and column.

Not covered: an Arrow stream whose compressed buffers claim to be huge.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from jobmanager.intake.errors import BadRowError, MediaTypeError, PostError
from jobmanager.intake.ndjson import ARROW, NDJSON, decode

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int32(), nullable=False),
        ("x", pa.float64()),
        ("ok", pa.bool_()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int64()), ("seen", pa.list_(pa.int64()))])),
    ]
)
GOOD: dict[str, Any] = {
    "n": 7,
    "x": 1,
    "ok": False,
    "name": "é",
    "at": "2026-03-01T10:00:01.5+01:00",
    "local": "2026-03-01T10:00:01",
    "day": "2026-03-01",
    "price": "1.20",
    "raw": base64.b64encode(b"\xff").decode(),
    "tags": ["a", None],
    "place": {"x": 1, "seen": [2, None]},
}
#: Column values of a wrong type.
BAD: list[tuple[str, object]] = [
    *(("n", value) for value in ("7", 7.0, True, 2**31, [7], None)),
    *(("x", value) for value in ("1", True)),
    *(("ok", value) for value in (1, "true")),
    *(("name", value) for value in (1, {})),
    *(("at", value) for value in (1, "2026-03-01T10:00:01", "yesterday", "2026-02-30T00:00:00Z")),
    *(("at", value) for value in ("2026-03-01T10:00:01.1234567Z",)),
    *(("local", value) for value in ("2026-03-01T10:00:01Z", 1.5)),
    *(("day", value) for value in ("2026-03-01T10:00", 20000)),
    *(("price", value) for value in (1.2, "1.234", "x", "123456789012")),
    *(("raw", value) for value in ("?", "é", "abc")),
    *(("tags", value) for value in ("a", [1], {"a": 1})),
    *(("place", value) for value in ({"x": 1, "y": 2}, {"x": True}, {"seen": [1, True]}, [], 1)),
    ("other", 1),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def body(*rows: object) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def test_every_type_is_read_from_json() -> None:
    batch = decode("s", NDJSON, b"\n" + body(GOOD, {"n": 1}) + b"\r\n\n", SCHEMA)
    assert batch.schema == SCHEMA
    first, second = batch.to_pylist()
    assert first["at"] == datetime.datetime(2026, 3, 1, 9, 0, 1, 500_000, datetime.UTC)
    assert first["price"] == decimal.Decimal("1.20")
    assert (first["x"], first["raw"], first["tags"]) == (1.0, b"\xff", ["a", None])
    assert {name for name, value in second.items() if value is not None} == {"n"}


@pytest.mark.parametrize(("column", "value"), BAD, ids=str)
def test_a_bad_value_is_named(column: str, value: object) -> None:
    given_ = body(GOOD) + b"\n\n" + body(GOOD | {column: value}, GOOD)
    with pytest.raises(BadRowError) as caught:
        decode("s", NDJSON, given_, SCHEMA)
    assert (caught.value.line, caught.value.column) == (3, column)


@pytest.mark.parametrize(
    "text",
    [
        *(b"null", b"7", b"[]", b"{", b'{"n":1}{"n":2}', b'{"n":NaN}', b"\xff", b'{"name":"\xff"}'),
        *(b"[" * 100_000, b'{"n":' + b"9" * 5000 + b"}", b'{"n":1}null'),
    ],
)
def test_lines_that_are_not_objects_are_named(text: bytes) -> None:
    with pytest.raises(BadRowError, match="line 2") as caught:
        decode("s", NDJSON, body(GOOD) + b"\n" + text, SCHEMA)
    assert caught.value.line == 2
    assert len(str(caught.value)) < 300


@pytest.mark.slow
@given(st.lists(JSON, max_size=4), st.sampled_from(SCHEMA.names))
def test_any_input_is_accepted_completely_or_rejected(values: list[object], name: str) -> None:
    for rows in (values, [{"n": 1, name: value} for value in values]):
        try:
            batch = decode("s", NDJSON, body(*rows), SCHEMA)
        except (BadRowError, PostError):
            continue
        batch.validate(full=True)
        assert batch.num_rows == len(rows)


def test_an_arrow_stream_must_have_the_columns() -> None:
    def stream(batch: pa.RecordBatch) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue().to_pybytes()

    batch = pa.RecordBatch.from_pydict({"n": pa.array([1, 2], pa.int32())})
    assert decode("s", ARROW, stream(batch), SCHEMA)["n"].to_pylist() == [1, 2]
    with pytest.raises(PostError, match="column n is int64, not int32"):
        decode("s", ARROW, stream(pa.RecordBatch.from_pydict({"n": [1]})), SCHEMA)
    nulls = pa.RecordBatch.from_pydict({"n": pa.array([1, None], pa.int32())})
    with pytest.raises(BadRowError, match="line 2, column n: null"):
        decode("s", ARROW, stream(nulls), SCHEMA)
    whole = stream(batch)
    for given_ in (b"", b"?", whole[:40], whole[: len(whole) // 2]):
        with pytest.raises(PostError):
            decode("s", ARROW, given_, SCHEMA)
    with pytest.raises(MediaTypeError, match="text/csv is not supported"):
        decode("s", "text/csv", b"n\n1", SCHEMA)
    with pytest.raises(PostError, match="the body has no row"):
        decode("s", NDJSON, b"\n\n", SCHEMA)


@pytest.mark.parametrize("text", [b'{"n": 1, "n": 2}', b'{"n": 1, "place": {"x": 1, "x": 2}}'])
def test_a_duplicate_key_is_rejected(text: bytes) -> None:
    """The standard library would keep the last of the two values."""
    with pytest.raises(BadRowError, match=r"line 1, column (n|x): the key occurs more than o"):
        decode("s", NDJSON, text, SCHEMA)
