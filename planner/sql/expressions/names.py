"""The streams that a statement may name, and other context for compiling it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from planner.sql.expressions.scope import Rows
from planner.sql.reading.parsing import ANY_CASE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlglot import exp

    from planner.api.expressions import Expr
    from planner.api.stream import Stream
    from planner.sql.reading.parsing import SqlText
    from rvertex.aggregates.user_defined import UserAggregate


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a statement may use."""

    text: SqlText
    streams: Mapping[str, Callable[[], Stream]]
    functions: Mapping[str, Callable[..., Expr]]
    aggregates: Mapping[str, UserAggregate]
    #: For columns of a SELECT: the greatest value that passes the conditions of the outer query.
    bounds: Mapping[str, int] = field(default_factory=dict)
    #: The time zone of the session; "" is UTC.
    zone: str = ""
    #: The rows of named queries, with their windows.
    queries: Mapping[str, Rows] = field(default_factory=dict)

    def stream(self, node: exp.Table) -> Stream:
        """Return the stream of that name."""
        make = self.streams.get(self.called(node))
        if make is None:
            near = get_close_matches(node.name, self.streams, n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            known = ", ".join(self.streams) or "(none)"
            raise self.text.error(
                node,
                f"no stream {node.name!r}{hint} The streams are: {known}; others are declared by "
                f"CREATE STREAM {node.name} WITH (path = '...', vs = ...)",
            )
        return make()

    def called(self, node: exp.Table) -> str:
        """Return the stream that a table name means, ignoring case; if none, the name itself."""
        name = node.name
        if name in self.streams or not node.meta.get(ANY_CASE):
            return name
        similar = [known for known in self.streams if known.lower() == name.lower()]
        return similar[0] if len(similar) == 1 else name

    def rows(self, node: exp.Table) -> Rows:
        """Return the stream of that name, with the windows that its rows belong to."""
        stream = self.stream(node)
        known = self.queries.get(self.called(node))
        return Rows(stream) if known is None else known

    def adding(self, name: str, rows: Rows) -> Names:
        """Return the names and one more, which hides another of the same name."""
        streams = {**self.streams, name: lambda: rows.stream}
        return replace(self, streams=streams, queries={**self.queries, name: rows})

    def without(self, name: str) -> Names:
        """Return the names without one that was dropped."""
        streams, queries = dict(self.streams), dict(self.queries)
        streams.pop(name, None)
        queries.pop(name, None)
        return replace(self, streams=streams, queries=queries)
