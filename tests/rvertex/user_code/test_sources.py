"""Code that a plan refers to by name: an edit of its file or its imports is detected.

Not covered: values that a module reads from elsewhere during import.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from shutil import make_archive
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from planner.user_code import user_code
from rvertex.user_code.errors import ChangedCodeError
from rvertex.user_code.sources import file_of, is_library, sources_of
from rvertex.user_code.unpickle import UNLOADABLE, load_shipped
from tests.rooms import ROOT
from tests.rvertex.user_code.test_unpickle import body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rvertex.user_code.code import UserCode

    Planned = Callable[[str], UserCode]

STEPS = "from my_tools import limits\n\n\ndef capped(x):\n    return min(x, limits.MOST)\n"
LATE = "def capped(x):\n    from my_tools.limits import MOST\n\n    return min(x, MOST)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``my_tools`` with two modules, of which ``steps`` imports ``limits``."""
    package = tmp_path / "my_tools"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "steps.py").write_text(STEPS)
    (package / "limits.py").write_text("MOST = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("my_tools", "my_tools.steps", "my_tools.limits"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return package


def planned() -> UserCode:
    return user_code(importlib.import_module("my_tools.steps").capped, "apply", None)


@pytest.fixture
def planned_by_value(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planned]:
    """Plans a function of a file that is sent like a query file."""
    made = []

    def plan(text: str) -> UserCode:
        (folder.parent / "my_query.py").write_text(text)
        monkeypatch.delitem(sys.modules, "my_query", raising=False)
        made.append(importlib.import_module("my_query"))
        cloudpickle.register_pickle_by_value(made[-1])
        return user_code(made[-1].capped, "apply", None)

    yield plan
    for module in made:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.parametrize(
    ("file", "text"),
    [("steps.py", STEPS.replace("min", "max")), ("limits.py", "MOST = 6\n")],
    ids=["its own file", "one that it imports"],
)
def test_edited_code_is_not_run(folder: Path, file: str, text: str) -> None:
    data = cloudpickle.dumps([planned()])
    (folder / file).write_text(text)
    with pytest.raises(
        ChangedCodeError, match=rf"capped has changed since the job was planned .*{file}"
    ):
        load_shipped(data, to_run=True)
    (again,) = load_shipped(data, to_run=False)  # inspecting it is harmless
    assert again.name == "capped"
    (how,) = body(data)([0])
    assert how.startswith(f"{UNLOADABLE}capped has changed since")


@pytest.mark.parametrize("text", [STEPS, LATE], ids=["of a value", "when it is called"])
def test_modules_named_in_a_query_file_are_sources(
    folder: Path, planned_by_value: Planned, text: str
) -> None:
    data = cloudpickle.dumps([planned_by_value(text)])
    (folder / "limits.py").write_text("MOST = 6\n")
    with pytest.raises(ChangedCodeError, match=r"since the job was planned .*limits\.py"):
        load_shipped(data, to_run=True)


def test_modules_imported_by_a_function_call_are_sources(folder: Path) -> None:
    (folder / "steps.py").write_text(LATE)
    data = cloudpickle.dumps([planned()])
    assert "my_tools.limits" not in sys.modules  # planning imports nothing
    (folder / "limits.py").write_text("MOST = 6\n")
    with pytest.raises(ChangedCodeError, match=r"since the job was planned .*limits\.py"):
        load_shipped(data, to_run=True)


def test_modules_in_an_archive_are_sources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pack() -> None:
        make_archive(str(folder.parent / "packed"), "zip", folder.parent, folder.name)

    pack()
    monkeypatch.syspath_prepend(folder.parent / "packed.zip")
    data = cloudpickle.dumps([planned()])
    (folder / "steps.py").write_text("# caps\n" + STEPS)
    pack()
    load_shipped(data, to_run=True)
    (folder / "limits.py").write_text("MOST = 6\n")
    pack()
    with pytest.raises(ChangedCodeError, match=r"packed\.zip/my_tools/limits\.py"):
        load_shipped(data, to_run=True)
    (folder.parent / "packed.zip").write_bytes(b"none")
    load_shipped(data, to_run=True)  # the import shows whether it exists


def test_layout_and_comments_do_not_count_as_changes(folder: Path) -> None:
    code = planned()
    (folder / "steps.py").write_text("# caps\n" + STEPS.replace("x, ", "x,\n "))
    (again,) = load_shipped(cloudpickle.dumps([code]), to_run=True)
    assert (again, again.sources) == (code, code.sources)
    (folder / "steps.py").unlink()  # the import shows whether it exists
    assert load_shipped(cloudpickle.dumps([code]), to_run=True) == [code]


def test_only_modules_of_the_user_are_sources(folder: Path) -> None:
    assert [name for name, _ in planned().sources] == [
        "my_tools",
        "my_tools.limits",
        "my_tools.steps",
    ]
    (folder / "steps.py").write_text("from . import limits as l\nfrom .limits import MOST\n")
    assert [name for name, _ in sources_of(["my_tools.steps", "json", "rstream"])] == [
        "my_tools",
        "my_tools.limits",
        "my_tools.steps",
    ]
    (folder / "limits.py").write_text("no Python")
    assert [name for name, _ in sources_of(["my_tools.limits"])] == []


def test_a_deeply_nested_file_is_compared_by_its_bytes(folder: Path) -> None:
    deep = " + ".join(f"'{n}'" for n in range(2_000))
    text = f"MOST = {deep}\n"
    (folder / "limits.py").write_text(text)
    data = cloudpickle.dumps([planned()])
    load_shipped(data, to_run=True)
    (folder / "limits.py").write_text(text.replace("'0'", "'none'"))
    with pytest.raises(ChangedCodeError, match=r"since the job was planned .*limits\.py"):
        load_shipped(data, to_run=True)


def test_packages_of_any_environment_are_not_sources(folder: Path) -> None:
    for name in ("site-packages", "dist-packages"):
        assert is_library(str(folder / "lib" / name / "tool.py"))
    assert not is_library(str(folder / "my-site-packages" / "tool.py"))


def test_spark_in_a_distribution_is_not_a_source(folder: Path) -> None:
    """A Spark distribution outside of any environment is not read as user code."""
    for name in ("pyspark", "py4j"):
        (folder.parent / name).mkdir()
        (folder.parent / name / "__init__.py").write_text("import my_tools.limits\n")
    code = (
        "from rvertex.user_code.sources import sources_of\n"
        "print([name for name, _ in sources_of(['pyspark', 'py4j', 'my_tools.steps'])])"
    )
    paths = os.pathsep.join((str(folder.parent), str(ROOT)))
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert told.stdout.split("\n")[0] == "['my_tools', 'my_tools.limits', 'my_tools.steps']"


def test_modules_below_the_python_prefix_may_belong_to_the_user() -> None:
    for kind in (json, pa, user_code):
        assert is_library(inspect.getfile(kind))
    for prefix in (sys.prefix, sys.base_prefix):
        assert not is_library(f"{prefix}/app/tool.py")


def test_the_file_of_a_namespace_package_module_is_found_before_its_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outer_space" / "inner_space").mkdir(parents=True)
    (tmp_path / "outer_space" / "inner_space" / "part.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = file_of("outer_space.inner_space.part")
    assert found == tmp_path / "outer_space" / "inner_space" / "part.py"
    assert "outer_space" not in sys.modules
