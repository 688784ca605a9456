"""A result that is damaged after ``gc`` has deleted everything it was computed from.

Not covered: flipped bits (test_damage).
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager import JobConfig, JobFailedError
from jobmanager.storage.garbage import collect_garbage
from jobmanager.storage.root import JobRoot
from planner import Query, Stream, agg, hopping
from rvertex.host.environment import HostLimits
from tests.jobmanager.manager.test_damage import cut, delete, do_harm, resumed, segments
from tests.jobmanager.test_strong import logged
from tests.support.jobs import WAIT_S, outcome, output_items, write_events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Steps are small enough for a journal to have several entries, as its newest is never deleted.
STEPS = JobConfig(host=HostLimits(step_rows_max=500))


def counts(path: Path) -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    return events.group_by("key").window(hopping("2s", "1s")).agg(n=agg.count()).to_parquet()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("damage") / "in.parquet")


def finished(query: Query, root: Path, **options: Any) -> tuple[Any, Any]:
    """A finished job, with a root that contains only the result."""
    job = jobmanager.run(query, root=str(root), executor="local", config=STEPS, **options)
    expected = outcome(job.wait(WAIT_S)), output_items(job.output)
    collect_garbage(JobRoot(str(root)), JobConfig(), {}, is_dry_run=False)
    return expected


@pytest.mark.parametrize(("make", "verify"), [(counts, True), (logged, False)])
def test_damage_after_gc_is_reported_at_once_until_the_file_is_restored(
    make: Callable[[Path], Query], verify: bool, data: Path, tmp_path: Path
) -> None:
    """A damaged result cannot be recomputed after ``gc``; the error names the file."""
    root = tmp_path / "job"
    expected = finished(make(data), root, verify=verify)
    harmed = segments(root / "output")[-1]
    shutil.copy(harmed, tmp_path / "copy")
    do_harm("cut", harmed)
    for _ in range(2):
        with pytest.raises(JobFailedError, match=harmed.name) as failure:
            resumed(root)
        message = str(failure.value)
        assert "cannot be computed again" in message
        assert "put the file back from a copy and resume, or run the query again" in message
        assert "without progress" not in message
        assert not (root / "output" / "_SUCCESS").exists()
        harmed.unlink(missing_ok=True)
    shutil.copy(tmp_path / "copy", harmed)
    status = resumed(root)
    assert (outcome(status), output_items(str(root / "output"))) == expected
    assert (root / "output" / "_SUCCESS").exists()
    assert resumed(root)["state"] == "finished"


@pytest.mark.parametrize("harm", [cut, delete])
def test_damaged_items_are_recomputed_from_the_sources_if_these_suffice(
    harm: Callable[[Path], None], data: Path, tmp_path: Path
) -> None:
    root = tmp_path / "job"
    expected = finished(counts(data), root)
    harm(segments(root / "output")[0])
    assert (outcome(resumed(root)), output_items(str(root / "output"))) == expected


def test_a_finished_job_is_unchanged_after_gc(data: Path, tmp_path: Path) -> None:
    root = tmp_path / "job"
    expected = finished(counts(data), root, verify=True)
    assert outcome(resumed(root)) == expected[0]
