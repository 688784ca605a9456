"""What a thread currently works on: notes that a watchdog in another thread reads.

Invariant: only a thread itself sets its notes. The watchdog may read them at any time, because each
note is replaced as a whole object. How a stack is read: :mod:`rvertex.state.stacks`.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Doing:
    """The current work of one thread. None: no such work."""

    operator: object = None
    #: The expression that is being evaluated.
    expression: object = None
    #: The function of the user that is being called.
    function: Any = None

    def clear(self) -> None:
        """Delete all notes, because the work is done."""
        self.operator = self.expression = self.function = None


class _Thread(threading.local):
    def __init__(self) -> None:
        self.doing = Doing()


_thread = _Thread()


def doing() -> Doing:
    """Return the notes of the calling thread, always the same object."""
    return _thread.doing


class calling:  # noqa: N801
    """Mark a block in which a user's function is called: ``with calling(function): ...``."""

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
    """Return the qualified name of a user's function, with its file if it has one."""
    code = getattr(function, "__code__", None)
    name = _qualified(function)
    return f"{name} ({os.path.basename(code.co_filename)})" if code is not None else name


def function_place(function: Any) -> str:
    """Return the qualified name of a user's function, and where it is defined."""
    code = getattr(function, "__code__", None)
    name = _qualified(function)
    where = f", defined at line {code.co_firstlineno} of {code.co_filename}" if code else ""
    return name + where


def _qualified(function: Any) -> str:
    name = str(getattr(function, "__qualname__", None) or type(function).__qualname__)
    return name.rpartition("<locals>.")[2]
