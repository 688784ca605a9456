"""Parses a row pattern: ``A B+? (C | D){2,3} {- E -} PERMUTE(F, G)``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from planner.errors import InvalidPlanError
from rvertex.operators.ordered.matching.pattern import (
    VARIABLES_MAX,
    Alternation,
    Exclusion,
    Pattern,
    Permutation,
    Repetition,
    Sequence,
    Var,
)

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[^\W\d]\w*|"[^"]+"|`[^`]+`)|(?P<mark>\{-|-\}|[(){}|,*+?^$])|(?P<number>\d+))"""
)
_ANCHOR = (
    "{} is not supported: a partition of a stream has no last row, and its first row is not kept; "
    "leave it out"
)


@dataclass
class _Reader:
    text: str
    tokens: list[str]
    at: int = 0
    names: dict[str, int] = field(default_factory=dict)

    @property
    def next(self) -> str:
        """The current token; empty at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, token: str) -> bool:
        """Skip a token, if it is the current one; return whether it was."""
        is_next = self.next == token
        self.at += is_next
        return is_next

    def expect(self, token: str) -> None:
        """Skip a token; raise if it is not the current one."""
        if not self.take(token):
            actual = repr(self.next) if self.next else "the end"
            raise self.error(f"expected {token!r}, found {actual}")

    def error(self, reason: str) -> InvalidPlanError:
        """Return the error with the pattern and the reason."""
        return InvalidPlanError(f"pattern ({self.text.strip()}): {reason}")

    def alternation(self) -> Pattern:
        """Parse alternatives, which are separated by ``|``."""
        parts = [self.sequence()]
        while self.take("|"):  # terminates: each pass skips a token
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def sequence(self) -> Pattern:
        """Parse parts one after the other."""
        parts: list[Pattern] = []
        while self.next and self.next not in ("|", ")", "-}", ","):  # ends: each pass skips a token
            parts.append(self.quantified())
        if not parts:
            raise self.error("a part is missing; the empty pattern is ()")
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def quantified(self) -> Pattern:
        """Parse a part and its quantifier, such as ``+``."""
        part = self.primary()
        mark = self.next
        if mark not in ("*", "+", "?", "{"):
            return part
        self.at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(mark) or self.bounds()
        return Repetition(part, least, most, greedy=not self.take("?"))

    def bounds(self) -> tuple[int, int | None]:
        """Parse ``n}``, ``n,}``, ``,m}`` or ``n,m}``."""
        least = self.number()
        if self.take("}"):
            if not least:
                raise self.error("{n} takes a number of at least 1")
            return least, least
        self.expect(",")
        most = self.number()
        self.expect("}")
        if most is not None and (most < (least or 0) or most == 0):
            raise self.error(
                f"{{{least or 0},{most}}}: the second number must be at least the first"
            )
        if least is None and most is None:
            raise self.error("{,} takes a number; write * for any")
        return least or 0, most

    def number(self) -> int | None:
        """Parse a number, if the current token is one."""
        if not self.next.isdigit():
            return None
        self.at += 1
        return int(self.tokens[self.at - 1])

    def primary(self) -> Pattern:
        """Parse a variable, a group, an exclusion or a permutation."""
        token = self.next
        if token in ("^", "$"):
            raise self.error(_ANCHOR.format(token))
        if self.take("("):
            if self.take(")"):
                return Sequence(())
            inner = self.alternation()
            self.expect(")")
            return inner
        if self.take("{-"):
            inner = self.alternation()
            self.expect("-}")
            return Exclusion(inner)
        if not (token[:1].isalpha() or token[:1] in ("_", '"', "`")):
            raise self.error(f"expected a variable or a group, found {token!r}")
        self.at += 1
        if token.upper() == "PERMUTE" and self.take("("):
            parts = [self.alternation()]
            while self.take(","):  # terminates: each pass skips a token
                parts.append(self.alternation())
            self.expect(")")
            return Permutation(tuple(parts))
        return Var(self.names.setdefault(token.strip('"`'), len(self.names)))


def read_pattern(text: str) -> tuple[Pattern, tuple[str, ...]]:
    """Parse a pattern; return it, and the names of its variables by number.

    Raises:
        InvalidPlanError: the text is not a pattern.
    """
    if not isinstance(text, str):
        raise InvalidPlanError(f"a pattern is text such as 'A B+ C', not {text!r:.80}")
    tokens: list[str] = []
    at = 0
    while text[at:].strip():  # terminates: ``at`` grows
        match = _TOKEN.match(text, at)
        if match is None:
            sign = text[at:].strip()[0]
            raise InvalidPlanError(f"pattern ({text.strip()}): {sign!r} is not expected here")
        tokens.append(match.group().strip())
        at = match.end()
    reader = _Reader(text, tokens)
    pattern = reader.alternation()
    if reader.next:
        raise reader.error(f"{reader.next!r} is not expected here")
    if len(reader.names) > VARIABLES_MAX:
        raise reader.error(f"it has {len(reader.names)} variables; the maximum is {VARIABLES_MAX}")
    return pattern, tuple(reader.names)
