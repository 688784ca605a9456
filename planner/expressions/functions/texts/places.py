"""Parts of texts by position, and LIKE, as SQL defines them: positions count from 1."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.entries.family import (
    E,
    Family,
    Functions,
    Sql,
    Text,
    Whole,
    at_least_zero,
    of_texts,
    operand_node,
    plain_value,
)
from planner.expressions.functions.texts.text import not_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Call, Node, Value

_TEXT = pa.string()
_WILD = {"%": ".*", "_": "."}


def checked(check: Callable[[Call], object], result: pa.DataType) -> Callable[[Call], Node | None]:
    """Return the typing rule of a function of texts that calls ``check`` on its options."""
    resolve = of_texts(result)

    def checking(call: Call) -> Node | None:
        check(call)
        return resolve(call)

    return checking


def bounds_of(start: int, length: int | None) -> tuple[int, int | None]:
    """Return the slice ``[start, stop)`` of ``SUBSTRING(s, start, length)``.

    Raises:
        InvalidPlanError: the length is negative.
    """
    if length is not None and length < 0:
        raise InvalidPlanError(f"SUBSTRING takes a length of 0 or more, not {length}")
    if start < 0:
        is_end = length is None or start + length >= 0
        return start, None if is_end or length is None else start + length
    first = max(start - 1, 0)
    return first, None if length is None else max(start - 1 + length, first)


def _bounds(call: Call) -> tuple[int, int | None]:
    return bounds_of(call.option("start"), call.option("length"))


def _substring(values: Sequence[Value], call: Call) -> Value:
    return pc.utf8_slice_codeunits(values[0], *_bounds(call))


def _place(call: Call) -> int:
    place: int = call.option("place")
    if place == 0:
        raise InvalidPlanError("SPLIT_PART counts positions from 1, or from -1 backwards")
    if call.option("separator") == "":
        raise InvalidPlanError("SPLIT_PART: the separator must not be empty")
    return place


def _split_part(values: Sequence[Value], call: Call) -> Value:
    """Return the part at a position; an empty text if there is none."""
    (value,) = values
    if isinstance(value, pa.Scalar):
        return _split_part([pa.array([value.as_py()], _TEXT)], call)[0]
    place = _place(call)
    parts = pc.split_pattern(value, call.option("separator"))
    if place < 0:
        ends = pc.list_value_length(parts)
        return pa.array(
            [
                None if row is None else row[place] if size >= -place else ""
                for row, size in zip(parts.to_pylist(), ends.to_pylist(), strict=True)
            ],
            _TEXT,
        )
    padded = pc.list_slice(parts, place - 1, place, return_fixed_size_list=True)
    part = pc.list_element(padded, 0).cast(_TEXT)
    return pc.if_else(pc.is_valid(value), pc.fill_null(part, ""), pa.scalar(None, _TEXT))


def like_pieces(pattern: str, escape: str) -> list[tuple[str, bool]]:
    """Return the characters of a LIKE pattern, each with whether it is a wildcard.

    Raises:
        InvalidPlanError: nothing follows the last ``escape``.
    """
    characters = iter(pattern)
    pieces: list[tuple[str, bool]] = []
    for character in characters:
        if character == escape:
            taken = next(characters, "")
            if not taken:
                raise InvalidPlanError(f"LIKE {pattern!r}: nothing follows the last {escape!r}")
            pieces.append((taken, False))
        else:
            pieces.append((character, character in _WILD))
    return pieces


def like_regex(pieces: Sequence[tuple[str, bool]]) -> str:
    """Return the regular expression of a LIKE pattern."""
    parts = (_WILD[c] if is_wild else re.escape(c) for c, is_wild in pieces)
    return rf"(?s)\A{''.join(parts)}\z"


def _pattern(call: Call) -> str:
    return like_regex(like_pieces(call.option("pattern"), call.option("escape")))


def _like(values: Sequence[Value], call: Call) -> Value:
    return pc.match_substring_regex(values[0], _pattern(call))


def _sql_substring(text: Any, start: Any = 1, length: Any = None) -> Any:
    """Compile SUBSTRING; literal positions make it a slice."""
    first, count = plain_value(start), plain_value(length)
    literals = [value for value in (first, count) if operand_node(value) is None]
    if any(not isinstance(value, int | None) or isinstance(value, bool) for value in literals):
        raise InvalidPlanError("SUBSTRING takes a start and a length, both whole numbers")
    if isinstance(first, int) and len(literals) > 1:
        return text.str.slice(*bounds_of(first, count))
    return text.str.substring(start, length)


def _sql_left(text: Any, count: Any) -> Any:
    return _sql_substring(text, 1, at_least_zero(count))


def _sql_right(text: Any, count: Any) -> Any:
    wanted = at_least_zero(count)
    if isinstance(wanted, int):
        return text.str.slice(-wanted, None) if wanted else text.str.slice(0, 0)
    return text.str.substring(-wanted, wanted)


PLACES = Family("str", of_texts)
FUNCTIONS = PLACES.functions
_NO_START = "substring({0}, 1, {length} - 1)"


class Places(Functions[E]):
    """Parts by position, and LIKE."""

    __slots__ = ()

    @PLACES.function(
        _TEXT,
        _substring,
        resolve=checked(_bounds, _TEXT),
        spark="if({start} = 0, " + _NO_START + ", substring({0}, {start}, {length}))",
        sql=(
            Sql("SUBSTRING SUBSTR", _sql_substring, parts=("this", "start", "length")),
            Sql("LEFT", _sql_left, parts=("this", "expression")),
            Sql("RIGHT", _sql_right, parts=("this", "expression")),
        ),
        examples={"SUBSTRING('stream', 2, 3)": "tre", "RIGHT('stream', 2)": "am"},
    )
    def substring(self, start: Whole, length: Whole | None = None) -> E:
        """Return ``length`` characters from position ``start``, from 1; negative: from the end."""
        if length is None:
            length = 2**30
        return self._call("substring", start=start, length=length)

    @PLACES.function(
        _TEXT,
        _split_part,
        resolve=checked(_place, _TEXT),
        spark=lambda call, a: not_empty(
            call, "separator", lambda by: f"split_part({a}, {by}, {call.option('place')})"
        ),
        sql=Sql("SPLIT_PART", parts=("this", "delimiter", "part_index")),
        examples={"SPLIT_PART('a,b,c', ',', 2)": "b", "SPLIT_PART('a,b,c', ',', -1)": "c"},
    )
    def split_part(self, separator: Text, place: Whole) -> E:
        """Return the part at a position, from 1, or -1 for the last; ``""`` if there is none."""
        return self._call("split_part", separator=separator, place=place)

    @PLACES.function(
        pa.bool_(),
        _like,
        resolve=checked(_pattern, pa.bool_()),
        spark="({0} like {pattern} escape {escape})",
    )
    def like(self, pattern: Text, escape: str = "\\") -> E:
        """Return whether the text matches: ``%`` is any text, ``_`` any character.

        After ``escape``, the next character has no special meaning.
        """
        return self._call("like", pattern=pattern, escape=escape)
