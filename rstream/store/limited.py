"""Calls a library function that may never return, in a separate thread with a time-out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def with_limit(operation: Callable[[], T], wait_s: float) -> T:
    """Return or raise the result of ``operation``; TimeoutError if it takes longer."""
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(operation())
        except BaseException as error:  # re-raised in the caller's thread
            failure.append(error)

    thread = threading.Thread(target=run, name="blob-operation", daemon=True)
    thread.start()
    thread.join(wait_s)
    if failure:
        raise failure[0]
    if not result:
        raise TimeoutError(f"no answer in {wait_s:g} s")
    return result[0]
