r"""Converts regular expressions of RE2, which streams use, to Java's syntax.

Names of groups, POSIX classes and replacements differ. Classes within classes, which only Java has,
are not recognised.
"""

from __future__ import annotations

import re

from planner.expressions.spark.errors import UnsupportedInBatchError
from planner.expressions.spark.types import SparkText

#: White space of ``str.isspace`` and Arrow.
SPACE = r"(?U)[\s\x1c-\x1f]"
#: Quoted or escaped parts of a regular expression, and classes: their brackets open no group.
NO_GROUP = r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
#: Start of a group with a name.
NAMED_GROUP = r"\(\?P?<\w+>"
_PARTS = re.compile(f"{NO_GROUP}|{NAMED_GROUP}", re.DOTALL)
_POSIX = re.compile(r"\[:(\^?)(\w+):\]")
_JAVA_NAMES = {"ascii": "ASCII", "xdigit": "XDigit"}


def java_pattern(pattern: str) -> str:
    r"""Convert a pattern: ``(?P<a_name>`` to ``(``, and ``[[:alpha:]]`` to ``[\p{Alpha}]``.

    Raises:
        UnsupportedInBatchError: the pattern is a column.
    """
    if isinstance(pattern, SparkText):
        raise UnsupportedInBatchError(pattern, "a regular expression must be a literal there")

    def one(match: re.Match[str]) -> str:
        token = match[0]
        if token.startswith("("):
            return "("
        if token.startswith("["):
            return "[" + _POSIX.sub(_java_class, token[1:])
        return token

    return _PARTS.sub(one, pattern)


def _java_class(match: re.Match[str]) -> str:
    is_not, name = match.groups()
    if name == "word":
        return r"\W" if is_not else r"\w"
    return rf"\{'P' if is_not else 'p'}{{{_JAVA_NAMES.get(name, name.capitalize())}}}"


def java_replacement(replacement: str) -> str:
    r"""Convert a replacement: ``\1`` to ``$1``; a dollar is escaped, and ``\\`` is kept.

    Raises:
        UnsupportedInBatchError: the replacement is a column.
    """
    if isinstance(replacement, SparkText):
        raise UnsupportedInBatchError(replacement, "a replacement must be a literal there")

    def one(match: re.Match[str]) -> str:
        token = match[0]
        if token == "$":
            return r"\$"
        return f"${token[1]}" if token[1].isdigit() else r"\\"

    return re.sub(r"\$|\\[0-9\\]", one, replacement)
