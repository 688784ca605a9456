"""Prints a plan: as text for people, as Mermaid diagrams for pages, as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from planner.durations import format_us
from planner.errors import InvalidPlanError
from planner.quantities import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan, Stage, StageCost, StageInput
    from rvertex.vertex.spec import Recovery

Format = Literal["text", "mermaid", "json"]


def explain(plan: PhysicalPlan, format: Format = "text") -> str:
    """Return the plan for people ("text"), for pages ("mermaid") or for programs ("json").

    The text has the logical plan before and after optimisation, the rules that changed it with
    their reasons, and the stages with their flushed channels, recovery and estimated costs. The
    JSON has the same content; docs/OPTIMIZER.md describes its fields.
    """
    match format:
        case "text":
            return (
                f"{_title(plan)}\n{_notes(plan)}{_plan_trace(plan)}\n== stages\n{stages_text(plan)}"
            )
        case "mermaid":
            return mermaid(plan)
        case "json":
            from planner.explain.json import to_json

            return to_json(plan)
    raise InvalidPlanError(f'explain(format={format!r}): choose "text", "mermaid" or "json"')


def _title(plan: PhysicalPlan) -> str:
    return (
        f"plan {plan.plan_hash[:12]}: {len(plan.stages)} stages, {len(plan.vertices)} vertices, "
        f"parallelism {plan.parallelism}, a CTI every {format_us(plan.cti_every_us)}"
    )


def _notes(plan: PhysicalPlan) -> str:
    return "".join(f"note: {line}\n" for line in plan.notes)


def _plan_trace(plan: PhysicalPlan) -> str:
    """Return the logical plan before and after, and the rules between."""
    trace = plan.plan_trace
    if trace is None:
        return ""
    lines = ["", "== as written", trace.before.rstrip("\n")]
    if trace.steps:
        lines += ["", "== rules"]
    for step in trace.steps:
        lines.append(f"{step.rule}: {step.why}")
        lines += [f"  - {line}" for line in step.removed]
        lines += [f"  + {line}" for line in step.added]
    if trace.after != trace.before:
        lines += ["", "== as optimised", trace.after.rstrip("\n")]
    return "\n".join(lines) + "\n"


_MATCH_STATE = (
    "state of match: about 1 kB per key with an open match stays in memory, at most state_memory"
)


def stages_text(plan: PhysicalPlan) -> str:
    """Return the stages: exchanges, flushed channels with reasons, estimated costs."""
    blocks: list[list[str]] = []
    for stage in plan.stages:
        lines = [f"{stage.name} x {stage.parallelism}"]
        lines += [f"  <- {_input(edge)}" for edge in stage.inputs]
        lines += [f"  {line}" for line in stage.operators]
        if any(line.startswith("match (") for line in stage.operators):
            lines.append(f"  {_MATCH_STATE}")
        if stage.reads:
            lines.append(f"  reads {', '.join(stage.reads)}")
        if stage.cost is not None:
            lines += [f"  {line}" for line in _cost(stage.cost)]
        if stage.recovery is not None:
            lines.append(f"  {_recovery(stage.recovery, stage.why_recovery)}")
        for output in _written(plan, stage):
            lines.append(f"  -> {output}")
            lines.append("     " + ", ".join(f"{f.name} {f.type}" for f in stage.schema))
        blocks.append(lines)
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def _written(plan: PhysicalPlan, stage: Stage) -> list[str]:
    """Return the folders of the outputs that a stage writes."""
    if not stage.is_sink:
        return []
    outputs = plan.of_outputs
    if len(outputs) == 1:
        return [plan.output]
    vertices = {v.id for v in plan.vertices if v.stage == stage.name}
    return [o.output for o in outputs if o.writers()[o.sink_streams()[0][0]] in vertices]


def _recovery(recovery: Recovery, why: str) -> str:
    replicas = f" x {recovery.replicas}" if recovery.replicas > 1 else ""
    return f"recovered by {recovery.strategy}{replicas}: {why}"


def _cost(cost: StageCost) -> list[str]:
    """Return two lines: the rows that pass, and the work and state that they need."""
    origin = "assumed" if cost.is_assumed else "estimated"
    rows = f"{format_count(cost.rows_in)} rows ({format_count(cost.rows_in_per_s)}/s)"
    out = f"{format_count(cost.rows_out)} rows, {format_bytes(cost.bytes_out)}"
    work = f"{format_seconds(cost.core_s)} of work, {format_bytes(cost.state_bytes)} of state"
    count = cost.recommended_parallelism
    vertices = "1 vertex" if count == 1 else f"{count} vertices"
    return [f"{origin}: {rows} to {out}; {work}", f"recommended: {vertices}, {cost.why}"]


def mermaid(plan: PhysicalPlan) -> str:
    """Return the stage graph as a Mermaid flowchart."""
    ids = {stage.name: f"n{k}" for k, stage in enumerate(plan.stages)}
    lines = ["flowchart LR"]
    for stage in plan.stages:
        text = "<br/>".join(_escaped(line) for line in _box(stage))
        lines.append(f'    {ids[stage.name]}["{text}"]')
    for stage in plan.stages:
        for edge in stage.inputs:
            arrow = "-.->" if edge.durability == "volatile" else "-->"
            label = _escaped(_routing(edge))
            lines.append(f'    {ids[edge.upstream]} {arrow}|"{label}"| {ids[stage.name]}')
    folders = [(stage.name, o) for stage in plan.stages for o in _written(plan, stage)]
    for k, (name, output) in enumerate(folders):
        tail = f"{k + 1}" if len(folders) > 1 else ""
        lines.append(f'    {ids[name]} --> out{tail}[("{_escaped(_tail(output))}")]')
    return "\n".join(lines) + "\n"


def _box(stage: Stage) -> list[str]:
    lines = [f"<b>{stage.name}</b> x {stage.parallelism}", *stage.operators]
    if stage.cost is not None and stage.recovery is not None:
        rows = f"{format_count(stage.cost.rows_in)} rows to {format_count(stage.cost.rows_out)}"
        lines.append(f"<i>{rows}, {stage.recovery.strategy}</i>")
    return lines


def _input(edge: StageInput) -> str:
    port = f" (port {edge.port})" if edge.port else ""
    return f"{edge.upstream}{port} {_routing(edge)}; {edge.durability}: {edge.reason}"


def _routing(edge: StageInput) -> str:
    if edge.routing == "hash":
        return f"by hash of {', '.join(edge.keys)}"
    return "to one vertex" if edge.routing == "gather" else "vertex by vertex"


def _tail(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _escaped(text: str) -> str:
    return text.replace('"', "#quot;").replace("|", "#124;")
