"""Every store keeps the same contract; S3 is moto's real HTTP server.

Not covered: an object store that is not atomic, a disk that ignores fsync.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

import rstream.store.blobs
from rstream import FsspecBlobs, MemoryBlobs, StoreError, open_store
from rstream.store.blobs import ATTEMPTS_MAX, is_near, remove_temporaries
from rstream.store.part_files import PartFiles
from rstream.store.requests import KINDS, requests_sent

if TYPE_CHECKING:
    from pathlib import Path

    from rstream import BlobStore


@pytest.fixture(
    params=["blobs", "file", "path", "memory", pytest.param("s3", marks=pytest.mark.slow)]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    match request.param:
        case "blobs":
            return MemoryBlobs()
        case "file":
            return open_store(f"file://{tmp_path}/root", fsync=True)
        case "path":
            return open_store(str(tmp_path / "root"))
        case "memory":
            return open_store(f"memory://{tmp_path}")
        case _:
            return open_store(f"{request.getfixturevalue('s3_bucket')}/root")


def test_blob_store_contract(store: BlobStore) -> None:
    assert store.list() == []
    assert store.list("nothing") == []
    assert not store.exists("a")
    store.put("a", b"one")
    store.put("b/c", b"two")
    store.put("b/d/e", b"")
    store.put("a", b"three")
    assert store.list() == ["a", "b/c", "b/d/e"]
    assert store.list("b") == ["b/c", "b/d/e"]
    assert store.get("a") == b"three"
    assert (store.size("a"), store.size("b/d/e")) == (5, 0)
    with store.open("a") as file:
        file.seek(2)
        assert file.read() == b"ree"
    child = store.child("b")
    assert child.list() == ["c", "d/e"]
    assert child.get("c") == b"two"
    store.delete("a")
    store.delete("a")
    assert not store.exists("a")
    for read in (store.get, store.size, store.open):
        with pytest.raises(FileNotFoundError):
            read("a")


def test_a_new_blob_is_put_once(store: BlobStore) -> None:
    assert store.put_new("locks/a", b"mine")
    assert not store.put_new("locks/a", b"theirs")
    assert store.get("locks/a") == b"mine"
    assert store.put_new("locks/a", b"mine"), "as a retry finds its own first attempt"
    assert store.list("locks") == ["locks/a"]
    assert getattr(store, "is_exclusive", True)


def test_one_of_many_writers_of_a_new_blob_wins(store: BlobStore) -> None:
    for name in ("a", "b", "c"):
        ready = threading.Barrier(4)

        def put(i: int, name: str = name, ready: threading.Barrier = ready) -> bool:
            ready.wait()
            return store.put_new(name, b"%d" % i)

        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(put, range(4)))
        assert sum(won) == 1
        assert store.get(name) == b"%d" % won.index(True)


def test_a_blob_deleted_during_the_comparison_belongs_to_another_writer(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a new blob vanishes while it is compared, another writer had created it."""
    assert store.put_new("a", b"theirs")
    read = store.get

    def gone(path: str) -> bytes:
        store.delete(path)
        return read(path)

    monkeypatch.setattr(store, "get", gone)
    assert not store.put_new("a", b"mine")


def test_a_new_blob_on_a_file_system_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "this file system has no links")

    monkeypatch.setattr(os, "link", refuse)
    store = open_store(str(tmp_path))
    assert store.put_new("a", b"1")
    assert not store.put_new("a", b"2")
    assert (store.get("a"), os.listdir(tmp_path)) == (b"1", ["a"])


def test_many_blobs_are_read_concurrently(store: BlobStore) -> None:
    for i in range(20):
        store.put(f"f/{i}", b"%d" % i)
    wanted = [f"f/{i}" for i in (3, 19, 0, 77, 5)]
    assert list(store.get_many(wanted)) == [b"3", b"19", b"0", None, b"5"]
    assert list(store.get_many([])) == []


def test_a_uri_opens_the_same_store(tmp_path: Path) -> None:
    for uri in (str(tmp_path), f"memory://{tmp_path}/x"):
        open_store(uri).put("f/a", b"x")
        assert open_store(open_store(uri).child("f").uri).get("a") == b"x"


def test_stores_on_a_disk_or_in_memory_are_near(tmp_path: Path) -> None:
    near = (MemoryBlobs(), *map(open_store, (str(tmp_path), f"{tmp_path}/part-0-*", "memory://x")))
    assert all(map(is_near, near))
    assert not any(map(is_near, map(open_store, ("s3://bucket/x", "s3://bucket/part-0-*"))))


def test_temporaries_are_invisible_and_removable(tmp_path: Path) -> None:
    (tmp_path / "a.parquet.1.2.tmp").write_bytes(b"half")
    (tmp_path / "b.parquet").write_bytes(b"whole")
    store = open_store(str(tmp_path))
    assert store.list() == ["b.parquet"]
    assert remove_temporaries(store) == 1
    assert os.listdir(tmp_path) == ["b.parquet"]


def test_temporaries_of_another_stream_in_the_folder_are_kept() -> None:
    """Temporary files of another active stream in the folder are not deleted."""
    store = MemoryBlobs()
    names = [f".part-{k}-{0:020d}-{9:020d}.parquet.1.2.tmp" for k in (1, 10)]
    for name in names:
        store.put(name, b"half")
    assert remove_temporaries(PartFiles(store, "part-1")) == 1
    assert store.temporaries() == names[1:]


def test_a_folder_deleted_in_between_is_created_again(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.put("f/a", b"1")
    (tmp_path / "f" / "a").unlink()
    (tmp_path / "f").rmdir()
    store.put("f/b", b"2")
    assert store.list() == ["f/b"]


class Flaky:
    """A file system whose operations fail a given number of times."""

    def __init__(self, failures: int) -> None:
        self._fs: Any = fsspec.filesystem("memory")
        self.failures = failures
        self.protocol = "memory"

    def __getattr__(self, name: str) -> Any:
        if name in ("pipe_file", "cat_file") and self.failures:
            self.failures -= 1
            raise ConnectionError("no route")
        return getattr(self._fs, name)


def test_failed_operations_are_retried_and_then_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rstream.store.blobs, "RETRY_DELAY_S", 0.0)
    fs = Flaky(ATTEMPTS_MAX - 1)
    store = FsspecBlobs(fs, "/flaky")
    store.put("a", b"x")
    assert fs.failures == 0
    fs.failures = ATTEMPTS_MAX
    with pytest.raises(StoreError, match="ConnectionError: no route"):
        store.get("a")


def test_an_unreadable_folder_does_not_look_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path))
    assert isinstance(store, FsspecBlobs)
    store.put("f/a", b"1")

    def refuse(*_: object) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(rstream.store.blobs, "RETRY_DELAY_S", 0.0)
    with monkeypatch.context() as refusing:
        refusing.setattr(os, "scandir", refuse)
        for look in (store.list, store.infos, store.temporaries):
            with pytest.raises(StoreError, match="Too many open files"):
                look()
    assert list(store.list("f")) == ["f/a"] == list(store.infos())
    assert not store.list("f/a")
    assert not store.list("g")


def test_a_file_deleted_during_a_listing(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    assert isinstance(store, FsspecBlobs)
    store.put("a", b"1")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert list(store.infos()) == ["a"]


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(StoreError, match="nonsense"):
        open_store("nonsense://x")


@pytest.mark.slow
def test_an_unreachable_endpoint_is_named_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setattr(rstream.store.blobs, "RETRY_DELAY_S", 0.01)
    started_s = time.monotonic()
    store = open_store("s3://bucket/x", endpoint_url="http://127.0.0.1:1")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:1"):
        store.list()
    assert time.monotonic() - started_s < 30


def test_a_full_disk_leaves_no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rstream.store.blobs, "RETRY_DELAY_S", 0.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = open_store(str(tmp_path))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        with pytest.raises(StoreError, match="File too large"):
            store.put("a", bytes(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["", "/proc/nothing/here"])
def test_an_unwritable_path_is_a_store_error(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rstream.store.blobs, "RETRY_DELAY_S", 0.0)
    with pytest.raises(StoreError):
        open_store(path).put("a", b"x")


def test_a_path_of_the_wrong_kind_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link", "link/below"):
        with pytest.raises(
            StoreError, match=r"it is a file or a broken link and must be a folder: move it"
        ):
            open_store(str(tmp_path / name)).put("a", b"x")
    with pytest.raises(StoreError, match="it is a folder and must be a file: move it away"):
        open_store(str(tmp_path.parent)).get(tmp_path.name)


@pytest.mark.parametrize("path", ["a\udcff", "a\0b"])
def test_a_path_that_is_not_text_is_rejected_at_once(path: str) -> None:
    """A path that is not text is an error at once; it used to be retried for five minutes."""
    with pytest.raises(StoreError, match=r"'a.*': a path is UTF-8 text without NUL"):
        open_store(path)


def test_a_uri_has_one_protocol() -> None:
    for uri in ("http://host/x", "https://host/x", "memory://x", "file:///x"):
        assert open_store(uri).uri == uri


def test_requests_are_counted_by_kind() -> None:
    store = open_store("memory://counted")
    before = requests_sent()
    store.put("a", b"1")
    store.get("a")
    with pytest.raises(FileNotFoundError):
        store.get("b")
    store.list()
    store.delete("a")
    counts = [now - then for now, then in zip(requests_sent(), before, strict=True)]
    assert dict(zip(KINDS, counts, strict=True)) == {"read": 2, "write": 1, "list": 1, "delete": 1}
