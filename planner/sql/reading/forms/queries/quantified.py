"""``= ANY (SELECT ...)`` as IN, other comparisons with ANY and ALL as EXISTS or an extreme."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import place


def quantified(node: exp.Expr) -> None:
    """Rewrite ``x = ANY (SELECT ...)`` as IN, and others as EXISTS if null may count as false."""
    if isinstance(node, exp.Anonymous):  # sqlglot parses ``ALL (list)`` as a call
        if node.name.upper() != "ALL" or len(node.expressions) != 1:
            return
        made_all = exp.All(this=exp.Paren(this=node.expressions[0]))
        node.replace(made_all)
        node = made_all
    around, query = node.parent, node.this
    query = query.this if isinstance(query, exp.Subquery) else query
    is_list = isinstance(node, exp.Any) and not isinstance(query, exp.Query)
    if isinstance(around, exp.EQ) and is_list:
        made: exp.Expr = in_list(around.this, query.unnest())
        made.meta.update(around.meta)
        around.replace(made)
        return
    is_right = around is not None and around.args.get("expression") is node
    is_right = is_right and type(around) in _COMPARED
    if around is not None and is_right and not isinstance(query, exp.Query):
        made = _of_elements(around, query.unnest(), is_any=isinstance(node, exp.Any))
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
    elif _is_condition(around):
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


_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def _of_elements(around: exp.Expr, held: exp.Expr, *, is_any: bool) -> exp.Expr:
    """Rewrite ``x > ALL (list)``: NULL if no element decides and a comparison is NULL."""
    name = exp.to_identifier("@one", quoted=True)
    test = type(around)(this=around.this.copy(), expression=name.copy())

    def there_are(condition: exp.Expr) -> exp.Expr:
        each = exp.Lambda(this=condition, expressions=[name.copy()])
        kept = exp.ArrayFilter(this=held.copy(), expression=each)
        return exp.GT(this=exp.ArraySize(this=kept), expression=exp.Literal.number(0))

    decides = test if is_any else exp.Not(this=exp.Paren(this=test))
    is_null = exp.Is(this=exp.Paren(this=test.copy()), expression=exp.Null())
    value = exp.convert(is_any)
    ifs = [
        exp.If(this=exp.Is(this=held.copy(), expression=exp.Null()), true=exp.Null()),
        exp.If(this=there_are(decides), true=value),
        exp.If(this=there_are(is_null), true=exp.Null()),
    ]
    made = exp.Case(ifs=ifs, default=exp.convert(not is_any))
    place(made, around)
    return made


def in_list(value: exp.Expr, held: exp.Expr) -> exp.Expr:
    """Return whether a list has a value; NULL if it does not and has a NULL."""
    test = exp.ArrayContains(this=held.copy(), expression=value.copy())
    if isinstance(held, exp.Array) and all(isinstance(e, exp.Literal) for e in held.expressions):
        return test

    def none_in(items: exp.Expr) -> exp.Expr:
        return exp.EQ(this=exp.ArraySize(this=items), expression=exp.Literal.number(0))

    is_null = exp.Is(this=exp.to_identifier("e"), expression=exp.Null())
    each = exp.Lambda(this=is_null, expressions=[exp.to_identifier("e")])
    nulls = exp.ArrayFilter(this=held.copy(), expression=each)
    ifs = [
        exp.If(this=test, true=exp.true()),
        exp.If(this=none_in(held.copy()), true=exp.false()),
        exp.If(this=none_in(nulls), true=test.copy()),
    ]
    return exp.Case(ifs=ifs)


def _is_condition(node: exp.Expr) -> bool:
    """Return whether a node is part of the ANDs and ORs of a WHERE, where null counts as false."""
    around = node.parent
    while isinstance(around, exp.And | exp.Or | exp.Paren):  # terminates: a tree is finite
        around = around.parent
    return isinstance(around, exp.Where)


def _without_parens(node: exp.Expr) -> exp.Expr:
    while isinstance(node.parent, exp.Paren):  # terminates: a tree is finite
        node = node.parent
    return node


def _extreme(around: exp.Expr, query: exp.Query, *, is_any: bool) -> exp.Expr | None:
    """Rewrite ``x >= ALL (SELECT y ...)`` within OR as a comparison with the greatest y.

    The comparison is true if there is no y, and not true if a y is null.
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
    test: exp.Expr = type(around)(
        this=around.this.copy(), expression=one(exp.Max if is_greatest else exp.Min, y)
    )
    if not is_any:
        none = exp.EQ(this=one(exp.Count, exp.Star()), expression=exp.Literal.number(0))
        missing = exp.Sub(this=one(exp.Count, exp.Star()), expression=one(exp.Count, y))
        known = exp.EQ(this=missing, expression=exp.Literal.number(0))
        test = exp.And(
            this=exp.Coalesce(this=test, expressions=[exp.Paren(this=none)]), expression=known
        )
    made = exp.Paren(this=test)
    place(made, around)
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
    condition: exp.Expr = type(around)(this=value.copy(), expression=theirs)
    if not is_any:
        condition = exp.Not(this=exp.Coalesce(this=condition, expressions=[exp.false()]))
    select = exp.Select(
        expressions=[exp.Literal.number(1)],
        from_=exp.From(this=subquery),
        where=exp.Where(this=condition),
    )
    made = exp.Exists(this=select)
    for part in made.walk():
        part.meta.setdefault("start", around.meta.get("start", 0))
        part.meta.setdefault("end", around.meta.get("end", 0))
    return made if is_any else exp.Not(this=made)
