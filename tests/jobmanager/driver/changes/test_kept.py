"""What a deployed query keeps: every kind of state, and each change of the table in the docs.

Not covered: several source partitions of a broker.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
import streamscope as ss
from jobmanager.driver.running.changes.errors import ChangeRefusedError
from jobmanager.driver.running.deploying import deploy
from jobmanager.storage.query_file import load_query
from rstream import Appender
from tests.support.budget import one_in
from tests.support.change_table import CHANGES, DRAWN, REASONS, VERDICTS, module, verdict
from tests.support.changed_jobs import (
    PAIRS,
    QUICK,
    SCHEMA,
    STATEFUL,
    ChangedJob,
    batch,
    has_passed,
    rows_of,
    whole_answer,
)
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, Any]
#: Rows before this time are read before the change; windows that end here are closed then.
CHANGED_S, CLOSED_S = 2, 1
DEPLOYED = [words for words, found in VERDICTS.items() if found != "refused"]


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEFUL)
def test_the_result_equals_that_of_a_job_that_never_changed(name: str, tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("first", STATEFUL[name]))
    again = changed.query("again", STATEFUL[name])
    changed.has_read_all()
    comparison = deploy(again, changed.root, yes=True, wait_s=WAIT_S).comparison
    assert {row.verdict for row in comparison.rows} == {"kept"}
    assert not comparison.refusals
    changed.append(2)
    deploy(again, changed.root, yes=True, wait_s=WAIT_S)  # in the middle of the rows
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, STATEFUL[name])


@pytest.mark.slow
def test_the_current_table_has_rows_from_before_and_after_a_new_column(tmp_path: Path) -> None:
    old, new = PAIRS["tumbling"]
    changed = ChangedJob(tmp_path)
    changed.append(3)
    job = changed.run(changed.query("old", old))
    changed.has_emitted_all()
    before = ss.read_table(changed.root)
    deploy(changed.query("new", new), changed.root, yes=True, wait_s=WAIT_S)
    changed.append(3)
    changed.has_emitted_all()
    at_us = batch(1).column("t")[0].as_py()
    for table in (ss.read_table(changed.root), ss.read_table(changed.root, at=at_us)):
        assert set(table.column_names) == {*before.column_names, "total"}
        assert table.num_rows > 0
    assert ss.read_table(changed.root, at=at_us)["total"].null_count == table.num_rows
    changed.finish()
    assert job.to_arrow()["total"].null_count > 0


class TableJob(ChangedJob):
    """A job with a query of the table, over two logs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._others = Appender(str(folder / "other"), SCHEMA)

    def append(self, count: int = 1) -> None:
        """Append the same rows to both logs."""
        for number in range(self.appended, self.appended + count):
            self._others.append(batch(number))
        super().append(count)

    def close(self) -> None:
        """Close the logs."""
        super().close()
        self._others.close()

    def file(self, name: str, text: str, since_us: int | None = None) -> str:
        """Write the file of a query (``module``)."""
        path = self.folder / f"{name}.py"
        path.write_text(module(text, self.log_uri, str(self.folder / "other"), since_us=since_us))
        return str(path)

    def start(self, text: str) -> None:
        """Run a query until it has read two seconds of rows, and closed windows of the first."""
        self.append(CHANGED_S)
        self.run(self.file("old", text))
        self.has_read_all()
        if "session" not in text:  # none has ended
            self.watch.until(lambda status: has_passed(status, CLOSED_S * 1_000_000))

    def whole(self, name: str, text: str, since_s: int = 0) -> Rows:
        """The rows of a query over all rows since a time."""
        query = load_query(self.file(name, text, since_s * 1_000_000))
        root = str(self.folder / name)
        job = jobmanager.run(query, root=root, executor="local", config=QUICK)
        job.wait(WAIT_S)
        return Rows(rows_of(job))


class Rows:
    """Rows of a result."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def of(self, names: list[str], lo_s: float = 0, hi_s: float = 1e9) -> Counter[tuple[Any, ...]]:
        """These columns of the rows whose window (or row, without a window) is in the range."""
        kept = [row for row in self.rows if lo_s <= start_of(row) and end_of(row) <= hi_s]
        return Counter(tuple(str(row[name]) for name in names) for row in kept)

    @property
    def names(self) -> list[str]:
        return list(self.rows[0])


def start_of(row: Row) -> float:
    return row["window_start"].timestamp() if "window_start" in row else row["t"] / 1e6


def end_of(row: Row) -> float:
    return row["window_end"].timestamp() if "window_end" in row else row["t"] / 1e6


@pytest.mark.parametrize("words", one_in(5, DEPLOYED))
def test_a_change_listed_in_the_docs_is_deployed(words: str, tmp_path: Path) -> None:
    """Closed windows have the old result, later ones the new; open ones are kept or missing."""
    job, (old, new), expected = TableJob(tmp_path), CHANGES[words], VERDICTS[words]
    job.start(old)
    done = deploy(job.file("new", new), job.root, yes=True, wait_s=WAIT_S)
    assert verdict(done.comparison) == expected
    job.append(2)
    job.has_read_all()
    found, before = Rows(job.finish()), job.whole("before", old)
    after, whole = job.whole("after", new, CHANGED_S), job.whole("whole", new)
    names, new_names = before.names, after.names
    assert found.of(names, hi_s=CLOSED_S) == before.of(names, hi_s=CLOSED_S)
    if expected != "converted" or "session" not in words:  # else none begins after the change
        # a join lacks earlier rows, so the windows after it are skipped for a while
        since = CHANGED_S + (1 if "join before" in words else 0)
        assert after.of(new_names, since) <= found.of(new_names, since)
    if expected == "started empty":
        right = whole.of(new_names)
        if "session" in words:  # an open one begins anew
            right += after.of(new_names)
        lo_s = CHANGED_S if "join before" in words else CLOSED_S  # former pairs differ
        assert found.of(new_names, lo_s) <= right
    elif "filter" not in words:
        assert found.of(names) == before.of(names)


@pytest.mark.parametrize("old", one_in(3, sorted({CHANGES[words][0] for words in REASONS})))
def test_rejected_changes_leave_the_job_unchanged(old: str, tmp_path: Path) -> None:
    job = TableJob(tmp_path)
    job.start(old)
    for number, words in enumerate(words for words in REASONS if CHANGES[words][0] == old):
        path = job.file(f"new{number}", CHANGES[words][1])
        with pytest.raises(ChangeRefusedError, match=REASONS[words]):
            deploy(path, job.root, yes=True, wait_s=WAIT_S)
    job.append(1)
    job.has_read_all()
    rows, expected = job.finish(), job.whole("whole", old).rows
    if old == DRAWN:  # it draws other values
        rows, expected = ([row["key"] for row in some] for some in (rows, expected))
    assert rows == expected
