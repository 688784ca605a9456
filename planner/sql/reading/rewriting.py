"""Rewrites spellings of other engines to the spellings that are compiled, tree for tree.

``WINDOW w AS (...)``, ``DISTINCT ON``, ``= ANY`` and ``> ALL`` of subqueries, and windows among the
keys of GROUP BY that name their time: ``TUMBLE(ts, size)`` of Flink and ``window(ts, size)`` of
Spark. No rewriting changes the meaning. A spelling without an equivalent stays, and is an error
later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.clauses import with_clauses
from planner.sql.reading.forms.composed import composed
from planner.sql.reading.forms.lambdas import with_pairs
from planner.sql.reading.forms.lateral import with_laterals
from planner.sql.reading.forms.operators import with_operators
from planner.sql.reading.forms.queries.engine_forms import with_engine_forms
from planner.sql.reading.forms.queries.engines.places import nodes_of, place
from planner.sql.reading.forms.queries.generators import with_generators
from planner.sql.reading.forms.queries.grouped_windows import with_grouped_windows
from planner.sql.reading.forms.queries.json_built import with_json
from planner.sql.reading.forms.queries.ksqldb import as_ksqldb
from planner.sql.reading.forms.queries.one_row import with_queries
from planner.sql.reading.forms.queries.quantified import quantified
from planner.sql.reading.forms.queries.window_calls import GROUPED, is_window_call
from planner.sql.reading.forms.scalars import NoLambdas, with_forms
from planner.sql.reading.forms.spellings import spelled, with_series_of_times
from planner.sql.reading.forms.warehouses import with_warehouses
from planner.sql.reading.grammar import Descriptor, TableArgument, WindowTable
from planner.sql.reading.parsing import expression_of
from planner.sql.reading.row_patterns import MatchTable

if TYPE_CHECKING:
    from collections.abc import Collection

    from planner.sql.reading.parsing import SqlText

#: The name for REGEXP_REPLACE of the first match; no text can contain it.
FIRST_REPLACED = "@first_replaced"
_START_WORDS = ("TUMBLE_START", "HOP_START", "SESSION_START")
_END_WORDS = ("TUMBLE_END", "HOP_END", "SESSION_END")
_TIME_WORDS = ("TUMBLE_ROWTIME", "HOP_ROWTIME", "SESSION_ROWTIME")
_ONE_TABLE = (
    "a window over a column of times needs one table in FROM: write TUMBLE('10 minutes') "
    "among the keys, which uses the stream's own time, or FROM TABLE(TUMBLE(TABLE t, "
    "DESCRIPTOR(ts), ...))"
)
_WHOLE = "a window cannot be selected as a whole: write window_start and window_end"


def rewritten(statement: exp.Expr, text: SqlText, own: Collection[str] = ()) -> exp.Expr:
    """Return the statement in the spellings that are compiled.

    ``own``: the names of the user's functions and aggregates, in lower case.

    Raises:
        SqlError: a spelling has no equivalent.
    """
    whole = exp.Paren(this=statement)
    with_json(whole, text.engine.name)
    with_engine_forms(whole, text.engine.name, text.error)
    if text.engine.name == "spark":
        with_generators(whole, text.error)
    with_series_of_times(whole)
    if text.engine.name:
        with_queries(whole, text.engine.name, text.error)
    with_clauses(whole, text.engine.name)
    with_laterals(whole)
    spelled(whole, text.engine.name, text.error)
    with_warehouses(whole)
    with_operators(whole, text.engine.name, expression_of, text.error)
    with_pairs(whole, text.engine.name)
    with_forms(whole, text.engine.name, expression_of, NoLambdas(own, (MatchTable,)))
    for select in nodes_of(whole, exp.Select):
        _name_windows(select, text)
        _windows_of_list(select)
        _group_windows(select, text)
        _distinct_on(select, text)
        with_grouped_windows(select)
        if text.engine.name == "ksqldb":
            as_ksqldb(select, text.error)
    for node in nodes_of(whole, exp.Any, exp.All, exp.Anonymous):
        quantified(node)
    for call in nodes_of(whole, exp.RegexpReplace):
        _replaced(call, only_first=text.engine.replaces_first)
    result: exp.Expr = composed(whole).this
    result.parent = None
    return result


def _replaced(node: exp.Expr, *, only_first: bool) -> None:
    """Rewrite ``REGEXP_REPLACE`` with the flag ``g``, or if it replaces only the first match."""
    flag = node.args.get("position")
    if isinstance(flag, exp.Literal) and flag.is_string and flag.name == "g":
        node.set("position", None)
    elif only_first and flag is None:
        values = [node.args.get(part) for part in ("this", "expression", "replacement")]
        made = exp.Anonymous(this=FIRST_REPLACED, expressions=[v for v in values if v is not None])
        made.meta.update(node.meta)
        node.replace(made)


def _name_windows(select: exp.Select, text: SqlText) -> None:
    """Replace ``OVER w`` by the definition of w."""
    clause = select.args.pop("windows", None)
    if not clause:
        return
    known: dict[str, exp.Window] = {}
    for named in clause:
        base = known.get(named.alias)
        known[named.name.lower()] = named if base is None else _merged(named, base)
    for node in nodes_of(select, exp.Window):
        if node.find_ancestor(exp.Select) is not select or not node.args.get("alias"):
            continue
        base = known.get(node.alias.lower())
        if base is None:
            raise text.error(node, f"no window {node.alias!r}; there are: {', '.join(known)}")
        made = _merged(node, base)
        made.set("this", node.this.copy())
        made.meta.update(node.meta)
        node.replace(made)


def _merged(node: exp.Window, base: exp.Window) -> exp.Window:
    """Merge the parts of a window with the parts of the named window that it extends."""
    made = exp.Window(this=None, over="OVER")
    for part in ("partition_by", "order", "spec"):
        clause = node.args.get(part) or base.args.get(part)
        if clause:
            copies = [one.copy() for one in clause] if isinstance(clause, list) else clause.copy()
            made.set(part, copies)
    return made


def _distinct_on(select: exp.Select, text: SqlText) -> None:
    """Rewrite ``DISTINCT ON (k) ... ORDER BY k, x`` as the first row of each k by x."""
    clause = select.args.get("distinct")
    if clause is None or clause.args.get("on") is None:
        return
    on = clause.args["on"]
    keys = list(on.expressions) if isinstance(on, exp.Tuple) else [on.unnest()]
    order = select.args.get("order")
    if order is None:
        raise text.error(clause, "DISTINCT ON needs ORDER BY: which row of a key comes first?")
    if any(select.args.get(part) for part in ("limit", "offset", "group", "qualify")):
        reason = "DISTINCT ON beside GROUP BY, QUALIFY or LIMIT: put these in a subquery in FROM"
        raise text.error(clause, reason)
    parts = list(order.expressions)
    others = [part for part in parts if part.this not in keys]
    if not others:
        raise text.error(
            clause,
            "DISTINCT ON needs ORDER BY its keys and then the columns that order the rows of a key",
        )
    number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[key.copy() for key in keys],
        order=exp.Order(expressions=[part.copy() for part in others]),
        over="OVER",
    )
    for part in number.walk():
        part.meta.setdefault("start", clause.meta.get("start", 0))
        part.meta.setdefault("end", clause.meta.get("end", 0))
    select.set("distinct", None)
    select.set("qualify", exp.Qualify(this=exp.EQ(this=number, expression=exp.Literal.number(1))))
    if any(part.this not in select.expressions for part in parts):
        # without a LIMIT, the order of the remaining rows does not matter
        select.set("order", None)


def _windows_of_list(select: exp.Select) -> None:
    """Group by the call in ``SELECT TUMBLE('5s') AS w ... GROUP BY w``; w is a struct."""
    group = select.args.get("group")
    for at, part in enumerate(select.expressions if group is not None else ()):
        call = part.unalias()
        if not is_window_call(call) or call.name.upper() in ("WINDOW", "SESSION_WINDOW"):
            continue
        assert group is not None
        for key in list(group.expressions):
            is_place = isinstance(key, exp.Literal) and key.name == str(at + 1)
            is_name = isinstance(key, exp.Column) and not key.table and key.name == part.alias
            if is_place or is_name:
                key.replace(call.copy())
        if call in group.expressions:
            made = _struct_of(call, "window")
            made = exp.alias_(made.unalias(), part.alias or "window")
            place(made, call)
            part.replace(made)


def _group_windows(select: exp.Select, text: SqlText) -> None:
    """Rewrite ``GROUP BY TUMBLE(ts, size)`` as TUMBLE in FROM, and its bounds as keys."""
    clause = select.args.get("group")
    if clause is None:
        return
    timed = [part for part in clause.expressions if _is_timed(part)]
    if not timed:
        return
    (window, *others) = timed
    if others:
        raise text.error(others[0], "GROUP BY takes one window")
    from_ = select.args.get("from_")
    table = None if from_ is None else from_.this
    if isinstance(table, exp.Values) and _over_values(select, table, window, clause, text):
        return
    if type(table) is not exp.Table or select.args.get("joins"):
        raise text.error(window, _ONE_TABLE)
    keys = [part for part in clause.expressions if part is not window]
    name, time, lengths = _read(window)
    argument = TableArgument(this=exp.Table(this=table.this.copy()), expressions=[])
    argument.this.meta.update(table.meta)
    if name == "SESSION":
        argument.set("expressions", [key.copy() for key in keys])
    made = WindowTable(
        this=exp.to_identifier(name),
        expressions=[argument, Descriptor(this=time.copy()), *(part.copy() for part in lengths)],
        alias=table.args.get("alias"),
    )
    place(made, window)
    table.replace(made)
    bounds = [exp.column(word) for word in ("window_start", "window_end")]
    for bound in bounds:
        place(bound, window)
    clause.set("expressions", [*bounds, *keys])
    for part in [
        *select.expressions,
        *filter(None, [select.args.get(p) for p in ("having", "order")]),
    ]:
        _name_bounds(part, window, text)


def _over_values(
    select: exp.Select, values: exp.Values, window: exp.Expr, clause: exp.Expr, text: SqlText
) -> bool:
    """Group rows of VALUES by tumbling windows; return False if the window does not tumble."""
    name, time, lengths = _read(window)
    if name != "TUMBLE" or len(lengths) != 1 or select.args.get("joins"):
        return False
    when = exp.cast(time.copy(), "TIMESTAMP")
    for column in when.find_all(exp.Column):
        column.set("table", None)
    size = exp.Interval(this=exp.Literal.string(lengths[0].name))
    start = exp.Anonymous(this="TIME_BUCKET", expressions=[size, when])
    end = exp.Add(this=start.copy(), expression=size.copy())
    bounds = [exp.alias_(start, "window_start"), exp.alias_(end, "window_end")]
    inner = exp.Select(expressions=[exp.Star(), *bounds], from_=exp.From(this=values.copy()))
    outer = exp.TableAlias(this=exp.to_identifier(values.alias or "t"))
    made = exp.Subquery(this=inner, alias=outer)
    place(made, window)
    values.replace(made)
    keys = [part for part in clause.expressions if part is not window]
    clause.set("expressions", [*map(exp.column, ("window_start", "window_end")), *keys])
    for part in [*select.expressions, *filter(None, [select.args.get("order")])]:
        _name_bounds(part, window, text)
    return True


def _is_timed(node: exp.Expr) -> bool:
    """Return whether a node is a window that names its time."""
    return (
        is_window_call(node)
        and len(node.expressions) > 1
        and isinstance(node.expressions[0], exp.Column)
    )


def _read(window: exp.Expr) -> tuple[str, exp.Expr, list[exp.Expr]]:
    """Return the window function for FROM, its time column, and its lengths in FROM's order."""
    time, *lengths = window.expressions
    name = GROUPED[window.name.upper()]
    if name != "WINDOW":
        return name, time, lengths
    if len(lengths) == 1 or lengths[0] == lengths[1]:
        return "TUMBLE", time, [lengths[0], *lengths[2:]]
    return "HOP", time, [lengths[1], lengths[0], *lengths[2:]]


def _name_bounds(part: exp.Expr, window: exp.Expr, text: SqlText) -> None:
    """Replace functions for bounds, and fields of Spark's window, by columns."""
    own = "session_window" if window.name.upper() == "SESSION_WINDOW" else "window"
    for node in list(part.walk()):
        named = _bound_named(node, window, own)
        if named == "":
            if not isinstance(node.parent, exp.Select | exp.Alias):
                raise text.error(node, _WHOLE)
            node.replace(_struct_of(node, own))
            continue
        if named is None:
            continue
        made: exp.Expr = exp.column(named)
        place(made, node if "start" in node.meta else window)
        if isinstance(node.parent, exp.Select):
            made = exp.alias_(made, node.alias_or_name or named)
        node.replace(made)


def _struct_of(node: exp.Expr, own: str) -> exp.Expr:
    """Return Spark's window as a struct of its bounds."""
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(name), expression=exp.column(f"window_{name}"))
        for name in ("start", "end")
    ]
    made: exp.Expr = exp.Struct(expressions=fields)
    if isinstance(node.parent, exp.Select):
        made = exp.alias_(made, own)
    place(made, node)
    return made


def _bound_named(node: exp.Expr, window: exp.Expr, own: str) -> str | None:
    """Return which bound of the window a SELECT item is; "": the whole window; None: neither."""
    fields = {"start": "window_start", "end": "window_end"}
    if isinstance(node, exp.Anonymous):
        word = node.name.upper()
        if word in _START_WORDS:
            return "window_start"
        if word in _END_WORDS:
            return "window_end"
        if word in _TIME_WORDS:
            return "window_time"
        if node == window:
            is_field = isinstance(node.parent, exp.Dot)
            return None if is_field else ""
    if isinstance(node, exp.Dot) and node.this == window:
        return fields.get(node.expression.name.lower())
    if isinstance(node, exp.Column) and node.name.lower() in fields and node.table.lower() == own:
        return fields[node.name.lower()]
    is_whole = isinstance(node, exp.Column) and node.name.lower() == own and not node.table
    return "" if is_whole else None
