"""Modules of the user on a cluster whose workers have another module path than the driver.

Separate processes start and resume each job. Not covered: workers on other machines.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.rooms import ROOT
from tests.spark.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark(own_java=True)
WAIT_S = 400.0
QUERY = """\
import streamscope as ss
from lengths import length
from shapes.names import name

rows = ss.Stream.from_items({"s": "string"}, [ss.event(t, s="a" * t) for t in range(4)])
query = rows.select(
    n=ss.udf(length, returns="int64")(ss.col("s")), m=ss.udf(name, returns="string")(ss.col("s"))
).to_parquet()
"""


@pytest.fixture
def query(tmp_path: Path) -> Path:
    """A query whose modules are in folders that are on no path."""
    code = tmp_path / "code"
    (code / "shapes").mkdir(parents=True)
    (code / "lengths.py").write_text("def length(s):\n    return len(s)\n")
    (code / "shapes" / "__init__.py").touch()
    (code / "shapes" / "names.py").write_text("def name(s):\n    return s.upper()\n")
    (tmp_path / "queries").mkdir()
    path = tmp_path / "queries" / "query.py"
    path.write_text(QUERY)
    return path


def call(tmp_path: Path, *words: str) -> str:
    """Return the output of ``jobmanager``, run in another folder."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    known = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "jobmanager", *words],
        cwd=elsewhere,
        env=known,
        timeout=WAIT_S,
        capture_output=True,
        text=True,
    )
    return f"{done.returncode} {done.stdout} {done.stderr}"


def test_modules_are_sent_to_a_cluster_and_imported(tmp_path: Path, query: Path) -> None:
    root, code = str(tmp_path / "root"), tmp_path / "code"
    modules = f"{code / 'lengths.py'},{code / 'shapes'}"
    with Cluster(tmp_path) as cluster:
        done = call(
            tmp_path, "run", str(query), "--root", root, "--hosts", "2",
            "--master", cluster.master, "--py-files", modules,
        )  # fmt: skip
        assert done.startswith("0 "), done
        shown = call(tmp_path, "show", root)
        assert "AAA" in shown, shown
        again = call(tmp_path, "resume", root, "--master", cluster.master)
        assert "has already finished" in again, again


def test_without_py_files_the_message_says_what_to_pass(tmp_path: Path, query: Path) -> None:
    (tmp_path / "code" / "lengths.py").rename(query.parent / "lengths.py")
    (tmp_path / "code" / "shapes").rename(query.parent / "shapes")
    root = str(tmp_path / "root")
    done = call(tmp_path, "run", str(query), "--root", root, "--master", "local[2]")
    assert done.startswith("1 "), done
    assert "lengths.length cannot be imported" in done
    assert "give its module with --py-files" in done
    local = call(tmp_path, "resume", root, "--executor", "local")
    assert local.startswith("0 "), local
