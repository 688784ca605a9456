"""A pytest plugin that reports the running test to coverage, to record which test runs a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import coverage
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Count the fixtures of a test as part of it."""
    measured = coverage.Coverage.current()
    assert measured is not None, "run it under coverage"
    measured.switch_context(item.nodeid)
    result = yield
    measured.switch_context("")
    return result
