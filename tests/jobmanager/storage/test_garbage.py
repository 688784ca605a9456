"""``gc`` of a job that does not run, and what retention keeps while a job runs.

Not covered: whether the remaining checkpoints can be loaded (test_killed_driver, tests/sim).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager import JobConfig, JobRunningError
from jobmanager.state.messages import CheckpointsKept
from jobmanager.storage import garbage
from jobmanager.storage.garbage import Garbage, collect_garbage
from jobmanager.storage.notice_log import read_notices
from jobmanager.storage.root import JobRoot
from rstream import StreamLimits
from rvertex.checkpoint.productions import parts_of_entries
from rvertex.messages import CheckpointTaken
from tests.jobmanager.test_strong import logged, strong, strong_drawing
from tests.support.budget import one_in
from tests.support.jobs import ROWS, WAIT_S, outcome, two_exchanges, with_limits, write_events
from tests.support.trouble import run_and_cancel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from planner import Query
    from tests.support.trouble import Gate

PACE = 40.0
FLUSHED_OFTEN = StreamLimits(flush_interval_ms=20)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


def cancelled(
    events: Path,
    root: Path,
    gate: Gate,
    make: Callable[[Path], Query] = two_exchanges,
    checkpoint_interval_s: float = 0.02,
    **options: Any,
) -> None:
    """A job cancelled half way, after many checkpoints."""
    config = with_limits(
        JobConfig(tick_s=0.02),
        checkpoint_interval_s=checkpoint_interval_s,
        checkpoint_inline_bytes_max=16,
        step_rows_max=200,
        stream=FLUSHED_OFTEN,
    )
    options |= {"root": str(root), "paced": PACE, "config": config}
    run_and_cancel(make(events), gate, ROWS // 2, **options)


def files(root: Path) -> dict[str, int]:
    """All files of a root except the status, with their sizes."""
    found = (path for path in root.rglob("*") if path.is_file() and path.name != "status.json")
    return {str(path): path.stat().st_size for path in found}


def gc(root: Path, *, dry: bool = False, **options: Any) -> Garbage:
    return collect_garbage(JobRoot(str(root)), JobConfig(), options, is_dry_run=dry)  # type: ignore[arg-type]


@pytest.mark.slow
def test_exactly_the_listed_files_are_deleted_and_the_job_can_be_resumed(
    events: Path, gate: Gate, tmp_path: Path
) -> None:
    root = tmp_path / "job"
    cancelled(events, root, gate, retain="all")
    before, status = files(root), JobRoot(str(root)).read_status()
    told = gc(root, retain=0, dry=True)
    assert files(root) == before, "nothing was touched"
    done = gc(root, retain=0)
    assert done == told
    gone = before.keys() - files(root).keys()
    assert gone == set(told.files)
    assert sum(before[path] for path in gone) == told.size_bytes > 0
    assert JobRoot(str(root)).read_status() == {**status, "manager_epoch": 2}
    assert gc(root, retain=0) == Garbage((), 0)
    resumed = jobmanager.resume(str(root)).wait(WAIT_S)
    whole = jobmanager.run(two_exchanges(events), root=str(tmp_path / "whole"), executor="local")
    assert outcome(resumed) == outcome(whole.wait(WAIT_S))


def test_retention_is_that_of_the_run(
    events: Path, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``gc`` uses the job's retention; before it deletes, it logs which files remain."""
    root = tmp_path / "job"
    cancelled(events, root, gate, retain="all")
    notices = (notice for _, notice in read_notices(JobRoot(str(root)).store))
    announced = [n.name for n in notices if isinstance(n, CheckpointTaken)]
    assert len(announced) > 10
    gc(root)
    assert [name for name in announced if not (root / name).exists()] == []
    status, recorded = JobRoot(str(root)).read_status(), list[object]()

    def overtaken(*given: Any) -> None:
        record(*given)
        recorded.append(read_notices(JobRoot(str(root)).store)[-1][1])
        JobRoot(str(root), pid=1, machine="elsewhere").claim(0)

    record = garbage._record
    with monkeypatch.context() as patch:
        patch.setattr(garbage, "_record", overtaken)
        with pytest.raises(JobRunningError):
            gc(root, retain=0)
    assert [type(notice) for notice in recorded] == [CheckpointsKept]
    assert [name for name in announced if not (root / name).exists()] == []
    assert JobRoot(str(root)).read_status()["machine"] == "elsewhere", "it is no more its own"
    JobRoot(str(root)).write_status(status)
    gc(root, retain=0)
    assert JobRoot(str(root)).read_status()["state"] == "cancelled"
    assert [name for name in announced if not (root / name).exists()] != []


def test_of_a_finished_job_only_the_answer_is_kept(events: Path, tmp_path: Path) -> None:
    root = tmp_path / "job"
    job = jobmanager.run(
        two_exchanges(events), root=str(root), executor="local", checkpoint_interval="20ms"
    )
    job.wait(WAIT_S)
    answer = {path: size for path, size in files(root).items() if "/output/" in path}
    gc(root)
    left = files(root)
    assert answer.items() <= left.items()
    assert not [path for path in left if path.endswith((".ckpt", ".parquet")) and in_streams(path)]


def in_streams(path: str) -> bool:
    return "/streams/" in path or "/checkpoints/" in path


@pytest.mark.parametrize("make", one_in(2, [strong, logged]))
def test_the_newest_journal_entries_are_kept(
    make: Callable[[Path], Query], events: Path, gate: Gate, tmp_path: Path
) -> None:
    root = tmp_path / "job"

    def is_due(_: dict[str, Any]) -> bool:
        """Each vertex with a journal has checkpoints after some of its entries."""
        notices = (notice for _, notice in read_notices(JobRoot(str(root)).store))
        taken = Counter(n.vertex for n in notices if isinstance(n, CheckpointTaken))
        writers = {path.split("/")[-2] for path in journals(root)} - {"parts"}
        return len(writers) == 2 and all(taken[vertex] > 1 for vertex in writers)

    cancelled(events, root, gate, make, retain="all", is_due=is_due)
    before = journals(root)
    gc(root, retain=0)
    between = journals(root)
    assert between < before, "entries that only old checkpoints need have gone"
    status = jobmanager.resume(str(root), retain="all").wait(WAIT_S)
    assert status["state"] == "finished", status
    newest = {path.rpartition("/")[0]: path for path in sorted(journals(root))}
    entries = {
        folder: path for folder, path in newest.items() if "/production-state/" not in folder
    }
    assert len(entries) == 2
    gc(root, retain=0)
    assert journals(root) == set(entries.values()), "each journal refuses who wakes up"


@pytest.mark.parametrize("make", [strong_drawing, logged])
def test_journal_entries_since_the_last_checkpoint_are_kept(
    make: Callable[[Path], Query], events: Path, gate: Gate, tmp_path: Path
) -> None:
    """A resume needs these entries with the checkpoint's state: they cannot be made twice."""
    root = tmp_path / "job"
    cancelled(events, root, gate, make, checkpoint_interval_s=3600.0)
    store = JobRoot(str(root)).store
    entries = [path for kind in ("values", "productions") for path in store.list(kind)]
    states = parts_of_entries(store, store.list("productions"))
    assert len(entries) > 5
    assert bool(states) == (make is strong_drawing)
    gc(root, retain=0)
    assert [path for path in (*entries, *sorted(states)) if not store.exists(path)] == []


def journals(root: Path) -> set[str]:
    kinds = ("/values/", "/productions/", "/production-state/")
    return {path for path in files(root) if any(kind in path for kind in kinds)}


def test_a_root_in_use_is_not_cleaned(events: Path, gate: Gate, tmp_path: Path) -> None:
    root = JobRoot(str(tmp_path / "job"))
    cancelled(events, tmp_path / "job", gate)
    alive = {**root.read_status(), "state": "running", "pid": 1, "written_us": 1 << 62}
    root.write_status(alive)
    for dry in (False, True):
        with pytest.raises(JobRunningError):
            gc(tmp_path / "job", dry=dry)
    assert root.read_status() == alive
