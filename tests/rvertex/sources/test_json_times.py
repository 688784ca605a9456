"""A declared DATE or TIMESTAMP means the same in JSON lines, CSV and JSON messages.

Not covered: a spelling that both formats misread.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from rvertex.errors import SourceRowError
from rvertex.sources.formats.rows.bad_rows import bad_of
from rvertex.sources.logs.decode.decoded import Bad
from rvertex.sources.logs.decode.json_objects import JsonDecoder
from rvertex.sources.readers import open_reader
from tests.rvertex.sources.conftest import make_spec, only_partition

if TYPE_CHECKING:
    from pathlib import Path

DATES = ["2026-01-01", None, " 1969-12-31", "2026-01-02", "2026-02-28"]
TIMES = [
    "2026-01-01 12:00:00",
    "2026-01-01T12:00:00Z",
    None,
    "2026-01-01 12:00:00+02:00",
    "1969-12-31T23:59:59",
]
TYPES = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ("UTC", None)]


def columns_of(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("d", pa.date32()), ("t", kind)])


def rows_of(extra: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    pairs = zip(DATES, TIMES, strict=True)
    rows: list[dict[str, Any]] = [{"id": n, "d": d, "t": t} for n, (d, t) in enumerate(pairs)]
    return rows if extra is None else [*rows[:2], extra, *rows[2:]]


def as_lines(rows: list[dict[str, Any]]) -> list[bytes]:
    """Objects; even ones have nulls, odd ones omit the field."""
    kept = [{k: v for k, v in r.items() if v is not None or r["id"] % 2 == 0} for r in rows]
    return [json.dumps(row).encode() for row in kept]


def read(
    format: str, path: Path, rows: list[dict[str, Any]], kind: pa.DataType, policy: str
) -> tuple[pa.Table, list[Any]]:
    """The columns of all rows, and the stored text of bad ones."""
    file = path / f"a.{format}"
    if format == "csv":
        cells = [",".join("" if v is None else str(v) for v in row.values()) for row in rows]
        file.write_text("\n".join(["id,d,t", *cells]) + "\n")
    else:
        file.write_bytes(b"\n".join(as_lines(rows)) + b"\n")
    columns = columns_of(kind)
    spec = make_spec(
        format,  # type: ignore[arg-type]
        file,
        schema=columns,
        columns=columns,
        vs="id",
        on_bad_row=policy,
    )
    reader = open_reader(only_partition(spec, is_watched=False), 0)
    tables, wrong = [], []
    while (batch := reader.read_next(1 << 20)) is not None:
        bad = bad_of(batch, len(columns) + 2)
        wrong += [] if bad is None else [b for b in bad.to_pylist() if b is not None]
        tables.append(pa.Table.from_batches([batch.select(columns.names)]))
    reader.close()
    return pa.concat_tables(tables).combine_chunks(), wrong


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_equal_rows_of_csv_json_and_messages_are_equal(kind: pa.DataType, tmp_path: Path) -> None:
    rows = rows_of()
    table, wrong = read("json", tmp_path, rows, kind, "fail")
    assert not wrong
    assert table.schema.types == [pa.int64(), pa.date32(), kind]
    assert table == read("csv", tmp_path, rows, kind, "fail")[0]
    decoded = JsonDecoder(columns_of(kind)).decode(as_lines(rows))
    assert pa.Table.from_batches([decoded.rows]) == table


@pytest.mark.parametrize(("column", "value"), [("d", "2026-02-30"), ("t", "noon")])
def test_an_invalid_time_is_one_bad_row(column: str, value: str, tmp_path: Path) -> None:
    kind = pa.timestamp("us", "UTC")
    good = {"id": 9, "d": "2026-01-01", "t": "2026-01-01 12:00:00"}
    rows = rows_of(good | {column: value})
    wanted = columns_of(kind).field(column).type
    for format in ("csv", "json"):
        with pytest.raises(SourceRowError, match=f"not of type {re.escape(str(wanted))}"):
            read(format, tmp_path, rows, kind, "fail")
        table, wrong = read(format, tmp_path, rows, kind, "dead_letter")
        assert [(b["position"], b["column"]) for b in wrong] == [(3, column)]
        assert [n for n in table["id"].to_pylist() if n not in (9, None)] == [0, 1, 2, 3, 4]
    found = JsonDecoder(columns_of(kind)).decode(as_lines(rows))
    assert dict(found.bad) == {2: Bad(f"not of type {wanted}", column, f'"{value}"')}
    assert found.rows.column("id").to_pylist() == [0, 1, 2, 3, 4]


def test_a_date_may_be_a_number_of_days_beside_text_dates() -> None:
    lines = [b'{"d": 20454}', b'{"d": "2026-01-01"}', b'{"d": null}', b"{}"]
    found = JsonDecoder(pa.schema([("d", pa.date32())])).decode(lines)
    assert found.rows.column("d").cast(pa.int32()).to_pylist() == [20454, 20454, None, None]
