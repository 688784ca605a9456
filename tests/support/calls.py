"""Counts the function calls that a piece of work makes: a cost that is equal on every machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def calls_of(work: Callable[[], object]) -> int:
    """Count calls of Python functions, and of compiled functions by Python, while ``work`` runs.

    Work inside numpy and Arrow is not counted, nor work of the first run only, such as imports:
    ``work`` runs twice.
    """
    work()
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls
