r"""Regular expressions of RE2, which streams use, as Java writes them.

Written otherwise are names of groups, the classes of POSIX and what replaces a match. Not told
apart: classes within classes, which Java has and RE2 has not.
"""

from __future__ import annotations

import re

#: What ``str.isspace`` and Arrow call white space.
SPACE = r"(?U)[\s\x1c-\x1f]"
#: In a regular expression: what is quoted or escaped, and classes; no bracket in it opens a group.
NO_GROUP = r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
#: How a group with a name begins.
NAMED_GROUP = r"\(\?P?<\w+>"
_PARTS = re.compile(f"{NO_GROUP}|{NAMED_GROUP}", re.DOTALL)
_POSIX = re.compile(r"\[:(\^?)(\w+):\]")
_JAVA_NAMES = {"ascii": "ASCII", "xdigit": "XDigit"}


def java_pattern(pattern: str) -> str:
    r"""``(?P<a_name>`` becomes ``(``, and ``[[:alpha:]]`` becomes ``[\p{Alpha}]``."""

    def one(match: re.Match[str]) -> str:
        found = match[0]
        if found.startswith("("):
            return "("
        if found.startswith("["):
            return "[" + _POSIX.sub(_java_class, found[1:])
        return found

    return _PARTS.sub(one, pattern)


def _java_class(match: re.Match[str]) -> str:
    is_not, name = match.groups()
    if name == "word":
        return r"\W" if is_not else r"\w"
    return rf"\{'P' if is_not else 'p'}{{{_JAVA_NAMES.get(name, name.capitalize())}}}"


def java_replacement(replacement: str) -> str:
    r"""``\1`` and ``\\`` become ``$1`` and ``\\``; a dollar is escaped."""

    def one(match: re.Match[str]) -> str:
        found = match[0]
        if found == "$":
            return r"\$"
        return f"${found[1]}" if found[1].isdigit() else r"\\"

    return re.sub(r"\$|\\[0-9\\]", one, replacement)
