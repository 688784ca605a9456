"""What ``from_arrow`` and ``from_spark`` leave behind: files of tables, and settings of Spark.

Not covered: the effect of a setting in Spark (``tests/jobmanager/test_frames.py``).
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner.api.inputs.frames import _TIMESTAMPS, _plain_timestamps
from rstream.errors import UsageError
from rvertex.sources.formats.given_tables import stored_table
from tests.support.power import Disk

TABLE = pa.table({"x": [1, 2]})


class Settings(dict[str, str]):
    """The settings of a Spark session."""

    set = dict.__setitem__
    unset = dict.__delitem__


@pytest.mark.parametrize("before", [{}, {_TIMESTAMPS: "INT96", "other": "1"}])
def test_spark_settings_are_restored(before: dict[str, str]) -> None:
    settings = Settings(before)
    with _plain_timestamps(SimpleNamespace(conf=settings)):
        assert settings == {**before, _TIMESTAMPS: "TIMESTAMP_MICROS"}
    assert settings == before
    with pytest.raises(ZeroDivisionError), _plain_timestamps(SimpleNamespace(conf=settings)):
        raise ZeroDivisionError
    assert settings == before


def test_a_table_is_stored_once_beside_others(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "deeper"
    path = stored_table(TABLE, str(folder))
    other = stored_table(TABLE.slice(1), str(folder))
    assert stored_table(TABLE, str(folder)) == path != other
    assert sorted(map(str, folder.iterdir())) == sorted([path, other])
    assert [pq.read_table(p).num_rows for p in (path, other)] == [2, 1]
    again = [Path(stored_table(TABLE, None)) for _ in range(2)]
    assert again[0] == again[1]
    assert again[0].name == Path(path).name


def test_a_stored_table_survives_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stored table is durable, even if its process dies before the file's name is."""
    disk, folder = Disk(tmp_path, monkeypatch), tmp_path / "new" / "deeper"
    path = stored_table(TABLE, str(folder))
    assert disk.lost() == set()
    assert disk.named_too_early == []
    moved = folder / "moved"
    Path(path).rename(moved)
    assert stored_table(TABLE.slice(1), str(folder))
    moved.rename(path)
    assert disk.lost() == {path}
    assert stored_table(TABLE, str(folder)) == path
    assert disk.lost() == set()


def test_folders_that_cannot_store_a_table(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written to"):
        stored_table(TABLE, str(tmp_path / "file"))
    with pytest.raises(UsageError, match="it must be a local folder"):
        stored_table(TABLE, "s3://bucket/tables")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
