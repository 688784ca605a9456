"""Values that an expression uses more than once, without writing them more than once.

Spark SQL has no ``let``; a lambda over an array of one value does the same. So the size of the
text stays linear in the size of the expression tree.

Invariant: within the body of ``letN`` all further ones have numbers above N; text made outside
does not mention ``letN``, so a lambda in it may well reuse the name.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Names and literals: nothing is gained by binding them.
_SIMPLE = re.compile(r"\w+|cast\((null|'[^']*') as \w+\)")
_depth: ContextVar[int] = ContextVar("depth", default=0)


def let(sql: str, body: Callable[[str], str]) -> str:
    """``body`` of the value of ``sql``, which is evaluated once."""
    if _SIMPLE.fullmatch(sql):
        return body(sql)
    token = _depth.set(_depth.get() + 1)
    try:
        name = f"let{_depth.get()}"
        return f"transform(array({sql}), {name} -> {body(name)})[0]"
    finally:
        _depth.reset(token)


def let2(left: str, right: str, body: Callable[[str, str], str]) -> str:
    """``body`` of two values."""
    return let(left, lambda a: let(right, lambda b: body(a, b)))
