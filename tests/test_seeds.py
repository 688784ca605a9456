"""The promises in docs/seeds.md and docs/exactly-once.md name tests and files that exist.

Not covered: a test that does not show its promise.
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
#: A promise, its status, and how it is kept.
PROMISE = re.compile(r"- \*\*(.+?)\*\*\s+(\w+)[:.]\s*(.*)", re.DOTALL)
#: A file that shows it, on its own line.
SHOWN = re.compile(r"  - `((?:tests|benchmarks|examples)/[\w/.-]+?)(?:::(\w+))?`")
MEASUREMENT = re.compile(r"(?:benchmarks|examples)/.+")


class Promise(NamedTuple):
    text: str
    status: str
    here: str
    shown: list[tuple[str, str]]  #: Paths, with names of tests in them or empty texts.


def promises(text: str) -> Iterator[Promise]:
    """All promises of a page."""
    for item in re.findall(r"^- \*\*(?:.+\n)+", text, re.MULTILINE):
        for each in re.split(r"^(?=- )", item, flags=re.MULTILINE)[1:]:
            words, *_ = re.split(r"\n  - ", each)
            match = PROMISE.fullmatch(words.strip())
            assert match, each
            yield Promise(match[1], match[2].lower(), match[3], SHOWN.findall(each))


def wrong(promise: Promise) -> str | None:
    """Return what a promise lacks, or None."""
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
    """The names of the tests in a module, including those in classes."""
    nodes = ast.walk(ast.parse(file.read_text()))
    functions = (node.name for node in nodes if isinstance(node, ast.FunctionDef))
    return frozenset(name for name in functions if name.startswith("test_"))


@pytest.mark.parametrize("page", PAGES)
def test_each_promise_names_tests_that_exist(page: str) -> None:
    found = list(promises((ROOT / "docs" / page).read_text()))
    assert len(found) >= PAGES[page]
    assert {promise.text: lack for promise in found if (lack := wrong(promise))} == {}


HERE = "tests/test_seeds.py::test_an_invalid_promise_is_detected"


@pytest.mark.parametrize(
    ("words", "shown", "lack"),
    [
        ("Yes: so.", HERE, None),
        ("Yes: so.", "benchmarks/bench_latency.py", None),
        ("Yes: so.", "", "no test or measurement is named"),
        ("Yes: so.", "tests/test_seeds.py", "no test or measurement is named"),
        ("Yes.", HERE, "it has no words on how"),
        ("Fine: so.", "", "no status: fine"),
        ("Missing: no.", "", None),
        ("Missing: no.", HERE, "a missing property is shown"),
        (
            "Yes: so.",
            "tests/test_seeds.py::test_none",
            "there is no tests/test_seeds.py::test_none",
        ),
        ("Yes: so.", "tests/none.py::test_none", "there is no tests/none.py::test_none"),
    ],
)
def test_an_invalid_promise_is_detected(words: str, shown: str, lack: str | None) -> None:
    line = f"- **It works.** {words}\n" + f"  - `{shown}`\n" * bool(shown)
    first, second = promises(line * 2)
    assert first == second
    assert wrong(first) == lack
