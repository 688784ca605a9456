"""Many bad rows: detected together, they are the same, with the same reasons, as one by one.

Not covered: a row that is judged wrongly one by one.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pytest

from planner import coalesce, col, udf, when
from rvertex.errors import SourceRowError
from rvertex.sources.events import RowFault, faults_of, to_events
from rvertex.sources.formats import delimited
from rvertex.sources.formats.delimited import CsvUnits
from rvertex.sources.formats.json_lines import JsonUnits, parse_json
from rvertex.sources.formats.rows.json_shapes import unusual_lines
from rvertex.sources.formats.rows.json_values import bad_lines
from rvertex.sources.logs.decode.json_objects import JsonDecoder
from rvertex.sources.readers import open_reader
from tests.rvertex.sources.conftest import make_spec, only_partition
from tests.support.budget import scaled

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType

    Parser = tuple[ModuleType, str]

TYPES = {
    "int64": pa.int64(),
    "int8": pa.int8(),
    "uint16": pa.uint16(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us"),
    "zoned": pa.timestamp("ms", "UTC"),
    "date": pa.date32(),
    "decimal": pa.decimal128(10, 2),
    "text": pa.string(),
    "bytes": pa.binary(),
    "clock": pa.time64("us"),
    "list": pa.list_(pa.int64()),
    "struct": pa.struct([("a", pa.int64())]),
    "decimals": pa.list_(pa.decimal128(10, 2)),
    "price": pa.struct([("a", pa.decimal128(10, 2))]),
    "prices": pa.list_(pa.struct([("a", pa.decimal128(10, 2))])),
    "times": pa.list_(pa.timestamp("us")),
    "dates": pa.list_(pa.date32()),
}
#: A valid CSV value for each type.
GOOD = ["7", "7", "7", "0.5", "true", "2026-01-01", "2026-01-01", "2026-01-01", "1.25", "é", "ab"]
TEXTS = [
    "1",
    "-5",
    "+5",
    "0x1F",
    "99999999999999999999",
    "9223372036854775808",
    "128",
    "1.5",
    "1e3",
    "1e999",
    "1e",
    "inf",
    "nanx",
    "NaN",
    "true",
    "TRUE",
    "tRue",
    "yes",
    "0",
    "2026-01-01",
    "2026-01-01T00:00:00Z",
    "2026-01-01T24:00:00",
    "2026-02-30",
    "20260101T000000Z",
    "2026-W01-3",
    "01.02.2026",
    "NA",
    "null",
    "-",
    "x",
    "ü",
    "12345678.25",
    "1.255",
    ".5",
    "5.",
    "99999999.99",
    "0000000000001.50",
    "12:00",
    "12:00:00",
    "1_0",
    "1,5",
    "--1",
    "٣",
]
TEXTS += [
    "",
    " 5",
    "5 ",
    "\t7",
    "\u00a05",
    "5\u00a0",
    "\x0b5",
    "1 2",
    'a"b',
    "\x00",
    " 2026-01-01 ",
]
TEXTS += ["2026-01-01T00:00:00 +01:00", "2026-01-01 10", "2026-01-01T00:00:60"]
TEXTS += ["2026-01-01T10Z", "2026-01-01T10+01", "2026-01-01 10-0100", "2026W013\n10:00:00"]
PLAIN = [
    "1",
    "-1",
    "300",
    "1.5",
    "1e3",
    "1e400",
    "NaN",
    "Infinity",
    "Inf",
    "99999999999999999999",
    "-0",
    "01",
    "1.",
    "null",
    "true",
    "[]",
    "[1]",
    '["x"]',
    "{}",
    '{"a":1}',
    '{"a":"b"}',
    '"\\ud800"',
    '"\\x"',
    '"\\u0000"',
    "123456789.123",
    "5e-3",
]
PLAIN += ["2.5", "[2.5]", "[2.555]", "[1e3]", '{"a":2.5}', '[{"a":2.5},{"a":3}]', '["2.5"]']
PLAIN += ['["2026-01-01T10:00:00Z"]', '["2026-01-01"]']
PLAIN += ['"a\tb"', '{"a":1,"a":2}', '"2026-01-01"', '"1.5"', '" 5"', '"\\n2026-01-01"']


def csv_row(rng: random.Random, values: list[str]) -> bytes:
    quoted = [
        '"' + value.replace('"', '""') + '"'
        if {",", '"'} & {*value} or rng.random() < 0.1
        else value
        for value in values
    ]
    row = ",".join(quoted)
    made = rng.choice([row] * 20 + [f"{row},more", f'"{row}', f'a"b,{row}', f"\r\n{row}"])
    data = made.encode()
    return data.replace(b"7", b"\xff") if rng.random() < 0.03 else data


def json_row(rng: random.Random, values: list[str]) -> bytes:
    kept = [(f"c{k}", value) for k, value in enumerate(values) if rng.random() < 0.95]
    more = [("c0", "1"), ("z", "[1,2]"), ("z", '{"a":1,"a":2}'), ("z", "1e400"), ("z", "Inf")]
    kept += [rng.choice(more)] * (rng.random() < 0.1)
    row = "{" + ",".join(f'"{name}":{value}' for name, value in kept) + "}"
    deep = '{"a":' * 60 + "1" + "}" * 60
    others = [row[:-1], "null", f"  {row}\t", f"[{row}]", "", f"{row[:-1]}\x00}}", f"{row[:-1]},}}"]
    data = rng.choice([row] * 30 + [*others, deep]).encode()
    return data.replace(b"7", b"\xff") if rng.random() < 0.03 else data


def dirty(format: str, rng: random.Random) -> tuple[pa.Schema, list[bytes]]:
    """Columns of random types, and rows of which many are bad."""
    names = rng.sample([*TYPES][: len(GOOD) if format == "csv" else None], rng.randint(1, 4))
    columns = pa.schema([(f"c{k}", TYPES[name]) for k, name in enumerate(names)])
    share = rng.choice([0.05, 0.3, 0.8])
    rows = []
    for _ in range(rng.choice([3, 30])):
        values = []
        for name in names:
            at = [*TYPES].index(name)
            good = GOOD[at] if at < len(GOOD) else "null"
            if format == "json" and at not in (0, 1, 2, 3, 4) and at < len(GOOD):
                good = json.dumps(good)
            bad = rng.choice(TEXTS) if format == "csv" else rng.choice(PLAIN)
            if format == "json" and rng.random() < 0.5:
                bad = json.dumps(rng.choice(TEXTS))
            values.append(bad if rng.random() < share else good)
        rows.append((csv_row if format == "csv" else json_row)(rng, values))
    return columns, rows


def read(format: Any, path: Path, columns: pa.Schema, policy: str) -> list[str]:
    spec = make_spec(format, path, schema=columns, columns=columns, vs=None, on_bad_row=policy)
    found: list[str] = []
    try:
        reader = open_reader(only_partition(spec, is_watched=False), 0)
        while (batch := reader.read_next(1 << 20)) is not None:
            found += map(repr, batch.to_pylist())
    except Exception as error:
        found.append(f"{type(error).__name__} {error}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("format", "units"), [("csv", CsvUnits), ("json", JsonUnits)])
def test_bad_rows_are_the_same_together_and_alone(
    format: str, units: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a.{format}"
    for seed in range(scaled(12)):
        columns, rows = dirty(format, random.Random(seed))
        head = ",".join(columns.names).encode() + b"\n" if format == "csv" else b""
        path.write_bytes(head + b"\n".join(rows) + b"\n")
        for policy in ("skip", "fail"):
            together = read(format, path, columns, policy)
            with monkeypatch.context() as patch:
                patch.setattr(units, "_inspect", lambda *_: {})
                assert together == read(format, path, columns, policy), (seed, rows)


def test_bad_messages_are_the_same_together_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(scaled(12)):
        columns, rows = dirty("json", random.Random(seed))
        together = JsonDecoder(columns).decode(rows)
        with monkeypatch.context() as patch:
            patch.setattr(JsonDecoder, "_inspect", lambda *_: {})
            alone = JsonDecoder(columns).decode(rows)
        assert repr(together.rows.to_pylist()) == repr(alone.rows.to_pylist()), (seed, rows)
        assert together.value_of.tolist() == alone.value_of.tolist()
        assert together.bad == alone.bad, (seed, rows)


def calls_of(parser: Parser, action: Callable[[], object]) -> int:
    """The number of calls of a library's parser during an action."""
    module, name = parser
    calls, parse = 0, getattr(module, name)

    def counted(*given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        return parse(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, counted)
        action()
    return calls


BAD = {
    "csv": [
        b"2026-01-01,x%d,1",
        b"2026-01-01,%d.5,1",
        b"32.01.%d,1,1",
        b"2026-01-01,%d,1,2",
        b"%04d-06-31,1,1",
    ],
    "json": [
        b'{"c0":"2026-01-01","c1":"%d"}',
        b'{"c0":"2026-01-01","c1":%d.5}',
        b'{"c0":"32.01.%d","c1":1}',
        b'{"c0":"2026-01-01","c1":%d',
        b'{"c0":"2026-02-30T10:00:00.%06d","c1":1}',
        b'{"c0":"2026-01-01","d":"%04d-02-30"}',
    ],
}


@pytest.mark.parametrize(
    ("format", "parser"), [("csv", (pacsv, "read_csv")), ("json", (pajson, "read_json"))]
)
@pytest.mark.parametrize("share", [0.01, 0.2, 1])
def test_the_parser_is_called_a_few_times_for_any_number_of_bad_rows(
    format: str, parser: Parser, share: float, tmp_path: Path
) -> None:
    columns = pa.schema([("c0", pa.timestamp("us")), ("c1", pa.int64()), ("c2", pa.float64())])
    if format == "json":
        columns = columns.append(pa.field("d", pa.date32()))
    good = b"2026-01-01,1,1" if format == "csv" else b'{"c0":"2026-01-01","c1":1,"c2":1}'
    rng = random.Random(1)
    kinds = BAD[format]
    rows = [kinds[k % len(kinds)] % k if rng.random() < share else good for k in range(1_000)]
    path = tmp_path / f"a.{format}"
    path.write_bytes((b"c0,c1,c2\n" if format == "csv" else b"") + b"\n".join(rows))
    found: list[str] = []
    calls = calls_of(parser, lambda: found.extend(read(format, path, columns, "skip")))
    assert sum("'reason': " in row for row in found) == sum(row != good for row in rows) > 0
    assert calls <= 20
    assert calls or share == 1, "it is called in another way"


def test_dates_as_numbers_beside_text_equal_those_of_single_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = pa.schema([("a", pa.date32()), ("b", pa.date32()), ("n", pa.int64())])
    values = ["3", "null", '"1970-01-04"', '"x"']
    rows = [
        f'{{"a":{values[k % 4]},"b": {values[k // 4 % 3]},"n":{k}}}'.encode() for k in range(240)
    ]
    path = tmp_path / "a.json"
    path.write_bytes(b"\n".join(rows))
    found = read("json", path, columns, "skip")
    assert sum("'reason': " in row for row in found) == 60
    assert sum("'a': datetime.date(1970, 1, 4)" in row for row in found) == 120
    assert [f"'n': {k}" in row for k, row in enumerate(found)] == [k % 4 < 3 for k in range(240)]
    monkeypatch.setattr(JsonUnits, "_inspect", lambda *_: {})
    assert read("json", path, columns, "skip") == found


def test_only_lines_of_another_form_are_inspected() -> None:
    columns = pa.schema([(f"c{k}", kind) for k, kind in enumerate(TYPES.values())])
    values = dict(zip(columns.names, [*GOOD[:5], *map(json.dumps, GOOD[5:])], strict=False))
    values |= {"c7": '"2024-02-29"', "c12": "[1, 2]", "c13": '{"a": 1}', "z": '[{"b":"\\n"},null]'}
    lines = []
    for k in range(100):
        kept = {name: v for n, (name, v) in enumerate(values.items()) if k == 0 or k >> n % 7 & 1}
        lines.append(("{" + ", ".join(f'"{n}": {v}' for n, v in kept.items()) + "}").encode())
    bad = {7: b'{"c0": 7.5}', 20: b'{"c0": 9223372036854775808}', 30: b'{"c7": "2023-02-29"}'}
    bad |= {40: b'{"c0": 7', 50: b"\xff", 60: b'{"c5": "2026-01-01T24:00:00"}'}
    bad |= {70: b'{"c13": {"a": "x"}}', 80: b'{"c12": [1, "x"]}', 90: b'{"c8": 123456789.5}'}
    for place, line in bad.items():
        lines[place] = line
    assert unusual_lines(pa.array(lines, pa.binary()), columns).nonzero()[0].tolist() == [*bad]
    assert sorted(next(bad_lines(lines, columns, "no object", parse_json))) == [*bad]


def test_a_byte_order_mark_within_a_file_is_part_of_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow removes it at the start of each piece of a file, but values depend on no piece."""
    path = tmp_path / "a.csv"
    path.write_bytes("c0,c1\na,1\n\ufeffa,2\n\ufeffb,3\n".encode())
    columns = pa.schema([("c0", pa.string()), ("c1", pa.int64())])
    whole = read("csv", path, columns, "skip")
    assert "'\\ufeffa'" in whole[1]
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1)
    assert read("csv", path, columns, "skip") == whole


def test_values_without_a_time_are_found_together(tmp_path: Path) -> None:
    """If the first rows of a column have times and other texts, its type is text."""
    texts = [None, "2026-01-01", "x1", "2026-01-01T00:00:00Z", "20260101T000000Z", "32.01.2026"]
    columns = pa.schema([("at", pa.string()), ("n", pa.string()), ("end", pa.int64())])
    table = pa.table(
        {
            "at": texts * 200,
            "n": [str(k) if k % 7 else f"{k}.x" for k in range(1_200)],
            "end": [k % 2 * 2**60 for k in range(1_200)],
        },
        schema=columns,
    )
    spec = make_spec(
        "parquet",
        tmp_path,
        schema=columns,
        columns=columns.set(1, pa.field("n", pa.int64())),
        vs="at",
        ve="end",
        casts=("n",),
    )
    (batch,) = table.to_batches()
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is to_events.__code__

    sys.setprofile(count)
    try:
        good, faults = faults_of(spec, batch, "a")
    finally:
        sys.setprofile(None)
    assert calls <= 5
    assert good is not None
    assert good.num_rows + len(faults) == batch.num_rows
    for k in range(batch.num_rows):
        alone = to_events(spec, batch.slice(k, 1), "a", 0)
        assert faults.get(k) == (alone if isinstance(alone, RowFault) else None)
    assert {fault.reason for fault in faults.values()} == {
        "not of type int64",
        "the time is null",
        "not an ISO-8601 time",
        "ends before it starts",
    }


GOOD_VALUES = {
    "decimals": ("json", TYPES["decimals"], b"[2.5]"),
    "price": ("json", TYPES["price"], b'{"a":2.5}'),
    "prices": ("json", TYPES["prices"], b'[{"a":2.5},{"a":3}]'),
    "bytes": ("csv", pa.binary(), b"\xff\xfe"),
    "many bytes": ("csv", pa.large_binary(), b"\xff\xfe"),
    "two bytes": ("csv", pa.binary(2), b"\xff\xfe"),
    "quoted bytes": ("csv", pa.binary(2), b'"""\xff"'),
    "hours and Z": ("csv", TYPES["zoned"], b"2026-01-01T10Z"),
    "hours and hours": ("csv", TYPES["zoned"], b"2026-01-01T10+01"),
    "hours and minutes": ("csv", TYPES["zoned"], b"2026-01-01T10-0130"),
    "week and line end": ("csv", pa.timestamp("us"), b'"2026W013\n10:00:00"'),
}


@pytest.mark.parametrize("case", GOOD_VALUES)
def test_a_good_value_is_good_beside_any_other_rows(case: str, tmp_path: Path) -> None:
    """A good row is read alone, before a bad row, and before a row whose time has no zone."""
    format, kind, value = GOOD_VALUES[case]
    columns = pa.schema([("c0", kind), ("n", pa.int64())])
    head, row, others = b"c0,n\n", b"%s,%d\n", [b"", b",x\n", b"2026-01-01T00:00:00,1\n"]
    if format == "json":
        head, row, others = b"", b'{"c0":%s,"n":%d}\n', [b"", b'{"n":"x"}\n']
    path = tmp_path / f"a.{format}"
    found = set()
    for other in others:
        path.write_bytes(head + row % (value, 7) + other)
        found.add(read(format, path, columns, "skip")[0].replace(", '_bad': None", ""))
    assert len(found) == 1
    assert "'n': 7" in found.pop()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), TYPES["zoned"]])
def test_bytes_that_are_not_text_have_one_reason_together_and_alone(
    kind: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"c0\n" + b"\xff\xfe\n" * 3)
    columns = pa.schema([("c0", kind)])
    together = read("csv", path, columns, "skip")
    assert "not text in UTF-8" in together[0]
    monkeypatch.setattr(CsvUnits, "_inspect", lambda *_: {})
    assert read("csv", path, columns, "skip") == together


@pytest.mark.parametrize("kind", [pa.string(), pa.timestamp("us")])
def test_a_header_within_a_file_is_named(kind: pa.DataType, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"at,v\n2026-01-01,1\nat,v\n2026-01-02,2\n")
    columns = pa.schema([("at", kind), ("v", pa.string())])
    spec = make_spec("csv", path, schema=columns, columns=columns, vs="at")
    reader = open_reader(only_partition(spec), 0)
    with pytest.raises(SourceRowError, match="the row looks like the header again"):
        list(iter(lambda: reader.read_next(9), None))


DAY = col("day")
GERMAN = DAY.str.to_timestamp("%d.%m.%Y")
#: Times that fail for some rows, and the maximum number of calls for 400 rows.
FAILING_TIMES = {
    "a format": (GERMAN, 40),
    "a cast": (DAY.cast("timestamp"), 400),
    "a choice": (when(DAY.str.contains("-")).then(DAY.cast("timestamp")).otherwise(GERMAN), 400),
    "a default": (coalesce(DAY.str.to_timestamp("%Y", strict=False), GERMAN), 90),
    "two that fail": (GERMAN + (col("n").cast("int64") % 7).cast("duration"), 400),
    "an overflow": (col("n").cast("int64") * 9_000_000_000_000_000 + 1, 2_000),
    "a function": (udf(lambda day: int(day[:2]), pa.int64())(DAY), 900),
}


@pytest.mark.parametrize("case", FAILING_TIMES)
def test_rows_without_a_computed_time_are_found_together(case: str) -> None:
    """Rows, values and reasons equal those of each row alone, with few evaluations."""
    time, calls_max = FAILING_TIMES[case]
    texts = ["01.02.2026", "2026-01-03", "x", None, "31.02.2026", "30.01.2026"]
    numbers = ["1", "2", "y", "2000"]
    raw = pa.record_batch(
        {
            "day": [f"x{k}" if k % 5 == 0 else texts[k % 6] for k in range(400)],
            "n": [numbers[k % 4] for k in range(400)],
        }
    )
    spec = make_spec("csv", Path("a.csv"), schema=raw.schema, columns=raw.schema, vs=time.node)
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_name in ("_parsed", "convert", "evaluate")

    sys.setprofile(count)
    try:
        good, faults = faults_of(spec, raw, "a")
    finally:
        sys.setprofile(None)
    assert calls <= calls_max
    assert faults
    for k in range(raw.num_rows):
        alone = to_events(spec, raw.slice(k, 1), "a", 0)
        assert faults.get(k) == (alone if isinstance(alone, RowFault) else None), k
    assert (0 if good is None else good.num_rows) + len(faults) == raw.num_rows


EARLIER = {
    "a time, then a number": ("csv", "at,n\n2026-01-01,1\nnoon,2\n2026-01-01,x\n", 3),
    "an end, then a number": ("csv", "at,n\n2026-01-01,1\n,2\n2026-01-02,3\n,x\n", 3),
    "a number, then a time": ("csv", "at,n\n2026-01-01,x\nnoon,2\n", 2),
    "two columns of a message": ("json", '{"at":"2026-01-01"}\n{"at":"noon"}\n{"n":"x"}\n', 2),
    "null, then noon": ("json", '{"at":"2026-01-01"}\n{"at":"noon"}\n{"n":1}\n', 2),
}


@pytest.mark.parametrize("case", EARLIER)
def test_the_first_bad_line_of_a_file_is_named(case: str, tmp_path: Path) -> None:
    """The first line is named, whether its value, its time or its set of columns is wrong."""
    format, text, line = EARLIER[case]
    path = tmp_path / f"a.{format}"
    path.write_text(text)
    columns = pa.schema([("at", pa.string()), ("n", pa.int64())])
    spec = make_spec(format, path, schema=columns, columns=columns, vs="at")
    reader = open_reader(only_partition(spec), 0)
    with pytest.raises(SourceRowError) as error:
        list(iter(lambda: reader.read_next(9), None))
    assert error.value.line == line
