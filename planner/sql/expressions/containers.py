"""Functions of lists, maps and structs in SQL, where positions count from 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, call, greatest, least, list_of, lit, struct
from planner.errors import InvalidPlanError
from planner.expressions.functions.texts.pattern_groups import absent_as_empty, group_count
from planner.expressions.nodes import Literal
from planner.sql.expressions.engines.settings import json_value, whole, words

if TYPE_CHECKING:
    from collections.abc import Callable

_PLACES = "a position is 1 or more, or negative to count from the end of the list"


def nth(values: Expr, place: Expr) -> Expr:
    """Return the element at a position, from 1, or from the end, where the last is -1."""
    if isinstance(place.node, Literal) and isinstance(place.node.literal, int):
        at = place.node.literal
        return values.item(lit(None).cast("int64") if at == 0 else at - 1 if at > 0 else at)
    return values.item(when(place > 0).then(place - 1).when(place < 0).then(place).otherwise(None))


def _from_zero(place: Expr) -> Expr:
    """Convert a position from 1 to an index from 0."""
    if isinstance(place.node, Literal) and place.node.literal == 0:
        raise InvalidPlanError(_PLACES)
    return when(place > 0).then(place - 1).otherwise(place)


def between(items: Expr, first: Expr | None, last: Expr | None) -> Expr:
    """Compile ``list[first:last]``, both inclusive."""
    begin = lit(0) if first is None else _from_zero(first)
    size = items.list.length()
    if last is None:
        return items.list.slice(begin, size)
    return items.list.slice(begin, when(last < 0).then(size + last + 1).otherwise(last))


def _counted(items: Expr, first: Expr, count: Expr) -> Expr:
    """Compile Spark's ``SLICE(list, first, count)``."""
    known = count.node.literal if isinstance(count.node, Literal) else None
    if isinstance(known, int) and known < 0:
        raise InvalidPlanError(f"SLICE takes a length of 0 or more, not {known}")
    count = when(count < 0).then(0).otherwise(count)
    size = items.list.length()
    begin = when(first < 0).then(first + size).otherwise(first - 1)
    begin = when(begin < 0).then(size).otherwise(begin)  # a slice cannot begin before the list
    return items.list.slice(begin, begin + count)


def _total(items: Expr) -> Expr:
    """Return the sum of the values; null if there are none."""
    some = items.list.filter(lambda x: x.is_not_null())
    total = some.list.reduce(lit(0), lambda a, x: a + x)
    return when(some.list.length() > 0).then(total).otherwise(None)


def _median(items: Expr) -> Expr:
    some = items.list.filter(lambda x: x.is_not_null()).list.sort()
    size = some.list.length()
    return (nth(some, (size + 1) // 2) + nth(some, size // 2 + 1)) / 2.0


def _grade(items: Expr) -> Expr:
    """Return the positions of the values in sorted order, nulls last."""
    places = call("sequence", lit(1), items.list.length(), lit(1))

    def is_before(one: Expr, other: Expr) -> Expr:
        a, b = nth(items, one), nth(items, other)
        same = ~a.is_distinct_from(b) & (one < other)
        return ((a < b) | (a.is_not_null() & b.is_null()) | same).fill_null(False)

    def rank(at: Expr) -> Expr:
        return places.list.filter(lambda other: is_before(other, at)).list.length() + 1

    ranks = places.list.transform(rank)
    return places.list.transform(lambda number: ranks.list.position(number))


def _variance(items: Expr, ddof: Expr) -> Expr:
    """Return the variance: the squared distances from the mean, over ``n - ddof``."""
    some = items.list.filter(lambda x: x.is_not_null()).list.transform(lambda x: x * 1.0)
    size = some.list.length()
    mean = _total(some) / size
    squares = some.list.transform(lambda x: (x - mean) * (x - mean))
    return _total(squares) / when(size > ddof).then(size - ddof).otherwise(None)


def _gcd(a: Expr, b: Expr) -> Expr:
    """Return the greatest common divisor, by Euclid's algorithm.

    Its steps are unrolled: 92 are enough for numbers of 64 bits.
    """
    steps = call("sequence", lit(1), lit(92), lit(1))

    def step(pair: Expr, _number: Expr) -> Expr:
        low, high = pair.item(1), pair.item(0)
        return when(low == 0).then(pair).otherwise(list_of(low, high % low))

    first = list_of(a.cast("int64").abs(), b.cast("int64").abs())
    return steps.list.reduce(first, step).item(0)


def _lcm(a: Expr, b: Expr) -> Expr:
    return when((a == 0) | (b == 0)).then(0).otherwise((a * b).abs() // _gcd(a, b))


def _extreme(best: Callable[..., Expr]) -> Callable[[Expr], Expr]:
    return lambda items: items.list.reduce(items.item(0), best)


def _without(items: Expr, others: Expr) -> Expr:
    return items.list.filter(lambda x: ~_is_in(others, x)).list.unique()


def _common(items: Expr, others: Expr) -> Expr:
    return items.list.filter(lambda x: _is_in(others, x)).list.unique()


def _is_in(items: Expr, x: Expr) -> Expr:
    same = items.list.filter(lambda y: ~y.is_distinct_from(x))
    return (same.list.length() > 0).fill_null(False)


def _overlap(items: Expr, others: Expr) -> Expr:
    overlaps = items.list.filter(lambda x: others.list.contains(x)).list.length() > 0
    return when(others.is_null()).then(None).otherwise(overlaps)


def _removed(items: Expr, value: Expr) -> Expr:
    return items.list.filter(lambda x: x.is_distinct_from(value))


def _sizes(items: Expr, dimension: Expr | None = None) -> Expr:
    if dimension is not None and getattr(dimension.node, "literal", None) != 1:
        raise InvalidPlanError("ARRAY_LENGTH(list, n) takes only n = 1, the list itself")
    return items.list.length()


def _pairs(values: tuple[Expr, ...], what: str) -> dict[str, Expr]:
    """Split a list of arguments into names and values, which alternate."""
    if not values or len(values) % 2:
        raise InvalidPlanError(f"{what} takes names and values in turn: {what}('a', x, 'b', y)")
    return {words(values[k], "a name"): values[k + 1] for k in range(0, len(values), 2)}


def named_struct(*values: Expr) -> Expr:
    """Compile ``NAMED_STRUCT('a', x, 'b', y)``."""
    return struct(**_pairs(values, "NAMED_STRUCT"))


def json_object(*values: Expr) -> Expr:
    """Compile ``JSON_BUILD_OBJECT('a', x, 'b', y)`` as text; a null value is JSON's null."""
    pairs = _pairs(values, "JSON_BUILD_OBJECT")
    return call("to_json", struct(**{name: json_value(value) for name, value in pairs.items()}))


def _over(values: Expr, kind: Expr, n: Expr, *other: Expr) -> Expr:
    """Compute a window function on a list; ``n`` is its numeric argument, or null."""
    number = getattr(n.node, "literal", None)
    return call("list_over", values, *other, kind=words(kind), n=number)


def _frames(values: Expr, keys: Expr, frame: Expr) -> Expr:
    """Return, for each row of a partition, the list of the values in its frame."""
    return call("list_frames", values, keys, frame=words(frame))


def _matched(text: Expr, pattern: Expr) -> Expr:
    """Compile ``REGEXP_MATCH``: the groups of the first match, or the match; null for none."""
    written = words(pattern)
    count = group_count(written)
    groups = [_group(text, written, n) for n in (range(1, count + 1) if count else (0,))]
    return when(text.str.contains(written, regex=True)).then(list_of(*groups)).otherwise(None)


def _place_of(text: Expr, pattern: Expr) -> Expr:
    """Compile ``REGEXP_INSTR``: the position of the first match, from 1; 0 for none."""
    written = words(pattern)
    before = text.str.extract(rf"^([\s\S]*?)(?:{written})", 1).str.length()
    is_there = text.str.contains(written, regex=True)
    return when(text.is_null()).then(None).when(is_there).then(before + 1).otherwise(0)


def _part_of(text: Expr, pattern: Expr) -> Expr:
    """Compile ``SUBSTRING(s FROM pattern)``: the first group of the first match, or all of it."""
    written = words(pattern)
    return _group_of(text, pattern, lit(min(1, group_count(written))))


def _group_of(text: Expr, pattern: Expr, group: Expr) -> Expr:
    """Return a group of the first match; null without a match, or if it leaves the group out."""
    written = words(pattern)
    extracted = _group(text, written, whole(group, "a group"))
    return when(text.str.contains(written, regex=True)).then(extracted).otherwise(None)


def _group(text: Expr, pattern: str, group: int) -> Expr:
    extracted = text.str.extract(pattern, group)
    if group_count(pattern) < group or not absent_as_empty(pattern, group):
        return extracted
    return when(extracted == "").then(None).otherwise(extracted)


def _json_list(*values: Expr) -> Expr:
    return call("to_json", list_of(*map(json_value, values)))


CALLS: dict[type[exp.Expr], tuple[tuple[str, ...], Callable[..., Expr]]] = {
    exp.ArrayContains: (("this", "expression"), lambda items, x: items.list.contains(x)),
    exp.ArraySize: (("this", "expression"), _sizes),
    exp.MapKeys: (("this",), lambda m: m.map.keys()),
    exp.MapContainsKey: (("this", "key"), lambda m, k: m.map.contains_key(k)),
    exp.ArrayReverse: (("this",), lambda items: items.list.reverse()),
    exp.ArrayDistinct: (("this",), lambda items: items.list.unique()),
    exp.ArraySort: (("this",), lambda items: items.list.sort()),
    exp.ArrayConcat: (("this", "expressions"), lambda a, *more: a.list.concat(*more)),
    exp.ArrayAppend: (("this", "expression"), lambda a, x: a.list.concat(list_of(x))),
    exp.ArrayPrepend: (("this", "expression"), lambda a, x: list_of(x).list.concat(a)),
    exp.ArrayRemove: (("this", "expression"), _removed),
    exp.ArrayPosition: (("this", "expression"), lambda items, x: items.list.position(x)),
    exp.ArraySlice: (("this", "start", "end"), between),
    exp.ArrayMax: (("this",), _extreme(greatest)),
    exp.ArrayMin: (("this",), _extreme(least)),
    exp.ArraySum: (("this",), _total),
    exp.ArrayExcept: (("this", "expression"), _without),
    exp.ArrayIntersect: (("expressions",), _common),
    exp.ArrayToString: (("this", "expression"), lambda items, s: items.list.join(s)),
    exp.StringToArray: (("this", "expression"), lambda s, by: s.str.split(words(by))),
    exp.Flatten: (("this",), lambda items: items.list.flatten()),
}

NAMED: dict[str, Callable[..., Expr]] = {
    "cardinality": lambda held: held.list.length(),
    "size": lambda held: held.list.length(),
    "map_keys": lambda m: m.map.keys(),
    "map_values": lambda m: m.map.values(),
    "map_contains": lambda m, k: m.map.contains_key(k),
    "map_entries": lambda m: m.map.entries(),
    "list_contains": lambda items, x: items.list.contains(x),
    "@to_json": lambda x: call("to_json", json_value(x)),
    "@list_zip": lambda *lists: call("list_zip", *lists),
    "@list_over": _over,
    "as_map": lambda keys, values: call("map", keys, values),
    "@list_frames": _frames,
    "@list_item": nth,
    "@list_position": lambda items, x: items.list.position(x),
    "@list_concat": lambda a, *more: a.list.concat(*more),
    "@map_from_entries": lambda pairs: call("map_from_entries", pairs),
    "@sequence": lambda first, last, step: call("sequence", first, last, step),
    "@head": lambda items, n: items.list.slice(0, when(n > 0).then(n).otherwise(0)),
    "@tail": lambda items, n: items.list.slice(n, items.list.length()),
    "@field": lambda held, name: held.field(words(name, "a name")),
    "@regexp_split": lambda s, p, most=0: s.str.split_regex(p, most),
    "@java_upper": lambda s: call("cased", s, case="upper"),
    "@java_lower": lambda s: call("cased", s, case="lower"),
    "@java_title": lambda s: call("cased", s, case="title"),
    "@regexp_match": _matched,
    "@regexp_instr": _place_of,
    "@regexp_part": _part_of,
    "@regexp_group": _group_of,
    "list_value": list_of,
    "@list_median": _median,
    "@list_grade": _grade,
    "@list_variance": _variance,
    **dict.fromkeys(("gcd", "greatest_common_divisor"), _gcd),
    **dict.fromkeys(("lcm", "least_common_multiple"), _lcm),
    "extractjsonfield": lambda s, path: s.str.json_value(words(path)),
    "slice": _counted,
    **dict.fromkeys(("list_concat", "list_cat"), lambda a, *more: a.list.concat(*more)),
    **dict.fromkeys(("list_reverse",), lambda items: items.list.reverse()),
    **dict.fromkeys(("list_distinct",), lambda items: items.list.unique()),
    **dict.fromkeys(("list_sort",), lambda items: items.list.sort()),
    **dict.fromkeys(("list_sum",), _total),
    **dict.fromkeys(("list_max",), _extreme(greatest)),
    **dict.fromkeys(("list_min",), _extreme(least)),
    **dict.fromkeys(("list_position", "list_indexof"), lambda items, x: items.list.position(x)),
    **dict.fromkeys(("list_slice",), between),
    "array_union": lambda a, b: a.list.concat(b).list.unique(),
    **dict.fromkeys(("arrays_overlap", "list_has_any"), _overlap),
    "named_struct": named_struct,
    **dict.fromkeys(("json_build_object", "jsonb_build_object"), json_object),
    **dict.fromkeys(("json_array", "json_build_array", "jsonb_build_array"), _json_list),
    **dict.fromkeys(
        ("to_json", "to_jsonb", "to_json_string", "json_string"),
        lambda x: call("to_json", json_value(x)),
    ),
}
