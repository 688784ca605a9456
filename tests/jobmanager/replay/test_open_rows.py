"""Results whose rows are emitted at their start: lineage, changes, and the table at a time.

Not covered: joins of several such tables.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import streamscope as ss
from jobmanager.replay.errors import NoSuchRowError
from jobmanager.replay.recorded import Recorded
from jobmanager.replay.rows.answer_rows import AnswerCondition, recorded_events
from jobmanager.replay.rows.diffing import diff
from jobmanager.replay.rows.whys import why
from jobmanager.storage.root import JobRoot

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
ROWS = 40


def csv_of(folder: Path) -> Path:
    chance = random.Random(7)
    lines = ["t,k,x"]
    lines += [f"{t * 1_000_000},{chance.choice('abc')},{chance.randint(1, 9)}" for t in range(ROWS)]
    path = folder / "in.csv"
    path.write_text("\n".join(lines))
    return path


def totals(path: Path, *, add: int = 0) -> ss.Query:
    """A running total per key: each row is valid until the next row of its key."""
    rows = ss.Stream.from_csv(str(path), vs="t")
    found = rows.group_by("k").agg(n=ss.agg.count(), total=ss.agg.sum(ss.col("x") + add))
    return found.deliver(ss.sinks.parquet(str(path.parent / f"out{add}"), roll="0s", changes=True))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("open")
    path = csv_of(folder)
    ss.run(totals(path), root=str(folder / "job"), executor="local", parallelism=2).wait()
    return path, str(folder / "job")


def _rows_of(path: Path) -> list[dict[str, Any]]:
    head, *lines = path.read_text().splitlines()
    return [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]


def test_the_answer_has_separate_start_and_end_edges(job: tuple[Path, str]) -> None:
    plan = Recorded(JobRoot(job[1])).plan
    assert plan.changes is not None
    batches = [events for _, events in recorded_events(plan)]
    shown = pa.concat_tables([AnswerCondition(plan, "n > 0").shown(b) for b in batches])
    assert shown.num_rows > ROWS


@pytest.mark.parametrize("key", ["a", "b", "c"])
def test_an_open_row_depends_on_all_rows_of_its_key_so_far(job: tuple[Path, str], key: str) -> None:
    path, root = job
    mine = [k for k, row in enumerate(_rows_of(path)) if row["k"] == key]
    for count in (1, 3, len(mine)):
        found = why(root, f"k = '{key}' AND n = {count}")
        (table,) = found.inputs.values()
        assert table.column("row").to_pylist() == mine[:count]
        assert found.is_smallest
    with pytest.raises(NoSuchRowError):
        why(root, f"k = '{key}' AND n = {len(mine) + 1}")


def test_changed_open_rows_are_counted_once(job: tuple[Path, str]) -> None:
    path, root = job
    assert diff(root, totals(path)).is_equal
    found = diff(root, totals(path, add=1), keys=["k", "n"]).to_json()
    assert (found["old_rows"], found["new_rows"], found["changed"]) == (ROWS, ROWS, ROWS)
    assert (found["only_old"], found["only_new"], found["differing"]) == (0, 0, ROWS)
    assert found["columns"] == {"total": ROWS}
