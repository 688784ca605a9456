"""Modules of a query: which are allowed, where they are found, and what is sent."""

from __future__ import annotations

import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from rstream.errors import UsageError
from rvertex.user_code.modules import checked_modules, put_on_path, shipped_modules

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A module, a package, and a folder with both."""
    for name in ("one.py", "package/__init__.py", "package/inner/two.py", "folder/three.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"name = {name!r}\n")
    (tmp_path / "folder" / "__pycache__").mkdir()
    (tmp_path / "folder" / "__pycache__" / "three.pyc").touch()
    return tmp_path


def test_one_text_may_name_several_modules(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(code)
    wanted = [str(code / name) for name in ("one.py", "package", "folder")]
    assert checked_modules(["one.py,package", "folder"]) == wanted


@pytest.mark.parametrize(
    ("name", "reason"),
    [("no.py", "does not exist"), ("text.txt", "is not a folder or a .py, .zip or .egg file")],
)
def test_invalid_py_files_are_rejected(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").touch()
    with pytest.raises(UsageError, match=reason):
        checked_modules([str(tmp_path / name)])


def test_this_process_can_import_them(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["before"])
    modules = [str(code / "one.py"), str(code / "package"), str(code / "folder")]
    for _ in range(2):
        put_on_path(modules, [str(code / "package" / "inner"), str(code / "gone")])
    assert sys.path == [str(code / "folder"), str(code), str(code / "package/inner"), "before"]


def test_one_archive_is_sent_for_each_content(code: Path) -> None:
    modules = [str(code / "one.py"), str(code / "package"), str(code / "folder")]
    (archive,) = shipped_modules(modules)
    with zipfile.ZipFile(archive) as found:
        names = sorted(found.namelist())
    assert names == ["one.py", "package/__init__.py", "package/inner/two.py", "three.py"]
    assert shipped_modules(modules) == [archive]
    (code / "one.py").write_text("name = 'other'\n")
    (other,) = shipped_modules(modules)
    assert other != archive
    assert shipped_modules([archive, str(code / "one.py")])[0].endswith(".zip")
    assert len(shipped_modules([archive, str(code / "one.py")])) == 2
    assert shipped_modules([]) == []
