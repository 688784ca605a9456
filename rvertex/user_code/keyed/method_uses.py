"""Analyses the bytecode of a keyed process: how methods use their event and their context.

The result is known only for a parameter whose attributes are read directly. If the code passes the
parameter on, stores it, or uses it in a nested function, any use is possible. The analysis reads
bytecode, as :mod:`dis` documents it, because workers may not have the source text.
"""

from __future__ import annotations

import dis
import sys
import types
from itertools import pairwise
from typing import Any

#: Number of parameters of ``on_event`` and ``on_timer``.
_PARAMETERS = 3
_EVENT, _CONTEXT = 1, 2


def names_read(method: Any) -> set[str] | None:
    """Return the attributes of its event that ``on_event`` reads; None: any use is possible."""
    attributes = _attributes(method, _EVENT)
    return None if attributes is None else {name for name, _ in attributes}


def may_say_times(method: Any) -> bool:
    """Return whether the method may call ``ctx.emit`` with ``vs`` or ``ve``."""
    attributes = _attributes(method, _CONTEXT)
    if attributes is None or any(name == "emit" and not is_call for name, is_call in attributes):
        return True
    given = [set(c) for c in method.__code__.co_consts if isinstance(c, tuple)]
    if any({"vs", "ve"} & {name for name in names if isinstance(name, str)} for names in given):
        return True
    return any(step.opname == "CALL_FUNCTION_EX" for step in dis.get_instructions(method))


def _attributes(method: Any, parameter: int) -> set[tuple[str, bool]] | None:
    """Return the attributes read of a parameter, each with whether it is called; None: any use."""
    if not isinstance(method, types.FunctionType):
        return None
    if method.__code__.co_argcount != _PARAMETERS:
        return None
    name = method.__code__.co_varnames[parameter]
    if name in method.__code__.co_cellvars:
        return None
    steps = [s for s in dis.get_instructions(method) if s.opname not in ("EXTENDED_ARG", "CACHE")]
    attributes: set[tuple[str, bool]] = set()
    for step, after in pairwise(steps):
        if name not in (step.argval if isinstance(step.argval, tuple) else (step.argval,)):
            continue
        is_load = step.opname.startswith("LOAD_FAST") and step.argval == name
        if not is_load or after.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            return None
        attributes.add((after.argval, _is_called(after)))
    return attributes


def _is_called(read: dis.Instruction) -> bool:
    """Return whether the attribute is called at once.

    Since Python 3.12 the lowest bit of LOAD_ATTR shows it.
    """
    has_bit = sys.version_info >= (3, 12) and read.opname == "LOAD_ATTR"
    return read.opname == "LOAD_METHOD" or (has_bit and bool((read.arg or 0) & 1))
