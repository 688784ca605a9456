"""The stack of a thread that does not return, for messages to users.

Another thread cannot read it: walking its frames, or a dump of all threads, may end Python 3.11
with SIGSEGV while a thread of C code begins. So the thread writes its stack itself, in the handler
of a signal that is sent to it. This also works while the thread waits in C code.
"""

from __future__ import annotations

import faulthandler
import functools
import os
import re
import signal
import tempfile
import threading
from itertools import takewhile
from typing import IO

#: Of the signals that are free for applications, one that is rarely used.
_SIGNAL = getattr(signal, "SIGRTMIN", signal.SIGUSR2) + (7 if hasattr(signal, "SIGRTMIN") else 0)
#: Seconds that a thread may take to write its stack, and seconds between two checks for it.
WRITE_WAIT_S, _CHECK_S = 1.0, 0.05
FRAMES_MAX = 32
#: The file that calls all operators. Frames outside of it are the same for each step.
_CALLER = os.path.join("rvertex", "operators", "protocol.py")
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)

_lock = threading.Lock()


def stack_of(thread: int) -> str:
    """Return the stack of a live thread of this process, innermost call first; empty: unknown.

    ``thread``: its ``threading.get_ident()``. It must not end before this call returns.
    """
    with _lock:
        file = _registered()
        if file is None:
            return ""
        file.seek(0)
        file.truncate()
        signal.pthread_kill(thread, _SIGNAL)
        text, waited_s = b"", 0.0
        # Ends with the time limit, or when the file does not grow any more
        while waited_s < WRITE_WAIT_S:
            threading.Event().wait(_CHECK_S)
            waited_s += _CHECK_S
            file.seek(0)
            before, text = text, file.read()
            if text and text == before:
                break
    frames = _FRAME.findall(text.decode(errors="replace"))[:FRAMES_MAX]
    frames = list(takewhile(lambda frame: not frame[0].endswith(_CALLER), frames))
    return ", ".join(f"{name} ({path}:{line})" for path, line, name in frames)


@functools.cache
def _registered() -> IO[bytes] | None:
    """Return the file into which stacks are written; None if the process uses the signal itself."""
    if signal.getsignal(_SIGNAL) not in {signal.SIG_DFL, None}:
        return None
    file = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process)
    faulthandler.register(_SIGNAL, file, all_threads=False)
    return file
