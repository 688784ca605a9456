"""Frames that need all rows of a partition: FOLLOWING, GROUPS, and ORDER BY other than the time.

Each row gets the list of the values in its frame, and an aggregate is a function of that list.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of
from planner.sql.reading.literals import interval_us, plain_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.sql.reading.parsing import SqlText

#: In templates ``@f`` is the list of a frame, ``@s`` its values that are not null.
_SOME = 'FILTER("@f", "@x" -> "@x" IS NOT NULL)'
_MEAN = "(CAST(ARRAY_SUM(@s) AS DOUBLE) / CARDINALITY(@s))"
_SQUARES = f'ARRAY_SUM(TRANSFORM(@s, "@y" -> POWER(CAST("@y" AS DOUBLE) - {_MEAN}, 2)))'
_SPREAD = f"{_SQUARES} / NULLIF(CARDINALITY(@s) - @d, 0)"
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Sum: 'ARRAY_SUM("@f")',
    exp.Min: 'ARRAY_MIN("@f")',
    exp.Max: 'ARRAY_MAX("@f")',
    exp.Avg: _MEAN,
    exp.Count: "CARDINALITY(@s)",
    exp.CountIf: "CARDINALITY(@s)",
    exp.ArrayAgg: 'CASE WHEN CARDINALITY("@f") > 0 THEN "@f" END',
    exp.First: 'LIST_ITEM("@f", 1)',
    exp.FirstValue: 'LIST_ITEM("@f", 1)',
    exp.Last: 'LIST_ITEM("@f", -1)',
    exp.LastValue: 'LIST_ITEM("@f", -1)',
    exp.Variance: _SPREAD.replace("@d", "1"),
    exp.VariancePop: _SPREAD.replace("@d", "0"),
    exp.Stddev: f"SQRT({_SPREAD.replace('@d', '1')})",
    exp.StddevSamp: f"SQRT({_SPREAD.replace('@d', '1')})",
    exp.StddevPop: f"SQRT({_SPREAD.replace('@d', '0')})",
}
_DISTINCT = "CARDINALITY(ARRAY_DISTINCT(@s))"
_OF_ORDER = (exp.ArrayAgg, exp.First, exp.FirstValue, exp.Last, exp.LastValue)
_KNOWN = (
    "COUNT, COUNT(DISTINCT x), SUM, AVG, MIN, MAX, VARIANCE, STDDEV, FIRST_VALUE, LAST_VALUE, "
    "NTH_VALUE and ARRAY_AGG"
)
_OTHER = "{0} is not supported in this frame; there are {1}"
_WHOLE_MEAN = "AVG of integers is an integer in {0}: write AVG(CAST(x AS DOUBLE)) in this frame"
#: EXCLUDE, as ``list_frames`` takes it.
_EXCLUDED = {
    **dict.fromkeys(("", "NO OTHERS"), ""),
    "CURRENT ROW": " but-row",
    "GROUP": " but-group",
    "TIES": " but-ties",
}
_ROWS = "{0} takes a whole number, 0 or more: write {0} BETWEEN 3 PRECEDING AND CURRENT ROW"
_DISTANCE = "RANGE with a distance takes ORDER BY one column"


def follows(window: exp.Window) -> bool:
    """Return whether a frame has later rows, counts groups of rows, or excludes rows."""
    spec = window.args.get("spec")
    if spec is None:
        return False
    sides = (spec.args.get(f"{which}_side") for which in ("start", "end"))
    distances = (spec.args.get(which) for which in ("start", "end"))
    is_counted = any(isinstance(distance, exp.Expr) for distance in distances)
    is_groups = str(spec.args.get("kind") or "").upper() == "GROUPS"
    if str(spec.args.get("exclude") or "").upper() not in ("", "NO OTHERS"):
        return True
    return "FOLLOWING" in [str(side).upper() for side in sides] or (is_groups and is_counted)


def frame_of(window: exp.Window, order: exp.Expr, text: SqlText) -> str:
    """Return the frame as the text that ``list_frames`` takes.

    Raises:
        SqlError: the node is not a frame.
    """
    spec = window.args.get("spec")
    if spec is None:
        return "groups -inf 0"
    kind = str(spec.args.get("kind") or "").upper()
    start, end = spec.args.get("start"), spec.args.get("end")
    is_distance = any(isinstance(bound, exp.Expr) for bound in (start, end))
    unit = "groups" if kind == "RANGE" and not is_distance else kind.lower()
    first, last = (_bound(spec, which, unit, text) for which in ("start", "end"))
    if first > last:
        raise text.error(window, "a frame begins before it ends: BETWEEN 9 PRECEDING AND ...")
    if unit == "range" and len(order.expressions) > 1:
        raise text.error(order.expressions[1].this, _DISTANCE)
    is_descending = unit == "range" and bool(order.expressions[0].args.get("desc"))
    excluded = _EXCLUDED[str(spec.args.get("exclude") or "").upper()]
    return f"{unit} {first} {last}" + (" desc" if is_descending else "") + excluded


def _bound(spec: exp.Expr, which: str, unit: str, text: SqlText) -> float:
    """Return the distance from the row; negative for PRECEDING."""
    value, side = spec.args.get(which), str(spec.args.get(f"{which}_side")).upper()
    sign = 1 if side == "FOLLOWING" else -1
    if value is None or value == "CURRENT ROW":
        return 0
    if value == "UNBOUNDED":
        return sign * math.inf
    if unit == "range" and isinstance(value, exp.Interval):
        return sign * interval_us(value, text)
    number = plain_value(value, text)
    kinds = (int, float) if unit == "range" else int
    if not isinstance(number, kinds) or isinstance(number, bool) or number < 0:
        raise text.error(value, _ROWS.format(unit.upper()))
    return sign * number


def value_of(window: exp.Window, text: SqlText) -> tuple[exp.Expr, Callable[[exp.Expr], exp.Expr]]:
    """Return the value of each row in the list, and the function of a frame's list.

    Raises:
        SqlError: the aggregate does not support such a frame.
    """
    function, condition, skips = window.this, None, False
    while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):  # ends: a tree
        if isinstance(function, exp.Filter):
            condition = function.expression.this
        skips = skips or isinstance(function, exp.IgnoreNulls)
        function = function.this
    value = function.this
    template = _AGGREGATES.get(type(function))
    if isinstance(function, exp.NthValue):
        place = plain_value(function.args["offset"], text)
        template = f'LIST_ITEM("@f", {place})' if isinstance(place, int) and place > 0 else None
    if isinstance(value, exp.Distinct):
        template = _DISTINCT if isinstance(function, exp.Count) else None
        value = value.expressions[0] if len(value.expressions) == 1 else None
    is_ordered = isinstance(function, _OF_ORDER) and condition is not None
    if template is None or is_ordered or function.expressions:
        raise text.error(window, _OTHER.format(text.spelled(function), _KNOWN))
    is_mean = isinstance(function, exp.Avg) and not isinstance(value, exp.Cast)
    if is_mean and text.engine.averages_whole:
        raise text.error(window, _WHOLE_MEAN.format(text.engine.name))
    if isinstance(function, exp.ArrayAgg) and text.engine.name == "spark":
        template = "@s"
    if isinstance(function, exp.CountIf):
        condition, value = value, None
    if value is None or isinstance(value, exp.Star):
        value = exp.Literal.number(1)
    if condition is not None:
        value = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
    if skips:
        template = template.replace('"@f"', "@s")
    return value, lambda frame: filled(template, frame)


def filled(template: str, frame: exp.Expr) -> exp.Expr:
    """Fill a template with the list of a frame."""
    made = sqlglot.parse_one(template.replace("@s", _SOME))
    for column in nodes_of(made, exp.Column):
        if column.name == "@f":
            if column is made:
                return frame.copy()
            column.replace(frame.copy())
    for call in made.find_all(exp.Anonymous):
        if call.name == "LIST_ITEM":
            call.set("this", "@list_item")
    return made
