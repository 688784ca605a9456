"""Writes SQL in which an expression that is used several times occurs once.

Spark SQL has no ``let``; a lambda over an array of one value replaces it. So the size of the text
is linear in the size of the expression tree.

Invariant: within the body of ``letN``, further names have numbers above N. Text from outside does
not contain ``letN``, so its lambdas may use the same name.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Matches names and literals, which need no binding because they cost nothing.
_SIMPLE = re.compile(r"\w+|cast\((null|'[^']*') as \w+\)")
_depth: ContextVar[int] = ContextVar("depth", default=0)


def let(sql: str, body: Callable[[str], str]) -> str:
    """Return the SQL of ``body`` with ``sql`` as its argument, which is evaluated once."""
    if _SIMPLE.fullmatch(sql):
        return body(sql)
    token = _depth.set(_depth.get() + 1)
    try:
        name = f"let{_depth.get()}"
        return f"transform(array({sql}), {name} -> {body(name)})[0]"
    finally:
        _depth.reset(token)


def let2(left: str, right: str, body: Callable[[str, str], str]) -> str:
    """Return the SQL of ``body`` with two arguments, each evaluated once."""
    return let(left, lambda a: let(right, lambda b: body(a, b)))
