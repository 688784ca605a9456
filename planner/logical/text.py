"""A logical plan as text: one line a node."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from planner.durations import format_us
from planner.expressions.nodes import Call, Column, Node, bare
from planner.logical import nodes as logical
from planner.logical.traversal import NodeMap, readers
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift


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
