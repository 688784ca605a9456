"""The public names in docs and scripts exist, and a foreign package is reported.

Not covered: a name that exists and does something else.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import jobmanager
import planner
import streamscope

ROOT = Path(__file__).parent.parent
PLANNER = (
    *("Stream", "Query", "col", "lit", "when", "agg", "event", "cti", "hopping", "tumbling"),
    *("snapshot", "session", "sql"),
)
PUBLIC = {
    "streamscope": (
        *PLANNER,
        *("coalesce", "vs", "ve", "count_window", "udf", "KeyedProcess", "explain"),
        *("run", "resume", "collect", "collect_batch", "JobConfig", "Job"),
        *("read_late", "read_dead_letters", "read_events", "read_table"),
        *("RStream", "StreamReader", "RVertex", "Snapshot", "merge", "__version__"),
        *("Appender", "Ack", "open_log"),
    ),
    "planner": PLANNER,
    "jobmanager": ("run", "collect", "collect_batch", "resume", "Job", "JobConfig"),
    "rstream": ("RStream", "StreamReader", "Appender", "open_log"),
    "rvertex": ("RVertex", "Snapshot", "merge"),
    "streamscope.testing": (
        *("Input", "NotDeterministicError", "TestStream", "assert_deterministic"),
        *("assert_golden", "rows"),
    ),
}
STREAM = (
    *("from_parquet", "from_csv", "from_json", "from_items", "filter", "select", "with_columns"),
    *("union", "apply", "join", "shift", "set_duration", "extend", "clip", "point_at_end"),
    *("chop", "stitch", "group_by", "to_parquet", "to_rstream"),
)
OURS = {"rstream", "rvertex", "planner", "jobmanager"}
#: A distribution's record of what it installed, as pip writes it.
METADATA = "Metadata-Version: 2.1\nName: day-planner\nVersion: 3.1\n"


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in PUBLIC.items() for name in names]
)
def test_a_promised_name_is_public(module: str, name: str) -> None:
    found = importlib.import_module(module)
    assert hasattr(found, name)
    assert name in found.__all__


def test_steps_have_their_promised_names() -> None:
    assert [name for name in STREAM if not hasattr(planner.Stream, name)] == []
    assert {"window", "process"} <= set(dir(planner.GroupedStream))
    assert hasattr(planner.WindowedStream, "agg")
    assert [n for n in ("wait", "status", "cancel") if not hasattr(jobmanager.Job, n)] == []


def test_one_module_exports_all_names_for_queries_and_jobs() -> None:
    assert {*dir(planner), *dir(jobmanager)} <= set(streamscope.__all__)
    assert all(getattr(streamscope, name) is not None for name in streamscope.__all__)
    for package in (planner, jobmanager):
        for name in dir(package):
            assert getattr(streamscope, name) is getattr(package, name)


def imported(
    *ahead: Path, folder: Path, use: str = "__version__"
) -> subprocess.CompletedProcess[str]:
    """The output of an import and the ``use`` of a name, with ``ahead`` first on the path."""
    path = os.pathsep.join(str(entry) for entry in (*ahead, ROOT))
    return subprocess.run(
        [sys.executable, "-c", f"import streamscope; print(streamscope.{use})"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def foreign(folder: Path, name: str = "planner") -> Path:
    """A folder with a foreign package that has one of our names, and would do harm."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('print("foreign code ran")\n')
    return folder


def test_the_import_works_without_other_imports(tmp_path: Path) -> None:
    done = imported(folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == streamscope.__version__


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_shadowing_package_is_named_and_not_run(name: str, tmp_path: Path) -> None:
    done = imported(foreign(tmp_path / "site", name), folder=tmp_path)
    message = done.stderr.splitlines()[-1]
    assert message.startswith(f"ImportError: '{name}' is not the package of streamscope: ")
    assert str(tmp_path / "site" / name / "__init__.py") in message
    assert "no installed distribution owns it" in message
    assert "rename" in message
    assert done.stdout == ""


def recorded(site: Path) -> Path:
    """Return ``site`` with the record of another distribution that owns ``planner``."""
    record = site / "day_planner-3.1.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(METADATA)
    (record / "top_level.txt").write_text("planner\n")
    return site


def test_a_conflicting_distribution_is_named(tmp_path: Path) -> None:
    site = recorded(foreign(tmp_path / "site"))
    message = imported(site, folder=tmp_path).stderr.splitlines()[-1]
    assert "it belongs to the installed distribution day-planner" in message
    assert "pip uninstall day-planner" in message
    assert "a separate virtual environment" in message


def test_a_shadowing_package_in_the_folder_of_the_user_is_named(tmp_path: Path) -> None:
    """``python -c`` and ``-m`` put their working folder first on the path."""
    message = imported(folder=foreign(tmp_path)).stderr.splitlines()[-1]
    assert "start Python in another folder" in message


def test_an_overwritten_package_is_reported(tmp_path: Path) -> None:
    """Another distribution was installed over ours in the same folder; the error names it."""
    site = tmp_path / "site"
    for name in OURS:
        foreign(site, name)
    (site / "streamscope.py").write_text((ROOT / "streamscope.py").read_text())
    recorded(site)
    message = imported(site, folder=tmp_path, use="run").stderr.splitlines()[-1]
    assert "pip uninstall day-planner" in message
