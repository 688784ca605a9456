"""The cost of an import: large libraries are imported only by the names that use them.

Counts modules, because times depend on the machine. Not covered: one slow module.
"""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from planner import col
from tests.rooms import ROOT
from tests.support.budget import one_in

HEAVY = {"pyspark", "pandas", "sqlglot", "pyarrow", "fsspec", "confluent_kafka"}
MODULES = "print(*sys.modules)"


def modules_of(code: str) -> set[str]:
    """The modules that a new process has loaded after ``code``."""
    run = [sys.executable, "-c", f"import sys; {code}; {MODULES}"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True, timeout=400)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("code", "allowed", "most"),
    [
        ("import streamscope", set(), 150),
        ("import streamscope; streamscope.JobFailedError", set(), 250),
        ("import streamscope; streamscope.status", {"fsspec"}, 600),
        ("import jobmanager.cli.main", set(), 500),
        ("import jobmanager.cli.verbs.status", {"fsspec"}, 800),
        ("import streamscope; streamscope.Stream, streamscope.col", {"pyarrow", "fsspec"}, 900),
    ],
)
def test_an_import_is_light(code: str, allowed: set[str], most: int) -> None:
    found = modules_of(code)
    assert {name.partition(".")[0] for name in found} & HEAVY <= allowed
    assert len(found) <= most


@pytest.mark.parametrize("package", one_in(4, ["streamscope", "jobmanager", "rvertex", "rstream"]))
def test_every_public_name_can_be_imported(package: str) -> None:
    names = f"[getattr({package}, name) for name in {package}.__all__]"
    assert package in modules_of(f"import {package}; {names}")


def test_a_host_that_unpickles_an_expression_can_call_its_functions() -> None:
    """A host that unpickles an expression finds its functions, in any order of imports."""
    for module in ("nodes", "types", "predicates"):
        assert "planner.expressions.functions" in modules_of(f"import planner.expressions.{module}")
    data = pickle.dumps((col("n") > 4).node)
    assert "planner.expressions.functions" in modules_of(f"import pickle; pickle.loads({data!r})")
