"""A file that is replaced, changed or removed is an error with its name, at any reader position.

Not covered: a file that is rewritten with as many bytes within one tick of its file system's
clock, or whose old time is restored; this can only be detected by reading it all again.
"""

from __future__ import annotations

import io
import os
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import fsspec
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from rvertex import errors
from rvertex.sources.discover import discover
from rvertex.sources.formats import delimited, json_lines
from rvertex.sources.readers import open_reader
from rvertex.sources.versions import FileVersion, absolute, of_info, version_of
from tests.rvertex.sources.conftest import make_spec, only_partition, read_rows
from tests.support.budget import one_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rvertex.sources.readers import SourceReader
    from rvertex.sources.spec import Format, SourceSpec

FORMATS: tuple[Format, ...] = ("parquet", "csv", "json", "text")
ROWS = 400
TICK_NS = 10**9


def rows_as(format: Format, rows: int, *, k: str = "a") -> bytes:
    """A file in that format; files with equal row counts have equal sizes."""
    table = pa.table({"time": range(100, 100 + rows), "k": [k] * rows, "x": [0.5] * rows})
    sink = io.BytesIO()
    if format == "parquet":
        pq.write_table(table, sink, row_group_size=10, use_dictionary=False, compression="none")
    elif format == "csv":
        pacsv.write_csv(table, sink)
    elif format == "json":
        sink.write("".join(f'{{"time":{t},"k":"{k}","x":0.5}}\n' for t in range(rows)).encode())
    else:
        sink.write(f"{k}\n".encode() * rows)
    return sink.getvalue()


def spec_of(format: Format, path: object) -> SourceSpec:
    if format == "text":
        columns = pa.schema([("line", pa.string())])
        return make_spec(format, path, schema=columns, columns=columns, vs=None)
    return make_spec(format, path)


def replace_by_as_many_bytes(path: Path, format: Format) -> None:
    before, size = path.stat().st_mtime_ns, path.stat().st_size
    new = path.with_name("_new")
    new.write_bytes(rows_as(format, ROWS, k="b"))
    os.utime(new, ns=(before + TICK_NS, before + TICK_NS))
    new.rename(path)
    assert path.stat().st_size == size


def grow(path: Path, format: Format) -> None:
    with path.open("ab") as file:
        file.write(rows_as(format, 1))


def shrink(path: Path, format: Format) -> None:
    del format
    os.truncate(path, path.stat().st_size // 2)


def read_on(reader: SourceReader, batches: list[pa.RecordBatch]) -> None:
    while (batch := reader.read_next(10)) is not None:
        batches.append(batch)


CHANGES = (replace_by_as_many_bytes, grow, shrink)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make readers read a file in many pieces."""
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 512)
    monkeypatch.setattr(json_lines, "CHUNK_BYTES", 512)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_changed_before_it_is_opened(
    tmp_path: Path, format: Format, change: Callable[[Path, Format], None]
) -> None:
    path = tmp_path / f"f.{format}"
    path.write_bytes(rows_as(format, ROWS))
    partition = only_partition(spec_of(format, path))
    assert read_rows(partition).num_rows == ROWS
    change(path, format)
    for first_row in (0, ROWS // 2):
        with pytest.raises(errors.SourceChangedError, match=rf"f\.{format}: changed .* bytes, wri"):
            open_reader(partition, first_row).read_next(10)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, format: Format, change: Callable[[Path, Format], None]
) -> None:
    """The error reports the change, whatever the reader notices first. No row is emitted."""
    path = tmp_path / f"f.{format}"
    path.write_bytes(rows_as(format, ROWS))
    partition = only_partition(spec_of(format, path))
    expected = read_rows(partition)
    reader = open_reader(partition, 0)
    batches: list[pa.RecordBatch] = [reader.read_next(10)]
    change(path, format)
    with pytest.raises(errors.SourceChangedError, match=rf"f\.{format}: changed since"):
        read_on(reader, batches)
    reader.close()
    seen = pa.Table.from_batches(batches)
    assert seen.num_rows < ROWS
    assert seen.equals(expected.slice(0, seen.num_rows))


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_vanishes_while_it_is_read(tmp_path: Path, format: Format) -> None:
    path = tmp_path / f"f.{format}"
    path.write_bytes(rows_as(format, ROWS))
    reader = open_reader(only_partition(spec_of(format, path)), 0)
    reader.read_next(10)
    path.unlink()
    with pytest.raises(errors.SourceVanishedError, match=rf"f\.{format}.*every worker"):
        read_on(reader, [])


def test_a_file_with_its_old_time_restored_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(rows_as("csv", ROWS))
    partition = only_partition(spec_of("csv", path))
    before = path.stat()
    path.write_bytes(rows_as("csv", ROWS))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read_rows(partition).num_rows == ROWS


@pytest.mark.parametrize("where", ["memory", pytest.param("s3", marks=pytest.mark.slow)])
@pytest.mark.parametrize("format", one_in(3, FORMATS))
def test_a_version_in_an_object_store_does_not_depend_on_the_call(
    request: pytest.FixtureRequest, where: str, format: Format
) -> None:
    """A folder and a file of it have one version, whichever call to the store returns it."""
    if where == "s3":
        folder = f"{request.getfixturevalue('s3_bucket')}/in"
    else:
        folder = f"memory://{uuid.uuid4().hex}/in"
    fs, at = fsspec.core.url_to_fs(folder)
    path = f"{at}/f.{format}"
    fs.pipe_file(path, rows_as(format, ROWS))
    partition = only_partition(spec_of(format, folder))
    (version,) = {unit.version for unit in partition.units}
    assert version is not None
    assert version.stamps
    assert read_rows(partition).num_rows == ROWS
    assert read_rows(only_partition(spec_of(format, f"{folder}/f.{format}"))).num_rows == ROWS
    fs.pipe_file(path, rows_as(format, ROWS, k="b"))
    with pytest.raises(errors.SourceChangedError, match=rf"f\.{format}: changed since"):
        read_rows(partition)
    fs.rm_file(path)
    with pytest.raises(errors.SourceVanishedError, match=rf"f\.{format}"):
        read_rows(partition)


def test_versions_are_compared_by_the_attributes_that_both_have() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    listed = of_info({"size": 5, "etag": 'W/"abc"', "LastModified": at})
    assert listed.is_same(of_info({"size": 5, "etag": '"abc"', "mtime": 1.0}))
    assert listed.is_same(of_info({"size": 5, "LastModified": at.replace(tzinfo=None)}))
    assert listed.is_same(of_info({"size": 5}))
    assert listed.is_same(of_info({}))
    assert not listed.is_same(of_info({"size": 6, "etag": "abc"}))
    assert not listed.is_same(of_info({"size": 5, "etag": "abd", "LastModified": at}))
    later = at.replace(second=6)
    assert not listed.is_same(of_info({"size": 5, "LastModified": later}))
    assert of_info({"created": at.timestamp()}) == of_info({"created": at})
    assert str(listed) == "5 bytes, etag abc"
    assert str(FileVersion(-1, ())) == "unknown size"


def test_local_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f.csv").write_bytes(rows_as("csv", 2))
    monkeypatch.chdir(tmp_path)
    assert [u.path for u in discover(spec_of("csv", "f.csv"))] == [str(tmp_path / "f.csv")]
    assert absolute("f.csv") == str(tmp_path / "f.csv")
    assert absolute("s3://bucket/f.csv") == "s3://bucket/f.csv"
    assert absolute("file:///a/f.csv") == "file:///a/f.csv"
    assert version_of("absent") is None
    assert version_of("f.csv") == version_of(f"file://{tmp_path}/f.csv") is not None
