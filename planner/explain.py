"""What a plan looks like: as text for people, as Mermaid for pages, as JSON for programs."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Literal, assert_never

from planner import logical
from planner.durations import format_us
from planner.errors import InvalidPlanError
from planner.nodes import Call, Column, Node, bare
from planner.quantities import format_bytes, format_count, format_seconds
from planner.traversal import NodeMap, readers
from rvertex.operators.chop import Chop
from rvertex.operators.extend import Extend
from rvertex.operators.point_at_end import PointAtEnd
from rvertex.operators.set_duration import SetDuration
from rvertex.operators.shift import Shift

if TYPE_CHECKING:
    from planner.physical import PhysicalPlan, Stage, StageCost, StageInput
    from rvertex.types import Recovery

Format = Literal["text", "mermaid", "json"]


def describe(node: logical.LogicalNode) -> str:
    """A node in one line, without its inputs."""
    match node:
        case logical.Source():
            return _source(node)
        case logical.Filter(predicate=predicate):
            return f"filter {bare(predicate)}"
        case logical.Project(columns=columns):
            return "select " + (", ".join(_column(n, c) for n, c in columns) or "(no columns)")
        case logical.Explode(column=column):
            return f"explode {column}"
        case logical.Union():
            return "union"
        case logical.Join():
            return _join(node)
        case logical.Lifetime(change=change):
            return _lifetime(change)
        case logical.Stitch(on=on):
            return f"stitch by {', '.join(on)}" if on else "stitch all"
        case logical.Extremes(column=column, is_max=is_max):
            return f"keep {'greatest' if is_max else 'least'} {column} of a lifetime"
        case logical.Clip():
            return f"clip on {_keys(node)}"
        case logical.WindowAgg():
            return _aggregate(node)
        case logical.DataWindowAgg(window=window):
            return f"{_phase(node)}aggregate {window}{_by(node)}: {_items(node)}"
        case logical.UserStep():
            return str(node)
        case logical.Recover(choice=choice):
            return f"recover by {choice}"
        case logical.Exchange(keys=keys):
            return f"exchange by {', '.join(keys)}" if keys else "exchange to one vertex"
        case logical.Sink(uri=uri):
            return f"sink {uri or '(output folder of the job)'}"
    assert_never(node)


def logical_text(root: logical.LogicalNode) -> str:
    """The logical plan as an indented tree; a shared subplan is written once and referred to."""
    lines: list[str] = []
    names: NodeMap[int] = NodeMap()
    counts = readers(root)

    def write(node: logical.LogicalNode, depth: int) -> None:
        pad = "  " * depth
        if node in names:
            lines.append(f"{pad}see #{names[node]}")
            return
        mark = ""
        if counts[node] > 1:
            names[node] = len(names) + 1
            mark = f"#{names[node]} "
        lines.append(f"{pad}{mark}{describe(node)}")
        for child in node.inputs:
            write(child, depth + 1)

    write(root, 0)
    return "\n".join(lines) + "\n"


def explain(plan: PhysicalPlan, format: Format = "text") -> str:
    """The plan for people ("text"), for pages ("mermaid") or for programs ("json").

    The text has the logical plan before and after, the rules that changed it and why, and the
    stages with what is flushed, how they are recovered and what they are estimated to cost. The
    JSON has the same; docs/OPTIMIZER.md says what is where.
    """
    match format:
        case "text":
            return f"{_title(plan)}\n{_story(plan)}\n== stages\n{stages_text(plan)}"
        case "mermaid":
            return mermaid(plan)
        case "json":
            from planner.explain_json import to_json

            return to_json(plan)
    raise InvalidPlanError(f'explain(format={format!r}): it is "text", "mermaid" or "json"')


def _title(plan: PhysicalPlan) -> str:
    return (
        f"plan {plan.plan_hash[:12]}: {len(plan.stages)} stages, {len(plan.vertices)} vertices, "
        f"parallelism {plan.parallelism}, a CTI every {format_us(plan.cti_every_us)}"
    )


def _story(plan: PhysicalPlan) -> str:
    """The logical plan before and after, and the rules between."""
    story = plan.story
    if story is None:
        return ""
    lines = ["", "== as written", story.before.rstrip("\n")]
    if story.steps:
        lines += ["", "== rules"]
    for step in story.steps:
        lines.append(f"{step.rule}: {step.why}")
        lines += [f"  - {line}" for line in step.removed]
        lines += [f"  + {line}" for line in step.added]
    if story.after != story.before:
        lines += ["", "== as optimised", story.after.rstrip("\n")]
    return "\n".join(lines) + "\n"


def stages_text(plan: PhysicalPlan) -> str:
    """The stages: exchanges, what is flushed and why, estimated costs."""
    blocks: list[list[str]] = []
    for stage in plan.stages:
        lines = [f"{stage.name} x {stage.parallelism}"]
        lines += [f"  <- {_input(edge)}" for edge in stage.inputs]
        lines += [f"  {line}" for line in stage.operators]
        if stage.reads:
            lines.append(f"  reads {', '.join(stage.reads)}")
        if stage.cost is not None:
            lines += [f"  {line}" for line in _cost(stage.cost)]
        if stage.recovery is not None:
            lines.append(f"  {_recovery(stage.recovery, stage.why_recovery)}")
        if stage.is_sink:
            lines.append(f"  -> {plan.output}")
            lines.append("     " + ", ".join(f"{f.name} {f.type}" for f in stage.schema))
        blocks.append(lines)
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def _recovery(recovery: Recovery, why: str) -> str:
    replicas = f" x {recovery.replicas}" if recovery.replicas > 1 else ""
    return f"recovered by {recovery.strategy}{replicas}: {why}"


def _cost(cost: StageCost) -> list[str]:
    """Two lines: what goes through, and what it takes."""
    told = "assumed" if cost.is_assumed else "estimated"
    rows = f"{format_count(cost.rows_in)} rows ({format_count(cost.rows_in_per_s)}/s)"
    out = f"{format_count(cost.rows_out)} rows, {format_bytes(cost.bytes_out)}"
    work = f"{format_seconds(cost.core_s)} of work, {format_bytes(cost.state_bytes)} of state"
    count = cost.recommended_parallelism
    vertices = "1 vertex" if count == 1 else f"{count} vertices"
    return [f"{told}: {rows} to {out}; {work}", f"recommended: {vertices}, {cost.why}"]


def mermaid(plan: PhysicalPlan) -> str:
    """The stage graph as a Mermaid flowchart."""
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
    last = plan.stages[-1]
    lines.append(f'    {ids[last.name]} --> out[("{_escaped(_tail(plan.output))}")]')
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


def _source(node: logical.Source) -> str:
    spec = node.spec
    if spec.format == "items":
        assert spec.items is not None
        return f"{spec.items.num_rows} items"
    parts = [f"{spec.format} {spec.shown or spec.path}"]
    if spec.vs is not None:
        parts.append(f"vs={_time(spec.vs)}")
    if isinstance(spec.ve, int):
        parts.append(f"ve=+{format_us(spec.ve)}")
    elif spec.ve is not None:
        parts.append(f"ve={_time(spec.ve)}")
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
    return " ".join(parts)


def _time(source: object) -> str:
    return bare(source) if isinstance(source, Node) else str(source)


def _join(node: logical.Join) -> str:
    kind = "" if node.how == "inner" else f"{node.how} "
    where = "" if node.where is None else f" where {bare(node.where)}"
    return f"temporal {kind}join on {_keys(node)}{where}"


def _keys(node: logical.Join | logical.Clip) -> str:
    pairs = zip(node.left_on, node.right_on, strict=True)
    return ", ".join(a if a == b else f"{a} = {b}" for a, b in pairs)


def _lifetime(change: logical.LifetimeChange) -> str:
    match change:
        case Shift(duration_us=d):
            return f"shift {format_us(d)}"
        case SetDuration(duration_us=d):
            return f"set duration {format_us(d)}"
        case Extend(duration_us=d):
            return f"extend {format_us(d)}"
        case PointAtEnd():
            return "point at end"
        case Chop(period_us=period, offset_us=offset):
            return f"chop {format_us(period)}" + (f" from {format_us(offset)}" if offset else "")


def _aggregate(node: logical.WindowAgg) -> str:
    span = format_us(node.size_us)
    window = (
        f"tumbling {span}"
        if node.size_us == node.every_us
        else f"hopping {span} every {format_us(node.every_us)}"
    )
    whole = ", ".join(node.needs_all_values)
    why = f" (in one step, as {whole} needs all values of a window)" if whole else ""
    return f"{_phase(node)}aggregate {window}{_by(node)}: {_items(node)}{why}"


def _phase(node: logical.WindowAgg | logical.DataWindowAgg) -> str:
    return "" if node.phase == "complete" else f"{node.phase} "


def _by(node: logical.WindowAgg | logical.DataWindowAgg) -> str:
    return f" by {', '.join(node.keys)}" if node.keys else ""


def _items(node: logical.WindowAgg | logical.DataWindowAgg) -> str:
    def told(a: logical.Aggregate) -> str:
        return f"{a.column or ''}{'' if a.argument is None else f', {a.argument}'}"

    return ", ".join(f"{a.output}={a.function}({told(a)})" for a in node.aggregates)


def _column(name: str, node: Node) -> str:
    if isinstance(node, Column) and node.name == name:
        return name
    if isinstance(node, Call) and dict(node.options).get("implicit"):
        return f"{name} = {node.args[0]}.cast({node.type})"
    return f"{name} = {bare(node)}"


def _tail(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _escaped(text: str) -> str:
    return text.replace('"', "#quot;").replace("|", "#124;")
