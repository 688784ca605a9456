"""More functions of text: trim, pad, find, extract, translate, join.

A function without a kernel in Arrow is computed in Python, once per distinct value.
"""

from __future__ import annotations

import re
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.entries.family import (
    E,
    Family,
    Functions,
    Sql,
    Text,
    Whole,
    at_least_zero,
    of_texts,
    operand_node,
    plain_value,
)
from planner.expressions.entries.signature import method
from planner.expressions.functions.texts.pattern_groups import group_count, named_groups
from planner.expressions.functions.texts.text import LENGTHS
from planner.expressions.nodes import Function
from planner.expressions.spark.casts import failure
from planner.expressions.spark.let_bindings import let
from planner.expressions.spark.patterns import SPACE, java_pattern
from planner.expressions.spark.types import SparkText, text as quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Call, Node, Value

_TEXT, _INTEGER = pa.string(), pa.int64()
#: The most characters of padding or repetition; longer results are an error.
CHARACTERS_MAX = 10_000
_RUNS = r"[\p{L}\p{N}]+|[^\p{L}\p{N}]+"


def mapped(value: Value, one: Callable[[str], Any], kind: pa.DataType) -> Value:
    """Apply ``one`` to every text, once per distinct text."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(one(value.as_py()) if value.is_valid else None, kind)
    encoded = value.dictionary_encode()
    values = pa.array([one(text) for text in encoded.dictionary.to_pylist()], kind)
    return values.take(encoded.indices)


def on_arrays(
    evaluate: Callable[[pa.Array, Call], pa.Array],
) -> Callable[[Sequence[Value], Call], Value]:
    """Wrap a function of an array so that it also accepts a scalar."""

    def evaluated(values: Sequence[Value], call: Call) -> Value:
        (value,) = values
        if isinstance(value, pa.Scalar):
            return evaluate(pa.array([value.as_py()], _TEXT), call)[0]
        return evaluate(value, call)

    return evaluated


def _trim(side: str, values: Sequence[Value], call: Call) -> Value:
    characters = call.option("characters")
    if characters is None:
        return getattr(pc, f"utf8_{side}trim_whitespace")(values[0])
    return getattr(pc, f"utf8_{side}trim")(values[0], characters)


def _position(values: Sequence[Value], call: Call) -> Value:
    """Return the position of the first occurrence, from 1; 0 if there is none."""
    pattern = call.option("pattern")
    return mapped(values[0], lambda text: text.find(pattern) + 1, _INTEGER)


def _initcap(text: str) -> str:
    """Convert the first letter of each run of letters and digits to upper, others to lower case."""
    return re.sub(r"[^\W_]+", lambda word: word[0][:1].upper() + word[0][1:].lower(), text)


def _pad(is_left: bool, values: Sequence[Value], call: Call) -> Value:
    """Pad to ``width`` characters with repeated ``fill``; longer text is cut."""
    width, fill = call.option("width"), call.option("fill")

    def padded(text: str) -> str:
        missing = width - len(text)
        added = (fill * (missing // len(fill) + 1))[:missing] if missing > 0 and fill else ""
        return f"{added}{text}" if is_left and added else f"{text}{added}"[:width]

    return mapped(values[0], padded, _TEXT)


def _resolve_extract(call: Call) -> Node | None:
    pattern, group = call.option("pattern"), call.option("group")
    groups = group_count(pattern)
    if not 0 <= group <= groups:
        raise InvalidPlanError(f"{call}: the pattern has {groups} groups, and no {group}")
    return of_texts(_TEXT)(call)


def _extract(values: Sequence[Value], call: Call) -> Value:
    """Return the group of the first match; an empty text if nothing matches."""
    groups = pc.extract_regex(values[0], named_groups(call.option("pattern")))
    if isinstance(groups, pa.Scalar):
        text = groups.as_py()[f"g{call.option('group')}"] if groups.is_valid else ""
        return pa.scalar(text if values[0].is_valid else None, _TEXT)
    group = pc.struct_field(groups, f"g{call.option('group')}").cast(_TEXT)
    return pc.if_else(pc.is_valid(values[0]), pc.fill_null(group, ""), pa.scalar(None, _TEXT))


def _translate(values: Sequence[Value], call: Call) -> Value:
    table = translation(call.option("characters"), call.option("others"))
    return mapped(values[0], lambda text: text.translate(table), _TEXT)


def translation(characters: str, others: str) -> dict[int, str | None]:
    """Map each of ``characters`` to the one of ``others`` at the same position, or delete it."""
    table: dict[int, str | None] = {}
    for place, character in enumerate(characters):
        table.setdefault(ord(character), others[place] if place < len(others) else None)
    return table


def _concat_ws(values: Sequence[Value], call: Call) -> Value:
    """Join the values of each row, skipping nulls; a row of only nulls gives an empty text."""
    separator = dict(call.options).get("separator")
    texts = values if separator is not None else values[1:]
    between = values[0] if separator is None else pa.scalar(separator)
    nothing = reduce(pc.and_, map(pc.is_null, texts))
    first = pc.if_else(nothing, pa.scalar("", _TEXT), texts[0])
    filled = pc.fill_null(between, "")
    made = pc.binary_join_element_wise(first, *texts[1:], filled, null_handling="skip")
    return pc.if_else(pc.is_valid(between), made, pa.scalar(None, _TEXT))


def _spark_concat_ws(call: Call, *args: str) -> str:
    separator = dict(call.options).get("separator")
    return f"concat_ws({', '.join(args if separator is None else (quoted(separator), *args))})"


def _show_concat_ws(call: Call) -> str:
    named = "separator" in dict(call.options)
    return method("str.concat_ws", *(("separator",) if named else ()))(call)


def _counted(name: str) -> Callable[[Call], Node | None]:
    """Return the typing rule of a function of a number of characters, which may be a column."""

    def resolve(call: Call) -> Node | None:
        count_of(call.function, call.option(name))
        return of_texts(_TEXT)(call)

    return resolve


def _spark_count(call: Call, name: str) -> str:
    count = call.option(name)
    if not isinstance(count, SparkText):
        return str(count)
    wrong = failure(f"cannot evaluate {call.function}: the {name} is not 0 to {CHARACTERS_MAX}")
    return let(count, lambda n: f"if({n} < 0 or {n} > {CHARACTERS_MAX}, {wrong}, {n})")


def _of(kernel: Callable[..., Value]) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], _call: Call) -> Value:
        return kernel(*values)

    return evaluate


def per_text(
    one: Callable[[str], Any], kind: pa.DataType
) -> Callable[[Sequence[Value], Call], Value]:
    """Make a function that is computed once per distinct text."""

    def evaluate(values: Sequence[Value], _call: Call) -> Value:
        return mapped(values[0], one, kind)

    return evaluate


def _spark_strip(side: str, pattern: str) -> Callable[..., str]:
    def write(call: Call, a: str) -> str:
        characters = call.option("characters")
        if characters is None:
            return f"regexp_replace({a}, {quoted(pattern)}, '')"
        return f"trim({side} {quoted(characters)} from {a})"

    return write


def _spark_initcap(_call: Call, a: str) -> str:
    one = "concat(upper(substring(part, 1, 1)), lower(substring(part, 2)))"
    parts = f"regexp_extract_all({a}, {quoted(_RUNS)}, 0)"
    return f"array_join(transform({parts}, part -> {one}), '')"


def _spark_pad(function: str) -> Callable[..., str]:
    def write(call: Call, a: str) -> str:
        width, fill = _spark_count(call, "width"), call.option("fill")
        if not fill:
            return f"substring({a}, 1, {width})"
        return f"{function}({a}, {width}, {quoted(fill)})"

    return write


def _spark_extract(call: Call, a: str) -> str:
    pattern = java_pattern(call.option("pattern"))
    return f"regexp_extract({a}, {quoted(pattern)}, cast({call.option('group')} as int))"


def count_of(method: str, value: Whole) -> Whole:
    """Check a number of characters; an expression is checked per row at run time."""
    value = plain_value(value)
    if operand_node(value) is not None:
        return value
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= CHARACTERS_MAX:
        raise InvalidPlanError(
            f"{method}({value!r}): it takes a whole number from 0 to {CHARACTERS_MAX}"
        )
    return value


WORDS = Family("str", of_texts)
FUNCTIONS = WORDS.functions


class Words(Functions[E]):
    """Padding, places, groups of patterns, digests."""

    __slots__ = ()

    @WORDS.function(
        _TEXT,
        partial(_trim, "l"),
        spark=_spark_strip("leading", rf"\A{SPACE}+"),
        sql="LTRIM",
    )
    def strip_left(self, characters: Text | None = None) -> E:
        """Remove ``characters`` (None: white space) from the start."""
        return self._call("strip_left", characters=characters)

    @WORDS.function(
        _TEXT,
        partial(_trim, "r"),
        spark=_spark_strip("trailing", rf"{SPACE}+\z"),
        sql="RTRIM",
    )
    def strip_right(self, characters: Text | None = None) -> E:
        """Remove ``characters`` (None: white space) from the end."""
        return self._call("strip_right", characters=characters)

    @WORDS.function(
        _INTEGER,
        _position,
        spark="cast(instr({0}, {pattern}) as bigint)",
        sql=Sql("STRPOS INSTR LOCATE POSITION", node="StrPosition", parts=("this", "substr")),
        bounds=LENGTHS,
        examples={"STRPOS('stream', 'r')": 3},
    )
    def position(self, pattern: Text) -> E:
        """Return the position at which ``pattern`` first occurs, from 1; 0 if it does not occur."""
        return self._call("position", pattern=pattern)

    @WORDS.function(_TEXT, per_text(_initcap, _TEXT), spark=_spark_initcap, sql="INITCAP")
    def initcap(self) -> E:
        """Convert the first character of each word to upper case, the others to lower case."""
        return self._call("initcap")

    @WORDS.function(_TEXT, _of(pc.utf8_reverse), spark="reverse({args})", sql="REVERSE")
    def reverse(self) -> E:
        """Reverse the characters."""
        return self._call("reverse")

    @WORDS.function(
        _TEXT,
        lambda values, call: pc.binary_repeat(values[0], call.option("times")),
        resolve=_counted("times"),
        spark=lambda call, a: f"repeat({a}, {_spark_count(call, 'times')})",
        sql=Sql("REPEAT", lambda s, n: s.str.repeat(at_least_zero(n)), parts=("this", "times")),
        examples={"REPEAT('ab', 3)": "ababab"},
    )
    def repeat(self, times: Whole) -> E:
        """Repeat the text ``times`` times."""
        return self._call("repeat", times=count_of("repeat", times))

    @WORDS.function(
        _TEXT,
        partial(_pad, True),
        resolve=_counted("width"),
        spark=_spark_pad("lpad"),
        sql=Sql("LPAD", lambda s, n, f=" ": s.str.pad_left(at_least_zero(n), f)),
        examples={"LPAD('7', 3, '0')": "007"},
    )
    def pad_left(self, width: Whole, fill: Text = " ") -> E:
        """Pad with repeated ``fill`` on the left to ``width`` characters; longer text is cut."""
        return self._call("pad_left", width=count_of("pad_left", width), fill=fill)

    @WORDS.function(
        _TEXT,
        partial(_pad, False),
        resolve=_counted("width"),
        spark=_spark_pad("rpad"),
        sql=Sql("RPAD", lambda s, n, f=" ": s.str.pad_right(at_least_zero(n), f)),
    )
    def pad_right(self, width: Whole, fill: Text = " ") -> E:
        """Pad with repeated ``fill`` on the right to ``width`` characters; longer text is cut."""
        return self._call("pad_right", width=count_of("pad_right", width), fill=fill)

    @WORDS.function(
        _TEXT,
        _extract,
        resolve=_resolve_extract,
        spark=_spark_extract,
        sql=(Sql("REGEXP_EXTRACT"), Sql("REGEXP_SUBSTR", lambda s, p: s.str.extract(p))),
    )
    def extract(self, pattern: Text, group: Whole = 0) -> E:
        """Return a group of the first match of a regular expression; ``""`` if nothing matches."""
        return self._call("extract", pattern=pattern, group=count_of("extract", group))

    @WORDS.function(
        _TEXT,
        _translate,
        spark="translate({0}, {characters}, {others})",
        sql=Sql("TRANSLATE", parts=("this", "from_", "to")),
        examples={"TRANSLATE('abc', 'ab', 'x')": "xc"},
    )
    def translate(self, characters: Text, others: Text) -> E:
        """Replace each of ``characters`` by its counterpart: the same position in ``others``.

        A character without a counterpart is deleted.
        """
        return self._call("translate", characters=characters, others=others)


FUNCTIONS["concat_ws"] = Function(
    "concat_ws",
    of_texts(_TEXT),
    _concat_ws,
    _show_concat_ws,
    spark=_spark_concat_ws,
)
