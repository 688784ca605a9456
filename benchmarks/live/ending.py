"""How a system's process hears that it is to end; imports nothing that a peer may lack."""

from __future__ import annotations

import sys
import threading


def at_end() -> threading.Event:
    """Set when this process's standard input is closed."""
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended
