"""Only the user can read files in a private folder; elsewhere the umask decides."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rstream import FsspecBlobs, StoreError, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """The modes of a folder and its contents, by name."""
    found = [folder, *folder.rglob("*")]
    return {str(p.relative_to(folder)): stat.S_IMODE(p.stat().st_mode) for p in found}


def private_store(folder: Path) -> FsspecBlobs:
    store = open_store(str(folder))
    assert isinstance(store, FsspecBlobs)
    store.make_private()
    return store


def test_all_files_created_in_a_private_folder_are_private(tmp_path: Path) -> None:
    store = private_store(tmp_path / "above" / "root")
    store.put("a", b"1")
    store.put_new("f/g/b", b"2")
    store.copy("a", "h/c")
    open_store(f"{tmp_path}/above/root/streams/part-0-*").put("_mark", b"3")
    open_store(str(tmp_path / "above" / "beside")).put("d", b"4")
    found = modes(tmp_path / "above")
    assert {name: mode for name, mode in found.items() if not name.startswith("root")} == {
        ".": 0o755,
        "beside": 0o755,
        "beside/d": 0o644,
    }
    inside = {name: mode for name, mode in found.items() if name.startswith("root")}
    assert len(inside) == 10
    for name, mode in inside.items():
        assert mode == (0o700 if (tmp_path / "above" / name).is_dir() else 0o600), name


def test_an_existing_folder_becomes_private(tmp_path: Path) -> None:
    open_store(str(tmp_path / "root")).put("old", b"1")
    private_store(tmp_path / "root").put("new", b"2")
    assert modes(tmp_path / "root") == {".": 0o700, "old": 0o644, "new": 0o600, ".private": 0o600}


def test_a_private_folder_stays_private_when_moved_and_is_shared_without_its_mark(
    tmp_path: Path,
) -> None:
    private_store(tmp_path / "root")
    moved = (tmp_path / "root").rename(tmp_path / "moved")
    open_store(str(moved)).put("a", b"1")
    (moved / ".private").unlink()
    open_store(str(moved)).put("b", b"1")
    assert modes(moved) == {".": 0o700, "a": 0o600, "b": 0o644}


def test_a_private_parent_folder_does_not_count_as_a_mark(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(0o700)
    open_store(str(tmp_path / "home" / "answer")).put("a", b"1")
    assert modes(tmp_path / "home") == {".": 0o700, "answer": 0o755, "answer/a": 0o644}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_gets_an_error_with_a_remedy(tmp_path: Path) -> None:
    """Act as a host that runs as another user than the driver."""
    private_store(tmp_path / "root").put("a", b"1")
    tmp_path.chmod(0o755)
    for above in tmp_path.parents:
        if above != Path("/tmp") and above != Path("/"):
            above.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(StoreError, match=r"--shared-root"):
            open_store(str(tmp_path / "root")).get("a")
        with pytest.raises(StoreError, match=r"--shared-root"):
            open_store(str(tmp_path / "root")).put("b", b"1")
    finally:
        os.seteuid(0)
