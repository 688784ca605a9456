"""The bytes of a CSV file in pieces that end with whole rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rvertex.sources.discover import infer_schema
from rvertex.sources.formats import delimited
from rvertex.sources.formats.delimited import csv_pieces
from rvertex.sources.formats.first_rows import csv_look
from rvertex.sources.formats.first_rows.csv_look import almost_typed, infer_csv_schema
from rvertex.sources.spec import Csv

if TYPE_CHECKING:
    from pathlib import Path

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 1 << 20])
def test_a_byte_order_mark_counts_only_at_the_start_of_the_file(
    block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", block_bytes)
    rows = [b"1,2\n", MARK + b"3,4\n", b"5,6\n"]
    path = tmp_path / "f.csv"
    path.write_bytes(MARK + b"a,b\n" + b"".join(rows))
    pieces = list(csv_pieces(str(path), ","))
    assert next(header for header, *_ in pieces if header) == ["a", "b"]
    assert b"".join(piece for _, piece, _ in pieces).lstrip(b"\n") == b"".join(rows)
    second = len(MARK + b"a,b\n" + rows[0])
    behind = [piece for _, piece, _ in csv_pieces(str(path), ",", second, second + len(rows[1]))]
    assert b"".join(behind) == rows[1]


def test_long_values_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow tries each type on the whole value, in time that grows with its square."""
    monkeypatch.setattr(csv_look, "TEXT_BYTES_MIN", 8)
    path = tmp_path / "f.csv"
    path.write_text('a,b,c,d\n1,12345678,1234567,"1234,567,89"\n2,3,4,"12345678"\n')
    kinds = [pa.int64(), pa.string(), pa.int64(), pa.string()]
    assert infer_csv_schema(str(path), Csv(null_values=("",))).types == kinds


def test_a_value_of_any_length_can_be_shown(tmp_path: Path) -> None:
    """Python's reader handles rows that Arrow cannot read, and lines for messages."""
    path, name, long = tmp_path / "f.csv", "n" * 200_000, "1" * 200_000
    path.write_text(f"time,{name}\n1,{long}\n" + "2,3\n" * 20 + "3,b\n")
    assert infer_csv_schema(str(path), Csv(null_values=("",))).names == ["time", name]
    (found,) = almost_typed(str(path), Csv(null_values=("",)), [name])
    assert (found.column, found.line, found.value) == (name, 23, "b")


def test_reading_many_columns_takes_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    names = [f"c{k}" for k in range(8_000)]
    path.write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    began_s = time.process_time()
    assert infer_schema(Csv(), str(path)).names == names
    assert time.process_time() - began_s < 4, "their square took 20 s"
