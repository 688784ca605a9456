"""How many calls a piece of work takes: what it costs, the same on every machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def calls_of(work: Callable[[], object]) -> int:
    """Calls of Python functions, and of compiled ones by Python, while ``work`` runs.

    What numpy and Arrow do within a call is not counted, nor what is only done the first time, as
    imports are: it runs twice.
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
