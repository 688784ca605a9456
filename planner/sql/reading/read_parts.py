"""Lists which parts of each node of a statement the compiler reads; others are errors.

sqlglot parses many dialects and stores all their parts in its nodes. A part that the compiler does
not read would be ignored silently, so every statement is checked against this table after it was
compiled. A node of another kind is an error at its place, unless it is the call of a user's
function, all arguments of which are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.grammar import (
    Descriptor,
    Emit,
    Metadata,
    TableArgument,
    Watermark,
    WindowTable,
)
from planner.sql.reading.pasted import ClientStatement
from planner.sql.reading.row_patterns import Definition, MatchTable, RowOf, Semantics, Subset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.sql.reading.parsing import SqlText

_TWO = ("this", "expression")
_LIST = ("this", "expressions")

#: Nodes that have relations, the only ones that can be pivoted.
_RELATIONS = (exp.From, exp.Join, exp.Subquery, exp.Paren)

#: Kind of node -> the parts of it that the compiler reads.
READ: Mapping[type[exp.Expr], tuple[str, ...]] = {
    # Nodes: statements.
    exp.Create: ("this", "expression", "kind", "properties", "exists", "replace"),
    ClientStatement: ("this", "expressions", "query"),
    exp.Insert: (*_TWO, "with_"),
    exp.Schema: _LIST,
    exp.ColumnDef: ("this", "kind", "constraints"),
    exp.ColumnConstraint: ("kind",),
    exp.ComputedColumnConstraint: ("this",),
    exp.PrimaryKey: ("expressions", "include", "options"),
    exp.PrimaryKeyColumnConstraint: ("options",),
    exp.CommentColumnConstraint: ("this",),
    exp.NotNullColumnConstraint: ("allow_null",),
    exp.Constraint: _LIST,
    exp.IndexParameters: (),
    Metadata: ("this",),
    Watermark: _TWO,
    exp.Properties: ("expressions",),
    exp.Property: ("this", "value"),
    # Nodes: queries.
    exp.Select: (
        *("distinct", "with_", "expressions", "from_", "joins", "where", "group", "having"),
        *("laterals", "qualify", "order", "limit", "offset", "emit"),
    ),
    Emit: ("this",),
    exp.Qualify: ("this",),
    exp.Limit: ("expression", "limit_options"),
    exp.Fetch: ("count", "direction", "limit_options"),
    exp.LimitOptions: ("rows", "percent", "with_ties"),
    exp.Offset: ("expression",),
    exp.Window: ("this", "partition_by", "order", "over", "spec"),
    exp.WindowSpec: ("kind", "start", "start_side", "end", "end_side", "exclude"),
    **dict.fromkeys((exp.Lag, exp.Lead), ("this", "offset", "default")),
    **dict.fromkeys((exp.PercentRank, exp.CumeDist), ()),
    exp.Ntile: ("this",),
    exp.NthValue: ("this", "offset"),
    **dict.fromkeys((exp.RowNumber, exp.Rank, exp.DenseRank), ()),
    **dict.fromkeys(
        (exp.Union, exp.Except, exp.Intersect),
        (*_TWO, "with_", "distinct", "order", "limit", "offset", "by_name"),
    ),
    exp.Values: ("expressions", "alias"),
    exp.Subquery: ("this", "alias", "with_", "pivots"),
    exp.Pivot: (
        *("expressions", "fields", "unpivot", "alias", "columns", "pivot_column_naming"),
        "include_nulls",
        *("value_columns_first",),
    ),
    exp.PivotAlias: ("this", "alias"),
    exp.With: ("expressions",),
    exp.CTE: ("this", "alias"),
    exp.From: ("this",),
    exp.Table: ("this", "alias", "version", "pivots"),
    exp.Version: ("this", "expression", "kind"),
    WindowTable: (*_LIST, "alias"),
    TableArgument: _LIST,
    Descriptor: ("this",),
    MatchTable: tuple(MatchTable.arg_types),
    Semantics: ("this", "kind"),
    RowOf: (*_TWO, "kind"),
    Subset: _LIST,
    Definition: _TWO,
    exp.Kwarg: _TWO,
    exp.TableAlias: ("this", "columns"),
    exp.Join: ("this", "side", "kind", "on", "using", "method"),
    exp.Where: ("this",),
    exp.Group: ("expressions", "all"),
    **dict.fromkeys((exp.GroupingSets, exp.Rollup, exp.Cube, exp.Tuple), ("expressions",)),
    **dict.fromkeys((exp.Grouping, exp.GroupingId), ("expressions",)),
    exp.Having: ("this",),
    exp.Exists: _TWO,
    exp.Alias: ("this", "alias"),
    exp.Star: ("except_", "replace", "rename"),
    exp.Column: ("this", "table", "db", "catalog"),
    exp.Identifier: ("this", "quoted"),
    exp.Var: ("this",),
    # Nodes: values.
    exp.Literal: ("this", "is_string"),
    exp.Boolean: ("this",),
    exp.Null: (),
    exp.Interval: ("this", "unit"),
    exp.DataType: (*_LIST, "nested"),
    exp.DataTypeParam: ("this",),
    exp.Paren: ("this",),
    exp.Neg: ("this",),
    exp.Not: ("this",),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod), _TWO),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _TWO),
    **dict.fromkeys((exp.And, exp.Or, exp.Is, exp.Nullif), _TWO),
    exp.DPipe: (*_TWO, "safe"),
    exp.Between: ("this", "low", "high", "symmetric"),
    exp.In: (*_LIST, "query"),
    exp.Like: (*_TWO, "negate"),
    exp.Escape: _TWO,
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.Coalesce: _LIST,
    exp.Concat: ("expressions", "safe"),
    exp.Cast: ("this", "to"),
    exp.TryCast: ("this", "to", "safe"),
    exp.Extract: _TWO,
    # Nodes: functions.
    exp.Anonymous: _LIST,
    **dict.fromkeys((exp.Abs, exp.Sqrt), ("this",)),
    **dict.fromkeys((exp.Floor, exp.Ceil), ("this", "to")),
    **dict.fromkeys((exp.Upper, exp.Lower, exp.Length), ("this",)),
    **dict.fromkeys((exp.Year, exp.Month, exp.Day, exp.DayOfYear), ("this",)),
    **dict.fromkeys((exp.Hour, exp.Minute, exp.Second), ("this",)),
    exp.Round: ("this", "decimals"),
    exp.Trim: (*_TWO, "position"),
    **dict.fromkeys((exp.StartsWith, exp.EndsWith, exp.Contains, exp.RegexpLike, exp.Split), _TWO),
    exp.Replace: (*_TWO, "replacement"),
    exp.RegexpReplace: (*_TWO, "replacement"),
    exp.SplitPart: ("this", "delimiter", "part_index"),
    exp.Substring: ("this", "start", "length"),
    **dict.fromkeys((exp.DateTrunc, exp.TimestampTrunc), ("this", "unit")),
    **dict.fromkeys((exp.Greatest, exp.Least), (*_LIST, "ignore_nulls")),
    exp.Nvl2: ("this", "true", "false"),
    exp.DecodeCase: ("expressions",),
    exp.Elt: _LIST,
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ, exp.Pow, exp.Log, exp.Atan2), _TWO),
    **dict.fromkeys((exp.Exp, exp.Ln, exp.Sign, exp.IsNan, exp.Degrees, exp.Radians), ("this",)),
    **dict.fromkeys((exp.Sin, exp.Cos, exp.Tan, exp.Asin, exp.Acos, exp.Atan), ("this",)),
    exp.Pi: (),
    exp.Trunc: ("this", "decimals"),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _TWO),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _TWO),
    exp.BitwiseNot: ("this",),
    **dict.fromkeys((exp.Left, exp.Right), _TWO),
    exp.StrPosition: ("this", "substr"),
    **dict.fromkeys((exp.Cbrt, exp.Factorial, exp.Soundex), ("this",)),
    exp.WidthBucket: ("this", "min_value", "max_value", "num_buckets"),
    exp.Levenshtein: _TWO,
    exp.ParseUrl: ("this", "part_to_extract", "key"),
    **dict.fromkeys((exp.Reverse, exp.Space, exp.MD5, exp.SHA, exp.Ascii), ("this",)),
    exp.Repeat: ("this", "times"),
    exp.SHA2: ("this", "length"),
    exp.Translate: ("this", "from_", "to"),
    exp.Chr: ("expressions",),
    exp.BitLength: ("this",),
    exp.ConcatWs: ("expressions", "safe"),
    exp.Overlay: (*_TWO, "from_", "for_"),
    exp.SubstringIndex: ("this", "delimiter", "count"),
    exp.ILike: (*_TWO, "negate"),
    exp.SimilarTo: _TWO,
    exp.JSONExtractScalar: (*_TWO, "only_json_types", "expressions", "scalar_only"),
    exp.JSONExtract: (*_TWO, "only_json_types"),
    exp.AtTimeZone: ("this", "zone"),
    exp.JSONPath: ("expressions",),
    **dict.fromkeys((exp.Week, exp.WeekOfYear, exp.Quarter, exp.DayOfWeek), ("this",)),
    **dict.fromkeys((exp.DayOfMonth, exp.LastDay, exp.Dayname, exp.Monthname), ("this",)),
    exp.Initcap: _TWO,
    **dict.fromkeys((exp.ToBase64, exp.FromBase64, exp.Hex, exp.Unhex), ("this",)),
    **dict.fromkeys((exp.RegexpCount, exp.NextDay), _TWO),
    exp.MonthsBetween: _TWO,
    exp.Format: _LIST,
    exp.AddMonths: _TWO,
    exp.ToChar: ("this", "format"),
    # Nodes: lists and maps.
    exp.Unnest: ("expressions", "alias", "offset"),
    exp.Lateral: ("this", "view", "outer", "alias"),
    **dict.fromkeys((exp.Explode, exp.Posexplode), ("this",)),
    exp.Bracket: (*_LIST, "offset"),
    exp.Slice: _TWO,
    exp.Dot: _TWO,
    exp.Array: ("expressions", "value_constructor"),
    exp.ArrayContains: (*_TWO, "ensure_variant"),
    exp.ArrayContainsAll: _TWO,
    exp.ArraySize: _TWO,
    exp.MapKeys: ("this",),
    **dict.fromkeys((exp.ArrayReverse, exp.ArrayDistinct, exp.Flatten), ("this",)),
    **dict.fromkeys((exp.ArrayMax, exp.ArrayMin, exp.ArraySum), ("this",)),
    exp.ArraySort: ("this", "asc", "nulls_first"),
    exp.ArrayConcat: _LIST,
    exp.ArrayIntersect: ("expressions",),
    **dict.fromkeys((exp.ArrayAppend, exp.ArrayPrepend, exp.ArrayRemove), _TWO),
    **dict.fromkeys((exp.ArrayPosition, exp.ArrayExcept, exp.ArrayToString), _TWO),
    exp.StringToArray: _TWO,
    exp.ArraySlice: ("this", "start", "end"),
    exp.Struct: ("expressions",),
    exp.PropertyEQ: _TWO,
    exp.JSONObject: ("expressions", "null_handling"),
    exp.JSONKeyValue: _TWO,
    exp.DateBin: (*_TWO, "unit", "zone"),
    **dict.fromkeys((exp.JSONBExtract, exp.JSONBExtractScalar), _TWO),
    **dict.fromkeys((exp.Transform, exp.ArrayFilter), _TWO),
    exp.Reduce: ("this", "initial", "merge"),
    exp.Lambda: _LIST,
    exp.MapContainsKey: ("this", "key"),
    # Nodes: aggregates.
    exp.AnonymousAggFunc: _LIST,
    exp.Count: ("this", "big_int"),
    exp.Distinct: ("expressions",),
    exp.Filter: _TWO,
    **dict.fromkeys((exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median), ("this",)),
    **dict.fromkeys((exp.First, exp.Last), _TWO),
    **dict.fromkeys((exp.Variance, exp.VariancePop), ("this",)),
    **dict.fromkeys((exp.Stddev, exp.StddevSamp, exp.StddevPop), ("this",)),
    **dict.fromkeys((exp.AnyValue, exp.LogicalAnd, exp.LogicalOr, exp.CountIf), ("this",)),
    **dict.fromkeys((exp.Mode, exp.Skewness, exp.Kurtosis), ("this",)),
    **dict.fromkeys((exp.FirstValue, exp.LastValue, exp.ApproxDistinct), ("this",)),
    **dict.fromkeys((exp.Corr, exp.CovarPop, exp.CovarSamp), _TWO),
    exp.ArrayAgg: ("this", "nulls_excluded"),
    exp.GroupConcat: ("this", "separator"),
    exp.WithinGroup: _TWO,
    **dict.fromkeys((exp.PercentileCont, exp.PercentileDisc), ("this",)),
    **dict.fromkeys((exp.IgnoreNulls, exp.RespectNulls), ("this",)),
    exp.Order: ("this", "expressions"),
    exp.Ordered: ("this", "desc", "nulls_first"),
    **dict.fromkeys((exp.Quantile, exp.ApproxQuantile), ("this", "quantile")),
    **dict.fromkeys((exp.ArgMax, exp.ArgMin), _TWO),
}


def check_complete(statement: exp.Expr, text: SqlText) -> None:
    """Raise for a node without a required part, such as a function without its arguments.

    Raises:
        SqlError: there is such a node.
    """
    for node in statement.walk():
        for name, is_needed in node.arg_types.items():
            if is_needed and node.args.get(name) is None:
                raise text.error(node, f"{text.spelled(node)} lacks an argument")


def _has_place(node: exp.Expr, part: str) -> bool:
    """Return whether this node may have a part that only some nodes of its kind may have."""
    if part == "pivots":
        return isinstance(node.parent, _RELATIONS)
    if part == "all":  # GROUP BY ALL has no keys, so the flag stands for them
        return not node.expressions
    if part == "expression" and isinstance(node, exp.First | exp.Last):
        # the argument of FIRST(x, TRUE), not the flag that other nodes have here
        return isinstance(node.args[part], exp.Expr)
    is_value = type(node) is exp.Order and part == "this"  # the value in ARRAY_AGG(x ORDER BY y)
    return not is_value or isinstance(node.parent, exp.AggFunc | None)


def check_parts(statement: exp.Expr, own: Mapping[str, object], text: SqlText) -> None:
    """Raise for parts of a statement that the compiler does not read.

    Raises:
        SqlError: there is such a part.
    """
    for node in statement.walk():
        known = READ.get(type(node))
        is_own = isinstance(node, exp.Func) and node.sql_name().lower() in own
        for name, part in node.args.items():
            if not part or part == [None]:
                continue
            is_read = known is not None and name in known
            if is_read and _has_place(node, name):
                continue
            if known is None and is_own and not isinstance(part, bool | str):
                continue
            at = part if isinstance(part, exp.Expr) else node
            word = part.upper() if isinstance(part, str) else name.strip("_").upper()
            if isinstance(node, exp.Func):
                reason = (
                    f"this form of {text.spelled(node)} is not supported; write it without this"
                )
                raise text.error(at, reason)
            raise text.error(at, f"{word} is not supported here; leave it out")
