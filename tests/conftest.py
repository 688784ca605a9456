"""Options and fixtures that all tests share."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--rewrite``: write golden files instead of comparing with them."""
    parser.addoption("--rewrite", action="store_true", help="rewrite golden files")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return bool(request.config.getoption("--rewrite"))
