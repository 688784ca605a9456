"""What a thread works on now: notes for a watch on another thread.

Invariant: a thread's notes are set by that thread alone. A watch may read them at any time, because
it gets whole objects. Frames are no substitute: the frames of a thread that runs on cannot be
followed from another one, Python 3.11 gave the memory of a call that had returned.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sysconfig
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = Path(__file__).parents[2]
#: Code below these folders is not the user's.
_NOT_OF_USERS = (
    "<",
    *(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib")),
    *(f"{_ROOT / name}{os.sep}" for name in ("rstream", "rvertex", "planner", "jobmanager")),
)
_FRAME = re.compile(rb'  File "(.+)", line (\d+) in (.+)')


@dataclass(slots=True)
class Doing:
    """What one thread works on; None: nothing of the kind."""

    operator: object = None
    #: The expression that is evaluated.
    expression: object = None
    #: The function of the user that is called.
    function: Any = None

    def clear(self) -> None:
        """Nothing is worked on."""
        self.operator = self.expression = self.function = None


class _Thread(threading.local):
    def __init__(self) -> None:
        self.doing = Doing()


_thread = _Thread()


def doing() -> Doing:
    """The notes of the calling thread, always the same object."""
    return _thread.doing


class calling:  # noqa: N801
    """A block in which a function of the user's is called: ``with calling(function): ...``."""

    __slots__ = ("_doing", "_function", "_outer")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __enter__(self) -> None:
        self._doing = _thread.doing
        self._outer = self._doing.function
        self._doing.function = self._function

    def __exit__(self, *_: object) -> None:
        self._doing.function = self._outer


def function_name(function: Any) -> str:
    """Qualified name of a function of the user's, with its file where it has one."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    code = getattr(function, "__code__", None)
    return f"{name} ({os.path.basename(code.co_filename)})" if code is not None else str(name)


def line_of_thread(thread: int) -> str:
    """The innermost line of the user's code that a thread is in; empty: none.

    No thread runs Python while all stacks are written, for about 0.2 ms a thread.
    """
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        stacks = file.read().split(b"\n\n")
    name = b"0x%016x " % thread
    for stack in stacks:
        if name in stack.partition(b"\n")[0]:
            return next(filter(None, map(_user_line, stack.splitlines())), "")
    return ""


def _user_line(frame: bytes) -> str:
    """One frame of a stack as text, if it is in code of the user's."""
    found = _FRAME.fullmatch(frame)
    if found is None:
        return ""
    file, line, name = (os.fsdecode(part) for part in found.groups())
    return "" if file.startswith(_NOT_OF_USERS) else f"{name} at line {line} of {file}"
