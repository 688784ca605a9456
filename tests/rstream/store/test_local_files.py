"""What a local put leaves when the power goes: all of it once it has returned, else nothing.

The system's own calls are recorded, and replayed on a disk that keeps only what was synced: the
content of a file from its last sync, a name of a folder from the last sync of that folder. Cannot
catch: a disk that says it has synced and has not.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rstream import open_store
from rstream.store import local_files
from rstream.store.blobs import unsynced

if TYPE_CHECKING:
    from collections.abc import Callable

Call = tuple[str, ...]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Call]:
    """What the system is asked below ``tmp_path``, in order."""
    made: list[Call] = []
    root = f"{tmp_path}/"

    def record(name: str, told: Callable[..., tuple[str, ...]]) -> None:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            where = told(*args)
            result = real(*args, **options)
            if all(f"{path}/".startswith(root) for path in where):
                made.append((name, *where))
            return result

        monkeypatch.setattr(os, name, call)

    record("fsync", lambda handle: (str(Path(f"/proc/self/fd/{handle}").readlink()),))
    record("replace", lambda old, new: (old, new))
    record("link", lambda old, new: (old, new))
    record("mkdir", lambda path, *_: (str(path),))
    return made


def surviving(calls: list[Call], root: Path) -> set[str]:
    """The files that are whole after the power went, of those that have got a name."""
    synced: set[str] = set()
    names: dict[str, str] = {}
    durable: dict[str, str] = {str(root): ""}
    for call in calls:
        match call:
            case ("mkdir", path):
                names[path] = ""
            case ("replace" | "link", old, new):
                names[new] = old
            case ("fsync", path):
                synced.add(path)
                parts = {n: v for n, v in names.items() if n.rpartition("/")[0] == path}
                durable.update(parts)
    whole = {name for name, content in durable.items() if content in synced}

    def is_reachable(name: str) -> bool:
        return name == str(root) or (name in durable and is_reachable(name.rpartition("/")[0]))

    return {name for name in whole if is_reachable(name)}


def put(store: Any) -> None:
    store.put("a", b"1")


def put_over(store: Any) -> None:
    store.put("a", b"1")
    store.put("a", b"2")


def put_deep(store: Any) -> None:
    store.child("f").child("g").put("h/a", b"1")


def put_new(store: Any) -> None:
    assert store.put_new("f/a", b"1")


def put_new_again(store: Any) -> None:
    assert store.put_new("f/a", b"1")
    assert store.put_new("f/a", b"1")


PUTS = {put: "a", put_over: "a", put_deep: "f/g/h/a", put_new: "f/a", put_new_again: "f/a"}


@pytest.mark.parametrize("action", PUTS)
@pytest.mark.parametrize("has_links", [True, False])
def test_a_put_that_returned_survives(
    action: Callable[[Any], None],
    has_links: bool,
    calls: list[Call],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "this file system has no links")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "root").mkdir()
    action(open_store(str(tmp_path / "root")))
    assert str(tmp_path / "root" / PUTS[action]) in surviving(calls, tmp_path)
    for at, (name, *paths) in enumerate(calls):
        if name in ("replace", "link"):
            assert ("fsync", paths[0]) in calls[:at], "named before its content was on the disk"


def test_a_folder_that_another_process_has_just_made_is_synced(
    calls: list[Call], tmp_path: Path
) -> None:
    (tmp_path / "f").mkdir()
    open_store(str(tmp_path / "f")).put("a", b"1")
    assert str(tmp_path / "f" / "a") in surviving(calls, tmp_path)


def test_without_fsync_nothing_is_synced(calls: list[Call], tmp_path: Path) -> None:
    open_store(str(tmp_path), fsync=False).put("f/a", b"1")
    unsynced(open_store(str(tmp_path))).put("f/b", b"1")
    unsynced(open_store(f"{tmp_path}/f/part-0-*")).put("_mark", b"1")
    assert not [call for call in calls if call[0] == "fsync"]
    assert sorted(os.listdir(tmp_path / "f")) == ["_part-0-mark", "a", "b"]


def test_of_many_that_sync_a_folder_at_once_one_does_it_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, may_end = threading.Event(), threading.Event()
    synced: list[int] = []

    def slow(handle: int) -> None:
        synced.append(handle)
        started.set()
        assert may_end.wait(10)

    monkeypatch.setattr(os, "fsync", slow)
    folder = str(tmp_path)
    threads = [
        threading.Thread(target=local_files.sync_folder, args=(folder,), daemon=True)
        for _ in range(6)
    ]
    threads[0].start()
    assert started.wait(10)
    for thread in threads[1:]:
        thread.start()
    ends_s = time.monotonic() + 10
    while local_files._syncs._folders[folder].waiting < 5:
        assert time.monotonic() < ends_s
    may_end.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert len(synced) == 2
    assert not local_files._syncs._folders


def test_a_sync_that_fails_is_the_failure_of_one_who_asked(
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
