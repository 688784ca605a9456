"""The function ``sql``; the parser behind it is imported when it is first called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from planner.api.expressions import Expr
    from planner.api.stream import Query, Stream
    from rvertex.aggregates.user_defined import UserAggregate


def sql(
    text: str,
    streams: Mapping[str, Stream] | None = None,
    *,
    functions: Mapping[str, Callable[..., Expr]] | None = None,
    aggregates: Mapping[str, UserAggregate] | None = None,
    variables: Mapping[str, str] | None = None,
    dialect: str | None = None,
    params: Mapping[str, Any] | Sequence[Any] = (),
) -> Query | Stream:
    """Compile SQL: return the Stream of a SELECT, or the Query of an INSERT INTO.

    ``streams``: streams that the text may name, besides the streams it creates. ``functions`` and
    ``aggregates``: additions to SQL's. ``variables``: values of ``${name}`` in paths and other
    options of CREATE STREAM. ``dialect``: ``"flink"``, ``"spark"``, ``"postgres"``, ``"duckdb"`` or
    ``"ksqldb"``, the engine that the text was written for. ``params``: values of ``:name`` (a dict)
    or ``?`` (a list); use them instead of formatting values into the text.

    Raises:
        SqlError: with line, column and a mark under the faulty part.
    """
    from planner.sql.statements import compile_text

    return compile_text(
        text, streams or {}, functions or {}, aggregates or {}, variables or {}, dialect, params
    )
