"""The tables of docs/seeds.md and docs/exactly-once.md name tests and files that exist.

Cannot catch: a test that shows something else than its line promises.
"""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.rooms import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = {"seeds.md": 80, "exactly-once.md": 20}  #: With the least number of promises.
STATUSES = {"yes", "differs", "partly", "missing"}
SHOWN = re.compile(r"`((?:tests|benchmarks|examples)/[\w/.-]+?)(?:::(\w+))?`")
MEASUREMENT = re.compile(r"(?:benchmarks|examples)/.+")


class Promise(NamedTuple):
    text: str
    status: str
    here: str
    shown: list[tuple[str, str]]  #: Paths, and names of tests in them or empty texts.


def promises(text: str) -> Iterator[Promise]:
    """The lines of all tables of promises in a page."""
    in_table = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| promise | status |"):
            in_table = True
        elif not line.startswith("|"):
            in_table = False
        elif in_table and not set(line) <= set("|- "):
            assert len(cells) >= 3, line
            yield Promise(cells[0], cells[1], cells[2], SHOWN.findall(line.rpartition(" | ")[2]))


def wrong(promise: Promise) -> str | None:
    """What a line lacks, if anything."""
    if promise.status not in STATUSES:
        return f"no status: {promise.status}"
    if promise.status == "missing":
        return "a missing property is shown" if promise.shown else None
    if not promise.here:
        return "it has no words on how"
    if not any(name or MEASUREMENT.match(path) or "model" in path for path, name in promise.shown):
        return "no test or measurement is named"
    lost = [f"{path}::{name}" for path, name in promise.shown if not exists(path, name)]
    return f"there is no {', '.join(lost)}" if lost else None


def exists(path: str, name: str) -> bool:
    file = ROOT / path
    return file.is_file() and (not name or name in names_of_tests(file))


@functools.cache
def names_of_tests(file: Path) -> frozenset[str]:
    """The names of the tests in a module, those of classes too."""
    nodes = ast.walk(ast.parse(file.read_text()))
    functions = (node.name for node in nodes if isinstance(node, ast.FunctionDef))
    return frozenset(name for name in functions if name.startswith("test_"))


@pytest.mark.parametrize("page", PAGES)
def test_each_promise_names_tests_that_exist(page: str) -> None:
    found = list(promises((ROOT / "docs" / page).read_text()))
    assert len(found) >= PAGES[page]
    assert {promise.text: lack for promise in found if (lack := wrong(promise))} == {}


@pytest.mark.parametrize(
    ("line", "lack"),
    [
        (
            "| It works | yes | so | `tests/test_seeds.py::test_a_line_that_is_wrong_is_found` |",
            None,
        ),
        ("| It is fast | yes | so | `benchmarks/bench_latency.py` |", None),
        ("| It works | yes | so | |", "no test or measurement is named"),
        ("| It works | yes | so | `tests/test_seeds.py` |", "no test or measurement is named"),
        ("| It works | fine | so | |", "no status: fine"),
        ("| It works | missing | | |", None),
        (
            "| It works | yes | so | `tests/test_seeds.py::test_none` |",
            "there is no tests/test_seeds.py::test_none",
        ),
        (
            "| It works | yes | so | `tests/none.py::test_none` |",
            "there is no tests/none.py::test_none",
        ),
        (
            "| It works | missing | no | `tests/test_seeds.py::test_none` |",
            "a missing property is shown",
        ),
    ],
)
def test_a_line_that_is_wrong_is_found(line: str, lack: str | None) -> None:
    (promise,) = promises(f"| promise | status | here | shown by |\n|---|---|---|---|\n{line}\n")
    assert wrong(promise) == lack
