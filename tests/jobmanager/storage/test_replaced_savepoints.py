"""A savepoint replaces one of the same name as a whole, wherever its process dies.

Not covered: a store without atomic puts.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pytest

from jobmanager.driver.running.changes.drafting import save
from jobmanager.storage import savepoints
from jobmanager.storage.root import JOB, PLAN, QUERY, JobRoot
from jobmanager.storage.savepoints import (
    STOP,
    BrokenSavepointError,
    NoSavepointError,
    Savepoint,
    expire,
    incomplete,
    list_savepoints,
    read_savepoint,
)
from rstream import open_store
from rstream.errors import StoreError
from rstream.store.memory_blobs import MemoryBlobs
from tests.support.changed_jobs import COUNTS, ChangedJob
from tests.support.crashing_store import CrashingBlobs, DiedError, Life

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rstream.store.protocol import BlobStore


def attempt(store: BlobStore, life: Life, work: Callable[[JobRoot], object]) -> bool:
    """Do work in a process that may die. Return whether it lives."""
    try:
        root = JobRoot(CrashingBlobs(store, life))
        root.claim(0)
        work(root)
    except DiedError:
        return False
    return True


def contents(store: BlobStore, savepoint: Savepoint) -> dict[str, bytes]:
    """Return the files of a savepoint without its manifest, by their paths in its folder."""
    paths = [path for path in store.list(savepoint.folder) if path != savepoint.manifest]
    return {path.removeprefix(savepoint.folder): store.get(path) for path in paths}


def test_after_a_crash_either_the_old_or_the_new_savepoint_exists(tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.run_and_stop(2, "counts", COUNTS)
    changed.close()
    store = open_store(changed.root)
    first = read_savepoint(store, STOP)
    whole = contents(store, first)
    assert {f"/{name}" for name in (PLAN, QUERY, JOB)} <= set(whole)
    now_us, is_replaced = 0, set()
    for at in count():  # ends: a life has few calls
        former, now_us = read_savepoint(store, STOP), now_us + 1
        lives = attempt(store, Life(at, "torn"), partial(save, name=STOP, now_us=now_us))
        (found,) = list_savepoints(store)
        assert found == former or found.created_us == now_us
        is_replaced.add(found.created_us == now_us)
        assert found.files == first.files
        assert contents(store, found) == whole, at
        if lives:
            break
    assert is_replaced == {False, True}
    assert at > 10
    assert all(f"/{found.version}/" in path for path in store.list(savepoints.folder_of(STOP)))
    assert not incomplete(store)


def taken(store: BlobStore, epoch: int, created_us: int) -> Savepoint:
    """Return a savepoint whose manifest is not written yet."""
    version = savepoints.new_version(store, "now", epoch)
    savepoint = Savepoint("now", created_us, 0, "", 1, 1, 0, (), version=version)
    store.put(f"{savepoint.folder}/{JOB}", b"{}")
    return savepoint


def test_a_suspended_owner_does_not_replace_a_later_savepoint() -> None:
    store = MemoryBlobs({})
    suspended, second, third = taken(store, 1, 1), taken(store, 2, 2), taken(store, 2, 3)
    assert len({one.version for one in (suspended, second, third)}) == 3
    savepoints.complete(store, third)
    savepoints.complete(store, suspended)
    savepoints.delete_replaced(store, suspended)
    assert list_savepoints(store) == [third]
    assert store.exists(f"{third.folder}/{JOB}")
    left = {path.rpartition("/")[0] for path in incomplete(store)}
    assert left == {second.folder, suspended.folder}


def test_after_a_savepoint_expires_the_one_it_replaced_stays_hidden() -> None:
    for at in count():  # ends: a life has few calls
        store = MemoryBlobs({})
        old, new = taken(store, 1, 1), taken(store, 2, 2)
        savepoints.complete(store, old)
        savepoints.complete(store, new)
        draft = taken(store, 2, 3)
        lives = attempt(store, Life(at, "after"), lambda root: expire(root.store, "now"))
        assert list_savepoints(store) in ([new], [])
        assert store.exists(f"{draft.folder}/{JOB}")
        if lives:
            break
    with pytest.raises(NoSavepointError, match="has no savepoint 'now'; it has: none"):
        read_savepoint(store, "now")


class ReplacedBlobs(MemoryBlobs):
    """Another process acts whenever a manifest is about to be read."""

    def __init__(self, files: dict[str, bytes], act: Callable[[BlobStore], object]) -> None:
        super().__init__(files)
        self._other, self._act = MemoryBlobs(files), act

    def get(self, name: str) -> bytes:
        self._act(self._other)
        return super().get(name)


def test_a_savepoint_that_expires_during_a_listing_is_left_out() -> None:
    """It was an error, which ended the running job."""
    files: dict[str, bytes] = {}
    store = MemoryBlobs(files)
    savepoints.complete(store, taken(store, 1, 1))
    assert not list_savepoints(ReplacedBlobs(files, lambda other: expire(other, "now")))


def test_a_savepoint_that_is_replaced_repeatedly_does_not_look_missing() -> None:
    files: dict[str, bytes] = {}
    store = MemoryBlobs(files)
    savepoints.complete(store, taken(store, 1, 1))

    def replace(other: BlobStore) -> None:
        made = taken(other, 1, 2)
        savepoints.complete(other, made)
        savepoints.delete_replaced(other, made)

    with pytest.raises(StoreError, match="the savepoint was replaced during 3 reads"):
        savepoints.named_files(ReplacedBlobs(files, replace))


def test_a_savepoint_of_a_root_without_versions_is_read_and_replaced() -> None:
    store = MemoryBlobs({})
    former = Savepoint("now", 1, 0, "", 1, 1, 0, ())
    for name in (JOB, "s01-0.s02-0/0-9.parquet"):
        store.put(f"{former.folder}/{name}", b"")
    savepoints.complete(store, former)
    assert read_savepoint(store, "now") == former
    later = taken(store, 1, 2)
    savepoints.complete(store, later)
    assert read_savepoint(store, "now") == later
    savepoints.delete_replaced(store, later)
    assert store.list(savepoints.FOLDER) == [f"{later.folder}/{JOB}", later.manifest]


@pytest.mark.parametrize("has_versions", [True, False])
def test_a_broken_savepoint_can_be_expired(has_versions: bool) -> None:
    store = MemoryBlobs({})
    broken = taken(store, 1, 1) if has_versions else Savepoint("now", 1, 0, "", 1, 1, 0, ())
    savepoints.complete(store, broken)
    kept = Savepoint("other", 1, 0, "", 1, 1, 0, (), version="0000000001.000001")
    savepoints.complete(store, kept)
    assert expire(MemoryBlobs(dict(store.blobs)), "now") == ""
    store.put(broken.manifest, store.get(broken.manifest)[:-9])
    with pytest.raises(BrokenSavepointError, match=r"now.* --expire now"):
        list_savepoints(store)
    assert expire(store, "now") == "its checksum does not match"
    assert list_savepoints(store) == [kept]
    assert store.list(savepoints.FOLDER) == [kept.manifest]
