"""A value of any format and type is read exactly, or its row is bad: never another value.

Python computes the right value from the text. A row may be bad although Python could read it; a
table lists values that must be readable.

Not covered: a loss that a note reports (``test_value_notes.py``).
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from jobmanager.intake.errors import BadRowError, PostError
from jobmanager.intake.ndjson import NDJSON, decode
from rstream.items.exact import exact_array, exact_cast
from rvertex.sources.formats.rows.bad_rows import bad_of
from rvertex.sources.logs.decode.arrow_stream import ArrowDecoder
from rvertex.sources.logs.decode.json_objects import JsonDecoder
from rvertex.sources.readers import open_reader
from tests.rvertex.sources.conftest import make_spec, only_partition
from tests.support.budget import examples, one_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BAD = "bad"
INTEGERS = [pa.int8(), pa.int32(), pa.int64(), pa.uint64()]
FLOATS = [pa.float32(), pa.float64()]
DECIMALS = [pa.decimal128(10, 2), pa.decimal128(38, 0), pa.decimal128(38, 10), pa.decimal128(5, 5)]
TIMES = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")]
TYPES = [*INTEGERS, *FLOATS, *DECIMALS, pa.bool_(), pa.date32(), *TIMES]
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def at(*parts: int) -> datetime:
    """A time without a zone."""
    return datetime(*parts)  # type: ignore[arg-type, misc]  # noqa: DTZ001


digits = st.sampled_from(
    [
        *("0", "1", "2", "127", "256", "00501", "9999999999", "99999999.99", "1.239", "1e3"),
        *("9007199254740993", "9223372036854775807", "9223372036854775808", "1" * 38, "9" * 39),
        *("18446744073709551616", "1e30", "1e38", "1e39", "1e76", "1e308", "1e999", "1e-999"),
    ]
) | st.from_regex(r"[1-9][0-9]{0,44}(\.[0-9]{1,12})?([eE][-+]?[0-9]{1,3})?", fullmatch=True)
numbers = st.builds("{}{}".format, st.sampled_from(["", "-"]), digits)
moments = st.builds(
    "{}-{}-{}{}{}".format,
    st.sampled_from(["0001", "1066", "1600", "1969", "2026", "9999", "2262", "10000"]),
    st.sampled_from(["01", "02", "12", "13"]),
    st.sampled_from(["01", "28", "29", "31"]),
    st.sampled_from(["", "T13:00:00", " 13:00", "T23:59:59.5", "T01:02:03.123456789", "T24:00:00"]),
    st.sampled_from(["", "Z", "+02:00", "-0530"]),
)


def exact(text: str, kind: pa.DataType) -> object:
    """The value of the text; BAD if the type has none."""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _exact_time(text, kind)
    if pa.types.is_boolean(kind):
        return {"true": True, "1": True, "false": False, "0": False}.get(text, BAD)
    try:
        with localcontext(prec=2_000):
            value = Decimal(text)
    except InvalidOperation:
        return BAD
    if pa.types.is_floating(kind):
        found = float(text)
        if kind == pa.float32():
            with np.errstate(over="ignore"):
                found = float(np.float32(found))
        return BAD if math.isinf(found) else found
    if abs(value.adjusted()) > 100:
        return BAD
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    unscaled = Fraction(value) * 10**scale
    if unscaled.denominator != 1:
        return BAD
    if pa.types.is_decimal(kind):
        return BAD if abs(unscaled) >= 10**kind.precision else Fraction(value)
    low = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** (kind.bit_width - 1))
    return int(unscaled) if low <= unscaled < low + 2**kind.bit_width else BAD


def _exact_time(text: str, kind: pa.DataType) -> object:
    """Days of a date, ticks of a timestamp."""
    form = r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?(Z|[-+]\d\d:?\d\d)?)?"
    parts = re.fullmatch(form, text)
    if parts is None:
        return BAD
    year, month, day, hour, minute, second, fraction, zone = parts.groups()
    try:
        begin = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0),
                         int(second or 0), tzinfo=UTC)  # fmt: skip
    except ValueError:
        return BAD
    if pa.types.is_date(kind):
        return (begin.date() - date(1970, 1, 1)).days if hour is None else BAD
    seconds = Fraction((begin - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1))
    if zone and zone != "Z":
        shift = int(zone[1:3]) * 3_600 + int(zone[-2:]) * 60
        seconds -= shift if zone[0] == "+" else -shift
    ticks = (seconds + Fraction(fraction or 0)) * TICKS[kind.unit]
    return int(ticks) if ticks.denominator == 1 and abs(ticks) < 2**63 else BAD


def plain(array: pa.Array) -> list[Any]:
    """The values in the form that :func:`exact` returns."""
    kind = array.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        width = pa.int32() if pa.types.is_date(kind) else pa.int64()
        return array.view(width).to_pylist()
    values = array.to_pylist()
    return [Fraction(v) if isinstance(v, Decimal) else v for v in values]


def from_file(path: Path, kind: pa.DataType, format: str) -> list[Any]:
    """The values of column ``v``, and BAD for bad rows."""
    columns = pa.schema([("id", pa.int64()), ("v", kind)])
    spec = make_spec(
        format,  # type: ignore[arg-type]
        path,
        schema=columns,
        columns=columns,
        vs="id",
        casts=("v",),
        on_bad_row="skip",
    )
    reader = open_reader(only_partition(spec, is_watched=False), 0)
    found: list[Any] = []
    while (batch := reader.read_next(1 << 20)) is not None:
        bad = bad_of(batch, len(columns) + 2)
        values = plain(batch.column("v"))
        found += values if bad is None else [
            BAD if b is not None else v for b, v in zip(bad.to_pylist(), values, strict=True)
        ]  # fmt: skip
    reader.close()
    return found


def in_csv(folder: Path, texts: list[str], kind: pa.DataType) -> list[Any]:
    file = folder / "a.csv"
    file.write_text("id,v\n" + "".join(f"{k},{text}\n" for k, text in enumerate(texts)))
    return from_file(file, kind, "csv")


def _tokens(texts: list[str], kind: pa.DataType) -> list[str]:
    """Return the values as JSON: numbers bare, decimals in both forms, times in quotes."""
    number = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
    quotes = pa.types.is_temporal(kind)
    made = []
    for k, text in enumerate(texts):
        is_bare = (
            not quotes and number.fullmatch(text) and not (pa.types.is_decimal(kind) and k % 2)
        )
        made.append(text if is_bare or text in ("true", "false") else json.dumps(text))
    return made


def in_json(folder: Path, texts: list[str], kind: pa.DataType) -> list[Any]:
    file = folder / "a.json"
    lines = [f'{{"id": {k}, "v": {t}}}' for k, t in enumerate(_tokens(texts, kind))]
    file.write_text("\n".join(lines) + "\n")
    return from_file(file, kind, "json")


def _decoded(texts: list[str], kind: pa.DataType, form: str, within: pa.DataType) -> list[Any]:
    values = [form.replace("?", token).encode() for token in _tokens(texts, kind)]
    found = JsonDecoder(pa.schema([("v", within)])).decode(values)
    inner = found.rows.column("v")
    while not inner.type.equals(kind):
        inner = inner.flatten()[0] if pa.types.is_struct(inner.type) else inner.flatten()
    good = dict(zip(found.value_of.tolist(), plain(inner), strict=True))
    return [good.get(k, BAD) for k in range(len(texts))]


def in_messages(folder: Path, texts: list[str], kind: pa.DataType) -> list[Any]:
    del folder
    return _decoded(texts, kind, '{"v": ?}', kind)


def within_messages(folder: Path, texts: list[str], kind: pa.DataType) -> list[Any]:
    del folder
    within = pa.struct([("s", pa.list_(kind))])
    return _decoded(texts, kind, '{"v": {"s": [?]}}', within)


def in_posts(folder: Path, texts: list[str], kind: pa.DataType) -> list[Any]:
    del folder
    return [_posted(f'{{"v": {token}}}', kind) for token in _tokens(texts, kind)]


def within_posts(folder: Path, texts: list[str], kind: pa.DataType) -> list[Any]:
    del folder
    return [_posted(f'{{"v": [{token}]}}', pa.list_(kind)) for token in _tokens(texts, kind)]


def _posted(body: str, kind: pa.DataType) -> Any:
    try:
        array = decode("s", NDJSON, body.encode(), pa.schema([("v", kind)])).column("v")
    except (BadRowError, PostError):
        return BAD
    return plain(array.flatten() if pa.types.is_list(kind) else array)[0]


READERS = [in_csv, in_json, in_messages, within_messages, in_posts, within_posts]


@pytest.mark.parametrize("read", one_in(6, READERS))
@given(st.sampled_from(TYPES), st.lists(numbers | moments, min_size=1, max_size=6))
@examples(60)
def test_a_value_is_read_exactly_or_is_bad(
    read: Callable[..., list[Any]],
    tmp_path_factory: pytest.TempPathFactory,
    kind: pa.DataType,
    texts: list[str],
) -> None:
    found = read(tmp_path_factory.getbasetemp(), texts, kind)
    for text, value in zip(texts, found, strict=True):
        assert value in (BAD, exact(text, kind)), (text, kind, value)


MUST_READ = [
    ("99999999.99", pa.decimal128(10, 2)),
    ("-1234567890123456789012345678", pa.decimal128(38, 10)),
    ("1e3", pa.decimal128(10, 2)),
    ("1.7976931348623157e308", pa.float64()),
    ("3.4e38", pa.float32()),
    ("9223372036854775807", pa.int64()),
    ("18446744073709551615", pa.uint64()),
    ("true", pa.bool_()),
    ("9999-12-31", pa.date32()),
    ("0001-01-01", pa.timestamp("us")),
    ("2026-01-01T13:00:00.123456+02:00", pa.timestamp("us")),
    ("2026-01-01T13:00:00.123456789", pa.timestamp("ns", "UTC")),
]


@pytest.mark.parametrize("read", [in_csv, in_json, in_messages])
@pytest.mark.parametrize(("text", "kind"), MUST_READ, ids=str)
def test_which_values_are_read(
    read: Callable[..., list[Any]], text: str, kind: pa.DataType, tmp_path: Path
) -> None:
    assert read(tmp_path, [text], kind) == [exact(text, kind)]


LOST = [
    (2, pa.int64(), pa.bool_()),
    (2.5, pa.float64(), pa.bool_()),
    (at(2026, 1, 1, 13), pa.timestamp("us"), pa.date32()),
    (at(2026, 1, 1, 13), pa.timestamp("us", "Europe/Berlin"), pa.date32()),
    (at(2026, 1, 1, 13), pa.timestamp("us"), pa.time64("us")),
    (1.239, pa.float64(), pa.decimal128(10, 2)),
    (1e39, pa.float64(), pa.float32()),
    ("1e999", pa.string(), pa.float64()),
    ("-" + "1" * 38, pa.string(), pa.decimal128(38, 10)),
    (-5, pa.int64(), pa.time64("us")),
    (2**53 + 1, pa.int64(), pa.float64()),
]
KEPT = [
    (1, pa.int64(), pa.bool_(), True),
    (at(2026, 1, 1), pa.timestamp("us"), pa.date32(), date(2026, 1, 1)),
    (0.1, pa.float64(), pa.decimal128(10, 2), Decimal("0.10")),
    (math.inf, pa.float64(), pa.float32(), math.inf),
    ("Infinity", pa.string(), pa.float64(), math.inf),
    (2, pa.int64(), pa.string(), "2"),
]


def nested(value: object, kind: pa.DataType) -> list[tuple[object, pa.DataType]]:
    return [
        (value, kind),
        ([value], pa.list_(kind)),
        ({"a": {"b": value}}, pa.struct([("a", pa.struct([("b", kind)]))])),
        ([("k", value)], pa.map_(pa.string(), kind)),
    ]


@pytest.mark.parametrize(("value", "there", "wanted"), LOST, ids=str)
def test_casts_that_lose_nested_values_are_rejected(
    value: object, there: pa.DataType, wanted: pa.DataType
) -> None:
    for (inner, was), (_, now) in zip(nested(value, there), nested(None, wanted), strict=True):
        array = pa.array([None, inner, None], was)
        with pytest.raises(pa.ArrowInvalid):
            exact_cast(array, now)
        nothing = pa.nulls(3, was)
        assert exact_cast(nothing, now).to_pylist() == [None] * 3


@pytest.mark.parametrize(("value", "there", "wanted", "result"), KEPT, ids=str)
def test_casts_that_keep_values_are_accepted(
    value: object, there: pa.DataType, wanted: pa.DataType, result: object
) -> None:
    pairs = zip(nested(value, there), nested(result, wanted), strict=True)
    for (inner, was), (kept, now) in pairs:
        assert exact_cast(pa.array([inner], was), now).to_pylist() == [kept]
    assert exact_cast(pa.array([None, value], there), wanted).to_pylist() == [None, result]


@pytest.mark.parametrize(("value", "there", "wanted"), LOST[:7], ids=str)
def test_a_declared_type_for_parquet_makes_such_a_row_bad(
    value: object, there: pa.DataType, wanted: pa.DataType, tmp_path: Path
) -> None:
    table = pa.table({"id": [1, 2, 3], "v": pa.array([None, value, None], there)})
    pq.write_table(table, tmp_path / "a.parquet")
    assert from_file(tmp_path / "a.parquet", wanted, "parquet") == [None, BAD, None]


def test_an_arrow_message_is_converted_exactly_or_is_bad() -> None:
    """A column of an Arrow message is converted only to a type that can hold its values."""
    decoder = ArrowDecoder(pa.schema([("v", pa.decimal128(38, 10))]))
    values = []
    for number in (Decimal(5), Decimal("1e30")):
        sink = pa.BufferOutputStream()
        table = pa.table({"v": pa.array([number], pa.decimal128(38, 0))})
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        values.append(sink.getvalue().to_pybytes())
    found = decoder.decode(values)
    assert found.rows.column("v").to_pylist() == [Decimal(5)]
    assert list(found.bad) == [1]


INT96 = [at(9999, 12, 31), at(1600, 1, 1, 1, 2, 3, 4), at(1, 1, 1), None]


def test_int96_times_of_parquet_do_not_wrap_around(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"id": [1, 2, 3, 4], "v": pa.array(INT96, pa.timestamp("us"))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    found = from_file(path, pa.timestamp("us"), "parquet")
    assert found == table.column("v").cast(pa.int64()).to_pylist()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, pa.int64()),
        (Decimal("1.5"), pa.int64()),
        (True, pa.float64()),
        (1e39, pa.float32()),
        (at(2026, 1, 1, 13), pa.date32()),
        (at(2026, 1, 1, 0, 0, 0, 5), pa.timestamp("ms")),
        (5.7, pa.timestamp("us")),
        (timedelta(microseconds=1), pa.duration("s")),
        (at(2026, 1, 1, 0, 0, 0, 5).time(), pa.time32("ms")),
    ],
    ids=str,
)
def test_a_python_value_is_kept_or_rejected(value: object, kind: pa.DataType) -> None:
    for inner, within in nested(value, kind):
        with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
            exact_array([None, inner], within)


def test_unknown_struct_fields_are_rejected() -> None:
    kind = pa.struct([("a", pa.int64())])
    assert exact_array([{"a": 1}, {}], kind).to_pylist() == [{"a": 1}, {"a": None}]
    with pytest.raises(pa.ArrowInvalid):
        exact_array([{"a": 1, "b": 2}], kind)
    with pytest.raises(pa.ArrowInvalid):
        exact_array(["ab"], pa.list_(pa.string()))
