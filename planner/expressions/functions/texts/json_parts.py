"""The parts of lists and objects in JSON texts: how many, their keys, their values."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.expressions.entries.family import E, Family, Functions, of_texts
from planner.expressions.functions.texts.json_paths import read_json, written_json
from planner.expressions.functions.texts.words import mapped
from planner.expressions.nodes import as_array
from planner.expressions.spark.errors import not_in_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Call, Value

_TEXTS = pa.list_(pa.string())


def _read(text: str) -> Any:
    """The value; None for invalid JSON."""
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return None


def _length(text: str) -> int | None:
    held = _read(text)
    return len(held) if isinstance(held, list) else None


def _keys(text: str) -> list[str] | None:
    held = _read(text)
    return list(held) if isinstance(held, dict) else None


def _elements(text: str) -> list[str] | None:
    held = _read(text)
    if isinstance(held, dict):
        held = list(held.values())
    return list(map(written_json, held)) if isinstance(held, list) else None


def _has(held: Any, part: Any) -> bool:
    """Whether it has all of ``part``: order in lists, and repeated elements, do not count."""
    if isinstance(held, dict) and isinstance(part, dict):
        return all(key in held and _has(held[key], value) for key, value in part.items())
    if isinstance(held, list) and isinstance(part, list):
        return all(any(_has(one, value) for one in held) for value in part)
    is_same_kind = isinstance(held, bool) == isinstance(part, bool)
    return is_same_kind and not isinstance(part, dict | list) and bool(held == part)


def _has_text(held: str, part: str) -> bool | None:
    """As ``@>`` of PostgreSQL, where a whole list contains a plain value; None: invalid JSON."""
    try:
        whole, wanted = read_json(held), read_json(part)
        is_element = isinstance(whole, list) and not isinstance(wanted, dict | list)
        return _has(whole, [wanted] if is_element else wanted)
    except (ValueError, RecursionError):
        return None


def _contains(values: Sequence[Value], _call: Call) -> Value:
    arrays = [value for value in values if not isinstance(value, pa.Scalar)]
    rows = len(arrays[0]) if arrays else 1
    held, part = (as_array(value, rows, pa.string()).to_pylist() for value in values)
    found = pa.array(
        [
            None if a is None or b is None else _has_text(a, b)
            for a, b in zip(held, part, strict=True)
        ],
        pa.bool_(),
    )
    return found if arrays else found[0]


def _of(one: Callable[[str], Any], kind: pa.DataType) -> Callable[[Sequence[Value], Call], Value]:
    return lambda values, _call: mapped(values[0], partial(one), kind)


PARTS = Family("str", of_texts)
FUNCTIONS = PARTS.functions


class JsonParts(Functions[E]):
    """Lengths, keys and elements."""

    __slots__ = ()

    @PARTS.function(
        pa.int64(),
        _of(_length, pa.int64()),
        spark="json_array_length({0})",
        sql="JSON_ARRAY_LENGTH",
        examples={"JSON_ARRAY_LENGTH('[1, [2, 3]]')": 2},
    )
    def json_length(self) -> E:
        """Count the elements of a list in JSON; null for another value."""
        return self._call("json_length")

    @PARTS.function(
        _TEXTS,
        _of(_keys, _TEXTS),
        spark=not_in_batch,
        sql="JSON_KEYS",
        examples={"""JSON_KEYS('{"a": 1, "b": {"c": 2}}')""": ["a", "b"]},
    )
    def json_keys(self) -> E:
        """List the keys of an object in JSON; null for another value."""
        return self._call("json_keys")

    @PARTS.function(
        _TEXTS,
        _of(_elements, _TEXTS),
        spark=not_in_batch,
        sql="JSON_ELEMENTS",
    )
    def json_elements(self) -> E:
        """List the elements of a list, or the values of an object, each as JSON."""
        return self._call("json_elements")

    @PARTS.function(pa.bool_(), _contains, spark=not_in_batch, sql="JSON_CONTAINS")
    def json_contains(self, part: object) -> E:
        """Whether JSON has all keys and elements of another JSON, as ``@>`` of PostgreSQL."""
        return self._call("json_contains", part)
