"""UNION, EXCEPT and INTERSECT: rows valid in either, in only one, or in both, at each instant.

Columns are matched by position. EXCEPT and INTERSECT compare whole rows, nulls as equal, and return
each row once: the rows of both sides are stitched, and joined by a text that identifies a row.
With ALL they count the copies of each row, ``n`` and ``m``: EXCEPT ALL leaves ``n - m`` of them,
INTERSECT ALL the smaller number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api import agg
from planner.api.choices import when
from planner.api.expressions import Expr, call, col, lit
from planner.api.grouped.aggregation import free_column
from planner.api.names import aligned, text_of
from planner.api.stream import Stream
from planner.sql.reading.parsing import OF_INSERTS
from planner.sql.windows.kept_rows import kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from planner.sql.expressions.names import Names

_EMIT = (
    "EMIT could belong to the whole {0} or to its last SELECT: put each SELECT in "
    "parentheses, with its EMIT"
)
_POINTS = (
    "{0} compares rows that are valid at the same time, and two points hardly ever "
    "are: give the rows a lifetime (ve = NULL in the declaration: for ever), or "
    "compare results of windows"
)


def set_operation(
    node: exp.SetOperation, first: Stream, others: Sequence[Stream], names: Names
) -> Stream:
    """Return the stream of all branches; the first one names the columns."""
    wanted = first.schema.names
    kind = type(node).__name__.upper()
    _check_emit(node, names)
    renamed = []
    for stream in others:
        columns_of = stream.schema.names
        if len(columns_of) != len(wanted):
            what = "UNION ALL" if kind == "UNION" else kind
            what = "INSERT INTO one target," if OF_INSERTS in node.meta else what
            raise names.text.error(node, f"{what} of {len(wanted)} and {len(columns_of)} columns")
        pairs = list(zip(columns_of, wanted, strict=True))
        columns = [col(old).alias(name) for old, name in pairs]
        renamed.append(stream if columns_of == wanted else stream.select(*columns))
    is_distinct = bool(node.args.get("distinct"))
    if kind != "UNION" or is_distinct:
        first, *renamed = (kept(stream, names) for stream in (first, *renamed))
    if kind == "UNION":
        with names.text.located(node):
            whole = first.union(*renamed)
            return whole.stitch() if is_distinct else whole
    if first.plan.is_point and renamed[0].plan.is_point:
        raise names.text.error(node, _POINTS.format(kind))
    with names.text.located(node):
        left, right = (Stream(plan) for plan in aligned([first.plan, renamed[0].plan]))
        if not is_distinct:
            return _counted(left, right, is_except=kind == "EXCEPT")
        return _compared(left.stitch(), right.stitch(), is_except=kind == "EXCEPT")


def branches_of(node: exp.Expr) -> list[exp.Expr]:
    """Return the SELECTs of a chain of UNION ALL."""
    plain = isinstance(node, exp.Union) and not node.args.get("distinct")
    plain = plain and not node.args.get("by_name")
    if not plain or any(node.args.get(part) for part in ("with_", "order", "limit", "offset")):
        return [node]
    return [*branches_of(node.this), *branches_of(node.args["expression"])]


def by_name(streams: Sequence[Stream]) -> list[Stream]:
    """Return the streams with the columns of all of them by name, as DuckDB's BY NAME does."""
    kinds = {f.name: f.type for stream in reversed(streams) for f in stream.schema}
    names = list(dict.fromkeys(name for stream in streams for name in stream.schema.names))
    return [
        stream.select(
            *(
                col(name)
                if name in stream.schema.names
                else lit(None).cast(kinds[name]).alias(name)
                for name in names
            )
        )
        for stream in streams
    ]


def _check_emit(node: exp.Expr, names: Names) -> None:
    """Check EMIT, which at the end of the text would belong to the last SELECT only."""
    if not isinstance(node, exp.SetOperation):
        return
    last = node.expression
    emit = last.args.get("emit") if isinstance(last, exp.Select) else None
    if emit is not None:
        raise names.text.error(emit, _EMIT.format(type(node).__name__.upper()))
    _check_emit(node.this, names)
    _check_emit(last, names)


def united(branches: Sequence[Stream], node: exp.Expr, names: Names) -> Stream:
    """Return all rows of streams with equal columns."""
    with names.text.located(node):
        return branches[0].union(*branches[1:])


def _compared(left: Stream, right: Stream, *, is_except: bool) -> Stream:
    names = left.schema.names
    same = free_column("same", names)
    sides = [side.with_columns(**{same: _row_text(side.schema)}) for side in (left, right)]
    how = "anti" if is_except else "inner"
    return sides[0].join(sides[1].select(same), on=same, how=how).select(*names)


def _counted(left: Stream, right: Stream, *, is_except: bool) -> Stream:
    """Return the copies of each row that are left of ``EXCEPT ALL`` and ``INTERSECT ALL``."""
    names = left.schema.names
    same = free_column("same", names)
    here, there, copy = (free_column(name, [*names, same]) for name in ("here", "there", "copy"))
    sides = [side.with_columns(**{same: _row_text(side.schema)}) for side in (left, right)]
    values = {name: agg.first(name) for name in names}
    counted = sides[0].group_by(same).agg(**values, **{here: agg.count()})
    theirs = sides[1].group_by(same).agg(**{there: agg.count()})
    pairs = counted.join(theirs, on=same, how="left" if is_except else "inner")
    less = when(col(there) < col(here)).then(col(there)).otherwise(col(here))
    copies = col(here) - col(there).fill_null(0) if is_except else less
    listed = pairs.with_columns(**{copy: call("sequence", lit(1), copies, lit(1))})
    return listed.explode(copy).select(*names)


def _row_text(schema: pa.Schema) -> Expr:
    """Return an expression whose text is equal for equal rows only."""
    made: Expr = lit("")
    for name in schema.names:
        made = made + when(col(name).is_null()).then("-").otherwise(text_of(col(name), schema))
    return made
