"""The owner of an output folder, and the file that marks a complete output."""

from __future__ import annotations

import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobmanager.errors import BrokenClaimError, OutputTakenError
from jobmanager.storage.output_check import SUCCESS
from jobmanager.storage.output_claim import (
    answer_files,
    claim_output,
    is_complete,
    mark_success,
    refuse_taken_output,
)
from rstream import RStream
from rstream.items.batch import cti_batch
from rstream.store.part_files import part_uri
from rvertex.sources.formats.rstream import CLAIM


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "deep" / "output")


def test_a_claim_is_kept(folder: str) -> None:
    assert not refuse_taken_output(folder, "/jobs/a", "1")
    claim_output(folder, "/jobs/a", "1")
    assert (
        json.loads(Path(folder, CLAIM).read_text()).items() >= {"job": "/jobs/a", "id": "1"}.items()
    )
    claim_output(folder, "/jobs/a", "1")
    assert refuse_taken_output(folder, "/jobs/a", "1")


def test_a_second_job_is_refused(folder: str) -> None:
    claim_output(folder, "/jobs/a", "1")
    for job in ("/jobs/b", "/jobs/a"):  # the root may have had another job before
        with pytest.raises(OutputTakenError, match="holds the output of job /jobs/a"):
            claim_output(folder, job, "2")
    assert refuse_taken_output(folder, "/jobs/a", "1")


def test_one_of_several_concurrent_claims_wins(tmp_path: Path) -> None:
    """The jobs have different roots, so only the claim keeps them apart."""
    jobs = [str(k) for k in range(8)]
    ready = threading.Barrier(len(jobs))

    def claim(job: str) -> list[str]:
        won = []
        for k in range(20):
            ready.wait()
            with contextlib.suppress(OutputTakenError):
                claim_output(str(tmp_path / str(k)), f"/jobs/{job}", job)
                won.append(str(k))
        return won

    with ThreadPoolExecutor(len(jobs)) as pool:
        won = [k for folders in pool.map(claim, jobs) for k in folders]
    assert sorted(won, key=int) == [str(k) for k in range(20)]


@pytest.mark.parametrize("name", ["answer", "job-answer", "jo"])
def test_a_lost_claim_is_repeated_only_in_the_root(name: str, tmp_path: Path) -> None:
    """A folder whose name starts with the root's name is not inside the root."""
    root, inside, outside = (str(tmp_path / path) for path in ("job", "job/output", name))
    for folder in (inside, outside):
        claim_output(folder, root, "1")
        Path(folder, CLAIM).write_bytes(b"{")
    claim_output(inside, root, "1", has_claimed=True)
    assert refuse_taken_output(inside, root, "1")
    with pytest.raises(BrokenClaimError, match=rf'{name}/_JOB.*truncated.*put this.*"id": "1"'):
        claim_output(outside, root, "1", has_claimed=True)
    Path(outside, CLAIM).write_text(json.dumps({"job": root, "id": "1"}))
    assert refuse_taken_output(outside, root, "1", has_claimed=True), "as the message says"


def test_files_of_other_jobs_are_not_mixed_with_ours(folder: str) -> None:
    Path(folder, "sub").mkdir(parents=True)
    assert not refuse_taken_output(folder, "/jobs/a", "1"), "an empty folder is free"
    Path(folder, "sub", "part.parquet").write_bytes(b"x")
    with pytest.raises(OutputTakenError, match="the folder is not empty"):
        claim_output(folder, "/jobs/a", "1")
    assert not Path(folder, CLAIM).exists()


def test_success_mark(folder: str) -> None:
    assert not is_complete(folder)
    mark_success(folder, {"events_out": 3})
    assert is_complete(folder)
    assert json.loads(Path(folder, SUCCESS).read_text()) == {"events_out": 3}


def test_success_names_the_files_of_the_answer(folder: str) -> None:
    payload = pa.schema([("x", pa.int64())])
    streams = [part_uri(folder, f"part-{i}") for i in range(2)]
    for uri in streams:
        stream = RStream.open(uri, payload)
        stream.append(cti_batch(5, stream.schema))
        stream.close()
    with pytest.raises(FileNotFoundError):
        answer_files(folder)
    mark_success(folder, {"events_out": 0}, streams)
    name = "00000000000000000000-00000000000000000001.parquet"
    assert answer_files(folder) == [f"part-{i}-{name}" for i in range(2)]
    zombie = RStream.open(streams[0], payload)
    zombie.append(cti_batch(6, zombie.schema))
    zombie.close()
    assert len(list(Path(folder).rglob("*.parquet"))) == 3
    found = pq.read_table([f"{folder}/{name}" for name in answer_files(folder)])
    assert found.num_rows == 2
