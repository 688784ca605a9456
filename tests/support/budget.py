"""The number of examples and seeds per law.

The numbers in tests apply to a plain ``pytest``. The fast tests of ``make test`` and ``make check``
draw 0.3 times as many examples and seeds, the slow ones 0.5 times, ``make deep DEPTH=10`` ten
times.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterable

DEPTH = float(os.environ.get("DEPTH", "1"))


def scaled(count: int) -> int:
    return max(1, round(count * DEPTH))


def examples(count: int, **others: Any) -> settings:
    """Hypothesis draws ``count`` examples; ``others`` are settings of Hypothesis."""
    return settings(max_examples=scaled(count), **others)


def seeds(first: int, count: int) -> range:
    return range(first, first + scaled(count))


def one_in(count: int, values: Iterable[Any]) -> list[Any]:
    """Parameters of a test: every ``count``-th is in the fast suite, the others are slow."""
    return [
        value if k % count == 0 else pytest.param(value, marks=pytest.mark.slow)
        for k, value in enumerate(values)
    ]
