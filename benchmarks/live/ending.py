"""Tells the process of a system when to end; imports only the standard library."""

from __future__ import annotations

import sys
import threading


def at_end() -> threading.Event:
    """Return an event that is set when the standard input of this process is closed."""
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended
