"""Which tests run for a module: the nearest first, then those of its folder, then others."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Fast tests that cover a package from further away.
WIDER = {
    "rstream": ["tests/rstream", "tests/rvertex/host/test_host.py"],
    "rvertex": [
        "tests/rvertex",
        *("tests/planner/test_random_plans.py", "tests/planner/optimizer/test_rules.py"),
    ],
    "planner": ["tests/planner"],
    "jobmanager": ["tests/jobmanager"],
}
#: Tests of the tree itself that a copy passes and a bug may fail.
OF_TREE = ["tests/test_tidy.py::test_unchanged_records_are_frozen"]
#: Packages whose bugs the simulation may detect.
SIMULATED = ("rstream", "rvertex", "jobmanager")
#: The maximum number of tests that only import the module; the most specific ones run.
IMPORTING_MAX = 6


def nearest(root: Path, path: str) -> list[str]:
    """Test modules named after a module, those of its folder first, then some that import it."""
    module = path.removesuffix(".py").replace("/", ".")
    stem, package = module.rpartition(".")[2], module.partition(".")[0]
    if stem == "__init__":
        return []
    room = f"tests/{path.rpartition('/')[0]}/"
    tests = {t: n for t, n in _imports(root).items() if t.startswith(f"tests/{package}/")}
    named = [t for t in tests if t.rpartition("/")[2].startswith(f"test_{stem}")]
    named.sort(key=lambda t: not t.startswith(room))
    importing = [t for t, names in tests.items() if module in names and t not in named]
    importing.sort(key=lambda t: (not t.startswith(room), len(tests[t])))
    return [*named, *importing[:IMPORTING_MAX]]


def of_room(root: Path, path: str) -> list[str]:
    """The folder of tests that mirrors the module's, or its parent; not a whole package."""
    folder = (root / "tests" / path).parent
    while not list(folder.glob("test_*.py")):
        folder = folder.parent
    name = folder.relative_to(root).as_posix()
    return [name] if name.count("/") > 1 else []


@cache
def _imports(root: Path) -> dict[str, frozenset[str]]:
    """The modules that each test module imports, directly or through tests/support."""
    direct = {
        path.relative_to(root).as_posix(): _imported(path)
        for path in sorted((root / "tests").rglob("*.py"))
    }
    support = {name.removesuffix(".py").replace("/", "."): names for name, names in direct.items()}
    found = {}
    for name, names in direct.items():
        if name.rpartition("/")[2].startswith("test_") and not name.startswith("tests/spark"):
            harness = [support[n] for n in names if n in support and "harness" in n]
            found[name] = names.union(*harness)
    return found


def _imported(path: Path) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)
