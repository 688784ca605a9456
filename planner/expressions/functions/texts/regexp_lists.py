"""Lists of texts by a regular expression: all matches, and the parts between them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.entries.family import E, Family, Functions, Sql, Text, Whole, of_texts
from planner.expressions.functions.texts.places import checked
from planner.expressions.functions.texts.words import mapped
from planner.expressions.spark.errors import not_in_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Value

_TEXTS = pa.list_(pa.string())
#: Marks around matches; a text that contains these control characters is an error.
_BEGIN, _END = "\x01", "\x02"


def _marked(text: str, pattern: str, group: int) -> str:
    """Return the text, with marks around the group of each match, in place of the match.

    Raises:
        pa.ArrowInvalid: the text has such marks.
    """
    if _BEGIN in text or _END in text:
        raise pa.ArrowInvalid("cannot search a text that has the control characters 1 or 2")
    made = pc.replace_substring_regex(pa.scalar(text), pattern, f"{_BEGIN}\\{group}{_END}")
    return str(made.as_py())


def _all(pattern: str, group: int, text: str) -> list[str]:
    return [part.split(_END)[0] for part in _marked(text, pattern, group).split(_BEGIN)[1:]]


def _parts(pattern: str, most: int, text: str) -> list[str]:
    first, *others = _marked(text, pattern, 0).split(_BEGIN, most - 1 if most > 0 else -1)
    parts = [first, *(part.split(_END, 1)[1] for part in others)]
    return [part.replace(_BEGIN, "").replace(_END, "") for part in parts]


def _extract_all(values: Sequence[Value], call: Call) -> Value:
    return mapped(values[0], partial(_all, call.option("pattern"), call.option("group")), _TEXTS)


def _split(values: Sequence[Value], call: Call) -> Value:
    return mapped(values[0], partial(_parts, call.option("pattern"), call.option("most")), _TEXTS)


def _check(call: Call) -> None:
    pattern = call.option("pattern")
    group = call.option("group") if call.function == "extract_all" else 0
    try:
        pc.replace_substring_regex(pa.scalar(""), pattern, f"\\{group}")
    except pa.ArrowInvalid as error:
        raise InvalidPlanError(f"{pattern!r}: {error}") from None
    is_empty = pc.match_substring_regex(pa.scalar(""), rf"\A(?:{pattern})\z").as_py()
    if is_empty and call.function == "split_regex":
        raise InvalidPlanError(f"{pattern!r} matches an empty text, which splits nothing")


LISTS = Family("str", of_texts)
FUNCTIONS = LISTS.functions


class RegexpLists(Functions[E]):
    """All matches of a pattern, and the parts between them."""

    __slots__ = ()

    @LISTS.function(
        _TEXTS,
        _extract_all,
        resolve=checked(_check, _TEXTS),
        spark=not_in_batch,
        sql=Sql(
            "REGEXP_EXTRACT_ALL",
            lambda s, p, n=0: s.str.extract_all(p, n),
            parts=("this", "expression", "group"),
        ),
        examples={"REGEXP_EXTRACT_ALL('a1b22', '[0-9]+')": ["1", "22"]},
    )
    def extract_all(self, pattern: Text, group: Whole = 0) -> E:
        """Return all matches of a pattern as a list, or of each match the group ``group``."""
        return self._call("extract_all", pattern=pattern, group=group)

    @LISTS.function(
        _TEXTS,
        _split,
        resolve=checked(_check, _TEXTS),
        spark=not_in_batch,
        sql="REGEXP_SPLIT",
    )
    def split_regex(self, pattern: Text, most: Whole = 0) -> E:
        """Split at the matches of a pattern, into at most ``most`` parts (0: all)."""
        return self._call("split_regex", pattern=pattern, most=most)
