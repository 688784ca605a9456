"""The connector ``console``, which prints rows where the job runs; ``print`` is its other name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.api import sinks
from planner.logical.table_form import DEFAULT
from planner.sql.tables.options import null_or_text, option
from planner.sql.tables.table import Connector, Sink

if TYPE_CHECKING:
    from planner.api.stream import Stream
    from planner.logical.query import Query
    from planner.sql.tables.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSink:
    """The options: names of the time columns."""

    start: str | None = option("start", read=null_or_text, default=DEFAULT)
    end: str | None = option("end", read=null_or_text, default=DEFAULT)


def print_rows(table: Table, options: ConsoleSink, stream: Stream) -> Query:
    """Return the query that prints ``stream``."""
    with table.text.located(table.given.name):
        return stream.deliver(sinks.console(), start=options.start, end=options.end)


CONNECTOR = Connector("console", None, Sink(ConsoleSink, print_rows))
