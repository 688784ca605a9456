"""Functions of strings; lengths and positions count characters, not bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.entries.family import E, Family, Functions, Sql, Text, Whole
from planner.expressions.entries.signature import text_of, typed
from planner.expressions.spark.casts import failure
from planner.expressions.spark.errors import UnsupportedInBatchError
from planner.expressions.spark.let_bindings import let
from planner.expressions.spark.patterns import SPACE, java_pattern, java_replacement
from planner.expressions.spark.types import SparkText, text as quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Call, Node, Value

_TEXT = pa.string()
_WORDS = pa.list_(pa.string())
#: Larger positions are reduced to this: all texts are shorter, and Spark's positions have 32 bits.
_PLACE_MAX = 2**30
LENGTHS = (0, 2**31 - 1)
#: Matches ``\\E`` between the quotes ``\\Q`` and ``\\E`` of a regular expression of Java.
_QUOTED_END = r"\E\\E\Q"
#: Names of the arguments of sqlglot's nodes.
_PAIR, _REPLACED = ("this", "expression"), ("this", "expression", "replacement")


def _resolver(result: pa.DataType | None) -> Callable[[Call], Node | None]:
    def resolve(call: Call) -> Node | None:
        if not all(text_of(arg) for arg in call.args):
            return None
        _check_patterns(call)
        assert result is not None, call
        return typed(call, result, *[_TEXT] * len(call.args))

    return resolve


def _check_patterns(call: Call) -> None:
    """Raise, when the query is built, for options that are wrong for every row."""
    options = dict(call.options)
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


def _matches(text: Any, pattern: Any) -> Any:
    return text.str.contains(pattern, regex=True)


def _contains(values: Sequence[Value], call: Call) -> Value:
    kernel = pc.match_substring_regex if call.option("regex") else pc.match_substring
    return kernel(values[0], call.option("pattern"))


def _replace(values: Sequence[Value], call: Call) -> Value:
    kernel = pc.replace_substring_regex if call.option("regex") else pc.replace_substring
    count = dict(call.options).get("count")
    options = {} if count is None else {"max_replacements": count}
    return kernel(values[0], call.option("pattern"), call.option("replacement"), **options)


def _slice(values: Sequence[Value], call: Call) -> Value:
    return pc.utf8_slice_codeunits(values[0], call.option("start"), call.option("stop"))


def _strip(values: Sequence[Value], call: Call) -> Value:
    characters = call.option("characters")
    if characters is None:
        return pc.utf8_trim_whitespace(values[0])
    return pc.utf8_trim(values[0], characters)


def _split(values: Sequence[Value], call: Call) -> Value:
    """Split as ``str.split(separator)`` does, or as ``str.split()`` without a separator."""
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


def _spark_contains(call: Call, a: str) -> str:
    pattern = call.option("pattern")
    if call.option("regex"):
        return f"({a} rlike {quoted(java_pattern(pattern))})"
    return f"contains({a}, {quoted(pattern)})"


def _spark_replace(call: Call, a: str) -> str:
    pattern, replacement = call.option("pattern"), call.option("replacement")
    if "count" in dict(call.options):
        raise UnsupportedInBatchError(str(call), "Spark replaces every match")
    if not call.option("regex"):
        return not_empty(call, "pattern", lambda p: f"replace({a}, {p}, {quoted(replacement)})")
    found, put = java_pattern(pattern), java_replacement(replacement)
    return f"regexp_replace({a}, {quoted(found)}, {quoted(put)})"


def not_empty(call: Call, name: str, write: Callable[[str], str]) -> str:
    """Return the function that writes a call in SQL, and raises for an empty option."""
    value = call.option(name)
    if not isinstance(value, SparkText):
        return write(quoted(value))
    wrong = failure(f"cannot evaluate {call.function}: the {name} is empty")
    return let(value, lambda x: f"if({x} = '', {wrong}, {write(x)})")


def _spark_slice(call: Call, a: str) -> str:
    start, stop = call.option("start"), call.option("stop")
    columns = [f"{at} is null" for at in (start, stop) if isinstance(at, SparkText)]
    if not columns and start >= 0 and (stop is None or stop >= 0):
        length = "" if stop is None else f", {max(stop - start, 0)}"
        return f"substring({a}, {start + 1}{length})"

    def sliced(x: str) -> str:
        low, high = _position(x, start), f"length({x})" if stop is None else _position(x, stop)
        made = f"substring({x}, {low} + 1, greatest({high} - {low}, 0))"
        return f"if({' or '.join(columns)}, null, {made})" if columns else made

    return let(a, sliced)


def _position(x: str, at: int | SparkText) -> str:
    if isinstance(at, SparkText):
        at = SparkText(f"greatest(-{_PLACE_MAX}, least({at}, {_PLACE_MAX}))")
        return let(at, lambda n: f"if({n} >= 0, {n}, greatest(length({x}) + {n}, 0))")
    return str(at) if at >= 0 else f"greatest(length({x}) - {-at}, 0)"


def _stripped(a: str) -> str:
    pattern = quoted(rf"\A{SPACE}+|{SPACE}+\z")
    return f"regexp_replace({a}, {pattern}, '')"


def _spark_strip(call: Call, a: str) -> str:
    characters = call.option("characters")
    if characters is None:
        return _stripped(a)
    return f"trim(both {quoted(characters)} from {a})"


def _spark_split(call: Call, a: str) -> str:
    separator = call.option("separator")
    if isinstance(separator, SparkText):
        begin, end = quoted(r"\Q"), quoted(r"\E")
        inside = f"replace({{0}}, {end}, {quoted(_QUOTED_END)})"
        pattern = f"concat({begin}, {inside}, {end})"
        return not_empty(call, "separator", lambda x: f"split({a}, {pattern.format(x)}, -1)")
    if separator is not None:
        return f"split({a}, {quoted(re.escape(separator))}, -1)"
    none = "cast(array() as array<string>)"
    words = quoted(f"{SPACE}+")
    return let(_stripped(a), lambda x: f"if({x} = '', {none}, split({x}, {words}, -1))")


def _within(place: Whole | None) -> Whole | None:
    """Limit a position to 32 bits, as in Spark; all texts are shorter."""
    return max(-_PLACE_MAX, min(place, _PLACE_MAX)) if isinstance(place, int) else place


TEXT = Family("str", _resolver)
FUNCTIONS = TEXT.functions


class Texts(Functions[E]):
    """Case, search, replacement and parts of texts."""

    __slots__ = ()

    @TEXT.function(_TEXT, _of(pc.utf8_upper), spark="upper({args})", sql="UPPER")
    def upper(self) -> E:
        """Convert to upper case."""
        return self._call("upper")

    @TEXT.function(_TEXT, _of(pc.utf8_lower), spark="lower({args})", sql="LOWER")
    def lower(self) -> E:
        """Convert to lower case."""
        return self._call("lower")

    @TEXT.function(
        pa.int64(),
        _length,
        spark="cast(char_length({args}) as {type})",
        sql=("LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH"),
        bounds=LENGTHS,
        examples={"LENGTH('crème')": 5},
    )
    def length(self) -> E:
        """Return the number of characters."""
        return self._call("length")

    @TEXT.function(
        pa.bool_(),
        _contains,
        spark=_spark_contains,
        sql=(
            Sql("CONTAINS", parts=_PAIR),
            Sql("REGEXP_LIKE", _matches, parts=_PAIR),
            Sql("RLIKE REGEXP", _matches),
        ),
        examples={"CONTAINS('stream', 'rea')": True},
    )
    def contains(self, pattern: Text, *, regex: bool = False) -> E:
        """Return whether ``pattern`` occurs in the text."""
        return self._call("contains", pattern=pattern, regex=regex)

    @TEXT.function(
        pa.bool_(),
        _of(pc.starts_with, "pattern"),
        spark="startswith({0}, {pattern})",
        sql=Sql("STARTS_WITH STARTSWITH", parts=_PAIR),
    )
    def starts_with(self, pattern: Text) -> E:
        """Return whether the text begins with ``pattern``."""
        return self._call("starts_with", pattern=pattern)

    @TEXT.function(
        pa.bool_(),
        _of(pc.ends_with, "pattern"),
        spark="endswith({0}, {pattern})",
        sql=Sql("ENDS_WITH ENDSWITH", parts=_PAIR),
    )
    def ends_with(self, pattern: Text) -> E:
        """Return whether the text ends with ``pattern``."""
        return self._call("ends_with", pattern=pattern)

    @TEXT.function(
        _TEXT,
        _replace,
        spark=_spark_replace,
        sql=(
            Sql("REPLACE", lambda s, p, r="": s.str.replace(p, r), parts=_REPLACED),
            Sql(
                "REGEXP_REPLACE",
                lambda s, p, r="": s.str.replace(p, r, regex=True),
                parts=_REPLACED,
            ),
        ),
        examples={"REPLACE('a-b-c', '-', '+')": "a+b+c"},
    )
    def replace(
        self, pattern: Text, replacement: Text, *, regex: bool = False, count: int | None = None
    ) -> E:
        """Replace every ``pattern``, or the first ``count``."""
        if count is not None and (isinstance(count, bool) or count < 1):
            raise InvalidPlanError(f"replace(count={count!r}): must be a whole number from 1 on")
        more = {} if count is None else {"count": count}
        return self._call("replace", pattern=pattern, replacement=replacement, regex=regex, **more)

    @TEXT.function(_TEXT, _slice, spark=_spark_slice)
    def slice(self, start: Whole, stop: Whole | None = None) -> E:
        """Return the characters ``[start, stop)``; negative positions count from the end."""
        return self._call("slice", start=_within(start), stop=_within(stop))

    @TEXT.function(_TEXT, _strip, spark=_spark_strip, sql=Sql("BTRIM"))
    def strip(self, characters: Text | None = None) -> E:
        """Remove ``characters`` (None: white space) from both ends."""
        return self._call("strip", characters=characters)

    @TEXT.function(_WORDS, _split, spark=_spark_split, sql=Sql("SPLIT", parts=_PAIR))
    def split(self, separator: Text | None = None) -> E:
        """Split at ``separator`` (None: at white space) into a list."""
        return self._call("split", separator=separator)
