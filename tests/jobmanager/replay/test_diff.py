"""Versions of a query over the same recorded input: the number of changed rows is exact.

Not covered: keys that a user did not expect.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import streamscope as ss
from jobmanager.cli.main import app
from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.rows.diffing import diff
from planner import Stream, agg, col, hopping, lit, tumbling
from tests.support.budget import one_in
from tests.support.jobs import WAIT_S, write_events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECOND = 1_000_000


def base(events: Stream) -> Stream:
    return events.group_by("key").window(tumbling("2s")).agg(n=agg.count(), most=agg.max("x"))


VERSIONS: dict[str, Callable[[Stream], Stream]] = {
    "the same": base,
    "a filter": lambda e: base(e.filter(col("x") > -1e6)),
    "a filter of nothing": lambda e: base(e.filter(col("key") < 99)),
    "a filter of a key": lambda e: base(e.filter(col("key") != 3)),
    "another maximum": lambda e: base(e.with_columns(x=col("x") + 0.5)),
    "other windows": lambda e: (
        e.group_by("key").window(hopping("2s", "1s")).agg(n=agg.count(), most=agg.max("x"))
    ),
    "longer windows": lambda e: (
        e.group_by("key").window(tumbling("4s")).agg(n=agg.count(), most=agg.max("x"))
    ),
    "a filter behind": lambda e: base(e).filter(col("n") > 20),
    "another key": lambda e: base(e.with_columns(key=col("key") % 4)),
    "rows twice": lambda e: base(e).union(base(e).filter(col("key") == 1)),
    "a constant": lambda e: base(e).with_columns(most=lit(1.0)),
}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


def source(path: Path) -> Stream:
    return Stream.from_parquet(str(path), vs="t", delay="1s")


@pytest.fixture(scope="module")
def root(events: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = str(tmp_path_factory.mktemp("job") / "job")
    ss.run(base(source(events)).to_parquet(), root=root, executor="local").wait(WAIT_S)
    return root


def bag(stream: Stream) -> Counter[Any]:
    answer = ss.collect(stream, executor="local")
    return Counter(tuple(row.values()) for row in answer.to_pylist())


@pytest.mark.parametrize("name", one_in(4, VERSIONS))
def test_the_number_of_changed_rows_is_exact(name: str, root: str, events: Path) -> None:
    stream = VERSIONS[name](source(events))
    old, new = bag(base(source(events))), bag(stream)
    found = diff(root, stream.to_parquet())
    assert found.old_rows == old.total()
    assert found.new_rows == new.total()
    assert found.only_old == (old - new).total()
    assert found.only_new == (new - old).total()
    assert found.is_equal == (old == new)
    assert found.changed <= min(found.only_old, found.only_new)
    removed, added = (
        Counter(row[:3] for row in side.elements()) for side in (old - new, new - old)
    )
    assert found.changed == (removed & added).total()


def test_a_part_of_the_time_range_is_compared(root: str, events: Path) -> None:
    stream = VERSIONS["another maximum"](source(events))
    found = diff(root, stream.to_parquet(), from_=10 * SECOND, until=20 * SECOND)
    old = bag(base(source(events)))
    assert found.old_rows == sum(n for row, n in old.items() if 10 * SECOND <= row[0] < 20 * SECOND)
    assert found.changed == found.old_rows
    assert found.columns == {"most": found.changed}


QUERY = """
import streamscope as ss
events = ss.Stream.from_parquet({path!r}, vs="t", delay="1s")
windows = events.filter(ss.col("key") != {key}).group_by("key").window(ss.tumbling("2s"))
query = windows.agg(n=ss.agg.count(), most=ss.agg.max("x"))
"""


def test_the_exit_code_shows_a_difference_and_a_report_is_written(
    root: str, events: Path, tmp_path: Path
) -> None:
    file, report = tmp_path / "new.py", tmp_path / "report.md"
    file.write_text(QUERY.format(path=str(events), key=3))
    call = ["diff", root, str(file), "--markdown", str(report), "--json"]
    run = CliRunner().invoke(app, call)
    assert run.exit_code == 1, run.output
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["only_old"] == found["differing"] == 21
    assert found["only_new"] == 0
    text = report.read_text()
    assert "21 of 166 rows differ: 0 changed, 21 only in the old version" in text
    file.write_text(QUERY.format(path=str(events), key=99))
    run = CliRunner().invoke(app, ["diff", root, str(file)])
    assert run.exit_code == 0, run.output
    assert run.stdout == "equal: 166 rows\n"


def test_columns_of_only_one_version_are_named(root: str, events: Path) -> None:
    found = diff(root, base(source(events)).with_columns(half=col("n") / 2).to_parquet())
    assert not found.is_equal
    assert found.added_columns == ("half",)
    assert found.differing == 0


def test_other_input_files_are_rejected_by_name(root: str, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"t": [1], "key": [1], "x": [1.0]}), other)
    with pytest.raises(CannotReplayError, match=r"other\.parquet: the job has not read it"):
        diff(root, base(source(other)).to_parquet())


RATES = "RATE = {rate}\n\n\ndef euros(amount):\n    return amount / RATE\n"
SALES = """
import streamscope as ss
from diffed_rates import euros

converted = ss.udf(euros, returns="float64", deterministic=True)
rows = ss.Stream.from_csv({path!r}, vs="t", delay="1s", schema={{"x": "double"}})
rows = rows.with_columns(x=ss.when(ss.col("key") == 1).then(converted(ss.col("x"))).otherwise(0.0))
query = rows.group_by("key").window(ss.tumbling("10s")).agg(total=ss.agg.sum("x"))
"""


@pytest.mark.slow
def test_a_change_of_an_imported_module_is_compared(tmp_path: Path) -> None:
    """Compare versions as in a pull request: only an imported module has changed."""
    path, root = tmp_path / "in.csv", str(tmp_path / "job")
    rows = [f"1970-01-01T00:00:{t:02},{t % 3},{t}" for t in range(60)]
    path.write_text("\n".join(["t,key,x", *rows]))
    (tmp_path / "q.py").write_text(SALES.format(path=str(path)))

    def called(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "jobmanager", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    (tmp_path / "diffed_rates.py").write_text(RATES.format(rate=2))
    done = called("run", "q.py", "--root", root, "--executor", "local")
    assert done.returncode == 0, done.stderr
    assert called("diff", root, "q.py").stdout == "equal: 18 rows\n"
    (tmp_path / "diffed_rates.py").write_text(RATES.format(rate=4))
    done = called("diff", root, "q.py", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert (found["changed"], found["differing"], found["columns"]) == (6, 6, {"total": 6})
    done = called("replay", root, "s01-in.0", "--code", "q.py")
    assert done.returncode == 1, done.stderr
    done = called("replay", root)
    assert (done.returncode, "has changed" in done.stderr) == (2, True)
