"""Statements for the client: SET, SHOW, DESCRIBE, EXPLAIN, and the start of a statement set.

SHOW, DESCRIBE and EXPLAIN print. SET accepts settings that have no effect here, and the zone UTC,
because times of declared columns are UTC; another zone is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.logical.traversal import topological
from planner.logical.windows import zone_rules
from planner.sql.reading.errors import sql_type
from planner.sql.tables.columns import is_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from planner.api.stream import Query, Stream
    from planner.sql.expressions.names import Names
    from planner.sql.reading.pasted import ClientStatement
    from planner.sql.tables.declarations import Declaration

_OF_STREAMS = (
    *("num.stream", "commit.interval", "cache.max.bytes", "state.dir", "auto.offset.reset"),
    *("processing.guarantee", "replication.factor", "num.standby", "statestore.cache.max.bytes"),
)
#: How long a source may be silent before it stops delaying the watermark.
IDLE_TIMEOUT = "table.exec.source.idle-timeout"
#: Prefixes of other engines' settings that control how a job runs, not its result.
_WITHOUT_EFFECT = (
    *("pipeline.", "execution.", "parallelism.", "state.", "sql-client.", "table.exec.mini-batch"),
    *(
        "table.exec.state.ttl",
        IDLE_TIMEOUT,
        "table.exec.async",
        "table.dml-sync",
        "rest.",
    ),
    *("taskmanager.", "jobmanager.", "spark.sql.adaptive", "spark.executor.", "spark.driver."),
    *(f"ksql.streams.{name}" for name in _OF_STREAMS),
    *("ksql.query.pull", "cache.max.bytes", "commit.interval", "num.stream"),
    *("table.optimizer", "restart-strategy", "streaming_", "cluster", "spark.sql.shuffle"),
    *("spark.sql.streaming.checkpoint", "auto.offset.reset", "processing.guarantee"),
    *("application_name", "search_path", "client_min_messages", "background_ddl"),
)
#: Settings that have no effect with some values, and what to write for other values.
_SOME_VALUES = {
    "auto.offset.reset": (
        ("earliest",),
        "SET {0} = {1!r} is not supported: write start = 'latest' in the WITH of the topic",
    ),
}
_ZONES = ("table.local-time-zone", "timezone", "spark.sql.session.timezone", "time zone")
_UTC = ("utc", "gmt", "z", "etc/utc", "+00:00")
#: Functions whose results depend on the session's zone.
_LOCAL = ("TO_TIMESTAMP_LTZ", "FROM_UNIXTIME", "UNIX_TIMESTAMP", "CURRENT_TIMESTAMP")
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In)
_SET = (
    "SET {0} is not supported: set options of a job with `jobmanager sql`, such as "
    "--parallelism; leave it out if it does not change the answer"
)
_ZONE = (
    "the session's time zone is UTC here, not {0!r}: write ts AT TIME ZONE {0!r} where a local "
    "time is needed"
)


_DROPS = tuple(
    f"DROP {word}"
    for word in ("VIEW", "TABLE", "TEMPORARY", "MATERIALIZED", "STREAM", "SOURCE", "SINK")
)


def is_sink_of_query(node: exp.Expr) -> bool:
    """Return whether a CREATE writes a query: ``CREATE SINK s AS``, or a TABLE with a connector."""
    kind = str(node.args.get("kind")).upper()
    if not isinstance(node, exp.Create) or node.args.get("expression") is None:
        return False
    options = node.args.get("properties")
    parts = options.expressions if options else ()
    names = {option.name.lower() for option in parts if isinstance(option, exp.Property)}
    return kind == "SINK" or (kind == "TABLE" and not names.isdisjoint(("connector", "path")))


def dropped(node: ClientStatement) -> list[str]:
    """Return the name that ``DROP TABLE | VIEW name`` drops, which a CREATE may use again."""
    words = [part.name for part in node.expressions]
    if node.name.upper() not in _DROPS:
        return []
    kinds = [at for at, word in enumerate(words) if word.upper() in ("VIEW", "TABLE")]
    at = (kinds or [0])[0] + 1
    return words[at + 2 :][:1] if words[at : at + 1] in (["IF"], ["if"]) else words[at:][:1]


def tell(
    node: ClientStatement,
    names: Names,
    declared: Mapping[str, Declaration],
    answer: Callable[[exp.Expr], Query | Stream],
) -> str | None:
    """Run a client statement such as SET, SHOW or EXPLAIN.

    Returns:
        The session's time zone if the statement sets it.

    Raises:
        SqlError: the setting is unknown, or would change the result.
    """
    word = node.name
    if word == "SET":
        return _set(node, names)
    if word == "RESET":
        keys = "".join(part.name for part in node.expressions[1:]).lower()
        return "" if not keys or keys in _ZONES else None
    if word == "SHOW":
        print("\n".join(sorted({*names.streams, *declared})))
    elif word == "DESCRIBE":
        stream = names.stream(node.expressions[0])
        for field in stream.schema:
            print(f"{field.name}  {sql_type(str(field.type))}")
    elif word == "EXPLAIN":
        query = node.args["query"]
        if not isinstance(query, exp.Query | exp.Insert):
            raise names.text.error(node, "EXPLAIN takes a SELECT or INSERT INTO")
        print(explained(answer(query)))
    return None


def explained(made: Query | Stream) -> str:
    """Return the logical plan, a line for each step."""
    return "\n".join(node.describe() for node in topological(made.plan))


def refuse_local_times(statement: exp.Expr, instants: Container[str], names: Names) -> None:
    """Raise for times whose fields depend on the session's zone, since they are UTC here.

    ``instants``: the columns that are declared with a time zone.

    Raises:
        SqlError: the statement uses such a time.
    """
    zone = names.zone
    for column in statement.find_all(exp.Column):
        if column.name in instants and _reads_fields(column):
            raise names.text.error(column, _ZONE.format(zone))
    for node in statement.find_all(exp.DataType, exp.Func):
        if isinstance(node.parent, exp.ColumnDef):
            continue
        kind = str(getattr(node.this, "value", node.this)) if type(node) is exp.DataType else ""
        name = node.name.upper() if isinstance(node, exp.Anonymous) else ""
        if isinstance(node.parent, exp.ComputedColumnConstraint) and is_instant(node):
            continue
        if kind in ("TIMESTAMPTZ", "TIMESTAMPLTZ") or name in _LOCAL:
            raise names.text.error(node, _ZONE.format(zone))


def _reads_fields(column: exp.Column) -> bool:
    """Return whether an instant is compared with a wall-clock time, or read as one."""
    around = column.parent
    if type(around) in _COMPARED:
        assert around is not None, column
        return around.find(exp.Literal, exp.Cast) is not None
    kept = (exp.AggFunc, exp.Coalesce, exp.Case, exp.If, exp.Nullif, exp.Greatest, exp.Least)
    is_read = isinstance(around, exp.Func | exp.Extract) and not isinstance(around, kept)
    return is_read and not isinstance(around, exp.AtTimeZone | exp.Add | exp.Sub)


def _set(node: ClientStatement, names: Names) -> str | None:
    key, value = (str(part.name) for part in node.expressions)
    called = key.lower()
    if called in _ZONES or called.startswith("timezone"):
        zone = value or key
        if zone.lower() in _UTC:
            return ""
        # in other dialects TIMESTAMP itself is an instant
        if names.text.engine.name not in ("flink", ""):
            raise names.text.error(node, _ZONE.format(zone))
        with names.text.located(node):
            zone_rules(zone)
        return zone
    for name, (values, reason) in _SOME_VALUES.items():
        if called.endswith(name):
            if value.lower() not in values:
                raise names.text.error(node, reason.format(key, value))
            return None
    if not called.startswith(_WITHOUT_EFFECT):
        raise names.text.error(node, _SET.format(key))
    return None
