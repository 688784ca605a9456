"""The outputs of a job: the folder of each, and the stage that writes it.

The outputs of a job are planned as one graph, so shared stages run once. A sink is attached to the
stage of its input, also if other stages read that stage. Behind an exchange or a union it gets a
separate stage, and so does a sink of start and end edges whose input has other readers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from planner.logical.nodes import Sink, Sinks
from planner.logical.query import OUTPUT
from planner.physical.plan import PhysicalPlan
from planner.physical.stages import Output

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.logical.nodes import LogicalNode
    from planner.logical.nodes.partitioning import Partitioning
    from planner.logical.query import Publishing, Query
    from planner.physical.stage_builder import StageBuilder
    from rstream.format.table import TableForm
    from rvertex.sinks.spec import SinkSpec
    from rvertex.vertex.spec import OutputEdge


@dataclass(frozen=True, slots=True)
class OutputPart:
    """The fields of :class:`PhysicalPlan` that each output has."""

    name: str
    stage: str
    output: str
    #: Ids of its sink streams, by partition.
    streams: tuple[str, ...]
    deliveries: tuple[SinkSpec, ...]
    publishing: Publishing | None
    changes: TableForm | None
    partitioning: Partitioning


@dataclass(frozen=True, slots=True)
class PlanOfOutputs(PhysicalPlan):
    """The plan of a job with several outputs.

    ``deliveries`` are the deliveries of all outputs, ``publishing`` is the first one that is not
    None, ``output`` is the folder of the first output. Use :attr:`of_outputs` for one output.
    """

    parts: tuple[OutputPart, ...] = ()
    #: See ``stream_order``. Streams that a rescale added are last; empty: output after output.
    order: tuple[str, ...] = ()

    @property
    def stream_order(self) -> tuple[str, ...]:
        """Ids of all sink streams, by number of partition."""
        return self.order or tuple(stream for part in self.parts for stream in part.streams)

    @property
    def of_outputs(self) -> tuple[PhysicalPlan, ...]:
        return tuple(_of_output(self, part) for part in self.parts)

    def sink_streams(self) -> tuple[tuple[str, str], ...]:
        """Return stream id and URI of every sink stream, by number of partition."""
        uris = {stream: uri for plan in self.of_outputs for stream, uri in plan.sink_streams()}
        return tuple((stream, uris[stream]) for stream in self.stream_order)


def numbered(plan: PhysicalPlan, like: PhysicalPlan | None = None) -> PhysicalPlan:
    """Number all sink streams of a plan's outputs; streams that ``like`` has keep their numbers.

    ``like``: the plan that this one continues, if any.
    """
    if not isinstance(plan, PlanOfOutputs):
        return plan
    parts, order = [], plan.stream_order
    for part in plan.parts:
        tail = part.streams[0].partition("--")[2]
        count = range(plan.stage(part.stage).parallelism)
        streams = tuple(f"{part.stage}.{k}--{tail}" for k in count)
        parts.append(replace(part, streams=streams))
    if isinstance(like, PlanOfOutputs):
        pairs = zip(like.parts, parts, strict=False)
        names = {s: t for was, now in pairs for s, t in zip(was.streams, now.streams, strict=False)}
        order = tuple(names[stream] for stream in like.stream_order if stream in names)
    known = dict.fromkeys([*order, *(stream for part in parts for stream in part.streams)])
    return replace(plan, parts=tuple(parts), order=tuple(known))


@dataclass(frozen=True, slots=True)
class _PlanOfOutput(PhysicalPlan):
    """One output of a plan that has several."""

    part: OutputPart | None = None
    numbers: tuple[int, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        assert self.part is not None
        return self.stage(self.part.stage).schema

    @property
    def name(self) -> str:
        assert self.part is not None
        return self.part.name

    @property
    def partitions(self) -> tuple[int, ...]:
        return self.numbers


def _of_output(plan: PlanOfOutputs, part: OutputPart) -> PhysicalPlan:
    known = {f.name: getattr(plan, f.name) for f in fields(PhysicalPlan)}
    own = {f.name: getattr(part, f.name) for f in fields(part) if f.name in known}
    streams = set(part.streams)

    def is_there(edge: OutputEdge) -> bool:
        return not edge.is_sink or edge.streams[0] in streams

    vertices = tuple(replace(v, outputs=tuple(filter(is_there, v.outputs))) for v in plan.vertices)
    order = plan.stream_order
    numbers = tuple(order.index(stream) for stream in part.streams)
    return _PlanOfOutput(**{**known, **own, "vertices": vertices}, part=part, numbers=numbers)


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    """An output of a lowered plan, and the stage that writes it."""

    name: str
    query: Query
    sink: Sink
    builder: StageBuilder
    answer: Output

    def part(self) -> OutputPart:
        """Return the record of this output in the plan."""
        count = range(self.builder.parallelism)
        return OutputPart(
            name=self.name,
            stage=self.builder.name,
            output=self.answer.folder,
            streams=tuple(self.answer.stream(self.builder, k) for k in count),
            deliveries=self.query.deliveries,
            publishing=self.query.publishing,
            changes=self.sink.form if self.sink.changes else None,
            partitioning=self.sink.partitioning,
        )


def root_of(query: Query, written: LogicalNode) -> Sink | Sinks:
    """Return the plan to optimise: each sink knows whether its readers accept edges."""
    plans = sinks_of(written)
    sinks = tuple(
        replace(plan, changes=plan.changes or part.takes_changes, keys=part.delivered_keys)
        for part, plan in zip(query.parts, plans, strict=True)
    )
    return sinks[0] if len(sinks) == 1 else Sinks(sinks)


def sinks_of(root: LogicalNode) -> tuple[Sink, ...]:
    """Return the sinks of a plan."""
    sinks = root.inputs if isinstance(root, Sinks) else (root,)
    return tuple(sink for sink in sinks if isinstance(sink, Sink))


def planned_outputs(
    query: Query, sinks: tuple[Sink, ...], builders: list[StageBuilder], root: str
) -> list[PlannedOutput]:
    """Return the outputs in order; ``builders``: the stage that writes each."""
    outputs = []
    for k, name in enumerate(query.names):
        sink = sinks[k]
        folder = f"{root}/{OUTPUT}" if name == OUTPUT else f"{root}/{OUTPUT}-{name}"
        place = folder if sink.uri is None else sink.uri.rstrip("/")
        tail = "out" if k == 0 else f"out{k + 1}"
        answer = Output(place, None if sink.changes else sink.form, tail)
        outputs.append(PlannedOutput(name, query.parts[k], sink, builders[k], answer))
    return outputs


def with_outputs(plan: PhysicalPlan, outputs: list[PlannedOutput]) -> PhysicalPlan:
    """Add the records of the outputs to a plan of stages."""
    parts = [output.part() for output in outputs]
    first, publishings = parts[0], [p.publishing for p in parts if p.publishing is not None]
    whole = replace(
        plan,
        output=first.output,
        deliveries=tuple(spec for part in parts for spec in part.deliveries),
        publishing=publishings[0] if publishings else None,
        changes=first.changes,
        partitioning=first.partitioning,
    )
    if len(parts) == 1:
        return whole
    known = {name: getattr(whole, name) for name in PhysicalPlan.__dataclass_fields__}
    return PlanOfOutputs(**known, parts=tuple(parts))
