"""Which files of a folder are data: one rule for all stores, and for growing folders.

Not covered: file names of stores that are not tested here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import fsspec
import pytest

import jobmanager
from planner import Stream
from planner.cost.statistics import Discovery
from rvertex.errors import SourceNotFoundError
from rvertex.sources.files import files_beside, list_files
from rvertex.sources.logs.opening import discover_units

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rvertex.sources.spec import Format

DATA = (
    *("x.csv", "b/y.CSV", "part-00000", "z.dat", "2026.csv", "a.csv.gz", "c.csv.xz", "v1.0/w.csv"),
    *("_day=1/d.csv", "_a=1/_b=2/e.csv", "copy of x.csv", "x (1).csv", "a.json.csv", "events.1"),
)
BESIDE = (
    *("x.csv.bak", "x.csv.old", "x.csv.orig", "x.csv.1", "x.csv.2026-01-01", "x.csv.gz.1"),
    *("x.bak", "x.CSV.BAK", "x.csv~", "x.csv.md5", "x.csv.tmp", "x.csv._COPYING_", "x.csv.swp"),
    *("x.json", "x.parquet", "x.csv.json", "x.csv.crc"),
    *("~$x.csv", "x.csv.filepart", "x.csv.download", "Thumbs.db", "b/desktop.ini", "#x.csv#"),
)
HIDDEN = ("_SUCCESS", ".x.csv", "_x.csv", "_temporary/x.csv", ".day=1/x.csv", "_x=1.csv")


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "s3":
        return f"{request.getfixturevalue('s3_bucket')}/data"
    return str(tmp_path) if request.param == "local" else f"memory://{tmp_path.name}"


def write(folder: str, names: Sequence[str], content: bytes = b"t\n1\n") -> None:
    for name in names:
        with fsspec.open(f"{folder}/{name}", "wb", auto_mkdir=True) as file:
            file.write(content)


def below(folder: str, paths: Sequence[str]) -> list[str]:
    return [path.removeprefix(f"{folder}/") for path in paths]


def test_file_names_decide_which_files_are_data(folder: str) -> None:
    write(folder, [*DATA, *BESIDE, *HIDDEN])
    write(folder, ["empty.csv", "marker_$folder$", "b_$folder$"], b"")
    if folder.startswith("s3:"):
        bucket = fsspec.filesystem("s3")
        for marker in ("", "sub/", "b/"):  # markers that cloud consoles create
            bucket.call_s3(
                "put_object", Bucket=folder.split("/")[2], Key=f"data/{marker}", Body=b""
            )
    assert below(folder, list(list_files("csv", folder))) == sorted(DATA)
    assert below(folder, files_beside("csv", folder)) == sorted(BESIDE)


@pytest.mark.parametrize("format", ["parquet", "json", "text"])
def test_backup_files_are_ignored(folder: str, format: Format) -> None:
    copies = [name for name in BESIDE if name.endswith((".bak", ".old", ".orig", "~", ".tmp"))]
    write(folder, ["part-0", *copies])
    assert below(folder, list(list_files(format, folder))) == ["part-0"]


def test_a_folder_with_only_backup_files_is_an_error(folder: str) -> None:
    write(folder, BESIDE[:5])
    with pytest.raises(SourceNotFoundError, match=r"no non-empty csv.*read: x\.csv\.1, .* 2 more"):
        list_files("csv", folder)


@pytest.mark.parametrize("follow", [False, True])
def test_ignored_files_are_reported(tmp_path: Path, follow: bool) -> None:
    write(str(tmp_path), ["x.csv", "x.csv.bak", "x.csv.1"])
    stream = Stream.from_csv(tmp_path, vs="t", delay="1s", follow=follow)
    (note,) = Discovery(discover_units).notes(stream.plan.spec)  # type: ignore[attr-defined]
    assert f"source {tmp_path}: not read: x.csv.1, x.csv.bak, whose names do not end" in note


def test_partition_folders_with_underscores_and_links_are_read(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    write(str(data), ["_day=1/a.csv"])
    write(str(other), ["b.csv"])
    (data / "linked").symlink_to(other)
    rows = Stream.from_csv(data, vs="t")
    with pytest.warns(match="column '_day' is null in 1 of 2 files"):
        assert jobmanager.collect(rows, executor="local").num_rows == 2


def test_a_file_with_several_links_counts_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write(str(data), ["2026-01-01/a.csv", "2026-01-02/b.csv"])
    write(str(tmp_path), ["elsewhere/c.csv", "elsewhere/deep/d.csv"])
    (data / "latest").symlink_to(data / "2026-01-02")
    (data / "0-first.csv").symlink_to(data / "2026-01-01" / "a.csv")
    (data / "m").symlink_to(tmp_path / "elsewhere")
    (data / "n").symlink_to(tmp_path / "elsewhere")
    found = ["2026-01-01/a.csv", "2026-01-02/b.csv", "m/c.csv", "m/deep/d.csv"]
    assert below(str(data), list(list_files("csv", str(data)))) == found
    (tmp_path / "way").symlink_to(data)
    assert below(f"{tmp_path}/way", list(list_files("csv", f"{tmp_path}/way"))) == found


def test_circular_links_end(tmp_path: Path) -> None:
    write(str(tmp_path), ["a/x.csv", "b/y.csv"])
    (tmp_path / "a" / "to-b").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "to-a").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert below(str(tmp_path), list(list_files("csv", str(tmp_path)))) == ["a/x.csv", "b/y.csv"]
    assert os.path.islink(tmp_path / "self")
