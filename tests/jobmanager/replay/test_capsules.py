"""Bisection to an input item or a version; capsules open without the root.

Not covered: a machine with another release or another Python.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import streamscope as ss
from jobmanager.cli.main import app
from jobmanager.replay.errors import CannotMaskError, NoSuchRowError, NotACapsuleError
from jobmanager.replay.rows.bisecting import bisect, first_wrong_version
from jobmanager.replay.rows.capsules import make_capsule, open_capsule
from planner import Query, Stream, agg, col, tumbling
from rstream.errors import UsageError
from tests.support.jobs import WAIT_S, write_events

if TYPE_CHECKING:
    from pathlib import Path

WRONG = 1_234


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Events, one of them with a value that is far too large; keys have names."""
    path = write_events(tmp_path_factory.mktemp("events") / "events.parquet", 2_000)
    table = pq.read_table(path)
    x = table["x"].to_pylist()
    x = [1e15 if n == WRONG else min(value, 1e9) for n, value in enumerate(x)]
    names = [f"Name {key}" for key in table["key"].to_pylist()]
    table = table.set_column(2, "x", pa.array(x)).append_column("name", pa.array(names))
    pq.write_table(table, path, row_group_size=500)
    return path


def query(path: Path, most: float = 1e99) -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s").filter(col("x") < most)
    busy = events.group_by("name").window(tumbling("2s")).agg(n=agg.count(), most=agg.max("x"))
    return busy.to_parquet()


@pytest.fixture(scope="module")
def root(events: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = str(tmp_path_factory.mktemp("job") / "job")
    ss.run(query(events), root=root, executor="local").wait(WAIT_S)
    return root


@pytest.mark.parametrize("how", [{"row": "most > 1e12"}, {"expect": "most < 1e12"}])
def test_a_wrong_row_is_bisected_to_its_item(how: dict[str, str], root: str, events: Path) -> None:
    found = bisect(root, **how)
    table = pq.read_table(events)
    (cause,) = found.causes
    assert cause.item["t"].to_pylist() == [table["t"][WRONG].as_py()]
    assert cause.item["x"].to_pylist() == [1e15]
    assert cause.row["most"].to_pylist() == [1e15]
    assert found.runs < 30


def test_bisect_needs_a_wrong_row(root: str) -> None:
    with pytest.raises(NoSuchRowError, match="returns no wrong row"):
        bisect(root, row="most > 1e30")
    with pytest.raises(UsageError, match="on wrong rows, or one on right rows"):
        bisect(root)


def test_the_first_wrong_version_is_found(root: str, events: Path) -> None:
    versions = [query(events, 1e10)] * 3 + [query(events)] * 2
    assert first_wrong_version(root, versions, row="most > 1e12") == 3
    with pytest.raises(NoSuchRowError, match="first version"):
        first_wrong_version(root, versions[3:], row="most > 1e12")


def test_a_capsule_reproduces_the_row(root: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.zip"
    made = make_capsule(root, "most > 1e12", str(path))
    assert path.stat().st_size < 100_000
    opened = open_capsule(str(path), trust=True)
    assert opened.is_reproduced()
    assert opened.shown()["most"] == 1e15
    assert sum(made.manifest["rows"].values()) == opened.shown()["n"]
    assert made.manifest["smallest"]


def test_masked_columns_are_not_in_the_file(root: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.zip"
    make_capsule(root, "most > 1e12", str(path), mask=["name"])
    opened = open_capsule(str(path), trust=True)
    assert opened.is_reproduced()
    assert opened.shown()["name"] == "m1"
    assert opened.shown()["most"] == 1e15
    names = [rows.batch.column("name").to_pylist() for rows in opened.rows.values()]
    assert {name for found in names for name in found} == {"m1"}
    with pytest.raises(CannotMaskError, match="no source has this column"):
        make_capsule(root, "most > 1e12", str(path), mask=["nothing"])
    with pytest.raises(CannotMaskError, match="its type is double"):
        make_capsule(root, "most > 1e12", str(path), mask=["x"])


def test_a_capsule_is_opened_only_if_trusted_and_complete(root: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.zip"
    make_capsule(root, "most > 1e12", str(path))
    with pytest.raises(NotACapsuleError, match="add --trust"):
        open_capsule(str(path))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(NotACapsuleError, match="zip"):
        open_capsule(str(path), trust=True)


FILE = """
import streamscope as ss
from shop_rules.limits import MOST
from shop_rules.inner.limits import kept

events = ss.Stream.from_parquet({path!r}, vs="t", delay="1s").filter(ss.col("x") < MOST)
rows = events.apply(kept, {{"name": "string", "x": "float64"}})
query = rows.group_by("name").window(ss.tumbling("2s")).agg(n=ss.agg.count(), most=ss.agg.max("x"))
"""
RULES = """
from shop_rules.limits import COLUMNS

def kept(batch):
    return {name: batch.column(name) for name in COLUMNS}
"""


@pytest.fixture(scope="module")
def away(events: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has only a capsule, of a query with several modules."""
    home, away = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("away")
    (home / "shop_rules" / "inner").mkdir(parents=True)
    shutil.copy(events, home / "events.parquet")
    (home / "shop_rules" / "__init__.py").write_text("")
    (home / "shop_rules" / "limits.py").write_text(
        'MOST = 1e99\nCOLUMNS = ("name", "x")\nPASSWORD = "planted"\n'
    )
    (home / "shop_rules" / "inner" / "limits.py").write_text(RULES)
    (home / "q.py").write_text(FILE.format(path=str(home / "events.parquet")))
    calls = [
        ["run", str(home / "q.py"), "--root", str(home / "job"), "--executor", "local"],
        ["capsule", str(home / "job"), "--row", "most > 1e12", "-o", str(away / "wrong.zip")],
    ]
    for call in calls:
        run = CliRunner().invoke(app, call)
        assert run.exit_code == 0, run.output
    shutil.rmtree(home)
    return away


def replayed(away: Path, *options: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jobmanager", "replay", "wrong.zip", "--trust", *options]
    return subprocess.run(
        command, cwd=away, input=typed, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_capsule_opens_without_root_input_or_modules(away: Path) -> None:
    done = replayed(away, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["equal"]
    assert found["row"]["most"] == 1e15
    assert [path.name for path in away.iterdir()] == ["wrong.zip"]
    assert found["starred"] == ["shop_rules/limits.py"]
    with zipfile.ZipFile(away / "wrong.zip") as archive:
        assert not [name for name in archive.namelist() if b"planted" in archive.read(name)]


@pytest.mark.slow
def test_a_capsule_can_be_debugged(away: Path) -> None:
    with zipfile.ZipFile(away / "wrong.zip") as archive:
        vertex = max(json.loads(archive.read("manifest.json"))["rows"].items(), key=itemgetter(1))[
            0
        ]
    typed = "import shop_rules.inner.limits as rules\nb rules.kept\nc\np batch.num_rows\nq\n"
    done = replayed(away, vertex, "--break", "x > 1e12", typed=typed)
    assert (done.returncode, done.stderr) == (130, "")
    assert "/shop_rules/inner/limits.py(5)kept()" in done.stdout
    done = replayed(away, vertex, "--break", "x > 1e30")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"No row that {vertex} reads satisfies --break" in done.stdout


def test_a_file_outside_of_its_folder_is_not_written(root: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.zip"
    make_capsule(root, "most > 1e12", str(path))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("code/../../planted.py", "")
    with pytest.raises(NotACapsuleError, match="would be outside"):
        open_capsule(str(path), trust=True)
