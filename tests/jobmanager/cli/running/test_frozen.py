"""A process whose threads all hang is killed, and the message names the hanging call.

Not covered: a call that releases the interpreter now and then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from jobmanager.cli.running.frozen import ended_if_frozen

FROZEN = """
import re, threading
from jobmanager.cli.running.frozen import ended_if_frozen

def matches(text):
    return re.match("(a|aa)+$", text)

with ended_if_frozen(2.0):
    endless = threading.Thread(target=matches, args=("a" * 200 + "b",))
    endless.start()
    endless.join()
"""


@pytest.mark.slow
def test_the_call_that_blocks_all_threads_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FROZEN], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == -signal.SIGABRT
    assert "no thread of this process has run for 2 s (step_wait_s)" in done.stderr
    assert "in matches" in done.stderr


def test_the_watcher_ends_with_its_block() -> None:
    before = threading.active_count()
    with ended_if_frozen(60.0):
        assert threading.active_count() == before + 1
        children = subprocess.run(
            ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(os.getpid())],
            capture_output=True,
            text=True,
        ).stdout
        assert "frozen.py" in children
    assert threading.active_count() == before
    with pytest.raises(ChildProcessError):
        os.waitpid(int(next(c for c in children.splitlines() if "frozen.py" in c).split()[0]), 0)
