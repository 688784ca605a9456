"""The callbacks that a stream calls when it has changed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Listener = Callable[[], None]


class Listeners:
    """Listeners of one stream; any thread may add, remove and call them.

    A call reaches the listeners that were there when it began, the newest first: readers that are
    sent to at once come before the host, which wakes for all others.
    """

    def __init__(self, first: Listener | None) -> None:
        self._lock = threading.Lock()
        #: Never changed, only replaced, so that a call needs no lock.
        self._newest_first: tuple[Listener, ...] = () if first is None else (first,)

    def __len__(self) -> int:
        return len(self._newest_first)

    def add(self, listener: Listener) -> None:
        """Call ``listener`` from now on, in the thread that changes the stream. It never raises."""
        with self._lock:
            self._newest_first = (listener, *self._without(listener))

    def remove(self, listener: Listener) -> None:
        """Call it no longer, but for a call that has begun; nothing happens if it is not there."""
        with self._lock:
            self._newest_first = self._without(listener)

    def call(self) -> None:
        """Tell all of them that the stream has changed."""
        for listener in self._newest_first:
            listener()

    def _without(self, listener: Listener) -> tuple[Listener, ...]:
        return tuple(known for known in self._newest_first if known != listener)
