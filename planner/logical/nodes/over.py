"""The logical node of aggregates per row over a frame; part of :mod:`planner.logical.nodes`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from planner.durations import format_us
from planner.logical.nodes.node import InputKeys, Step, same_partitioning, with_edges
from rvertex.operators.edges.of_begins import EdgeOfBegins
from rvertex.operators.windows.running.frames import FrameAggregate

if TYPE_CHECKING:
    from collections.abc import Set

    import pyarrow as pa

    from planner.logical.nodes.aggregation import Aggregate
    from planner.logical.nodes.node import LogicalNode
    from planner.logical.nodes.partitioning import Partitioning


@dataclass(frozen=True, slots=True)
class Over(Step):
    """Adds to each row aggregates over rows of its key, from ``first`` to ``last`` before it.

    If ``rows`` is true these are numbers of rows, else microseconds. ``first`` None: the frame
    begins with the key's first row. It ends with the peers of its last row: rows with the same
    start and equal ``peers`` columns.
    """

    keys: tuple[str, ...]
    rows: bool
    first: int | None
    last: int
    aggregates: tuple[Aggregate, ...]
    label: str = ""
    peers: tuple[str, ...] = ()
    #: Whether the input has start edges and end edges (:mod:`rstream.items.edges`).
    edges: bool = False
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        schema = self.operator().output_schema([self.input.schema])
        object.__setattr__(self, "schema", schema)

    def operator(self) -> FrameAggregate | EdgeOfBegins:
        specs = tuple(a.spec for a in self.aggregates)
        frames = FrameAggregate(self.keys, self.rows, self.first, self.last, specs, self.peers)
        return EdgeOfBegins(frames) if self.edges else frames

    stage_kind = "over"

    @property
    def frame(self) -> str:
        """The frame as text."""

        def shown(count: int) -> str:
            return f"{count} rows" if self.rows else format_us(count)

        if self.first is None:
            equal = f" and those equal in {', '.join(self.peers)}" if self.peers else ""
            return f"all rows up to it{equal}" if self.rows or equal else "all rows up to its time"
        if self.first == self.last:
            return f"the row {self.first} before it" if self.rows else f"{shown(self.first)} before"
        last = f" up to {shown(self.last)} before" if self.last else ""
        return f"{shown(self.first)} before{last}" if last else f"{shown(self.first)} before and it"

    def describe(self) -> str:
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        made = ", ".join(map(str, self.aggregates))
        return f"over {self.frame}{by}: {made}{with_edges(self.edges)}"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        read = {a.column for a in self._kept(wanted) if a.column is not None}
        kept = wanted & set(self.input.schema.names)
        return (kept | read | {*self.keys, *self.peers},)

    def narrowed(self, inputs: tuple[LogicalNode, ...], wanted: Set[str]) -> Over:
        (only,) = inputs
        return replace(self, input=only, aggregates=self._kept(wanted))

    def _kept(self, wanted: Set[str]) -> tuple[Aggregate, ...]:
        """Return the aggregates whose columns are ``wanted``."""
        kept = tuple(a for a in self.aggregates if a.output in wanted)
        return kept or self.aggregates[:1]

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        return (self.keys,)

    @property
    def partitioning(self) -> Partitioning:
        return same_partitioning(self, set(self.input.schema.names))

    keeps_lifetimes = True
