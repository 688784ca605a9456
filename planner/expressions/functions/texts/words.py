"""More functions of text: cut, pad, find, take apart; digests; values inside of JSON.

What Arrow has no kernel for is computed once for each different value.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.functions.signature import method, text_of, typed
from planner.expressions.nodes import Function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Call, Node, Value

_TEXT, _INTEGER = pa.string(), pa.int64()
#: Longer padding and repetition is refused.
CHARACTERS_MAX = 10_000
#: In a regular expression: what is quoted or escaped, and classes; no bracket in it opens a group.
NO_GROUP = r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
#: How a group with a name begins.
NAMED_GROUP = r"\(\?P?<\w+>"
_GROUP = re.compile(rf"{NO_GROUP}|{NAMED_GROUP}|\((?!\?)", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\.?\[(\d+)\]|\.?\['([^']*)'\]")


def _resolver(result: pa.DataType) -> Callable[[Call], Node | None]:
    def resolve(call: Call) -> Node | None:
        if not all(text_of(arg) for arg in call.args):
            return None
        return typed(call, result, *[_TEXT] * len(call.args))

    return resolve


def mapped(value: Value, one: Callable[[str], Any], kind: pa.DataType) -> Value:
    """``one`` of every text; of each different one once."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(one(value.as_py()) if value.is_valid else None, kind)
    encoded = value.dictionary_encode()
    found = pa.array([one(text) for text in encoded.dictionary.to_pylist()], kind)
    return found.take(encoded.indices)


def _trim(side: str, values: Sequence[Value], call: Call) -> Value:
    characters = call.option("characters")
    if characters is None:
        return getattr(pc, f"utf8_{side}trim_whitespace")(values[0])
    return getattr(pc, f"utf8_{side}trim")(values[0], characters)


def _position(values: Sequence[Value], call: Call) -> Value:
    """Of the first occurrence, from 1 on; 0 for none."""
    pattern = call.option("pattern")
    return mapped(values[0], lambda text: text.find(pattern) + 1, _INTEGER)


def _initcap(text: str) -> str:
    """The first of each run of letters and digits is upper case, the others are lower case."""
    return re.sub(r"[^\W_]+", lambda word: word[0][:1].upper() + word[0][1:].lower(), text)


def _pad(is_left: bool, values: Sequence[Value], call: Call) -> Value:
    """To ``width`` characters, by ``fill`` over and over; longer text is cut."""
    width, fill = call.option("width"), call.option("fill")

    def padded(text: str) -> str:
        missing = width - len(text)
        added = (fill * (missing // len(fill) + 1))[:missing] if missing > 0 and fill else ""
        return f"{added}{text}" if is_left and added else f"{text}{added}"[:width]

    return mapped(values[0], padded, _TEXT)


def named_groups(pattern: str) -> str:
    """The pattern as one group ``g0``, and its groups as ``g1``, ``g2``..."""
    count = 0

    def one(found: re.Match[str]) -> str:
        nonlocal count
        if not found[0].startswith("("):
            return found[0]
        count += 1
        return f"(?P<g{count}>"

    return f"(?P<g0>{_GROUP.sub(one, pattern)})"


def _resolve_extract(call: Call) -> Node | None:
    pattern, group = call.option("pattern"), call.option("group")
    try:
        found = pc.extract_regex(pa.array([""]), named_groups(pattern))
    except pa.ArrowInvalid as error:
        raise InvalidPlanError(f"{pattern!r} is not a regular expression: {error}") from None
    if not 0 <= group < found.type.num_fields:
        groups = found.type.num_fields - 1
        raise InvalidPlanError(f"{call}: the pattern has {groups} groups, and no {group}")
    return _resolver(_TEXT)(call)


def _extract(values: Sequence[Value], call: Call) -> Value:
    """The group of the first match; empty text where nothing matches."""
    found = pc.extract_regex(values[0], named_groups(call.option("pattern")))
    if isinstance(found, pa.Scalar):
        text = found.as_py()[f"g{call.option('group')}"] if found.is_valid else ""
        return pa.scalar(text if values[0].is_valid else None, _TEXT)
    group = pc.struct_field(found, f"g{call.option('group')}").cast(_TEXT)
    return pc.if_else(pc.is_valid(values[0]), pc.fill_null(group, ""), pa.scalar(None, _TEXT))


def _digest(values: Sequence[Value], call: Call) -> Value:
    """In hexadecimal digits of lower case, of the text in UTF-8."""
    new = getattr(hashlib, call.option("algorithm"))

    def digest(text: str) -> str:
        return str(new(text.encode(), usedforsecurity=False).hexdigest())

    return mapped(values[0], digest, _TEXT)


def _translate(values: Sequence[Value], call: Call) -> Value:
    table = translation(call.option("characters"), call.option("others"))
    return mapped(values[0], lambda text: text.translate(table), _TEXT)


def translation(characters: str, others: str) -> dict[int, str | None]:
    """Each of ``characters`` becomes that of ``others`` at its place, or nothing."""
    table: dict[int, str | None] = {}
    for place, character in enumerate(characters):
        table.setdefault(ord(character), others[place] if place < len(others) else None)
    return table


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


def _concat_ws(values: Sequence[Value], call: Call) -> Value:
    """What is not null of each row; Arrow leaves out rows that have nothing but nulls."""
    nothing = reduce(pc.and_, map(pc.is_null, values))
    first = pc.if_else(nothing, pa.scalar("", _TEXT), values[0])
    separator = pa.scalar(call.option("separator"))
    return pc.binary_join_element_wise(first, *values[1:], separator, null_handling="skip")


def _chr(values: Sequence[Value], call: Call) -> Value:
    codes = values[0]
    if isinstance(codes, pa.Scalar):
        return _chr([pa.repeat(codes, 1)], call)[0]
    numbers = codes.fill_null(0).to_numpy(zero_copy_only=False)
    unique, places = np.unique(numbers, return_inverse=True)
    try:
        texts = pa.array([chr(code) for code in unique.tolist()], _TEXT)
    except (ValueError, OverflowError):
        raise pa.ArrowInvalid("a number is no character") from None
    return pc.if_else(codes.is_valid(), texts.take(pa.array(places)), pa.scalar(None, _TEXT))


def _resolve_chr(call: Call) -> Node | None:
    kind = call.args[0].type
    if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        return None
    return typed(call, _TEXT, _INTEGER)


def _resolve_repeat(call: Call) -> Node | None:
    return _resolver(_TEXT)(replace(call)) if call.option("times") is not None else None


def _of(kernel: Callable[..., Value]) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], _call: Call) -> Value:
        return kernel(*values)

    return evaluate


def _per_text(
    one: Callable[[str], Any], kind: pa.DataType
) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], _call: Call) -> Value:
        return mapped(values[0], one, kind)

    return evaluate


def _function(
    name: str,
    result: pa.DataType,
    evaluate: Callable[[Sequence[Value], Call], Value],
    *options: str,
) -> Function:
    return Function(f"str.{name}", _resolver(result), evaluate, method(f"str.{name}", *options))


FUNCTIONS = {
    "strip_left": _function("strip_left", _TEXT, partial(_trim, "l"), "characters"),
    "strip_right": _function("strip_right", _TEXT, partial(_trim, "r"), "characters"),
    "position": _function("position", _INTEGER, _position, "pattern"),
    "initcap": _function("initcap", _TEXT, _per_text(_initcap, _TEXT)),
    "reverse": _function("reverse", _TEXT, _of(pc.utf8_reverse)),
    "repeat": Function(
        "str.repeat",
        _resolve_repeat,
        lambda values, call: pc.binary_repeat(values[0], call.option("times")),
        method("str.repeat", "times"),
    ),
    "pad_left": _function("pad_left", _TEXT, partial(_pad, True), "width", "fill"),
    "pad_right": _function("pad_right", _TEXT, partial(_pad, False), "width", "fill"),
    "extract": Function(
        "str.extract", _resolve_extract, _extract, method("str.extract", "pattern", "group")
    ),
    "digest": _function("digest", _TEXT, _digest, "algorithm"),
    "translate": _function("translate", _TEXT, _translate, "characters", "others"),
    "ascii": _function("ascii", _INTEGER, _per_text(lambda t: ord(t[0]) if t else 0, _INTEGER)),
    "byte_length": _function(
        "byte_length", _INTEGER, lambda values, _call: pc.binary_length(values[0]).cast(_INTEGER)
    ),
    "json_value": _function("json_value", _TEXT, _json, "path"),
    "concat_ws": Function(
        "concat_ws", _resolver(_TEXT), _concat_ws, method("str.concat_ws", "separator")
    ),
    "character": Function("character", _resolve_chr, _chr, method("character")),
}
