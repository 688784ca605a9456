"""The logical node of a source; part of :mod:`planner.logical.nodes`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.durations import format_us
from planner.expressions.bare_text import bare
from planner.expressions.nodes import Literal, Node
from planner.logical.hint_types import NO_HINTS, Hints
from planner.logical.nodes.node import LogicalNode
from planner.logical.nodes.partitioning import SINGLE, UNKNOWN, Partitioning
from rstream.items.batch import VE, VS, int64_column, only_events

if TYPE_CHECKING:
    from collections.abc import Set

    from rvertex.sources.spec import SourceSpec

#: The start of all rows of tables, us: the first year of the calendar.
ALWAYS_US = -62_135_596_800_000_000


@dataclass(frozen=True, slots=True)
class Source(LogicalNode):
    """Events from files, logs or items in the query."""

    spec: SourceSpec
    #: Partitions that read the source; None: the plan's parallelism, at most one per unit.
    partitions: int | None
    label: str = ""
    hints: Hints = NO_HINTS

    @property
    def schema(self) -> pa.Schema:
        return self.spec.schema

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return ()

    def with_inputs(self, inputs: tuple[LogicalNode, ...]) -> Source:
        assert not inputs
        return self

    def describe(self) -> str:
        spec = self.spec
        if spec.items is not None:
            return f"{spec.items.num_rows} items"
        parts = [f"{spec.format} {spec.shown or spec.path}"]
        if is_table(spec):
            parts += [f"folders {bound}" for bound in spec.files.folders]
            return " ".join([*parts, "always alive"])
        if spec.vs is not None:
            parts.append(f"vs={_time(spec.vs)}")
        if isinstance(spec.ve, int):
            parts.append(f"ve=+{format_us(spec.ve)}")
        elif spec.ve is not None:
            parts.append(f"ve={_time(spec.ve)}")
        parts += [f"folders {bound}" for bound in spec.files.folders]
        return " ".join([*parts, *_lateness(spec)])

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        del wanted
        return ()

    def narrowed(self, inputs: tuple[LogicalNode, ...], wanted: Set[str]) -> Source:
        """Read only the wanted columns of files; items are not narrowed.

        A source that drops bad rows reads all columns, because a bad value in any of them makes the
        row bad, in every query. So does a source that keeps late rows: they are stored with all
        their columns.
        """
        assert not inputs
        return replace(self, spec=self._narrowed(wanted, keeps_late=self.spec.keeps_late_rows))

    def sampled(self, wanted: Set[str]) -> SourceSpec:
        """Return the source for a reader of a sample of these columns, without late rows."""
        return self._narrowed(wanted, keeps_late=False)

    def _narrowed(self, wanted: Set[str], *, keeps_late: bool) -> SourceSpec:
        spec = self.spec
        if spec.items is not None:
            return spec
        times = {name for time in (spec.vs, spec.ve) for name in columns_of(time)}
        schema = pa.schema([f for f in spec.schema if f.name in wanted])
        late = spec.row_schema if keeps_late else None
        reads_all = spec.checks.on_bad_row != "fail" or late is not None
        read = {*spec.columns.names} if reads_all else wanted | times
        return replace(spec, schema=schema, columns=spec.reading(read), late_schema=late)

    @property
    def partitioning(self) -> Partitioning:
        return SINGLE if self.partitions == 1 else UNKNOWN

    @property
    def is_point(self) -> bool:
        if self.spec.items is None:
            return self.spec.length_us == 1
        events = only_events(self.spec.items)
        return bool((int64_column(events, VE) - int64_column(events, VS) == 1).all())


def is_table(spec: SourceSpec) -> bool:
    """Return whether the rows of files are always valid."""
    return isinstance(spec.vs, Literal) and spec.vs.literal == ALWAYS_US


def _lateness(spec: SourceSpec) -> list[str]:
    """Return the delay, and what happens to rows that are later than it, as text."""
    parts: list[str] = []
    if spec.delay_origin == "auto":
        parts.append("delay=auto")
    elif spec.delay_origin == "found":
        parts.append(f"delay=auto ({format_us(spec.delay_us)}, found)")
    elif spec.delay_us:
        parts.append(f"delay={format_us(spec.delay_us)}")
    if spec.delay_quantile is not None:
        percent = (Decimal(str(spec.delay_quantile)) * 100).normalize()
        parts.append(f"delay=p{percent:f}")
    if spec.vs is not None and spec.delay_origin == "given":
        parts.append(f"late={spec.late}")
    return parts


def _time(source: object) -> str:
    return bare(source) if isinstance(source, Node) else str(source)


def columns_of(source: object) -> tuple[str, ...]:
    """Return the columns from which a time is computed."""
    if isinstance(source, str):
        return (source,)
    return source.columns() if isinstance(source, Node) else ()
