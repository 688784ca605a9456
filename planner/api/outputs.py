"""Sinks: where an answer goes; the methods of a stream that make a :class:`Query`.

A sink is an rStream with a ``TableForm``: :mod:`rvertex.host.environment` opens it,
:mod:`rstream.format` writes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.api import sinks
from planner.durations import Duration, positive_duration_us
from planner.errors import InvalidPlanError
from planner.logical.nodes import LogicalNode, Sink
from planner.logical.query import Query
from planner.logical.table_form import DEFAULT, table_form
from rstream.items.batch import item_schema
from rvertex.sinks.spec import check_names
from rvertex.sources.versions import absolute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from rstream.format.table import TableForm
    from rvertex.sinks.spec import KafkaFormat, KafkaMode, PostgresMode, SinkSpec


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

    def deliver(
        self,
        *destinations: SinkSpec,
        start: str | None = DEFAULT,
        end: str | None = DEFAULT,
        cti_every: Duration | None = None,
    ) -> Query:
        """The answer in the job's folder, its rows delivered to each of ``destinations``, too.

        They are made by :mod:`planner.api.sinks`, as ``ss.sinks.kafka(...)``. Rows leave as soon as
        they are computed, and each arrives once. They have the columns of ``to_parquet()``.
        """
        if not destinations:
            raise InvalidPlanError("deliver() takes destinations, such as sinks.kafka(...)")
        form = table_form(self.plan, start, end)
        columns = form.file_schema(item_schema(self.plan.schema))
        for spec in destinations:
            spec.check(columns)
        check_names(destinations)
        return replace(self._query(None, cti_every, form), deliveries=destinations)

    def to_kafka(
        self,
        topic: str,
        *,
        servers: str,
        key: str | Sequence[str] = (),
        format: KafkaFormat = "json",
        mode: KafkaMode = "transactions",
        config: Mapping[str, Any] | None = None,
    ) -> Query:
        """Deliver the answer to a topic; see :func:`planner.api.sinks.kafka`."""
        spec = sinks.kafka(topic, servers=servers, key=key, format=format, mode=mode, config=config)
        return self.deliver(spec)

    def to_postgres(
        self, dsn: str, table: str, *, mode: PostgresMode = "append", key: str | Sequence[str] = ()
    ) -> Query:
        """Deliver the answer to a table; see :func:`planner.api.sinks.postgres`."""
        return self.deliver(sinks.postgres(dsn, table, mode=mode, key=key))

    def to_function(self, fn: Callable[[int, pa.RecordBatch], None]) -> Query:
        """Deliver the answer to Python; see :func:`planner.api.sinks.function`."""
        return self.deliver(sinks.function(fn))

    def to_console(self) -> Query:
        """Print the answer where the job manager runs."""
        return self.deliver(sinks.console())

    def _query(self, uri: str | None, cti_every: Duration | None, form: TableForm | None) -> Query:
        every = None if cti_every is None else positive_duration_us(cti_every, what="cti_every")
        return Query(Sink(self.plan, None if uri is None else absolute(uri), form), every)
