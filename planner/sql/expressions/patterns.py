"""LIKE and TRIM, which have a special syntax in SQL."""

from __future__ import annotations

from planner.api.expressions import Expr, lit
from planner.errors import InvalidPlanError
from planner.expressions.functions.texts.places import like_pieces, like_regex
from planner.expressions.nodes import Literal


def like(value: Expr, pattern: str, escape: str = "\\") -> Expr:
    """Compile ``LIKE`` with a literal pattern; to a comparison, if an equal one exists."""
    pieces = like_pieces(pattern, escape)
    wild = [at for at, (_, is_wild) in enumerate(pieces) if is_wild]
    plain = "".join(character for character, is_wild in pieces if not is_wild)
    last = len(pieces) - 1
    if not any(is_wild and character == "_" for character, is_wild in pieces):
        if not wild:
            return value == plain
        if wild == [last]:
            return value.str.starts_with(plain)
        if wild == [0]:
            return value.str.ends_with(plain)
        if wild == [0, last]:
            return value.str.contains(plain)
    return value.str.contains(like_regex(pieces), regex=True)


def like_any(value: Expr, pattern: Expr, escape: str = "\\") -> Expr:
    """Compile ``LIKE`` with any pattern.

    Raises:
        InvalidPlanError: the pattern is a literal of another type.
    """
    node = pattern.node
    if not isinstance(node, Literal):
        return value.str.like(pattern, escape)
    if node.literal is None:
        raise InvalidPlanError("with NULL here the result is always NULL; write a text")
    if not isinstance(node.literal, str):
        raise InvalidPlanError("LIKE takes a text as its pattern")
    return like(value, node.literal, escape)


def ilike(value: Expr, pattern: Expr, escape: str = "\\") -> Expr:
    """Compile ``ILIKE``: ``LIKE`` of both sides in lower case.

    Raises:
        InvalidPlanError: the escape character is a letter, which has two cases.
    """
    if escape.lower() != escape.upper():
        raise InvalidPlanError(
            "ILIKE needs an escape character without upper case: write ESCAPE '!'"
        )
    node = pattern.node
    if isinstance(node, Literal):
        pattern = lit(node.literal.lower() if isinstance(node.literal, str) else node.literal)
    else:
        pattern = pattern.str.lower()
    return like_any(value.str.lower(), pattern, escape)


def trim(text: Expr, characters: Expr | None, side: str | None) -> Expr:
    """Compile ``TRIM(BOTH 'ab' FROM s)``."""
    if isinstance(characters, Expr) and characters.node == Literal(None):
        # a Python None here would mean white space; a NULL must give NULL
        characters = characters.cast(str)
    named = {"LEADING": text.str.strip_left, "TRAILING": text.str.strip_right}
    return named.get(side or "", text.str.strip)(characters)
