"""Values in JSON texts."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.errors import InvalidPlanError
from planner.expressions.entries.family import E, Family, Functions, Sql, Text, of_texts
from planner.expressions.functions.texts.words import mapped
from planner.expressions.spark.types import text as quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Value

_TEXT = pa.string()
_STEP = re.compile(r"\.(\w+)|\.?\[(\d+)\]|\.?\['([^']*)'\]")


def json_steps(path: str) -> list[str | int]:
    """``$.a.b[0]`` as the names and places that it has.

    Raises:
        InvalidPlanError: it is no such path.
    """
    rest, steps = path.removeprefix("$"), []
    if not path.startswith("$"):
        rest = f".{path}"
    while rest:  # ends: each turn takes a part of it
        found = _STEP.match(rest)
        if found is None:
            raise InvalidPlanError(f"{path!r} is no path in JSON, as '$.a.b' or '$.list[0]'")
        name = found[1] if found[1] is not None else found[3]
        steps.append(int(found[2]) if name is None else name)
        rest = rest[found.end() :]
    return steps


def _json(values: Sequence[Value], call: Call) -> Value:
    """The value found, as text; null if nothing, JSON's null or broken JSON is there."""
    steps = json_steps(call.option("path"))
    return mapped(values[0], partial(_found_in_json, steps), _TEXT)


def _found_in_json(steps: list[str | int], text: str) -> str | None:
    try:
        at = json.loads(text)
    except (ValueError, RecursionError):
        return None
    for step in steps:
        if isinstance(at, dict) and isinstance(step, str):
            at = at.get(step)
        elif isinstance(at, list) and isinstance(step, int) and step < len(at):
            at = at[step]
        else:
            return None
    if at is None or isinstance(at, str):
        return at
    return json.dumps(at, separators=(",", ":"), ensure_ascii=False)


def _spark_value(call: Call, a: str) -> str:
    steps = json_steps(call.option("path"))
    path = "".join(f"[{s}]" if isinstance(s, int) else f"['{s}']" for s in steps)
    return f"get_json_object({a}, {quoted('$' + path)})"


JSON = Family("str", of_texts)
FUNCTIONS = JSON.functions


class JsonPaths(Functions[E]):
    """Values at a path."""

    __slots__ = ()

    @JSON.function(
        _TEXT,
        _json,
        spark=_spark_value,
        sql=Sql("JSON_VALUE GET_JSON_OBJECT JSON_EXTRACT_STRING"),
    )
    def json_value(self, path: Text) -> E:
        """Read the value at a path such as ``"$.a.b[0]"`` from a text of JSON, as text."""
        if isinstance(path, str):
            json_steps(path)
        return self._call("json_value", path=path)
