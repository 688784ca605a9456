"""A result replaces a folder in an object store once, wherever its process dies.

Not covered: readers during the copy, which see a part of the rows.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager.delivery.publishing_stores import MARK, publish_to_store
from jobmanager.errors import CannotPublishError
from rstream import open_store
from rstream.store.blobs import copy_blob
from rstream.store.memory_blobs import MemoryBlobs
from tests.jobmanager.delivery.test_publishing import ROWS, rows_of, run
from tests.rooms import ROOT
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from rstream import BlobStore

ID = "0123456789abcdef"


def shown(store: BlobStore) -> dict[str, list[int]]:
    """Return the values per file, as a reader of tables gets them."""
    found = {}
    for name in store.list():
        if name.endswith(".parquet") and not name.startswith("_"):
            found[name] = pq.read_table(pa.BufferReader(store.get(name)))["x"].to_pylist()
    return found


def values(uri: str) -> list[int]:
    return sorted(x for xs in shown(open_store(uri)).values() for x in xs)


def put(store: BlobStore, name: str, xs: list[int]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": xs}), sink)
    store.put(name, sink.getvalue())


def test_after_a_crash_at_any_call_all_rows_exist_once(tmp_path: Path) -> None:
    for name, xs in {"day=a/part-0": [1, 2], "day=b/part-0": [3]}.items():
        (tmp_path / name).parent.mkdir()
        pq.write_table(pa.table({"x": xs}), tmp_path / f"{name}.parquet")

    def lived(life: Life, blobs: dict[str, bytes]) -> None:
        publish_to_store(CrashingBlobs(MemoryBlobs(blobs), life), ID, lambda: str(tmp_path))

    def before() -> dict[str, bytes]:
        store = MemoryBlobs()
        put(store, "old.parquet", [9])
        put(store, "day=a/part-0.parquet", [8])
        return store.blobs

    whole = Life()
    expected = before()
    lived(whole, expected)
    wanted = {"day=a/part-0-0123456789ab.parquet": [1, 2], "day=b/part-0-0123456789ab.parquet": [3]}
    assert shown(MemoryBlobs(expected)) == wanted
    assert sorted(expected) == sorted([*wanted, MARK]), "nothing else is left"
    for at, how in deaths(whole.calls, is_atomic=True):
        blobs = before()
        with pytest.raises(DiedError):
            lived(Life(at, how), blobs)
        if not any(name.startswith(("_PUBLISHING", MARK)) for name in blobs):
            assert shown(MemoryBlobs(blobs)) == shown(MemoryBlobs(before())), (at, how)
        lived(Life(), blobs)
        left = {name for name in blobs if not name.endswith(".tmp")}
        assert {name: blobs[name] for name in left} == expected, (at, how)


def test_concurrent_jobs_do_not_mix_their_answers(tmp_path: Path) -> None:
    """The second job starts at each step of the first, even if the first continues only later."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder, xs in ((mine, [1, 2]), (theirs, [3, 4, 5])):
        folder.mkdir()
        pq.write_table(pa.table({"x": xs}), folder / "part-0.parquet")
    whole = Life()
    publish_to_store(CrashingBlobs(MemoryBlobs(), whole), ID, lambda: str(mine))
    for at, how in deaths(whole.calls, is_atomic=True):
        store = MemoryBlobs()
        put(store, "old.parquet", [9])
        with pytest.raises(DiedError):
            publish_to_store(CrashingBlobs(store, Life(at, how)), ID, lambda: str(mine))
        is_free = not store.exists(f"_PUBLISHING-{ID}")
        other = f"job {ID} is replacing this folder, or died meanwhile"
        with (
            contextlib.nullcontext() if is_free else pytest.raises(CannotPublishError, match=other)
        ):
            publish_to_store(store, ID[::-1], lambda: str(theirs))
        publish_to_store(store, ID, lambda: str(mine))
        found = sorted(x for xs in shown(store).values() for x in xs)
        assert found in ([1, 2], [3, 4, 5]), (at, how)
        if not is_free:
            assert found == [1, 2]
            publish_to_store(store, ID[::-1], lambda: str(theirs))
            assert shown(store) == {f"part-0-{ID[::-1][:12]}.parquet": [3, 4, 5]}
        left = [n for n in store.list() if n.startswith(("_draft", "_PUBLISHING"))]
        assert not left, (at, how)


def test_a_job_that_yields_to_another_publishes_later(tmp_path: Path) -> None:
    """A job that found another one deletes its drafts; later it writes and publishes them again."""
    mine = tmp_path / "mine"
    mine.mkdir()
    for k, xs in enumerate(([1, 2], [3])):
        pq.write_table(pa.table({"x": xs}), mine / f"part-{k}.parquet")

    def lived(life: Life, store: BlobStore) -> None:
        publish_to_store(CrashingBlobs(store, life), ID, lambda: str(mine))

    def taken() -> BlobStore:
        store = MemoryBlobs()
        put(store, "old.parquet", [9])
        store.put("_PUBLISHING-other", b"{}")
        return store

    whole = Life()
    with pytest.raises(CannotPublishError, match="job other is replacing this folder"):
        lived(whole, taken())
    for at, how in deaths(whole.calls, is_atomic=True):
        store = taken()
        with pytest.raises(DiedError):
            lived(Life(at, how), store)
        store.delete("_PUBLISHING-other")
        lived(Life(), store)
        assert sorted(x for xs in shown(store).values() for x in xs) == [1, 2, 3], (at, how)
        assert not [n for n in store.list() if n.startswith(("_draft", "_PUBLISHING"))], (at, how)


def test_an_answer_in_a_store_is_replaced_and_split(tmp_path: Path) -> None:
    uri = f"memory://{tmp_path}/table"
    run(rows_of(0).to_parquet(uri, partition_by="day"), tmp_path / "one")
    names = open_store(uri).list()
    assert {name.split("/")[0] for name in names} == {"day=d0", "day=d1", "day=d2", MARK}
    assert values(uri) == list(range(ROWS))
    with pytest.raises(CannotPublishError, match='mode="overwrite" replaces it'):
        run(rows_of(0).to_parquet(uri, partition_by="day"), tmp_path / "two")
    run(rows_of(500).to_parquet(uri, mode="overwrite"), tmp_path / "three")
    assert values(uri) == list(range(500, 500 + ROWS))
    jobmanager.resume(str(tmp_path / "three")).wait(WAIT_S)
    assert values(uri) == list(range(500, 500 + ROWS))
    open_store(uri).put("notes.txt", b"dear")
    with pytest.raises(CannotPublishError, match=r"notes\.txt, which is not a Parquet file"):
        run(rows_of(0).to_parquet(uri, mode="overwrite"), tmp_path / "four")
    assert not (tmp_path / "four").exists(), "it is said before anything runs"


def test_the_output_of_a_job_in_a_store_is_not_replaced(tmp_path: Path) -> None:
    other = run(rows_of(0).to_parquet(f"memory://{tmp_path}/output"), tmp_path / "owner")
    with pytest.raises(CannotPublishError, match="it is the output of a job"):
        run(rows_of(0).to_parquet(other.output, mode="overwrite"), tmp_path / "job")
    assert other.to_arrow().num_rows == ROWS


@pytest.mark.slow
def test_s3_has_each_row_once_after_a_process_is_killed(s3_bucket: str, tmp_path: Path) -> None:
    uri, root = f"{s3_bucket}/table", tmp_path / "job"
    for k, name in enumerate(("one", "two")):
        run(rows_of(k * ROWS).to_parquet(uri, mode="append"), tmp_path / name)
    assert values(uri) == list(range(2 * ROWS))
    code = (
        "import os, signal, jobmanager.delivery.publishing_stores as p\n"
        "from pathlib import Path\nimport tests.jobmanager.delivery.test_publishing as t\n"
        "copy, done = p.copy_blob, []\n"
        "def copied(*given):\n"
        "    if done:\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    done.append(copy(*given))\n"
        "p.copy_blob = copied\n"
        f"table = t.rows_of(500).to_parquet({uri!r}, mode='overwrite', partition_by='day')\n"
        f"t.run(table, Path({str(root)!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=WAIT_S)
    assert done.returncode == -9
    assert len(values(uri)) < ROWS, "it died in the middle of it"
    jobmanager.resume(str(root)).wait(WAIT_S)
    assert values(uri) == list(range(500, 500 + ROWS))
    run(rows_of(0).to_parquet(uri, mode="append"), tmp_path / "three")
    assert values(uri) == sorted([*range(500, 500 + ROWS), *range(ROWS)])


def test_copies_of_blobs(shared_store: BlobStore) -> None:
    shared_store.put("a/x", b"1")
    shared_store.put("b/y", b"2")
    copy_blob(shared_store, "a/x", "b/y")
    copy_blob(shared_store, "a/x", "c/z")
    assert [shared_store.get(name) for name in shared_store.list()] == [b"1"] * 3
    with pytest.raises(FileNotFoundError):
        copy_blob(shared_store, "none", "d")
