"""Ends this process if none of its threads has run for ``step_wait_s``.

A C call that never releases the interpreter lock (such as ``re`` with a pattern of exponential
cost) stops all threads: the hosts, the reports and Ctrl-C. So a second process, the watcher,
expects a byte (*beat*) from this process every second, and ends this process if none arrives.
Ctrl-Z and a pause of the machine stop both processes, so that time does not count.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

BEAT_S = 1.0
#: Seconds for writing the stacks before the process is killed.
STACKS_WAIT_S = 5.0
ADVICE = """
jobmanager: error: no thread of this process has run for {limit:g} s (step_wait_s): a call in
C holds the interpreter lock. The stacks below show it; often it is a regular expression with
exponential cost, such as (a+)+b. Change that function and start a new job with another root:
`jobmanager resume` would repeat the call. On Spark every host is a separate process, so such a
call ends only its host, and the job fails with an error that names it.
"""


@contextmanager
def ended_if_frozen(limit_s: float) -> Iterator[None]:
    """End this process if, while the block runs, none of its threads runs for ``limit_s``."""
    faulthandler.enable(sys.__stderr__ or 2)  # SIGABRT prints the stacks of all threads
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(limit_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as watcher:
        assert watcher.stdin is not None
        beats, left = watcher.stdin.fileno(), threading.Event()

        def beat() -> None:
            with suppress(BrokenPipeError):  # the watcher was killed
                while not left.wait(BEAT_S):  # ends when the block does
                    os.write(beats, b".")

        beating = threading.Thread(target=beat, name="beat", daemon=True)
        beating.start()
        try:
            yield
        finally:
            left.set()
            beating.join()


def _watch(process: int, limit_s: float) -> None:
    """Read beats from standard input until it is closed. End ``process`` if no beat arrives."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the job
    quiet_s = 0.0
    while quiet_s < limit_s:  # or until the job ends
        if select.select([0], [], [], BEAT_S)[0]:
            if not os.read(0, 4096):
                return
            quiet_s = 0.0
        else:
            quiet_s += BEAT_S
    print(ADVICE.format(limit=limit_s), file=sys.stderr, flush=True)
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGABRT)
        time.sleep(STACKS_WAIT_S)
        os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), float(sys.argv[2]))
