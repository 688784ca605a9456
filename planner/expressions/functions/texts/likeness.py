"""Similarity of texts: edit distance and sound.

Both count characters, not bytes. Each distinct text, or pair of texts, is computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from planner.expressions.entries.family import E, Family, Functions, Sql, of_texts
from planner.expressions.functions.texts.text import LENGTHS
from planner.expressions.functions.texts.words import mapped
from planner.expressions.nodes import as_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Value

_TEXT, _INTEGER = pa.string(), pa.int64()
#: The Soundex digits of A to Z; 0: none. A vowel separates equal digits, H and W do not.
_SOUNDS = "01230127022455012623017202"
_VOWEL, _SILENT = "0", "7"
_SOUNDS_MAX = 4


def edits(one: str, other: str) -> int:
    """Return the number of characters to insert, delete or replace to turn ``one`` into ``other``.

    Source: Hyyrö, "A bit-vector algorithm for computing Levenshtein and Damerau edit distances":
    two integers hold a column of the distance table: the bits of its +1 and of its -1 steps.
    """
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for at, character in enumerate(one):
        places[character] = places.get(character, 0) | 1 << at
    whole, last = (1 << len(one)) - 1, 1 << len(one) - 1
    up, down, distance = whole, 0, len(one)
    for character in other:
        equal = places.get(character, 0)
        diagonal = (((equal & up) + up) ^ up) | equal | down
        right_up, right_down = down | ~(diagonal | up), up & diagonal
        distance += bool(right_up & last) - bool(right_down & last)
        right_up, right_down = right_up << 1 | 1, right_down << 1
        up = (right_down | ~(diagonal | right_up)) & whole
        down = right_up & diagonal & whole
    return distance


def soundex(text: str) -> str:
    """Return the Soundex code: "R163" for Robert; a text without A to Z in front is unchanged."""
    if not text or not _is_letter(text[0]):
        return text
    code = text[0].upper()
    before = _digit(text[0])
    for character in text[1:]:
        digit = _digit(character) if _is_letter(character) else _VOWEL
        if digit == _SILENT:
            continue
        if digit not in (_VOWEL, before):
            code += digit
        if len(code) == _SOUNDS_MAX:
            return code
        before = digit
    return code.ljust(_SOUNDS_MAX, "0")


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _digit(letter: str) -> str:
    return _SOUNDS[ord(letter.upper()) - ord("A")]


def _levenshtein(values: Sequence[Value], _call: Call) -> Value:
    lengths = [len(value) for value in values if not isinstance(value, pa.Scalar)]
    rows = lengths[0] if lengths else 1
    known: dict[tuple[str, str], int] = {}
    distances: list[int | None] = []
    for pair in zip(*(as_array(v, rows, _TEXT).to_pylist() for v in values), strict=True):
        if None in pair:
            distances.append(None)
            continue
        if pair not in known:
            known[pair] = edits(*pair)
        distances.append(known[pair])
    made = pa.array(distances, _INTEGER)
    return made if lengths else made[0]


LIKENESS = Family("str", of_texts)
FUNCTIONS = LIKENESS.functions


class Likeness(Functions[E]):
    """Similarity of texts."""

    __slots__ = ()

    @LIKENESS.function(
        _INTEGER,
        _levenshtein,
        spark="cast(levenshtein({args}) as {type})",
        sql=Sql("LEVENSHTEIN", parts=("this", "expression")),
        bounds=LENGTHS,
        examples={"LEVENSHTEIN('kitten', 'sitting')": 3},
    )
    def levenshtein(self, other: object) -> E:
        """Return the edit distance: the characters to insert, delete or replace for ``other``."""
        return self._call("levenshtein", other)

    @LIKENESS.function(
        _TEXT,
        lambda values, _call: mapped(values[0], soundex, _TEXT),
        spark="soundex({args})",
        sql="SOUNDEX",
        examples={"SOUNDEX('Robert')": "R163"},
    )
    def soundex(self) -> E:
        """Return the Soundex code, such as ``"R163"``; equal for English names that sound alike."""
        return self._call("soundex")
