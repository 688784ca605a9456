"""Files that are synced together: each file, and each folder with a new name.

Not covered: a disk that reports a sync that it has not done.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from rstream import open_store
from rstream.errors import StoreError
from rstream.store import local_files, sync_later
from rstream.store.blobs import unsynced
from rstream.store.memory_blobs import MemoryBlobs
from rstream.store.sync_later import SyncLater, side_by_side
from tests.support.crashing_store import CrashingBlobs, Life

if TYPE_CHECKING:
    from pathlib import Path


def test_all_files_and_folders_are_synced_once_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[str] = []
    folders: list[str] = []
    monkeypatch.setattr(sync_later, "sync_file", files.append)
    for module in (local_files, sync_later):
        monkeypatch.setattr(module, "sync_folder", folders.append)
    later, place = SyncLater(), str(tmp_path)
    store = later.store_like(open_store(f"{place}/new"))
    part = later.store_like(open_store(f"{place}/new/out/part-0-*"))
    store.put("a", b"1")
    store.put("a", b"2")
    store.child("below").put("b", b"3")
    part.put("_fence", b"")
    assert (files, store.get("a"), part.list()) == ([], b"2", ["_fence"])
    folders.clear()
    later.sync()
    below = {f"{place}/new", f"{place}/new/below", f"{place}/new/out"}
    assert sorted(files) == sorted(
        f"{place}/new/{name}" for name in ("a", "below/b", "out/_part-0-fence")
    )
    assert {place, *below} <= set(folders)
    files.clear()
    later.sync()
    assert files == []


def test_a_store_that_does_not_sync_stays_so_and_a_failure_is_an_error(tmp_path: Path) -> None:
    later = SyncLater()
    store = unsynced(open_store(str(tmp_path)))
    assert later.store_like(store) is store
    synced = later.store_like(open_store(str(tmp_path)))
    synced.put("a", b"1")
    synced.delete("a")
    with pytest.raises(StoreError):
        later.sync()


BLOBS = {"a": b"1", "b": b"2"}


def test_blobs_put_side_by_side_are_each_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[str] = []
    monkeypatch.setattr(local_files, "sync_folder", folders.append)
    stores = [open_store(str(tmp_path)), CrashingBlobs(MemoryBlobs(), Life())]
    for store in stores:
        store.put("a", b"in use")
        side_by_side(store, [partial(store.put, path, data) for path, data in BLOBS.items()])
        assert {path: store.get(path) for path in BLOBS} == BLOBS
    assert folders.count(str(tmp_path)) == 3
