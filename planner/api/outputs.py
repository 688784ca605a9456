"""Sinks: where an answer goes; the methods of a stream that make a :class:`Query`.

A sink is an rStream with a ``TableForm``: :mod:`rvertex.host.environment` opens it,
:mod:`rstream.format` writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.durations import Duration, positive_duration_us
from planner.errors import InvalidPlanError
from planner.logical.nodes import LogicalNode, Sink
from planner.logical.query import Query
from planner.logical.table_form import DEFAULT, table_form
from rvertex.sources.versions import absolute

if TYPE_CHECKING:
    from rstream.format.table import TableForm


class Outputs:
    """What a stream can be written to."""

    __slots__ = ()
    plan: LogicalNode

    def to_parquet(
        self,
        path: str | None = None,
        *,
        start: str | None = DEFAULT,
        end: str | None = DEFAULT,
        technical_columns: bool = False,
        cti_every: Duration | None = None,
    ) -> Query:
        """The answer as a folder of Parquet files, ``path`` or ``output`` in the job's folder.

        The files are a table of events: the columns ``start`` and ``end`` of their lifetimes (of
        windows ``window_start`` and ``window_end``), then those of the query. ``start`` and ``end``
        give other names; None leaves a column out where the rest tells it, as a column ``vs()``
        tells the start and a window of fixed size the end. ``technical_columns``: a row for every
        item instead, CTIs included, with ``_seq, _kind, _vs, _ve``.
        """
        place = None if path is None else str(path)
        if not technical_columns:
            return self._query(place, cti_every, table_form(self.plan, start, end))
        if (start, end) != (DEFAULT, DEFAULT):
            raise InvalidPlanError("technical_columns=True: times are _vs and _ve; give no names")
        return self._query(place, cti_every, None)

    def to_rstream(self, uri: str, *, cti_every: Duration | None = None) -> Query:
        """The answer as rStreams under ``uri``: a row for every item, with technical columns."""
        return self._query(str(uri), cti_every, None)

    def _query(self, uri: str | None, cti_every: Duration | None, form: TableForm | None) -> Query:
        every = None if cti_every is None else positive_duration_us(cti_every, what="cti_every")
        return Query(Sink(self.plan, None if uri is None else absolute(uri), form), every)
