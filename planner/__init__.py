"""Queries: written in Python, checked as they are written, planned as a DAG of vertices."""

from planner import agg
from planner.errors import (
    EvaluationError,
    ExpressionTypeError,
    InvalidDurationError,
    InvalidPlanError,
    UnknownColumnError,
)
from planner.expressions import Expr, coalesce, col, lit, ve, vs, when
from planner.ingest import cti, event
from planner.query import GroupedStream, Query, Stream, WindowedStream
from planner.sql.entry import sql
from planner.sql.errors import SqlError
from planner.udf import Udf, udf
from planner.windows import Window, count_window, hopping, session, snapshot, tumbling
from rvertex.keyed import KeyedContext, KeyedProcess, Timer

__all__ = [
    "EvaluationError",
    "Expr",
    "ExpressionTypeError",
    "GroupedStream",
    "InvalidDurationError",
    "InvalidPlanError",
    "KeyedContext",
    "KeyedProcess",
    "Query",
    "SqlError",
    "Stream",
    "Timer",
    "Udf",
    "UnknownColumnError",
    "Window",
    "WindowedStream",
    "agg",
    "coalesce",
    "col",
    "count_window",
    "cti",
    "event",
    "hopping",
    "lit",
    "session",
    "snapshot",
    "sql",
    "tumbling",
    "udf",
    "ve",
    "vs",
    "when",
]
