"""Outputs: where a result is written; the methods of a stream that make a :class:`Query`.

A query writes rStreams, whose files have the columns that a ``TableForm`` describes.
:mod:`rvertex.host.environment` opens them, and :mod:`rstream.format` writes them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from planner.api import sinks
from planner.api.inputs.keywords import delivers
from planner.durations import Duration, positive_duration_us
from planner.errors import InvalidPlanError, UnknownColumnError
from planner.logical.nodes import LogicalNode, Sink
from planner.logical.query import Publishing, Query
from planner.logical.table_form import DEFAULT, table_form
from rstream.items.batch import item_schema
from rvertex.registry.checks import check_claims
from rvertex.sinks.spec import SinkSpec, check_names, rows_of
from rvertex.sources.versions import absolute, local_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rstream.format.table import TableForm


OutputMode = Literal["append", "overwrite", "error"]


class Outputs:
    """The outputs of a stream."""

    __slots__ = ()
    plan: LogicalNode

    def to_parquet(
        self,
        path: str | None = None,
        *,
        mode: OutputMode = "error",
        partition_by: str | Sequence[str] = (),
        start: str | None = DEFAULT,
        end: str | None = DEFAULT,
        technical_columns: bool = False,
        cti_every: Duration | None = None,
    ) -> Query:
        """Write the result as a folder of Parquet files: ``path`` or ``output`` in the job folder.

        The files are a table of events: the columns ``start`` and ``end`` of their lifetimes
        (``window_start`` and ``window_end`` for windows), then the query's columns. ``start`` and
        ``end`` rename these two. None omits it; other columns must imply it: the start by a column
        ``vs()``, the end by a window of fixed size. ``technical_columns``: write one row per item
        instead, watermarks (CTIs) included, with ``_seq, _kind, _vs, _ve``.

        ``mode="error"``: the folder must be new and belongs to the job. ``mode="append"``: the
        folder may hold other files; rows are added while the job runs, each once.
        ``mode="overwrite"``: when the job has finished, its rows replace the whole content of the
        folder; in a local folder at once, in an object store file by file. ``partition_by``:
        columns whose values name subfolders (``day=2026-03-01``), written to a new or replaced
        folder when the job has finished.
        """
        names = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        if mode != "error" or names:
            return self._beside(path, mode, names, start, end, cti_every)
        place = None if path is None else str(path)
        if not technical_columns:
            return self._query(place, cti_every, table_form(self.plan, start, end))
        if (start, end) != (DEFAULT, DEFAULT):
            raise InvalidPlanError(
                "technical_columns=True names the times _vs and _ve: leave out start= and end="
            )
        return self._query(place, cti_every, None)

    def to_rstream(self, uri: str, *, cti_every: Duration | None = None) -> Query:
        """Write the result as rStreams under ``uri``: one row per item, with technical columns."""
        return self._query(str(uri), cti_every, None)

    def deliver(
        self,
        *destinations: SinkSpec,
        start: str | None = DEFAULT,
        end: str | None = DEFAULT,
        cti_every: Duration | None = None,
    ) -> Query:
        """Write the result to the job's folder, and deliver its rows to each of ``destinations``.

        Destinations are made by :mod:`planner.api.sinks`, such as ``ss.sinks.kafka(...)``. Rows are
        delivered as soon as they are computed, each once, with the columns of ``to_parquet()``.
        """
        if not destinations or not all(isinstance(spec, SinkSpec) for spec in destinations):
            raise InvalidPlanError("deliver() takes destinations, such as sinks.kafka(...)")
        form = table_form(self.plan, start, end)
        columns = form.file_schema(item_schema(self.plan.schema))
        for spec in destinations:
            spec.check(rows_of(spec, columns))
        check_names(destinations)
        check_claims(destinations)
        return replace(self._query(None, cti_every, form), deliveries=destinations)

    # Each destination of :mod:`planner.api.sinks` is also a method, with the same options.
    to_kafka = delivers(sinks.kafka)
    to_postgres = delivers(sinks.postgres)
    to_function = delivers(sinks.function)
    to_console = delivers(sinks.console)

    def _beside(
        self,
        path: str | None,
        mode: OutputMode,
        names: tuple[str, ...],
        start: str | None,
        end: str | None,
        cti_every: Duration | None,
    ) -> Query:
        """Write the result to the job's folder, and publish or deliver it to another folder."""
        if mode not in ("append", "overwrite", "error"):
            raise InvalidPlanError(f'mode={mode!r}: choose one of "append", "overwrite", "error"')
        if path is None:
            raise InvalidPlanError(f"to_parquet(mode={mode!r}) needs the path of the folder")
        if mode == "append":
            if names:
                raise InvalidPlanError(
                    'partition_by= needs mode="overwrite" or "error": appended files '
                    "become visible one by one while the job runs, not all at once"
                )
            return self.deliver(sinks.parquet(str(path)), start=start, end=end, cti_every=cti_every)
        place = local_path(str(path)) or str(path)
        form = table_form(self.plan, start, end)
        columns = form.file_schema(item_schema(self.plan.schema)).names
        for name in names:
            if name not in columns:
                raise UnknownColumnError(name, tuple(columns), "partition_by=")
            kind = self.plan.schema.field(name).type if name in self.plan.schema.names else None
            if kind is not None and pa.types.is_nested(kind):
                raise InvalidPlanError(
                    f"partition_by={name!r}: a column of type {kind} cannot name folders"
                )
        if len(names) == len(columns):
            raise InvalidPlanError("partition_by= names all columns; leave one for the files")
        query = self._query(None, cti_every, form)
        return replace(query, publishing=Publishing(place, mode, names))

    def _query(self, uri: str | None, cti_every: Duration | None, form: TableForm | None) -> Query:
        every = None if cti_every is None else positive_duration_us(cti_every, what="cti_every")
        return Query(Sink(self.plan, None if uri is None else absolute(uri), form), every)
