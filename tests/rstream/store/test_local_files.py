"""A local put after a power loss: the whole file if the put returned, otherwise nothing.

See :class:`tests.support.power.Disk`. Contents are small and large, since a small one may still be
in the buffer of an unflushed file.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from rstream import open_store
from rstream.store import local_files
from rstream.store.blobs import copy_blob, unsynced
from tests.support.power import Disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL, LARGE = b"1", bytes(300_000)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Disk:
    return Disk(tmp_path, monkeypatch)


def put(store: Any, data: bytes) -> None:
    store.put("a", data)


def put_over(store: Any, data: bytes) -> None:
    store.put("a", data[1:] + b"2")
    store.put("a", data)


def put_deep(store: Any, data: bytes) -> None:
    store.child("f").child("g").put("h/a", data)


def put_new(store: Any, data: bytes) -> None:
    assert store.put_new("f/a", data)


def put_new_again(store: Any, data: bytes) -> None:
    assert store.put_new("f/a", data)
    assert store.put_new("f/a", data)


def copy(store: Any, data: bytes) -> None:
    store.put("b", data)
    copy_blob(store, "b", "f/a")


PUTS = {put: "a", put_over: "a", put_deep: "f/g/h/a", put_new: "f/a", put_new_again: "f/a"}
PUTS |= {copy: "f/a"}


def refuse_links(*_: object) -> None:
    raise OSError(errno.EPERM, "this file system has no links")


@pytest.mark.parametrize("action", PUTS)
@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("has_links", [True, False])
def test_a_completed_put_survives_a_power_failure(
    action: Callable[[Any, bytes], None],
    data: bytes,
    has_links: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", refuse_links)
    disk = Disk(tmp_path, monkeypatch)
    (tmp_path / "root").mkdir()
    action(open_store(str(tmp_path / "root")), data)
    assert disk.survivors()[str(tmp_path / "root" / PUTS[action])] == data
    assert disk.lost() == set()
    assert disk.named_too_early == []


def test_an_interrupted_overwrite_leaves_the_old_or_the_new_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the power fails before the new name is durable, the old file is there."""
    store = open_store(str(tmp_path))
    disk = Disk(tmp_path, monkeypatch)
    store.put("a", SMALL)
    monkeypatch.setattr(local_files, "sync_folder", lambda _: None)
    store.put("a", LARGE)
    assert disk.survivors()[str(tmp_path / "a")] == SMALL


def test_a_file_whose_writer_died_before_its_name_was_durable_is_synced(
    disk: Disk, tmp_path: Path
) -> None:
    """A writer that puts an equal file reuses it, so that file must be durable."""
    store = open_store(str(tmp_path))
    assert store.put_new("draft", SMALL)
    os.rename(tmp_path / "draft", tmp_path / "a")
    assert f"{tmp_path}/a" in disk.lost()
    assert store.put_new("a", SMALL)
    assert disk.survivors()[f"{tmp_path}/a"] == SMALL


@pytest.mark.parametrize("has_links", [True, False])
def test_a_second_name_of_a_file_survives_a_power_failure(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second name of a file is durable, even if the first writer has not synced the file."""
    (tmp_path / "mine").write_bytes(LARGE)
    if not has_links:
        monkeypatch.setattr(os, "link", refuse_links)
    disk = Disk(tmp_path, monkeypatch)
    for _ in range(2):
        local_files.link_file(str(tmp_path / "mine"), f"{tmp_path}/f/g/a", sync=True)
    assert disk.survivors()[f"{tmp_path}/f/g/a"] == LARGE
    assert disk.named_too_early == []
    assert os.listdir(tmp_path / "f" / "g") == ["a"]


def test_a_folder_just_created_by_another_process_is_synced(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    open_store(str(tmp_path / "f")).put("a", b"1")
    assert disk.survivors() == {f"{tmp_path}/f/a": b"1"}


def test_without_fsync_nothing_is_synced(disk: Disk, tmp_path: Path) -> None:
    open_store(str(tmp_path), fsync=False).put("f/a", b"1")
    unsynced(open_store(str(tmp_path))).put("f/b", b"1")
    unsynced(open_store(f"{tmp_path}/f/part-0-*")).put("_mark", b"1")
    local_files.link_file(f"{tmp_path}/f/a", f"{tmp_path}/g/a", sync=False)
    assert disk.synced == []
    assert sorted(os.listdir(tmp_path / "f")) == ["_part-0-mark", "a", "b"]


def test_concurrent_syncs_of_a_folder_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, may_end = threading.Event(), threading.Event()
    synced: list[int] = []

    def slow(handle: int) -> None:
        synced.append(handle)
        started.set()
        assert may_end.wait(60)

    monkeypatch.setattr(os, "fsync", slow)
    folder = str(tmp_path)
    threads = [
        threading.Thread(target=local_files.sync_folder, args=(folder,), daemon=True)
        for _ in range(6)
    ]
    threads[0].start()
    assert started.wait(60)
    for thread in threads[1:]:
        thread.start()
    ends_s = time.monotonic() + 10
    while local_files._syncs._folders[folder].waiting < 5:
        assert time.monotonic() < ends_s
    may_end.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(synced) == 2
    assert not local_files._syncs._folders


def test_a_failed_sync_is_reported_to_the_threads_that_requested_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = os.fsync, [OSError(errno.EIO, "the disk is broken")]

    def fail_once(handle: int) -> None:
        if failures:
            raise failures.pop()
        real(handle)

    store = open_store(str(tmp_path))
    monkeypatch.setattr(os, "fsync", fail_once)
    store.put("a", b"1")
    assert not failures
    assert store.list() == ["a"]
