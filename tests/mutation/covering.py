"""Which fast tests execute a line: all run once under coverage, each as its own context.

Lines that run only while a module is imported (defaults, tables, classes) have no tests.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from coverage import CoverageData

if TYPE_CHECKING:
    from pathlib import Path

#: The time limit for all fast tests in one process, under coverage.
SECONDS_MAX = 3600
PLUGIN = ("-p", "tests.mutation.plugin")


class Covering:
    """The tests per line of a tree."""

    def __init__(self, tree: Path, data: Path, times: Path) -> None:
        """``data`` and ``times`` are what :func:`measure` left."""
        self._tree, self._data = tree.resolve(), CoverageData(str(data))
        self._data.read()
        self._seconds: dict[str, float] = json.loads(times.read_text())

    def tests(self, path: str, line: int) -> list[str]:
        """The tests that execute the statement around a line of a module, fastest first."""
        file = self._tree / path
        contexts = self._data.contexts_by_lineno(str(file))
        lines = statement(file.read_text(), line)
        found = {test for k in lines for test in contexts.get(k, []) if test in self._seconds}
        return sorted(found, key=lambda test: (self._seconds[test], test))


def statement(source: str, line: int) -> range:
    """The lines of the innermost statement around a line; without its body, if it has one."""
    found = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):  # outer ones first
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else (node.end_lineno or 0)
            found = range(node.lineno, max(end, node.lineno) + 1)
    return found if line in found else range(line, line + 1)


def measure(tree: Path, folder: Path, pytest: list[str], packages: list[str]) -> Covering:
    """Run the fast tests of a tree once. The files stay in ``folder``."""
    data, times = folder / "coverage", folder / "times.json"
    command = [sys.executable, "-m", "coverage", "run", f"--source={','.join(packages)}", *pytest]
    environment = {**os.environ, "PYTHONPATH": str(tree), "COVERAGE_FILE": str(data)}
    # Otherwise pytest would take the file names for test paths, and derive a common root folder.
    command += [f"--rootdir={tree}", *PLUGIN, "--times", str(times)]
    done = subprocess.run(command, cwd=tree, env=environment, timeout=SECONDS_MAX, check=False)
    if done.returncode not in (0, 1):  # failing tests are skipped
        raise SystemExit("the fast tests do not run")
    return Covering(tree, data, times)
