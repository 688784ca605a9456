"""Stages to which operators can still be added, and the edges between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.physical.dictionaries import decoding, display_text
from rstream.items.dictionaries import has_dictionaries

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.logical.nodes import LogicalNode
    from planner.logical.nodes.recover import RecoveryChoice
    from planner.physical.plan import Routing, StageCost
    from rstream.limits import Durability
    from rvertex.operators.protocol import OperatorSpec
    from rvertex.sources.spec import SourcePartition

#: Why a channel out of a stage is flushed or not, as ``explain`` prints it.
WHY_VOLATILE = "cheap to recompute from the source"


WHY_ASYNC = "its writer has state or reads another stage"


WHY_FLUSHED = "so few rows that flushing costs less than recomputing"


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """An edge of the stage graph. ``slot`` distinguishes edges between the same two stages."""

    upstream: StageBuilder
    downstream: StageBuilder
    port: int
    routing: Routing
    keys: tuple[str, ...]
    slot: int

    def readers_of(self, i: int) -> list[int]:
        """Return the downstream vertices that upstream vertex ``i`` writes to."""
        m = self.downstream.parallelism
        return list(range(m)) if self.routing == "hash" else [i % m]

    def writers_to(self, j: int) -> list[int]:
        """Return the upstream vertices that downstream vertex ``j`` reads."""
        n, m = self.upstream.parallelism, self.downstream.parallelism
        return list(range(n)) if self.routing == "hash" else list(range(j, n, m))

    @property
    def channel_count(self) -> int:
        n, m = self.upstream.parallelism, self.downstream.parallelism
        return n * m if self.routing == "hash" else n

    def stream(self, i: int, j: int) -> str:
        """Return the id of the channel from upstream vertex ``i`` to downstream vertex ``j``."""
        tail = f"-{self.slot}" if self.slot else ""
        return f"{self.upstream.name}.{i}--{self.downstream.name}.{j}{tail}"

    @property
    def durability(self) -> Durability:
        return "volatile" if self.reason == WHY_VOLATILE else "async"

    @property
    def reason(self) -> str:
        """Why the channels are flushed or not."""
        if not self.upstream.is_cheap:
            return WHY_ASYNC
        return WHY_FLUSHED if self.upstream.flush_is_cheaper else WHY_VOLATILE


@dataclass(slots=True, eq=False)
class StageBuilder:
    """A stage to which operators can be added until it is closed."""

    number: int
    kind: str
    parallelism: int
    #: The payload after the operators so far.
    payload: pa.Schema
    partitions: tuple[SourcePartition, ...] = ()
    #: Whether the stage has only a source, stateless operators and a partial aggregate.
    is_cheap: bool = False
    is_closed: bool = False
    #: Whether the query sets the number of partitions of the stage's source.
    is_fixed: bool = False
    #: Whether flushing the stage's output costs less than computing it again after failures.
    flush_is_cheaper: bool = False
    cost: StageCost | None = None
    #: The query's choice for this stage.
    recovery: RecoveryChoice | None = None
    label: str = ""
    feeds: list[Feed] = field(default_factory=list)
    exits: list[Feed] = field(default_factory=list)
    operators: list[OperatorSpec] = field(default_factory=list)
    shows: list[str] = field(default_factory=list)
    #: The logical nodes that the stage computes, in the order of the data.
    nodes: list[LogicalNode] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"s{self.number:02d}-{self.label or self.kind}"

    def ports(self) -> list[pa.Schema]:
        """Return the payload of each port that channels lead to."""
        payloads = {feed.port: feed.upstream.payload for feed in self.feeds}
        return [payloads[port] for port in sorted(payloads)]

    def decode(self, wanted: pa.Schema) -> None:
        """Decode columns that differ from ``wanted``."""
        decode = decoding(self.payload, wanted)
        if decode is not None:
            self.add(decode, display_text(decode))

    @property
    def logical_schema(self) -> pa.Schema:
        """The payload in the logical plan's types, without dictionaries that only carry text.

        A stage without nodes only merges sources, whose text is then plain.
        """
        if not self.nodes or not has_dictionaries(self.payload):
            return self.payload
        return self.nodes[-1].schema

    def add(self, operator: OperatorSpec, show: str, label: str = "") -> None:
        """Append an operator."""
        assert not self.is_closed, self.name
        inputs = [self.payload] if self.operators or not self.feeds else self.ports()
        self.payload = operator.output_schema(inputs)
        self.operators.append(operator)
        self.shows.append(show)
        self.label = label or self.label
