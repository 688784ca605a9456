"""A pytest plugin: tells coverage which test runs, so that it knows who takes each line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import coverage
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Fixtures of a test count as the test."""
    measured = coverage.Coverage.current()
    assert measured is not None, "run it under coverage"
    measured.switch_context(item.nodeid)
    result = yield
    measured.switch_context("")
    return result
