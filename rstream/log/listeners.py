"""The callbacks of a stream, which it calls after each change."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Listener = Callable[[], None]


class Listeners:
    """Listeners of one stream. Any thread may add, remove and call them.

    A call reaches the listeners present when it began, the newest first. So network readers, which
    send at once, are called before the host, which wakes all other readers.
    """

    def __init__(self, first: Listener | None) -> None:
        self._lock = threading.Lock()
        #: Immutable: replaced as a whole, so that a call needs no lock.
        self._newest_first: tuple[Listener, ...] = () if first is None else (first,)

    def __len__(self) -> int:
        return len(self._newest_first)

    def add(self, listener: Listener) -> None:
        """Call ``listener`` after each change, in the thread that makes it. It must not raise."""
        with self._lock:
            self._newest_first = (listener, *self._without(listener))

    def remove(self, listener: Listener) -> None:
        """Remove ``listener``, if present. A running call may still reach it."""
        with self._lock:
            self._newest_first = self._without(listener)

    def call(self) -> None:
        """Call all listeners, because the stream has changed."""
        for listener in self._newest_first:
            listener()

    def _without(self, listener: Listener) -> tuple[Listener, ...]:
        return tuple(known for known in self._newest_first if known != listener)
