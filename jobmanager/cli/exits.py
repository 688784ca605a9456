"""How the command ends: its exit statuses, and a message in one line."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import NoReturn

EXIT_FAILED, EXIT_USAGE, EXIT_DEGRADED, EXIT_INTERRUPTED = 1, 2, 3, 130


def in_one_line(message: str) -> str:
    """A message, which may quote what a user's code raised, without its line breaks."""
    return "; ".join(line.strip() for line in message.splitlines() if line.strip())


def leave(code: str | int | None) -> NoReturn:
    """End the process without taking Python down under threads that are not its own.

    A server that did not stop in its time may still call into Python from a thread of gRPC, which
    would then end the process with "Fatal Python error: PyGILState_Release".
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # its reader has closed it
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
