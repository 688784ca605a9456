"""The outputs of a job: the folder of each, and the stage that writes it.

The outputs of a job are planned as one graph, so shared stages run once. A sink is attached to the
stage of its input, also if other stages read that stage. Behind an exchange or a union it gets a
separate stage, and so does a sink of start and end edges whose input has other readers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.logical.nodes import Sink, Sinks
from planner.logical.query import OUTPUT
from planner.physical.plan import OutputPart, PhysicalPlan, PlanOfOutputs
from planner.physical.stages import Output

if TYPE_CHECKING:
    from planner.logical.nodes import LogicalNode
    from planner.logical.query import Query
    from planner.physical.stage_builder import StageBuilder


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    """An output of a lowered plan, and the stage that writes it."""

    name: str
    query: Query
    sink: Sink
    builder: StageBuilder
    answer: Output

    def part(self) -> OutputPart:
        """The record of this output in the plan."""
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
    """Return the plan to optimise: its sinks know what readers accept. ``written``: the plan."""
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
