"""The public names and their modules, which are imported when a name is first used."""

from planner.api import agg as agg, sinks as sinks
from planner.api.agg import asc as asc, desc as desc
from planner.api.choices import when as when
from planner.api.expressions import (
    Expr as Expr,
    coalesce as coalesce,
    col as col,
    concat_ws as concat_ws,
    greatest as greatest,
    least as least,
    list_of as list_of,
    lit as lit,
    struct as struct,
    ve as ve,
    vs as vs,
)
from planner.api.grouped.matching.expressions import (
    classifier as classifier,
    final as final,
    match_number as match_number,
    next_row as next_row,
    prev as prev,
    rows_of as rows_of,
    running as running,
)
from planner.api.grouped.sessions import session as session
from planner.api.inputs.items import cti as cti, event as event
from planner.api.joining.logs import id_joiner as id_joiner
from planner.api.stream import (
    GroupedStream as GroupedStream,
    Query as Query,
    Stream as Stream,
    WindowedStream as WindowedStream,
)
from planner.api.udf import Udf as Udf, udf as udf
from planner.errors import (
    EvaluationError as EvaluationError,
    ExpressionTypeError as ExpressionTypeError,
    InvalidDurationError as InvalidDurationError,
    InvalidPlanError as InvalidPlanError,
    UnknownColumnError as UnknownColumnError,
)
from planner.logical.windows import (
    Window as Window,
    count_window as count_window,
    cumulating as cumulating,
    hopping as hopping,
    snapshot as snapshot,
    tumbling as tumbling,
)
from planner.sql.entry import sql as sql
from planner.sql.reading.errors import SqlError as SqlError
from rvertex.user_code.keyed.process import (
    KeyedContext as KeyedContext,
    KeyedProcess as KeyedProcess,
    Timer as Timer,
)
