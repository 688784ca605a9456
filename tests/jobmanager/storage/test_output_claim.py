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
    delete_former_claims,
    is_complete,
    mark_success,
    refuse_taken_output,
    renew_claim,
)
from jobmanager.storage.root import GENERATION
from planner import Stream
from planner.physical.lower import lower
from rstream import RStream, open_store
from rstream.errors import StoreError
from rstream.items.batch import Items, cti_batch, item_schema
from rstream.log.durable import DurableLog
from rstream.store.blobs import FsspecBlobs
from rstream.store.part_files import part_uri
from rstream.types import INF_TIME
from rvertex.errors import SourceVanishedError
from rvertex.sources.formats.rstream import CLAIM, CLAIMS
from rvertex.sources.logs.errors import AddedStreamsError
from rvertex.sources.logs.written import WrittenItems, written_units
from rvertex.sources.spec import Live, SourceSpec, Streams


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


def test_the_success_mark_makes_an_output_complete(folder: str) -> None:
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


def test_a_follower_notices_added_streams_before_the_end(folder: str) -> None:
    """The streams it reads have always had items until their end, so it was never idle."""
    plan, wider = (
        lower(query.to_parquet(), root=folder.removesuffix("/output"), parallelism=1)
        for query in (Stream.from_items({"x": "int64"}, [], partitions=n) for n in (1, 3))
    )
    assert plan.output == folder
    uris = [uri for _, uri in plan.sink_streams()]
    claim_output(folder, "/jobs/a", "1", streams=uris, columns=plan.schema)
    spec = SourceSpec(Streams(), folder, plan.schema, plan.schema, vs=None, live=Live())
    (unit,) = written_units(spec)
    with contextlib.closing(RStream.open(uris[0], plan.schema)) as stream:
        stream.write(0, cti_batch(INF_TIME, item_schema(plan.schema)))
        stream.flush()
    with contextlib.closing(WrittenItems(spec, unit, 0)) as reader:
        assert reader.read_next(9) is not None
    for number in (1, 2):
        settings = {"id": "1", GENERATION: number}
        renew_claim(open_store(folder), wider, "/jobs/a", settings)
    delete_former_claims(open_store(folder))
    assert open_store(folder).list(CLAIMS) == [f"{CLAIMS}/0000000002"]
    with (
        contextlib.closing(WrittenItems(spec, unit, 0)) as reader,
        pytest.raises(AddedStreamsError, match="has 3 partitions, and this job reads 1"),
    ):
        reader.read_next(9)


@pytest.mark.parametrize("fault", ["store", "replaced once", "replaced again and again"])
def test_a_follower_outlives_a_failed_look_at_the_claim(
    fault: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A usage error would end its job for good."""
    query, root = Stream.from_items({"x": "int64"}, []).to_parquet(), folder.removesuffix("/output")
    plan = lower(query, root=root, parallelism=1)
    ((_, uri),) = plan.sink_streams()
    claim_output(folder, "/jobs/a", "1", streams=[uri], columns=plan.schema)
    renew_claim(open_store(folder), plan, "/jobs/a", {"id": "1", GENERATION: 1})
    with contextlib.closing(RStream.open(uri, plan.schema)) as stream:
        stream.write(0, cti_batch(5, item_schema(plan.schema)))
        stream.flush()
    spec = SourceSpec(Streams(), folder, plan.schema, plan.schema, vs=None, live=Live())
    (unit,) = written_units(spec)
    get, numbers = FsspecBlobs.get, iter(range(2, 9))

    def get_late(store: FsspecBlobs, path: str) -> bytes:
        if fault == "store":
            raise StoreError(path, "503 Slow Down")
        number = next(numbers)
        if number == 2 or fault == "replaced again and again":
            renew_claim(open_store(folder), plan, "/jobs/a", {"id": "1", GENERATION: number})
            delete_former_claims(open_store(folder))
        return get(store, path)

    with contextlib.closing(WrittenItems(spec, unit, 1)) as reader:
        monkeypatch.setattr(FsspecBlobs, "get", get_late)
        if fault == "replaced once":
            assert reader.read_next(9) is None
            return
        with pytest.raises(SourceVanishedError):
            reader.read_next(9)
        monkeypatch.undo()
        assert reader.read_next(9) is None


def test_a_follower_with_a_backlog_notices_added_streams_with_the_first_later_item(
    folder: str,
) -> None:
    """It is never idle, so time would pass without the rows of the added streams."""
    root = folder.removesuffix("/output")
    plan, wider = (
        lower(Stream.from_items({"x": "int64"}, [], partitions=n).to_parquet(), root=root)
        for n in (1, 3)
    )
    ((_, uri),) = plan.sink_streams()
    claim_output(folder, "/jobs/a", "1", streams=[uri], columns=plan.schema)
    spec = SourceSpec(Streams(), folder, plan.schema, plan.schema, vs=None, live=Live())
    (unit,) = written_units(spec)
    schema = item_schema(plan.schema)
    for generation in (0, 1):
        log = DurableLog(open_store(uri), uri, generation=generation)
        log.write(Items(generation, cti_batch(5 + generation, schema)))
    with contextlib.closing(WrittenItems(spec, unit, 0)) as reader:
        assert [reader.read_next(9), reader.read_next(9)].count(None) == 0
    renew_claim(open_store(folder), wider, "/jobs/a", {"id": "1", GENERATION: 1})
    with contextlib.closing(WrittenItems(spec, unit, 0)) as reader:
        assert reader.read_next(9) is not None
        with pytest.raises(AddedStreamsError):
            reader.read_next(9)
