"""Functions of strings; lengths and positions count characters, not bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.functions.signature import method, text_of, typed
from planner.expressions.nodes import Function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Call, Node, Value

_TEXT = pa.string()
_WORDS = pa.list_(pa.string())


_PLACE = int | None
#: What options may be.
_OPTIONS = {
    **dict.fromkeys(("pattern", "replacement"), str),
    **dict.fromkeys(("separator", "characters"), str | None),
    **dict.fromkeys(("start", "stop"), _PLACE),
}


def _resolver(result: pa.DataType) -> Callable[[Call], Node | None]:
    def resolve(call: Call) -> Node | None:
        if not all(text_of(arg) for arg in call.args):
            return None
        _check_patterns(call)
        return typed(call, result, *[_TEXT] * len(call.args))

    return resolve


def _check_patterns(call: Call) -> None:
    """Refuse options that no row could make right: they are the user's mistake, not the data's."""
    options = dict(call.options)
    for name, value in options.items():
        kind = _OPTIONS.get(name)
        if kind is not None and not isinstance(value, kind):
            what = "a whole number" if kind is _PLACE else "a text"
            raise InvalidPlanError(f"{call}: the {name} {value!r} is not {what}")
    pattern = options.get("pattern")
    if call.function == "replace" and pattern == "":
        raise InvalidPlanError(f"{call}: there is nothing to replace in an empty pattern")
    if options.get("separator") == "":
        raise InvalidPlanError(
            f"{call}: an empty separator splits nothing; leave it out to split at white space"
        )
    if not options.get("regex"):
        return
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
        if call.function == "replace":
            pc.replace_substring_regex(pa.array([""]), pattern, options["replacement"])
    except pa.ArrowInvalid as error:
        if "replacement" in str(error):
            written = options["replacement"]
            raise InvalidPlanError(f"{written!r} cannot be a replacement: {error}") from None
        raise InvalidPlanError(f"{pattern!r} is not a regular expression: {error}") from None


def _contains(values: Sequence[Value], call: Call) -> Value:
    kernel = pc.match_substring_regex if call.option("regex") else pc.match_substring
    return kernel(values[0], call.option("pattern"))


def _replace(values: Sequence[Value], call: Call) -> Value:
    kernel = pc.replace_substring_regex if call.option("regex") else pc.replace_substring
    return kernel(values[0], call.option("pattern"), call.option("replacement"))


def _slice(values: Sequence[Value], call: Call) -> Value:
    return pc.utf8_slice_codeunits(values[0], call.option("start"), call.option("stop"))


def _strip(values: Sequence[Value], call: Call) -> Value:
    characters = call.option("characters")
    if characters is None:
        return pc.utf8_trim_whitespace(values[0])
    return pc.utf8_trim(values[0], characters)


def _split(values: Sequence[Value], call: Call) -> Value:
    """With a separator as ``str.split(separator)``, without one as ``str.split()``."""
    separator = call.option("separator")
    if separator is not None:
        return pc.split_pattern(values[0], separator).cast(_WORDS)
    stripped = pc.utf8_trim_whitespace(values[0])
    if isinstance(stripped, pa.Scalar):
        return pa.scalar(stripped.as_py().split() if stripped.is_valid else None, _WORDS)
    words = pc.utf8_split_whitespace(stripped)
    no_words = pc.equal(pc.utf8_length(stripped), 0)
    return pc.if_else(no_words, pa.scalar([], _WORDS), words.cast(_WORDS))


def _length(values: Sequence[Value], _call: Call) -> Value:
    return pc.utf8_length(values[0]).cast(pa.int64())


def _of(kernel: Callable[..., Value], *options: str) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], call: Call) -> Value:
        return kernel(*values, *(call.option(name) for name in options))

    return evaluate


def _function(
    name: str,
    result: pa.DataType,
    evaluate: Callable[[Sequence[Value], Call], Value],
    *options: str,
) -> Function:
    return Function(f"str.{name}", _resolver(result), evaluate, method(f"str.{name}", *options))


FUNCTIONS = {
    "upper": _function("upper", _TEXT, _of(pc.utf8_upper)),
    "lower": _function("lower", _TEXT, _of(pc.utf8_lower)),
    "length": _function("length", pa.int64(), _length),
    "contains": _function("contains", pa.bool_(), _contains, "pattern"),
    "starts_with": _function("starts_with", pa.bool_(), _of(pc.starts_with, "pattern"), "pattern"),
    "ends_with": _function("ends_with", pa.bool_(), _of(pc.ends_with, "pattern"), "pattern"),
    "replace": _function("replace", _TEXT, _replace, "pattern", "replacement"),
    "slice": _function("slice", _TEXT, _slice, "start", "stop"),
    "strip": _function("strip", _TEXT, _strip, "characters"),
    "split": _function("split", _WORDS, _split, "separator"),
}
