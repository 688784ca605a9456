"""Queries: written in Python or SQL, checked at once, planned as a DAG of vertices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.sql.entry import sql
from rstream.lazy import lazy

if TYPE_CHECKING:
    from planner.api import agg, sinks
    from planner.api.agg import asc, desc
    from planner.api.choices import when
    from planner.api.expressions import (
        Expr,
        coalesce,
        col,
        concat_ws,
        greatest,
        least,
        list_of,
        lit,
        struct,
        ve,
        vs,
    )
    from planner.api.grouped.matching.expressions import (
        classifier,
        final,
        match_number,
        next_row,
        prev,
        rows_of,
        running,
    )
    from planner.api.grouped.sessions import session
    from planner.api.inputs.items import cti, event
    from planner.api.joining.logs import id_joiner
    from planner.api.stream import GroupedStream, Query, Stream, WindowedStream
    from planner.api.udf import Udf, udf
    from planner.errors import (
        EvaluationError,
        ExpressionTypeError,
        InvalidDurationError,
        InvalidPlanError,
        UnknownColumnError,
    )
    from planner.logical.windows import (
        Window,
        count_window,
        cumulating,
        hopping,
        snapshot,
        tumbling,
    )
    from planner.sql.reading.errors import SqlError
    from rvertex.user_code.keyed.process import KeyedContext, KeyedProcess, Timer

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
    "asc",
    "classifier",
    "coalesce",
    "col",
    "concat_ws",
    "count_window",
    "cti",
    "cumulating",
    "desc",
    "event",
    "final",
    "greatest",
    "hopping",
    "id_joiner",
    "least",
    "list_of",
    "lit",
    "match_number",
    "next_row",
    "prev",
    "rows_of",
    "running",
    "session",
    "sinks",
    "snapshot",
    "sql",
    "struct",
    "tumbling",
    "udf",
    "ve",
    "vs",
    "when",
]
#: The modules that define the names; a module is imported when one of its names is first used.
#: ``sql`` is imported above: an import of the package ``planner.sql`` would replace a lazy ``sql``.
_HOMES = {
    "planner.api": (
        "agg",
        "sinks",
    ),
    "planner.api.agg": (
        "asc",
        "desc",
    ),
    "planner.api.choices": ("when",),
    "planner.api.expressions": (
        "Expr",
        "coalesce",
        "col",
        "concat_ws",
        "greatest",
        "least",
        "list_of",
        "lit",
        "struct",
        "ve",
        "vs",
    ),
    "planner.api.grouped.matching.expressions": (
        "classifier",
        "final",
        "match_number",
        "next_row",
        "prev",
        "rows_of",
        "running",
    ),
    "planner.api.grouped.sessions": ("session",),
    "planner.api.inputs.items": (
        "cti",
        "event",
    ),
    "planner.api.joining.logs": ("id_joiner",),
    "planner.api.stream": (
        "GroupedStream",
        "Query",
        "Stream",
        "WindowedStream",
    ),
    "planner.api.udf": (
        "Udf",
        "udf",
    ),
    "planner.errors": (
        "EvaluationError",
        "ExpressionTypeError",
        "InvalidDurationError",
        "InvalidPlanError",
        "UnknownColumnError",
    ),
    "planner.logical.windows": (
        "Window",
        "count_window",
        "cumulating",
        "hopping",
        "snapshot",
        "tumbling",
    ),
    "planner.sql.reading.errors": ("SqlError",),
    "rvertex.user_code.keyed.process": (
        "KeyedContext",
        "KeyedProcess",
        "Timer",
    ),
}
__getattr__, __dir__ = lazy(__name__, _HOMES)
