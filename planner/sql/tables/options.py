"""Parses options in ``WITH (...)`` into a typed record of their connector.

A record is a dataclass whose fields are made by :func:`option`: the spellings of the option, ours
and Flink SQL's, and the function that parses its value. ``${name}`` in a text is replaced by a
variable.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from sqlglot import exp

from planner.api.sources import AUTO
from planner.sql.reading.literals import interval_us, plain_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from planner.sql.reading.errors import SqlError
    from planner.sql.reading.parsing import SqlText

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SPELLINGS, _READ = "spellings", "read"
_PARTITIONS_MAX = 1024
#: The last character of a spelling that matches every name with this prefix.
_ANY = "*"
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Given:
    """The options of one CREATE, not parsed yet."""

    text: SqlText
    variables: Mapping[str, str]
    #: The name of the created table.
    name: exp.Expr
    values: Mapping[str, exp.Expr]

    def error(self, option: str, reason: str) -> SqlError:
        """Return an error at the option, or at the table's name if the option is missing."""
        return self.text.error(self.values.get(option, self.name), reason)

    def text_of(self, option: str) -> str:
        """Return the text of an option, with variables replaced."""
        node = self.values[option]
        if isinstance(node, exp.Column | exp.Var):
            return str(node.name)
        value = plain_value(node, self.text)
        if not isinstance(value, str):
            raise self.error(option, f"{option} must be a text in single quotes")
        return _VARIABLE.sub(lambda match: self._variable(match[1], node), value)

    def _variable(self, name: str, node: exp.Expr) -> str:
        if name not in self.variables:
            raise self.text.error(node, f"no value for ${{{name}}}; give one with --set {name}=...")
        return self.variables[name]


def option(
    *spellings: str,
    read: Callable[[Given, str], Any] | None = None,
    default: Any = MISSING,
    is_shown: bool = True,
) -> Any:
    """Make a field of a record: the first spelling is ours; without ``default`` it is required.

    ``is_shown``: whether the record's repr includes it. A spelling that ends in ``*`` matches all
    names with this prefix; they are collected in a dict.
    """
    about = {_SPELLINGS: spellings, _READ: read or text}
    if default is MISSING:
        return field(metadata=about, repr=is_shown)
    return field(default=default, metadata=about, repr=is_shown)


def spellings(record: type[Any]) -> tuple[str, ...]:
    """Return all names that options of a record have."""
    return tuple(name for f in fields(record) for name in f.metadata[_SPELLINGS])


def knows(record: type[Any], name: str) -> bool:
    """Return whether the record has an option of that name."""
    return any(_is_spelled(name, spelling) for spelling in spellings(record))


def read_options(record: type[Record], given: Given, what: str) -> Record:
    """Parse the options into a record; ``what`` is the table's title in messages.

    Raises:
        SqlError: an option is missing, is given twice or has an invalid value.
    """
    values: dict[str, Any] = {}
    exact = set(spellings(record))
    for f in fields(record):  # type: ignore[arg-type]
        names = f.metadata[_SPELLINGS]
        if names[0].endswith(_ANY):
            start = names[0].removesuffix(_ANY)
            many = [n for n in given.values if _is_spelled(n, names[0]) and n not in exact]
            values[f.name] = {n.removeprefix(start): f.metadata[_READ](given, n) for n in many}
            continue
        present = [name for name in names if name in given.values]
        if len(present) > 1:
            raise given.error(present[1], f"{present[1]} has the same meaning as {present[0]}")
        if present:
            values[f.name] = f.metadata[_READ](given, present[0])
        elif f.default is MISSING:
            raise given.error("", f"{what} needs {names[0]} = '...'")
    return record(**values)


def unknown_option(name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown option, with the closest known names."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}? There" if near else "there"
    return f"no such option as {name!r}; {hint} are: {', '.join(names)}"


def _is_spelled(name: str, spelling: str) -> bool:
    if spelling.endswith(_ANY):
        return name.startswith(spelling.removesuffix(_ANY))
    return name == spelling


# Functions that parse a value.


def text(given: Given, name: str) -> str:
    """Parse a text, or a word without quotes."""
    return given.text_of(name)


def names(given: Given, name: str) -> tuple[str, ...]:
    """Parse a list of names, separated by commas or semicolons."""
    return tuple(part.strip() for part in re.split("[,;]", given.text_of(name)) if part.strip())


def node(given: Given, name: str) -> exp.Expr:
    """Return the expression as it is written."""
    return given.values[name]


def null_or_text(given: Given, name: str) -> str | None:
    """Parse a text; NULL means no text."""
    return None if isinstance(given.values[name], exp.Null) else given.text_of(name)


def duration(given: Given, name: str) -> int:
    """Parse a duration, in microseconds."""
    us = interval_us(given.values[name], given.text)
    if us < 0:
        raise given.error(name, f"{name} cannot be negative")
    return us


def delay(given: Given, name: str) -> int | str:
    """Parse a duration, ``'auto'``, or the percentile of an estimated delay, such as ``'p99'``."""
    value = given.values[name]
    is_text = isinstance(value, exp.Literal) and value.is_string
    is_named = is_text and (value.name.startswith("p") or value.name == AUTO)
    return str(value.name) if is_named else duration(given, name)


def count(given: Given, name: str) -> int:
    """Parse a number of partitions; quotes are accepted, as in Flink."""
    value = given.values[name]
    written = given.text_of(name) if value.is_string else str(value.name)
    number = int(written) if re.fullmatch(r"[0-9]{1,9}", written.strip()) else 0
    if not 1 <= number <= _PARTITIONS_MAX:
        raise given.error(name, f"{name} must be a whole number from 1 to {_PARTITIONS_MAX}")
    return number


def truth(given: Given, name: str) -> bool:
    """Parse TRUE or FALSE; quotes are accepted, as in Flink."""
    value = given.values[name]
    word = str(value.this) if isinstance(value, exp.Boolean) else given.text_of(name)
    lower = word.strip().lower()
    if lower not in ("true", "false"):
        raise given.error(name, f"{name} is TRUE or FALSE")
    return lower == "true"


def choice(known: Mapping[str, Any]) -> Callable[[Given, str], Any]:
    """Make a parser for a choice of words, each with its value."""

    def read(given: Given, name: str) -> Any:
        given_word = given.text_of(name).lower()
        if given_word in known:
            return known[given_word]
        *most, last = (repr(word) for word in known)
        words = f"{', '.join(most)} or {last}" if most else last
        raise given.error(name, f"{name} is {words}")

    return read
