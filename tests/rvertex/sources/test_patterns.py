"""Patterns and lists of paths: which files they match, on disk and in a remote store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fsspec
import pytest

from planner import InvalidPlanError, Stream
from planner.physical.lower import lower
from rvertex.errors import SourceNotFoundError
from rvertex.sources.files import list_files

if TYPE_CHECKING:
    from pathlib import Path

NAMES = (
    *("2026-01/a.csv", "2026-01/b.csv", "2026-02/a.csv", "2026-02/_a.csv", "2026-02/x.json"),
    *("2025-12/a.csv", "2025-12/deep/er/a.csv", "top.csv", "we[i]rd.csv"),
    *("2026-02/b.csv.tmp", "2026-02/a.csv~", "2026-02/c.csv.part", "top.csv.swp"),
)


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    root = str(tmp_path) if request.param == "local" else f"memory://{tmp_path.name}"
    for name in NAMES:
        with fsspec.open(f"{root}/{name}", "wb", auto_mkdir=True) as file:
            file.write(b"t\n1\n")
    return root


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("2026-*/a.csv", ["2026-01/a.csv", "2026-02/a.csv"]),
        ("2026-*", ["2026-01/a.csv", "2026-01/b.csv", "2026-02/a.csv"]),
        ("2025-12/*.csv", ["2025-12/a.csv"]),
        ("2025-12/**/*.csv", ["2025-12/a.csv", "2025-12/deep/er/a.csv"]),
        ("202[56]-1?/a.csv", ["2025-12/a.csv"]),
        ("20[!2]*", []),
        ("*.csv", ["top.csv", "we[i]rd.csv"]),
        ("we[i]rd.csv", ["we[i]rd.csv"]),
        ("2026-*/*.json", []),
        ("2026-02", ["2026-02/a.csv"]),
        ("2026-02/*.tmp", []),
    ],
)
def test_a_pattern_matches_files(folder: str, pattern: str, found: list[str]) -> None:
    path = f"{folder}/{pattern}"
    if not found:
        with pytest.raises(SourceNotFoundError, match="no non-empty csv file"):
            list_files("csv", path)
        return
    names = [name.removeprefix(folder).lstrip("/") for name in list_files("csv", path)]
    assert names == found


@pytest.mark.parametrize("pattern", ["[z-a].csv", "[\\].csv"])
def test_an_invalid_pattern_is_reported(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(SourceNotFoundError, match="invalid pattern"):
        list_files("csv", f"{tmp_path}/{pattern}")


def test_several_paths_are_one_source(folder: str) -> None:
    paths = [f"{folder}/top.csv", f"{folder}/2026-*", f"{folder}/top.csv"]
    assert len(list_files("csv", *paths)) == 4
    stream = Stream.from_csv(paths, vs="t", partitions=2)
    plan = lower(stream.to_parquet(), root="r")
    partitions = [v.source for v in plan.vertices if v.source is not None]
    assert sum(len(p.units) for p in partitions) == 4
    assert "top.csv and 2 more" in stream.plan.describe()
    for wrong in ([], ["a\nb"]):
        with pytest.raises(InvalidPlanError, match="a file, a folder, a pattern"):
            Stream.from_csv(wrong, vs="t")


def test_a_file_deleted_during_a_listing_is_ignored(tmp_path: Path) -> None:
    """A dangling link is listed but has no file, like a file that was deleted after the listing."""
    (tmp_path / "a.csv").write_text("t\n1\n")
    (tmp_path / "b.csv").symlink_to(tmp_path / "gone.csv")
    assert list(list_files("csv", str(tmp_path))) == [f"{tmp_path}/a.csv"]
