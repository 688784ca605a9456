"""Window functions that need all rows of their partition: NTILE, LEAD, frames with FOLLOWING.

The rows of a partition become a list in the order of OVER, functions of the list are computed, and
UNNEST makes rows of it again. So a partition's result is computed as for a GROUP BY: for a window
once, when it closes; for a table again whenever its rows change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of, place
from planner.sql.reading.literals import plain_value
from planner.sql.windows.framed_lists import follows, frame_of, value_of
from planner.sql.windows.partition_lists import (
    called,
    field,
    integer,
    list_over,
    listed,
    order_keys,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import Rows

    #: Computes a value from the field of a row that represents a window function.
    _Made = Callable[[exp.Expr], exp.Expr]

_ALWAYS = (exp.Ntile, exp.PercentRank, exp.CumeDist, exp.Lead, exp.NthValue)
_RANKS: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
    exp.Ntile: "ntile",
}
#: Key in ``meta`` of a window function: the column that replaces it.
_COLUMN = "whole partition column"
_AROUND = (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)
_FIRST = (exp.FirstValue, exp.First)
_LAST = (exp.LastValue, exp.Last)
_ONE = (
    "a window over all rows of its partition needs a single relation in FROM: put the "
    "JOIN, or the GROUP BY, in a subquery in FROM"
)
_KEYS = "PARTITION BY takes columns here: name the expression in a subquery in FROM"
_STAR = "write the columns, or * alone, beside a window over all rows of its partition"
_ORDER = "{} needs ORDER BY in OVER"
_NO_FRAME = "{} takes no frame: leave ROWS, RANGE or GROUPS out"
_LAG_NULLS = (
    "LAG and LEAD take no IGNORE NULLS: compute LAST_VALUE(x) IGNORE NULLS OVER (...) in a "
    "subquery, and LAG of it"
)
_UNORDERED = "a frame of ROWS has no order here: write OVER (... ORDER BY ts ROWS ...)"
_TILES = "{} takes a whole number, 1 or more"


def whole_windows(
    node: exp.Select, bounds: Mapping[str, int], is_by_time: Callable[[exp.Window], bool]
) -> list[exp.Window]:
    """Return the window functions of a SELECT that need all rows of their partition.

    ``bounds``: by name of a column, the greatest value that the outer query reads. ``is_by_time``:
    whether the rows of a window function are in the order of the stream, ascending.
    """
    windows = _windows(node)
    needed = [window for window in windows if _needs_all(window, is_by_time)]
    if needed:
        needed += [w for w in windows if w not in needed and _is_end(w)]
    if node.args.get("qualify") is None:
        ranks = [w for w in windows if _is_open_rank(w, bounds)]
        needed += [w for w in ranks if needed or _of_window(w) or not _is_count(w, is_by_time)]
    return needed


def _is_count(window: exp.Window, is_by_time: Callable[[exp.Window], bool]) -> bool:
    """Return whether a window numbers rows in stream order: later rows change nothing."""
    is_number = isinstance(window.this, exp.RowNumber)
    return window.args.get("order") is None or (is_number and is_by_time(window))


def _windows(node: exp.Select) -> list[exp.Window]:
    """Return the window functions of a SELECT; its subqueries have their own."""
    parts = [*node.expressions, node.args.get("qualify"), node.args.get("order")]
    return [
        window
        for part in parts
        if part is not None
        for window in part.find_all(exp.Window)
        if window.find_ancestor(exp.Select) is node
    ]


def _needs_all(window: exp.Window, is_by_time: Callable[[exp.Window], bool]) -> bool:
    function = _function(window)
    if isinstance(function, _ALWAYS):
        return True
    if type(function) in _RANKS:
        return False
    has_order = window.args.get("order") is not None
    if isinstance(function, exp.Lag):
        return has_order and not is_by_time(window)
    if (_is_end(window) and _of_window(window)) or not has_order or _is_whole(window):
        return True
    return follows(window) or not is_by_time(window)


def _is_end(window: exp.Window) -> bool:
    """Return whether a window is FIRST_VALUE or LAST_VALUE up to a row."""
    function = _function(window)
    return isinstance(function, (*_FIRST, *_LAST)) and window.args.get("spec") is None


def _function(window: exp.Window) -> exp.Expr:
    function = window.this
    while isinstance(function, _AROUND):  # terminates: a tree is finite
        function = function.this
    call: exp.Expr = function
    return call


def _skips_nulls(window: exp.Window) -> bool:
    return isinstance(window.this, exp.IgnoreNulls)


def _is_whole(window: exp.Window) -> bool:
    """Return whether a window's frame is all rows of the partition."""
    spec = window.args.get("spec")
    if spec is None:
        return False
    return bool(spec.args.get("start") == spec.args.get("end") == "UNBOUNDED")


def _lacks_order(window: exp.Window) -> bool:
    """Return whether a frame counts rows that have no order."""
    spec = window.args.get("spec")
    if spec is None or window.args.get("order") is not None or _is_whole(window):
        return False
    return str(spec.args.get("kind")).upper() != "RANGE"


def _is_default(spec: exp.Expr) -> bool:
    """Return whether a frame equals the default frame, in RANGE or in ROWS."""
    start, end = spec.args.get("start"), spec.args.get("end")
    return start == "UNBOUNDED" and end in (None, "CURRENT ROW")


def _is_open_rank(window: exp.Window, bounds: Mapping[str, int]) -> bool:
    around = window.parent
    name = around.alias if isinstance(around, exp.Alias) else ""
    is_rank = type(window.this) in _RANKS and not isinstance(window.this, _ALWAYS)
    return is_rank and name not in bounds


def _of_window(window: exp.Window) -> bool:
    keys = window.args.get("partition_by") or ()
    return any(isinstance(key, exp.Column) and key.name == "window_start" for key in keys)


def with_whole_windows(
    node: exp.Select,
    windows: list[exp.Window],
    names: Names,
    query: Callable[[exp.Expr, Names], Rows],
) -> tuple[exp.Select, Names]:
    """Return the SELECT over rows with a column in place of each window function.

    Raises:
        SqlError: one of them cannot be computed from lists.
    """
    if node.args.get("joins") or node.args.get("laterals") or node.args.get("group"):
        raise names.text.error(windows[0], _ONE)
    for window in windows:
        if _lacks_order(window):
            raise names.text.error(window, _UNORDERED)
    alias = node.args["from_"].this.alias_or_name
    frames = [w for w in _windows(node) if w not in windows and type(w.this) not in _RANKS]
    # frames by time need the rows themselves, not only the list
    for k, window in enumerate(frames):
        window.meta[_COLUMN] = f"@frame{k}"
    base = exp.Select(
        expressions=[exp.Star(), *(called(w.copy(), w.meta[_COLUMN]) for w in frames)]
    )
    for part in ("from_", "where"):
        base.set(part, node.args.get(part) and node.args[part].copy())
    rows = query(_placed(base, node), names)
    columns = [window.meta[_COLUMN] for window in frames]
    own = [name for name in rows.stream.schema.names if name not in columns]
    for column in (c for window in windows for c in window.find_all(exp.Column)):
        if column.table == alias:
            column.set("table", None)
    for level, group in enumerate(_grouped(windows)):
        source = f"@rows{level}"
        names = names.adding(source, rows)
        build = _Level(source, [*own, *columns], names, len(columns))
        made = build.select(group)
        for window in group:
            window.meta[_COLUMN] = f"@over{len(columns)}"
            columns.append(window.meta[_COLUMN])
        rows = query(_placed(made, group[0]), names)
    names = names.adding("@rows", rows)
    return _final(node, own, alias, names), names


def _grouped(windows: list[exp.Window]) -> list[list[exp.Window]]:
    """Group the window functions of equal keys and order, which are computed together."""
    groups: dict[str, list[exp.Window]] = {}
    for window in windows:
        parts = [*(window.args.get("partition_by") or ()), window.args.get("order")]
        groups.setdefault(repr([repr(part) for part in parts]), []).append(window)
    return list(groups.values())


def _final(node: exp.Select, own: list[str], alias: str, names: Names) -> exp.Select:
    made = node.copy()
    for part in list(made.walk()):
        if _COLUMN in part.meta:
            part.replace(_placed(exp.column(part.meta[_COLUMN], quoted=True), part))
        elif isinstance(part, exp.Column) and part.table == alias and not part.args.get("db"):
            part.set("table", None)
    listed: list[exp.Expr] = []
    for part in made.expressions:
        star = part.this if isinstance(part, exp.Column) else part
        if not isinstance(star, exp.Star):
            listed.append(part)
            continue
        if any(star.args.values()):
            raise names.text.error(part, _STAR)
        listed += [_placed(exp.column(name, quoted=True), part) for name in own]
    made.set("expressions", listed)
    made.set("from_", exp.From(this=_placed(_table("@rows"), node)))
    made.set("where", _tested(made, own))
    return made


def _tested(made: exp.Select, own: list[str]) -> exp.Expr | None:
    """Return QUALIFY as a WHERE; its window functions are columns already."""
    condition = made.args.get("qualify")
    if condition is None or condition.find(exp.Window) is not None:
        return None
    values = {part.alias: part.this for part in made.expressions if isinstance(part, exp.Alias)}
    for column in nodes_of(condition, exp.Column):
        if column.name in values and column.name not in own and not column.table:
            column.replace(exp.Paren(this=values[column.name].copy()))
    made.set("qualify", None)
    return _placed(exp.Where(this=condition.this), condition)


def _table(name: str) -> exp.Expr:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _placed(made: exp.Expr, at: exp.Expr) -> exp.Expr:
    place(made, at)
    return made


def _as_it_is(value: exp.Expr) -> exp.Expr:
    return value


class _Level:
    """Rows with the values of the window functions that have one order."""

    def __init__(self, source: str, columns: list[str], names: Names, first: int) -> None:
        self._source, self._columns, self._names, self._first = source, columns, names, first

    def select(self, windows: list[exp.Window]) -> exp.Select:
        """Return a SELECT of the source's rows with a column for each window function."""
        keys = list(windows[0].args.get("partition_by") or ())
        for key in keys:
            if not isinstance(key, exp.Column):
                raise self._names.text.error(key, _KEYS)
        keys = [exp.column(key.name, quoted=True) for key in keys]
        order = windows[0].args.get("order")
        fields = [
            exp.PropertyEQ(
                this=exp.to_identifier(f"c{k}"), expression=exp.column(name, quoted=True)
            )
            for k, name in enumerate(self._columns)
        ]
        lists: list[exp.Expr] = [listed(exp.Struct(expressions=fields), order)]
        values: list[tuple[str, exp.Expr]] = []
        places: list[exp.Expr] = []
        for k, window in enumerate(windows):
            made, of_list = self._value(window, order)
            if of_list is not None:
                places.append(_placed(of_list(field(f"f{len(lists)}")), window))
                lists.append(made)
            else:
                values.append((f"@value{k}", made))
                places.append(exp.column(f"@value{k}", quoted=True))
        inner = exp.Select(
            expressions=[
                *keys,
                called(exp.Anonymous(this="@list_zip", expressions=lists), "@list"),
                *(called(value, name) for name, value in values),
            ],
            from_=exp.From(this=_table(self._source)),
        )
        if keys:
            inner.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        unnest = exp.Unnest(
            expressions=[exp.column("@list", quoted=True)],
            alias=exp.TableAlias(
                this=exp.to_identifier("@u"), columns=[exp.to_identifier("@row", quoted=True)]
            ),
        )
        row = [
            called(exp.Dot(this=field("f0"), expression=exp.to_identifier(f"c{k}")), name)
            for k, name in enumerate(self._columns)
        ]
        made_columns = [called(place, f"@over{self._first + k}") for k, place in enumerate(places)]
        return exp.Select(
            expressions=[*row, *made_columns],
            from_=exp.From(this=exp.Subquery(this=inner)),
            joins=[exp.Join(this=unnest, kind="CROSS")],
        )

    def _value(self, window: exp.Window, order: exp.Expr | None) -> tuple[exp.Expr, _Made | None]:
        """Return the expression of a window over its partition; of a list, the row's element."""
        text, function = self._names.text, _function(window)
        kind = _RANKS.get(type(function))
        is_shift = isinstance(function, (exp.Lead, exp.Lag))
        if (kind or is_shift or isinstance(function, exp.NthValue)) and order is None:
            raise text.error(window, _ORDER.format(text.spelled(function)))
        if order is None or _is_whole(window):
            return self._of_all(window, function, order, kind)
        if kind is not None or is_shift:
            return self._placed(window, function, order, kind), _as_it_is
        spec = window.args.get("spec")
        is_one = isinstance(function, (*_FIRST, *_LAST, exp.NthValue))
        if spec is None and is_one and not _skips_nulls(window):
            return self._of_all(window, function, order, kind)
        frame = frame_of(window, order, text)
        value, made = value_of(window, text)
        keys = order.expressions[0].this if frame.startswith("range") else order_keys(order)
        given = [listed(value, order), listed(keys, order), exp.Literal.string(frame)]
        return exp.Anonymous(this="@list_frames", expressions=given), made

    def _placed(
        self, window: exp.Window, function: exp.Expr, order: exp.Expr, kind: str | None
    ) -> exp.Expr:
        """Compile a rank, LAG or LEAD as a list with an element per row."""
        spec = window.args.get("spec")
        if spec is not None and not _is_default(spec):
            text = self._names.text
            raise text.error(window, _NO_FRAME.format(text.spelled(function)))
        if kind is not None:
            tiles = self._number(function, function.this, 1) if kind == "ntile" else None
            return list_over(listed(order_keys(order), order), kind, tiles)
        if isinstance(window.this, exp.IgnoreNulls):
            raise self._names.text.error(window, _LAG_NULLS)
        rows = function.args.get("offset")
        count = 1 if rows is None else self._number(function, rows, 0)
        name = "lead" if isinstance(function, exp.Lead) else "lag"
        return list_over(listed(function.this, order), name, count, function.args.get("default"))

    def _of_all(
        self, window: exp.Window, function: exp.Expr, order: exp.Expr | None, kind: str | None
    ) -> tuple[exp.Expr, _Made | None]:
        """Compile a function over the whole partition, or FIRST_VALUE and the like up to a row."""
        if kind is not None or isinstance(function, (exp.Lead, exp.Lag)):
            assert order is not None
            return self._placed(window, function, order, kind), _as_it_is
        place = None
        if isinstance(function, exp.NthValue):
            place = self._number(function, function.args["offset"], 1)
        elif isinstance(function, (*_FIRST, *_LAST)):
            place = 1 if isinstance(function, _FIRST) else None
        else:  # the rest are aggregates over all rows of the partition
            return window.this.copy(), None
        values = listed(function.this, order)
        if _skips_nulls(window):
            values = exp.IgnoreNulls(this=values.this)
        if order is None or _is_whole(window) or place == 1:
            at = -1 if place is None else place
            return exp.Anonymous(this="@list_item", expressions=[values, integer(at)]), None
        keys = listed(order_keys(order), order)
        return list_over(values, "last" if place is None else "nth", place, keys), _as_it_is

    def _number(self, function: exp.Expr, given: exp.Expr | None, least: int) -> int:
        text = self._names.text
        is_number = isinstance(given, exp.Literal)
        number = plain_value(given, text) if is_number and given is not None else None
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise text.error(function, _TILES.format(text.spelled(function)))
        return number
