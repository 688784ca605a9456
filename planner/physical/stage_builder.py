"""Stages that operators may still be added to, and the edges between them."""

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

#: Why a channel out of a stage is flushed or not, as ``explain`` says it.
WHY_VOLATILE = "cheap to recompute from the source"


WHY_ASYNC = "its writer has state or inputs of its own"


WHY_FLUSHED = "so few rows that flushing costs less than recomputing"


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """An edge of the stage graph. ``slot`` tells edges between the same two stages apart."""

    upstream: StageBuilder
    downstream: StageBuilder
    port: int
    routing: Routing
    keys: tuple[str, ...]
    slot: int

    def readers_of(self, i: int) -> list[int]:
        """The downstream vertices that upstream vertex ``i`` writes to."""
        m = self.downstream.parallelism
        return list(range(m)) if self.routing == "hash" else [i % m]

    def writers_to(self, j: int) -> list[int]:
        """The upstream vertices that downstream vertex ``j`` reads."""
        n, m = self.upstream.parallelism, self.downstream.parallelism
        return list(range(n)) if self.routing == "hash" else list(range(j, n, m))

    @property
    def channel_count(self) -> int:
        n, m = self.upstream.parallelism, self.downstream.parallelism
        return n * m if self.routing == "hash" else n

    def stream(self, i: int, j: int) -> str:
        """Id of the channel from upstream vertex ``i`` to downstream vertex ``j``."""
        tail = f"-{self.slot}" if self.slot else ""
        return f"{self.upstream.name}.{i}--{self.downstream.name}.{j}{tail}"

    @property
    def durability(self) -> Durability:
        return "volatile" if self.reason == WHY_VOLATILE else "async"

    @property
    def reason(self) -> str:
        """Why it is flushed or not."""
        if not self.upstream.is_cheap:
            return WHY_ASYNC
        return WHY_FLUSHED if self.upstream.flush_is_cheaper else WHY_VOLATILE


@dataclass(slots=True, eq=False)
class StageBuilder:
    """A stage that operators may still be added to, until it is closed."""

    number: int
    kind: str
    parallelism: int
    #: Payload after the operators so far.
    payload: pa.Schema
    partitions: tuple[SourcePartition, ...] = ()
    #: Source, stateless operators and a partial aggregate, nothing else.
    is_cheap: bool = False
    is_closed: bool = False
    #: A source whose number of partitions the query gives.
    is_fixed: bool = False
    #: Flushing costs less than what failures would make it compute again.
    flush_is_cheaper: bool = False
    cost: StageCost | None = None
    #: What the query says about it.
    recovery: RecoveryChoice | None = None
    label: str = ""
    feeds: list[Feed] = field(default_factory=list)
    exits: list[Feed] = field(default_factory=list)
    operators: list[OperatorSpec] = field(default_factory=list)
    shows: list[str] = field(default_factory=list)
    #: The logical nodes that it computes, in the order of the data.
    nodes: list[LogicalNode] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"s{self.number:02d}-{self.label or self.kind}"

    def ports(self) -> list[pa.Schema]:
        """Payload of each port that channels lead to."""
        found = {feed.port: feed.upstream.payload for feed in self.feeds}
        return [found[port] for port in sorted(found)]

    def decode(self, wanted: pa.Schema) -> None:
        """Put columns into the form of ``wanted`` where they are not."""
        decode = decoding(self.payload, wanted)
        if decode is not None:
            self.add(decode, display_text(decode))

    @property
    def logical_schema(self) -> pa.Schema:
        """The payload as the logical plan has it, without dictionaries that only carry text.

        A stage without nodes only joins sources, which carry none then.
        """
        if not self.nodes or not has_dictionaries(self.payload):
            return self.payload
        return self.nodes[-1].schema

    def add(self, operator: OperatorSpec, show: str, label: str = "") -> None:
        """Put an operator behind those that are there."""
        assert not self.is_closed, self.name
        inputs = [self.payload] if self.operators or not self.feeds else self.ports()
        self.payload = operator.output_schema(inputs)
        self.operators.append(operator)
        self.shows.append(show)
        self.label = label or self.label
