"""Rewrites spellings of other engines to the spellings that are compiled, tree for tree.

``WINDOW w AS (...)``, ``DISTINCT ON``, ``= ANY`` and ``> ALL`` of subqueries, and windows among the
keys of GROUP BY that name their time: ``TUMBLE(ts, size)`` of Flink and ``window(ts, size)`` of
Spark. Each rewriting has exactly the same meaning; a spelling without an equivalent is left, and is
an error later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.clauses import with_clauses
from planner.sql.reading.forms.composed import composed
from planner.sql.reading.forms.generators import with_generators
from planner.sql.reading.forms.grouped_windows import with_grouped_windows
from planner.sql.reading.forms.lambdas import with_pairs
from planner.sql.reading.forms.lateral import with_laterals
from planner.sql.reading.forms.operators import with_operators
from planner.sql.reading.forms.queries import with_queries
from planner.sql.reading.forms.scalars import with_forms
from planner.sql.reading.forms.spellings import spelled
from planner.sql.reading.grammar import Descriptor, TableArgument, WindowTable
from planner.sql.reading.parsing import expression_of

if TYPE_CHECKING:
    from planner.sql.reading.parsing import SqlText

#: The name for REGEXP_REPLACE of the first match; no text can contain it.
FIRST_REPLACED = "@first_replaced"
_START_WORDS = ("TUMBLE_START", "HOP_START", "SESSION_START")
_END_WORDS = ("TUMBLE_END", "HOP_END", "SESSION_END")
_TIME_WORDS = ("TUMBLE_ROWTIME", "HOP_ROWTIME", "SESSION_ROWTIME")
#: Window function among the keys -> the one in FROM, and whether its slide is first there.
_GROUPED = {
    "TUMBLE": "TUMBLE",
    "HOP": "HOP",
    "SESSION": "SESSION",
    "WINDOW": "WINDOW",
    "SESSION_WINDOW": "SESSION",
}
_MILLISECONDS = {"ROWTIME": "vs", "WINDOWSTART": "window_start", "WINDOWEND": "window_end"}
_ONE_TABLE = (
    "a window over a column of times is of one table in FROM: write TUMBLE('10 minutes') among the "
    "keys, which takes the stream's own time, or FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), ...))"
)
_ROWTIME_OF_JOIN = (
    "ROWTIME of one side of a join is not there; name its time column, or write ROWTIME for the "
    "later time of both sides"
)
_WHOLE = "a window is two columns here: write window_start and window_end"


def rewritten(statement: exp.Expr, text: SqlText) -> exp.Expr:
    """Return the statement in the spellings that are compiled.

    Raises:
        SqlError: a spelling has no equivalent.
    """
    whole = exp.Paren(this=statement)
    if text.engine.name == "spark":
        with_generators(whole)
    if text.engine.name:
        with_queries(whole, text.engine.name)
    with_clauses(whole, text.engine.name)
    with_laterals(whole)
    spelled(whole, text.engine.name, text.error)
    with_operators(whole, text.engine.name, expression_of, text.error)
    with_pairs(whole, text.engine.name)
    with_forms(whole, text.engine.name, expression_of)
    for select in list(whole.find_all(exp.Select)):
        _name_windows(select, text)
        _windows_of_list(select)
        _group_windows(select, text)
        _distinct_on(select, text)
        with_grouped_windows(select)
        if text.engine.name == "ksqldb":
            _ksqldb(select, text)
    for node in list(whole.find_all(exp.Any, exp.All)):
        _quantified(node)
    for call in list(whole.find_all(exp.RegexpReplace)):
        _replaced(call, only_first=text.engine.replaces_first)
    found: exp.Expr = composed(whole).this
    found.parent = None
    return found


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


def _ksqldb(select: exp.Select, text: SqlText) -> None:
    """Rewrite ROWTIME and window bounds to milliseconds; drop EMIT CHANGES of plain rows."""
    group = select.args.get("group")
    is_windowed = group is not None and any(is_window_call(k) for k in group.expressions)
    if "emit" in select.args and not is_windowed:
        select.set("emit", None)
    for call in select.find_all(exp.Anonymous):
        if call.name.upper() == "TOPK":
            call.set("this", "TOP_K")
    if is_windowed and isinstance(select.parent, exp.Create):
        _list_bounds(select)
    gap = _session_gap(group)
    for node in list(select.find_all(exp.Column)):
        named = _MILLISECONDS.get(node.name.upper())
        if named is None or node.find_ancestor(exp.Select) is not select:
            continue
        if named != "vs" and not is_windowed:  # a column of a windowed table, in milliseconds
            node.this.set("this", node.name.upper())
            _with_text(node, as_number=True)
            continue
        if named == "vs" and node.table and select.args.get("joins"):
            raise text.error(node, _ROWTIME_OF_JOIN)
        time: exp.Expr = exp.Anonymous(this="vs") if named == "vs" else exp.column(named)
        if named == "window_end" and gap is not None:  # a session ends there with its last row
            time = exp.Paren(this=exp.Sub(this=time, expression=gap.copy()))
        if _with_text(node):
            _place(time, node.this)
            node.replace(exp.cast(time, "TIMESTAMP"))
            continue
        made: exp.Expr = exp.IntDiv(
            this=exp.Anonymous(this="EPOCH_US", expressions=[time]),
            expression=exp.Literal.number(1000),
        )
        _place(made, node.this)
        if isinstance(node.parent, exp.Select):
            made = exp.alias_(made, node.name)
        node.replace(made)


def _session_gap(group: exp.Expr | None) -> exp.Expr | None:
    """Return the gap of SESSION among the keys."""
    for key in group.expressions if group is not None else ():
        if is_window_call(key) and key.name.upper() == "SESSION":
            found: exp.Expr = exp.Interval(this=exp.Literal.string(key.expressions[0].name))
            return found
    return None


def _list_bounds(select: exp.Select) -> None:
    """Add the bounds behind the keys: ``*`` of a windowed table has them."""
    keys = [key for key in select.args["group"].expressions if not is_window_call(key)]
    listed = list(select.expressions)
    places = [at for at, part in enumerate(listed) if part.unalias() in keys]
    bounds = [exp.alias_(exp.column(name), name) for name in ("WINDOWSTART", "WINDOWEND")]
    for bound in bounds:
        _place(bound, listed[0])
    at = places[-1] + 1 if places else 0
    select.set("expressions", [*listed[:at], *bounds, *listed[at:]])


def _with_text(node: exp.Expr, *, as_number: bool = False) -> bool:
    """Whether ROWTIME is compared with a text, which is then parsed as a time."""
    around = node.parent
    sides = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
    if type(around) not in sides:
        return False
    assert around is not None, node
    texts = [p for p in around.iter_expressions() if isinstance(p, exp.Literal) and p.is_string]
    for part in texts:
        made: exp.Expr = exp.cast(part.copy(), "TIMESTAMP")
        if as_number:
            made = exp.IntDiv(
                this=exp.Anonymous(this="EPOCH_US", expressions=[made]),
                expression=exp.Literal.number(1000),
            )
        _place(made, part)
        part.replace(made)
    return bool(texts)


def is_window_call(node: exp.Expr) -> bool:
    """Whether it is a window among the keys."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in _GROUPED


def _name_windows(select: exp.Select, text: SqlText) -> None:
    """Replace ``OVER w`` by the definition of w."""
    clause = select.args.pop("windows", None)
    if not clause:
        return
    known: dict[str, exp.Window] = {}
    for named in clause:
        base = known.get(named.alias)
        known[named.name.lower()] = named if base is None else _merged(named, base)
    for node in list(select.find_all(exp.Window)):
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
        said = node.args.get(part) or base.args.get(part)
        if said:
            copies = [one.copy() for one in said] if isinstance(said, list) else said.copy()
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
        raise text.error(clause, "DISTINCT ON needs ORDER BY of what stands behind its keys, too")
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
        select.set("order", None)  # the order of the remaining rows does not matter without a LIMIT


def _quantified(node: exp.Expr) -> None:
    """Rewrite ``x = ANY (SELECT ...)`` as IN, others as EXISTS, where null equals false."""
    around, query = node.parent, node.this
    query = query.this if isinstance(query, exp.Subquery) else query
    is_list = isinstance(node, exp.Any) and not isinstance(query, exp.Query)
    if isinstance(around, exp.EQ) and is_list:
        made: exp.Expr = exp.ArrayContains(this=query.unnest(), expression=around.this)
        made.meta.update(around.meta)
        around.replace(made)
        return
    if not isinstance(around, exp.Binary) or not isinstance(query, exp.Query):
        return
    if around.args.get("expression") is not node:
        return
    value, is_any = around.this, isinstance(node, exp.Any)
    if not isinstance(around.find_ancestor(exp.Where, exp.Select), exp.Where):
        return
    if is_any and type(around) is exp.EQ:
        made = exp.In(this=value.copy(), query=exp.Subquery(this=query.copy()))
    elif not is_any and type(around) is exp.NEQ:
        made = exp.Not(this=exp.In(this=value.copy(), query=exp.Subquery(this=query.copy())))
    elif _is_asked_alone(around):
        extreme = _extreme(around, query, is_any=is_any)
        is_side = isinstance(_without_parens(around).parent, exp.Or)
        if is_side and extreme is not None:
            made = extreme
        else:
            made = _exists_of(around, value, query, is_any=is_any)
    else:
        return
    made.meta.update(around.meta)
    around.replace(made)


def _is_asked_alone(node: exp.Expr) -> bool:
    """Whether it is a side of ANDs and ORs in WHERE, where null and false are equivalent."""
    place = node.parent
    while isinstance(place, exp.And | exp.Or | exp.Paren):  # ends: a tree is finite
        place = place.parent
    return isinstance(place, exp.Where)


def _without_parens(node: exp.Expr) -> exp.Expr:
    while isinstance(node.parent, exp.Paren):  # ends: a tree is finite
        node = node.parent
    return node


def _extreme(around: exp.Expr, query: exp.Query, *, is_any: bool) -> exp.Expr | None:
    """Return ``x >= ALL (SELECT y ...)`` as a comparison with the greatest y, for a side of OR.

    It is true without a y, and not true beside a null.
    """
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return None
    if type(around) not in (exp.LT, exp.LTE, exp.GT, exp.GTE) or query.args.get("group"):
        return None
    is_greatest = (type(around) in (exp.LT, exp.LTE)) is is_any

    def one(call: type[exp.Expr], value: exp.Expr) -> exp.Expr:
        select = query.copy()
        select.set("expressions", [call(this=value.copy())])
        return exp.Subquery(this=select)

    y = query.expressions[0].unalias()
    if y.find(exp.AggFunc):
        return None
    found: exp.Expr = type(around)(
        this=around.this.copy(), expression=one(exp.Max if is_greatest else exp.Min, y)
    )
    if not is_any:
        none = exp.EQ(this=one(exp.Count, exp.Star()), expression=exp.Literal.number(0))
        missing = exp.Sub(this=one(exp.Count, exp.Star()), expression=one(exp.Count, y))
        known = exp.EQ(this=missing, expression=exp.Literal.number(0))
        found = exp.And(
            this=exp.Coalesce(this=found, expressions=[exp.Paren(this=none)]), expression=known
        )
    made = exp.Paren(this=found)
    place = next((n.meta for n in around.walk() if "start" in n.meta), {})
    for part in made.walk():
        for key in ("start", "end"):
            if key in place:
                part.meta.setdefault(key, place[key])
    return made


def _exists_of(around: exp.Expr, value: exp.Expr, query: exp.Query, *, is_any: bool) -> exp.Expr:
    called = "@compared"
    subquery = exp.Subquery(
        this=query.copy(),
        alias=exp.TableAlias(
            this=exp.to_identifier(called, quoted=True),
            columns=[exp.to_identifier("@value", quoted=True)],
        ),
    )
    theirs = exp.column(
        exp.to_identifier("@value", quoted=True), exp.to_identifier(called, quoted=True)
    )
    asked: exp.Expr = type(around)(this=value.copy(), expression=theirs)
    if not is_any:
        asked = exp.Not(this=exp.Coalesce(this=asked, expressions=[exp.false()]))
    select = exp.Select(
        expressions=[exp.Literal.number(1)],
        from_=exp.From(this=subquery),
        where=exp.Where(this=asked),
    )
    made = exp.Exists(this=select)
    for part in made.walk():
        part.meta.setdefault("start", around.meta.get("start", 0))
        part.meta.setdefault("end", around.meta.get("end", 0))
    return made if is_any else exp.Not(this=made)


def _windows_of_list(select: exp.Select) -> None:
    """``SELECT TUMBLE('5s') AS w ... GROUP BY w`` groups by the call; w is a struct of bounds."""
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
            _place(made, call)
            part.replace(made)


def _group_windows(select: exp.Select, text: SqlText) -> None:
    """Rewrite ``GROUP BY TUMBLE(ts, size)`` as TUMBLE in FROM, and its bounds as keys."""
    clause = select.args.get("group")
    if clause is None:
        return
    found = [part for part in clause.expressions if _is_timed(part)]
    if not found:
        return
    (window, *others) = found
    if others:
        raise text.error(others[0], "GROUP BY takes one window")
    from_ = select.args.get("from_")
    table = None if from_ is None else from_.this
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
    _place(made, window)
    table.replace(made)
    bounds = [exp.column(word) for word in ("window_start", "window_end")]
    for bound in bounds:
        _place(bound, window)
    clause.set("expressions", [*bounds, *keys])
    for part in [
        *select.expressions,
        *filter(None, [select.args.get(p) for p in ("having", "order")]),
    ]:
        _name_bounds(part, window, text)


def _is_timed(node: exp.Expr) -> bool:
    """Whether it is a window that names its time."""
    return (
        is_window_call(node)
        and len(node.expressions) > 1
        and isinstance(node.expressions[0], exp.Column)
    )


def _read(window: exp.Expr) -> tuple[str, exp.Expr, list[exp.Expr]]:
    """Return the function in FROM, the time, and the lengths in the order of FROM."""
    time, *lengths = window.expressions
    name = _GROUPED[window.name.upper()]
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
        _place(made, node if "start" in node.meta else window)
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
    _place(made, node)
    return made


def _bound_named(node: exp.Expr, window: exp.Expr, own: str) -> str | None:
    """Return the bound that a part of the list is; "" for the whole window, None for neither."""
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


def _place(node: exp.Expr, at: exp.Expr) -> None:
    for part in node.walk():
        if "start" in at.meta:
            part.meta.setdefault("start", at.meta["start"])
            part.meta.setdefault("end", at.meta["end"])
