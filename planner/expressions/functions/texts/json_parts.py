"""Functions of JSON lists and objects: their size, keys and values, and how to change them."""

from __future__ import annotations

from decimal import Decimal
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
#: Whole numbers with more digits stay as they are written.
_DIGITS_MAX = 400


def _read(text: str) -> Any:
    """Return the value of a JSON text; None for invalid JSON."""
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
    """Return whether ``held`` has all of ``part``; order and repetitions in lists are ignored."""
    if isinstance(held, dict) and isinstance(part, dict):
        return all(key in held and _has(held[key], value) for key, value in part.items())
    if isinstance(held, list) and isinstance(part, list):
        return all(any(_has(one, value) for one in held) for value in part)
    is_same_kind = isinstance(held, bool) == isinstance(part, bool)
    return is_same_kind and not isinstance(part, dict | list) and bool(held == part)


def _has_text(held: str, part: str) -> bool | None:
    """Return whether JSON contains ``part``, as PostgreSQL's ``@>``; None: invalid JSON.

    A list contains a plain value that is one of its elements.
    """
    try:
        whole, wanted = read_json(held), read_json(part)
        is_element = isinstance(whole, list) and not isinstance(wanted, dict | list)
        return _has(whole, [wanted] if is_element else wanted)
    except (ValueError, RecursionError):
        return None


def _merged(held: str, more: str) -> str | None:
    """Concatenate objects or lists as PostgreSQL's ``||`` does; None: invalid JSON."""
    try:
        a, b = read_json(held), read_json(more)
    except (ValueError, RecursionError):
        return None
    if isinstance(a, dict) and isinstance(b, dict):
        return written_json({**a, **b})
    lists = [part if isinstance(part, list) else [part] for part in (a, b)]
    return written_json(lists[0] + lists[1])


def _without(held: str, key: str) -> str | None:
    """Remove a field, or the list elements equal to ``key``; None: neither object nor list."""
    value = _read(held)
    if isinstance(value, dict):
        return written_json({name: part for name, part in value.items() if name != key})
    return written_json([one for one in value if one != key]) if isinstance(value, list) else None


def _steps(path: str) -> list[str] | None:
    """Return the steps of a path such as ``{a,0}``; None: the text is no path."""
    inner = path.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        return None
    return [step.strip().strip('"') for step in inner[1:-1].split(",")] if inner != "{}" else []


def _put(held: Any, steps: list[str], kind: str, value: Any) -> Any:
    """Return a copy with the part at a path replaced, inserted or removed."""
    if not steps:
        return held
    (step, *rest) = steps
    if isinstance(held, dict):
        is_there = step in held
        if rest:
            return {**held, step: _put(held[step], rest, kind, value)} if is_there else held
        if kind == "remove":
            return {name: part for name, part in held.items() if name != step}
        is_put = {"set": True, "replace": is_there}.get(kind, not is_there)
        return {**held, step: value} if is_put else held
    if not isinstance(held, list) or not step.removeprefix("-").isdigit():
        return held
    return _put_in_list(held, int(step), rest, kind, value)


def _put_in_list(held: list[Any], place: int, rest: list[str], kind: str, value: Any) -> list[Any]:
    at = place if place >= 0 else len(held) + place
    is_there = 0 <= at < len(held)
    if rest:
        part = [_put(held[at], rest, kind, value)] if is_there else []
        return [*held[:at], *part, *held[at + 1 :]] if is_there else held
    if kind == "remove":
        return [*held[:at], *held[at + 1 :]] if is_there else held
    if kind == "replace" and not is_there:
        return held
    if kind in ("set", "replace") and is_there:
        return [*held[:at], value, *held[at + 1 :]]
    at = max(0, min(len(held), at + (kind == "after" and is_there)))
    return [*held[:at], value, *held[at:]]


def _changed(held: str, path: str, value: str, kind: str) -> str | None:
    steps = _steps(path)
    if steps is None:
        raise pa.ArrowInvalid(f"{path!r} is no path such as '{{a,0}}'")
    try:
        return written_json(_put(read_json(held), steps, kind, read_json(value)))
    except (ValueError, RecursionError):
        return None


def _without_nulls(held: Any) -> Any:
    if isinstance(held, dict):
        return {name: _without_nulls(part) for name, part in held.items() if part is not None}
    return list(map(_without_nulls, held)) if isinstance(held, list) else held


def _stripped(text: str) -> str | None:
    try:
        return written_json(_without_nulls(read_json(text)))
    except (ValueError, RecursionError):
        return None


def _in_order(held: Any) -> Any:
    """Return the value with keys in PostgreSQL's order; 1.0 and 1e2 are 1 and 100."""
    if isinstance(held, dict):
        names = sorted(held, key=lambda name: (len(name.encode()), name.encode()))
        return {name: _in_order(held[name]) for name in names}
    if isinstance(held, list):
        return list(map(_in_order, held))
    if not isinstance(held, float):
        return held
    number = Decimal(written_json(held))
    is_whole = number.adjusted() < _DIGITS_MAX and number == number.to_integral_value()
    return int(number) if is_whole else held


def _sorted(text: str) -> str | None:
    try:
        return written_json(_in_order(read_json(text)))
    except (ValueError, RecursionError):
        return None


def _by_rows(
    one: Callable[..., Any], kind: pa.DataType
) -> Callable[[Sequence[Value], Call], Value]:
    """Apply a function to the texts of each row; null if a text is null."""

    def evaluated(values: Sequence[Value], call: Call) -> Value:
        arrays = [value for value in values if not isinstance(value, pa.Scalar)]
        rows = len(arrays[0]) if arrays else 1
        parts = [as_array(value, rows, pa.string()).to_pylist() for value in values]
        more = [call.option("kind")] if dict(call.options).get("kind") is not None else []
        found = pa.array(
            [None if None in row else one(*row, *more) for row in zip(*parts, strict=True)], kind
        )
        return found if arrays else found[0]

    return evaluated


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

    @PARTS.function(
        pa.string(),
        _by_rows(_merged, pa.string()),
        spark=not_in_batch,
        sql="JSON_CONCAT",
    )
    def json_concat(self, other: object) -> E:
        """Concatenate two objects or two lists as PostgreSQL's ``||`` does."""
        return self._call("json_concat", other)

    @PARTS.function(
        pa.string(),
        _by_rows(_without, pa.string()),
        spark=not_in_batch,
        sql="JSON_WITHOUT",
    )
    def json_without(self, key: object) -> E:
        """Remove a field of an object, or the elements of a list that are this text."""
        return self._call("json_without", key)

    @PARTS.function(
        pa.string(),
        _by_rows(_changed, pa.string()),
        spark=not_in_batch,
        sql="JSON_CHANGED",
    )
    def json_changed(self, path: object, value: object, kind: str) -> E:
        """Change JSON at a path: ``kind`` is set, replace, insert, after (insert) or remove."""
        return self._call("json_changed", path, value, kind=kind)

    @PARTS.function(
        pa.string(), _of(_stripped, pa.string()), spark=not_in_batch, sql="JSON_WITHOUT_NULLS"
    )
    def json_without_nulls(self) -> E:
        """Remove the fields of objects that are null."""
        return self._call("json_without_nulls")

    @PARTS.function(pa.string(), _of(_sorted, pa.string()), spark=not_in_batch, sql="JSON_SORTED")
    def json_sorted(self) -> E:
        """Write JSON in PostgreSQL's order of keys, so that equal values have equal texts."""
        return self._call("json_sorted")

    @PARTS.function(
        pa.bool_(), _by_rows(_has_text, pa.bool_()), spark=not_in_batch, sql="JSON_CONTAINS"
    )
    def json_contains(self, part: object) -> E:
        """Return whether JSON has all keys and elements of ``part``, as PostgreSQL's ``@>``."""
        return self._call("json_contains", part)
