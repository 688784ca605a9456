"""Reads the producer of a request, from fields with the names of its protocol. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.intake.errors import PostError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIGITS_MAX = 19
_SHOWN_CHARS_MAX = 80


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer with its epoch and the number of its append.

    If ``name`` is None, the producer is anonymous: rows that it sends twice are appended twice.
    """

    name: str | None = None
    epoch: int = 0
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """The names of the three fields in a protocol. ``place``: the part of a request with them."""

    place: str
    producer: str
    epoch: str
    number: str


def read_producer(given: Mapping[str, object], words: Words) -> Producer:
    """Return the producer of a request, given its fields and their names ``words``.

    Raises:
        PostError: a field is missing, or is not a number.
    """
    producer = given.get(words.producer)
    if producer is None:
        for word in (words.epoch, words.number):
            if word in given:
                raise PostError(f"{words.place} {word} needs {words.producer}")
        return Producer()
    if not isinstance(producer, str):
        raise PostError(f"{words.place} {words.producer} is text, not {_shown(producer)}")
    if words.number not in given:
        raise PostError(f"{words.place} {words.producer} needs {words.number}, dense from 0")
    epoch = _count(given, words.epoch, words) if words.epoch in given else 0
    return Producer(producer, epoch, _count(given, words.number, words))


def _count(given: Mapping[str, object], word: str, words: Words) -> int:
    text = str(given[word])
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        number = _shown(given[word])
        raise PostError(f"{words.place} {word} must be a number of 0 or more, not {number}")
    return int(text)


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN_CHARS_MAX]
