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
    """The Stream of a SELECT, or the Query of an INSERT INTO.

    ``streams`` are the streams the text may name besides those it creates, ``functions`` and
    ``aggregates`` what it may call besides those of SQL, ``variables`` the values of ``${name}`` in
    paths and other options of CREATE STREAM. ``dialect`` is ``"flink"``, ``"spark"``,
    ``"postgres"``, ``"duckdb"`` or ``"ksqldb"`` for a text that was written for one of these.
    ``params`` are the values of ``:name`` (a dict) or ``?`` (a list); do not format them into text.

    Raises:
        SqlError: with line, column and a mark under what is wrong.
    """
    from planner.sql.statements import compile_text

    return compile_text(
        text, streams or {}, functions or {}, aggregates or {}, variables or {}, dialect, params
    )
