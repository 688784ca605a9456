"""The groups of a regular expression: their names, count and bodies, and which may be left out."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.spark.patterns import NAMED_GROUP, NO_GROUP

_GROUP = re.compile(rf"{NO_GROUP}|{NAMED_GROUP}|\((?!\?)", re.DOTALL)
#: Matches the parts of a pattern: openings of groups, escapes, classes, single characters.
_PARTS = re.compile(rf"{NO_GROUP}|{NAMED_GROUP}|\((?:\?[a-zA-Z-]*:?)?|.", re.DOTALL)


def named_groups(pattern: str) -> str:
    """Name the groups of a pattern ``g1``, ``g2``, ..., and the whole pattern ``g0``."""
    count = 0

    def one(match: re.Match[str]) -> str:
        nonlocal count
        if not match[0].startswith("("):
            return match[0]
        count += 1
        return f"(?P<g{count}>"

    return f"(?P<g0>{_GROUP.sub(one, pattern)})"


def group_count(pattern: str) -> int:
    """Count the groups of a pattern.

    Raises:
        InvalidPlanError: it is not a regular expression.
    """
    try:
        extracted = pc.extract_regex(pa.array([""]), named_groups(pattern))
    except pa.ArrowInvalid as error:
        raise InvalidPlanError(f"{pattern!r} is not a regular expression: {error}") from None
    return int(extracted.type.num_fields) - 1


def absent_as_empty(pattern: str, group: int) -> bool:
    """Return whether an empty group always means that it took no part in the match (``(a)(b)?``).

    Raises:
        InvalidPlanError: an empty group may be of either kind.
    """
    bodies, optional = _groups(pattern)
    body = rf"\A(?:{bodies.get(group, pattern)})\z"
    if not pc.match_substring_regex(pa.scalar(""), body).as_py():
        return True
    if group in optional:
        raise InvalidPlanError(
            f"group {group} of {pattern!r} may match nothing; write a group that "
            "matches a character or more"
        )
    return False


def _groups(pattern: str) -> tuple[dict[int, str], set[int]]:
    """Return the body of each group, and the groups that a match may leave out (`?`, `*`, `|`)."""
    bodies: dict[int, str] = {}
    optional: set[int] = set()
    #: For each open parenthesis: its group (0: none), where its body begins, and the group count
    #: before it.
    begun, count = [(0, 0, 0)], 0
    has_choice = [False]
    for match in _PARTS.finditer(f"{pattern})"):
        if match[0].startswith("("):
            is_group = _GROUP.fullmatch(match[0]) is not None
            begun.append((count + 1 if is_group else 0, match.end(), count))
            has_choice.append(False)
            count += is_group
        elif match[0] == "|":
            has_choice[-1] = True
        elif match[0] == ")" and begun:
            number, start, before = begun.pop()
            bodies[number] = pattern[start : match.start()]
            inside = set(range(before + 1, count + 1))
            if has_choice.pop():
                optional |= inside - {number}
            if re.match(r"[?*]|\{0", pattern[match.end() :]):
                optional |= inside
    return bodies, optional
