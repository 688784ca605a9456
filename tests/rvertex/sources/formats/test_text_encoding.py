"""Files in other encodings can be read if they are named; otherwise the error names them.

Not covered: text that is valid in two encodings.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamscope as ss
from planner.errors import InvalidPlanError
from rvertex.errors import CorruptSourceError, SourceRowError, UnreadableTextError
from rvertex.sources.formats import delimited, json_lines
from tests.rvertex.sources.conftest import make_spec, only_partition, read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from rvertex.sources.spec import Format

CSV = 'at,k\n1,"é\nü"\n2,b\n'
JSON = '{"at": 1, "k": "é\\nü"}\n{"at": 2, "k": "b"}\n'
ROWS = [(1, "é\nü"), (2, "b")]
ENCODINGS = ["latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252", "utf-8-sig"]


def source(path: Path, format: Format, encoding: str = "utf-8") -> ss.Stream:
    make = ss.Stream.from_csv if format == "csv" else ss.Stream.from_json
    return make(path, vs="at", encoding=encoding)


def collected(rows: ss.Stream) -> list[tuple[int, str]]:
    table = ss.collect(rows, executor="local")
    return sorted(zip(table["at"].to_pylist(), table["k"].to_pylist(), strict=True))


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_declared_encoding_is_read(
    tmp_path: Path, format: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Multi-byte characters are decoded even if a block ends within one."""
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 11)
    monkeypatch.setattr(json_lines, "CHUNK_BYTES", 11)
    for encoding in ENCODINGS:
        path = tmp_path / f"{encoding}.{format}.gz"
        path.write_bytes(gzip.compress((CSV if format == "csv" else JSON).encode(encoding)))
        assert collected(source(path, format, encoding)) == ROWS, encoding


@pytest.mark.parametrize("format", ["csv", "json"])
def test_an_undeclared_encoding_is_rejected_by_name(tmp_path: Path, format: Format) -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        path = tmp_path / f"{encoding}.{format}"
        path.write_bytes((CSV if format == "csv" else JSON).encode(encoding))
        told = rf'it is text in {encoding.upper()}, not UTF-8; set encoding="{encoding}"'
        with pytest.raises(UnreadableTextError, match=told):
            source(path, format)
    path = tmp_path / f"wrong.{format}"
    path.write_bytes((CSV if format == "csv" else JSON).encode())
    with pytest.raises(UnreadableTextError, match="it is not text in ascii"):
        source(path, format, "ascii")


def test_other_encodings_are_suggested(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV.encode("latin-1"))
    with pytest.raises(
        ss.StreamEngineError, match=r'not text in UTF-8.*set it, such as encoding="lat'
    ):
        collected(source(tmp_path / "a.csv", "csv"))
    (tmp_path / "a.json").write_bytes(JSON.encode("latin-1").splitlines(keepends=True)[0])
    with pytest.raises(
        CorruptSourceError, match=r'not text in UTF-8; if the whole .* encoding="lat'
    ):
        source(tmp_path / "a.json", "json")


def zipped(data: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("x.csv", data)
    return made.getvalue()


def lz4(data: bytes) -> bytes:
    made = pa.BufferOutputStream()
    with pa.CompressedOutputStream(made, "lz4") as stream:
        stream.write(data)
    return made.getvalue().to_pybytes()


def parquet(data: bytes) -> bytes:
    made = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [data]}), made)
    return made.getvalue().to_pybytes()


def twice(text: bytes) -> bytes:
    return gzip.compress(gzip.compress(text))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("x.csv.xz", lzma.compress, "compressed with xz, which is not read here: decompress it"),
        ("x.csv.zip", zipped, "compressed with zip, which is not read here"),
        ("x.csv", gzip.compress, r"compressed with gzip, but its name does not end in \.gz"),
        ("x.csv", bz2.compress, r"compressed with bzip2, but its name does not end in \.bz2"),
        ("x.csv", lz4, r"compressed with LZ4, but its name does not end in \.lz4: rename it"),
        ("x.csv.gz", twice, "it is compressed with gzip twice: decompress it once"),
        ("x.csv", parquet, "it is a Parquet file, not text"),
        ("x.csv", lambda _: bytes(range(256)) * 4, "it is a binary file, not text"),
    ],
)
def test_a_file_that_is_not_text_is_reported(
    tmp_path: Path, name: str, content: object, told: str
) -> None:
    (tmp_path / name).write_bytes(content(CSV.encode()))  # type: ignore[operator]
    with pytest.raises(UnreadableTextError, match=told):
        source(tmp_path / name, "csv")
    (tmp_path / "y.txt").write_bytes(content(CSV.encode()))  # type: ignore[operator]
    with pytest.raises(UnreadableTextError, match="it is"):
        ss.collect(ss.Stream.from_text(str(tmp_path / "y.txt")), executor="local")


def test_zero_bytes_after_the_last_line_are_not_an_encoding(tmp_path: Path) -> None:
    """Zero bytes at the end, as after a power loss, do not make a text count as UTF-16."""
    (tmp_path / "x.csv").write_bytes(b"t,a\n1,x\n" + b"\0" * 40)
    rows = ss.Stream.from_csv(tmp_path / "x.csv", vs="t", schema={"t": "int64"}, on_bad_row="skip")
    with pytest.warns(ss.BadRowsWarning):
        assert ss.collect(rows, executor="local")["a"].to_pylist() == ["x"]


def test_lz4_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.csv.lz4").write_bytes(lz4(CSV.encode()))
    assert collected(source(tmp_path, "csv")) == ROWS


def test_later_files_are_checked_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.csv").write_bytes(CSV.encode("utf-16"))
    with pytest.raises(UnreadableTextError, match=r"b\.csv: it is text in UTF-16"):
        collected(source(tmp_path, "csv"))


def test_sql_declares_the_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV.encode("utf-16"))
    create = (
        f"CREATE STREAM s WITH (path = '{tmp_path}', format = '{{}}', vs = at, encoding = '{{}}');"
    )
    text = "SELECT at, k FROM s"
    assert collected(ss.sql(create.format("csv", "UTF-16") + text)) == ROWS
    with pytest.raises(InvalidPlanError, match="encoding='klingon': there is no such encoding"):
        ss.sql(create.format("csv", "klingon") + text)
    with pytest.raises(InvalidPlanError, match="only text, as CSV and JSON, has an encoding"):
        ss.sql(create.format("parquet", "utf-16") + text)


@pytest.mark.parametrize("encoding", ["klingon", "hex", None])
def test_an_unknown_encoding_is_rejected(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    with pytest.raises(InvalidPlanError, match="there is no such encoding of text"):
        source(tmp_path, "csv", encoding)


def test_a_bad_row_has_its_line_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("time,k,x\n1,é,0.5\nx,ü,1.5\n".encode("utf-16"))
    spec = make_spec("csv", tmp_path, encoding="utf-16")
    with pytest.raises(SourceRowError, match=r"data row 2 \(line 3\).*column 'time': not of type"):
        read_rows(only_partition(spec))
