"""The end of the command: its exit statuses, and messages in one line."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import NoReturn

EXIT_FAILED, EXIT_USAGE, EXIT_DEGRADED, EXIT_INTERRUPTED = 1, 2, 3, 130


def in_one_line(message: str) -> str:
    """Return a message without its line breaks, which quoted errors of user code may have."""
    return "; ".join(line.strip() for line in message.splitlines() if line.strip())


def leave(code: str | int | None) -> NoReturn:
    """End the process without finalizing Python, because other threads may still need it.

    A server that did not stop in time may still call Python from a gRPC thread. In a finalized
    Python, that call would end the process with "Fatal Python error: PyGILState_Release".
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader of the stream has closed it
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
