"""Values at paths such as ``$.a.b[0]`` in JSON texts."""

from __future__ import annotations

import itertools
import json
import re
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from planner.errors import InvalidPlanError
from planner.expressions.entries.family import E, Family, Functions, Sql, Text, of_texts
from planner.expressions.functions.texts.words import mapped
from planner.expressions.spark.errors import UnsupportedInBatchError
from planner.expressions.spark.types import SparkText, text as quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from planner.expressions.nodes import Call, Node, Resolver, Value

_TEXT = pa.string()
_STEP = re.compile(
    r"\.(\w+)|\.?\[(\d+)\]|\.?\['([^']*)'\]|\.?\[\"([^\"]*)\"\]|\.\"([^\"]*)\"|\.?\[\*\]|\.\*"
)
_FROM_END = re.compile(r"-[0-9]+")
#: A step of a path: a name, an index, or a wildcard (``[*]`` or ``.*``).
Step = str | int | tuple[str]
_ELEMENTS, _VALUES = ("elements",), ("values",)


def json_steps(path: str) -> list[Step]:
    """Parse a path such as ``$.a.b[0]`` to its names, indexes and wildcards.

    Raises:
        InvalidPlanError: the text is not a path.
    """
    rest = path.removeprefix("$")
    steps: list[Step] = []
    if not path.startswith("$"):
        rest = f".{path}"
    while rest:  # terminates: each pass removes a step
        match = _STEP.match(rest)
        if match is None:
            raise InvalidPlanError(f"{path!r} is not a JSON path, such as '$.a.b' or '$.list[0]'")
        name = next((part for part in (match[1], *match.groups()[2:]) if part is not None), None)
        wild = _VALUES if match[0] == ".*" else _ELEMENTS
        place = wild if match[2] is None else int(match[2])
        steps.append(place if name is None else name)
        rest = rest[match.end() :]
    return steps


def json_key(name: str) -> str:
    """Write the step of a path that reads a key of an object.

    Raises:
        InvalidPlanError: the name has both kinds of quotes.
    """
    if '"' not in name:
        return f'["{name}"]'
    if "'" in name:
        raise InvalidPlanError(
            f"{name!r} has both kinds of quotes; use JSON_KEYS and JSON_ELEMENTS"
        )
    return f"['{name}']"


def json_paths(keys: Sequence[str]) -> list[str]:
    """Return the possible paths of a list of keys: digits are a list index or a field's name."""
    steps = [
        [f"[{int(key)}]", json_key(key)] if key.isascii() and key.isdigit() else [json_key(key)]
        for key in keys
    ]
    for key in keys:
        if _FROM_END.fullmatch(key):
            raise InvalidPlanError(f"{key} counts from the end of a list; write j -> {key}")
    return ["$" + "".join(path) for path in itertools.product(*steps)]


def json_operand(written: str, engine: str) -> str:
    """Return the path that the text after ``->`` names.

    PostgreSQL reads each text as a key, DuckDB and others one that does not begin with ``$``.

    Raises:
        InvalidPlanError: it is a path that is not supported.
    """
    if engine == "postgres":
        return "$" + json_key(written)
    if written == "*" or written.startswith("/"):
        raise InvalidPlanError(
            f"{written!r} is not supported; write a path such as '$.a.b' or a key"
        )
    return written if written.startswith("$") else "$" + (json_key(written) if written else "")


def is_wild(steps: Sequence[Step]) -> bool:
    """Return whether a path may have several values."""
    return any(isinstance(step, tuple) for step in steps)


class _Long(float):
    """A number that a double cannot hold; it is written as it was read."""

    text: str


def _number(text: str) -> float:
    number = float(text)
    if isfinite(number) and Decimal(repr(number)) == Decimal(text):
        return number
    kept = _Long(number)
    kept.text = text
    return kept


def written_json(value: Any) -> str:
    """Write a value of :func:`read_json` without spaces."""
    if isinstance(value, _Long):
        return value.text
    if isinstance(value, list):
        return f"[{','.join(map(written_json, value))}]"
    if isinstance(value, dict):
        pairs = (f"{written_json(key)}:{written_json(held)}" for key, held in value.items())
        return f"{{{','.join(pairs)}}}"
    return json.dumps(value, ensure_ascii=False)


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: the text is not JSON, or a text in it is half of a surrogate pair.
        RecursionError: it is nested too deeply.
    """
    value = json.loads(text, parse_float=_number)
    if "\\" in text:  # only an escape can make half of a surrogate pair
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _matches(steps: Sequence[Step], text: str) -> list[Any] | None:
    """Return the values at a path; None for invalid JSON."""
    try:
        values = [read_json(text)]
    except (ValueError, RecursionError):
        return None
    for step in steps:
        values = [value for held in values for value in _below(held, step)]
    return values


def _below(held: Any, step: Step) -> Iterable[Any]:
    if step == _VALUES:
        return held.values() if isinstance(held, dict) else ()
    if step == _ELEMENTS:
        return held if isinstance(held, list) else ()
    if isinstance(held, dict) and isinstance(step, str):
        return [held[step]] if step in held else ()
    if isinstance(held, list) and isinstance(step, int):
        return held[step : step + 1]
    return ()


def _value(steps: Sequence[Step], text: str) -> str | None:
    """Return the value as text; None for a missing value, JSON's null and invalid JSON."""
    (value,) = _matches(steps, text) or [None]
    return value if value is None or isinstance(value, str) else written_json(value)


def _extracted(steps: Sequence[Step], text: str) -> str | None:
    """Return the value as JSON; with wildcards, a list of all values. None for a missing value."""
    values = _matches(steps, text)
    if values is None or is_wild(steps):
        return None if values is None else written_json(values)
    return written_json(values[0]) if values else None


def _query(steps: Sequence[Step], text: str) -> str | None:
    """Return :func:`_extracted` if the value is an object or a list, else None."""
    value = _extracted(steps, text)
    return value if value is not None and value[0] in "{[" else None


def _exists(steps: Sequence[Step], text: str) -> bool:
    return bool(_matches(steps, text))


def _of(
    one: Callable[[Sequence[Step], str], Any], kind: pa.DataType
) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], call: Call) -> Value:
        return mapped(values[0], partial(one, json_steps(call.option("path"))), kind)

    return evaluate


def _one_value(call: Call) -> Node | None:
    """Set the types of a function of a path that has one value."""
    path = call.option("path")
    if is_wild(json_steps(path)):
        raise InvalidPlanError(
            f"{path!r} names several values; use JSON_QUERY, which returns them as a list"
        )
    return of_texts(_TEXT)(call)


def _any_path(kind: pa.DataType) -> Resolver:
    def resolve(call: Call) -> Node | None:
        json_steps(call.option("path"))
        return of_texts(kind)(call)

    return resolve


def _not_in_spark(call: Call, _a: str) -> NoReturn:
    raise UnsupportedInBatchError(
        str(call), "Spark's get_json_object does not distinguish JSON's types"
    )


def _spark_value(call: Call, a: str) -> str:
    if isinstance(call.option("path"), SparkText):
        raise UnsupportedInBatchError(str(call), "Spark reads paths otherwise: use a literal path")
    steps = json_steps(call.option("path"))
    if any(isinstance(s, str) and (s in ("", "*") or set("'?") & set(s)) for s in steps):
        raise UnsupportedInBatchError(str(call), "Spark's get_json_object cannot read this key")
    path = "".join(f"[{s}]" if isinstance(s, int) else f"['{s}']" for s in steps)
    return f"get_json_object({a}, {quoted('$' + path)})"


JSON = Family("str", of_texts)
FUNCTIONS = JSON.functions


class JsonPaths(Functions[E]):
    """Values at a path."""

    __slots__ = ()

    @JSON.function(
        _TEXT,
        _of(_value, _TEXT),
        resolve=_one_value,
        spark=_spark_value,
        sql=Sql("JSON_VALUE GET_JSON_OBJECT JSON_EXTRACT_STRING"),
    )
    def json_value(self, path: Text) -> E:
        """Return the value at a path such as ``"$.a.b[0]"`` in a JSON text, as text."""
        if isinstance(path, str):
            json_steps(path)
        return self._call("json_value", path=path)

    @JSON.function(
        _TEXT,
        _of(_extracted, _TEXT),
        resolve=_any_path(_TEXT),
        spark=_not_in_spark,
        examples={"""JSON_EXTRACT('{"a": [1, "z"]}', '$.a[1]')""": '"z"'},
        sql="JSON_EXTRACT",
    )
    def json_extract(self, path: Text) -> E:
        """Return the value at a path as JSON; with ``[*]`` or ``.*`` the list of all values."""
        return self._call("json_extract", path=path)

    @JSON.function(
        _TEXT,
        _of(_query, _TEXT),
        resolve=_any_path(_TEXT),
        spark=_not_in_spark,
        sql="JSON_QUERY",
        examples={"""JSON_QUERY('{"a": {"b": 1}}', '$.a')""": '{"b":1}'},
    )
    def json_query(self, path: Text) -> E:
        """Return the object or list at a path as JSON; null for any other value."""
        return self._call("json_query", path=path)

    @JSON.function(
        pa.bool_(),
        _of(_exists, pa.bool_()),
        resolve=_any_path(pa.bool_()),
        spark=_not_in_spark,
        sql="JSON_EXISTS",
        examples={"""JSON_EXISTS('{"a": null}', '$.a')""": True},
    )
    def json_exists(self, path: Text) -> E:
        """Return whether a value exists at a path, JSON's null included; false for invalid JSON."""
        return self._call("json_exists", path=path)
