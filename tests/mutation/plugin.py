"""A pytest plugin: reports the running test to coverage, stores durations, selects tests."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import coverage
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

#: Seconds per test; NaN if it failed or was skipped.
_seconds: dict[str, float] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Both are JSON files."""
    parser.addoption("--times", type=Path, help="leave the seconds of each test that passed here")
    parser.addoption("--chosen", type=Path, help="run the tests of this list, in its order")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """The lines that fixtures execute count for their test."""
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.switch_context(item.nodeid)
    result = yield
    if measured is not None:
        measured.switch_context("")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the times of set-up, call and tear-down."""
    seconds = report.duration if report.passed else math.nan
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + seconds


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that are not in the list."""
    if path := config.getoption("chosen"):
        places = {test: k for k, test in enumerate(json.loads(path.read_text()))}
        items[:] = [item for item in items if item.nodeid in places]
        items.sort(key=lambda item: places[item.nodeid])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Discard the results of failed tests: they prove nothing."""
    if path := session.config.getoption("times"):
        passed = {test: taken for test, taken in _seconds.items() if not math.isnan(taken)}
        path.write_text(json.dumps(passed))
