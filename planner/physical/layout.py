"""The layout of stages: the number of vertices, and the keys that each vertex owns.

A stage is *ranged* if it gets its rows by hash: each vertex owns ranges of slots of the key
(:func:`rstream.items.hashing.slots_of`). If vertex i of a stage reads only vertex i of a ranged
stage, it is ranged too; both stages are in one group and have one layout. Sources and stages that
gather all rows are not ranged. ``laid_out`` gives ranged stages other layouts. It changes only the
streams into a group, inside of it, and out of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.fingerprint import fingerprint
from planner.physical.outputs import numbered
from planner.physical.plan import check_size
from planner.physical.slot_ranges import plain
from rstream.items.hashing import SLOTS
from rstream.store.part_files import part_name, part_uri, split_part
from rvertex.checkpoint.conversion import Place, places_of
from rvertex.checkpoint.ranges.columns import keys_of_chain
from rvertex.checkpoint.ranges.restrict import check_rule
from rvertex.checkpoint.ranges.sharded import Sharded
from rvertex.checkpoint.ranges.slots import NOT_BY_KEY, NotByKeyError
from rvertex.vertex.spec import InputChannel, VertexId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.physical.plan import PhysicalPlan, Stage
    from planner.physical.slot_ranges import Layout
    from rvertex.checkpoint.ranges.columns import Keys
    from rvertex.operators.protocol import OperatorSpec
    from rvertex.vertex.spec import OutputEdge, VertexSpec


def chain_of(vertex: VertexSpec) -> tuple[OperatorSpec, ...]:
    """Return the operators of a vertex; of a vertex with shards, the operators of one shard."""
    if len(vertex.operators) == 1 and isinstance(vertex.operators[0], Sharded):
        return vertex.operators[0].chain
    return vertex.operators


class Stages:
    """The stages of a plan: which are ranged, by which columns, and in which group."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self.plan = plan
        self.vertices: dict[str, list[VertexSpec]] = {stage.name: [] for stage in plan.stages}
        for vertex in plan.vertices:
            self.vertices[vertex.stage].append(vertex)
        self.stages: dict[str, Stage] = {stage.name: stage for stage in plan.stages}
        #: By ranged stage: the key columns at each operator's input, and after the last operator.
        self.keys: dict[str, list[Keys | None]] = {}
        self.group: dict[str, str] = {}
        for name in dict.fromkeys(plan.vertex(v).stage for v in plan.topological_order()):
            self._look_at(self.stages[name])

    def _look_at(self, stage: Stage) -> None:
        """Decide whether a stage is ranged; its inputs are decided already."""
        by_port: dict[int, tuple[str, ...] | None] = {}
        forward = [edge.upstream for edge in stage.inputs if edge.routing == "forward"]
        for edge in stage.inputs:
            if edge.routing == "gather":
                return
            keys: tuple[str, ...] | None = edge.keys
            if edge.routing == "forward":
                same = self.stages[edge.upstream].parallelism == stage.parallelism
                if edge.upstream not in self.keys or not same:
                    return
                behind = self.keys[edge.upstream][-1]
                keys = None if behind is None else behind[0]
            agree = by_port.setdefault(edge.port, keys) == keys
            by_port[edge.port] = keys if agree else None
        if not by_port:
            return
        ports = [by_port[port] for port in sorted(by_port)]
        chain = chain_of(self.vertices[stage.name][0])
        if all(port is not None for port in ports):
            first = tuple(port for port in ports if port is not None)
            self.keys[stage.name] = keys_of_chain(chain, first, self.ports(stage.name))
        else:
            self.keys[stage.name] = [None] * (len(chain) + 1)
        joined = {self.group[name] for name in forward}
        self.group[stage.name] = stage.name
        for name, group in self.group.items():
            if group in joined:
                self.group[name] = stage.name

    def ports(self, stage: str) -> list[object]:
        """Return the payload of each port."""
        payloads = {c.port: c.payload for c in self.vertices[stage][0].inputs}
        return [payloads[port] for port in sorted(payloads)]

    def places(self, stage: str) -> list[Place]:
        """Return the operators of a stage or of its shards, with the columns of their ports."""
        vertex = self.vertices[stage][0]
        return places_of(replace(vertex, operators=chain_of(vertex)))

    def shard_keys(self, stage: str) -> Keys:
        """Return per port the columns by which rows are partitioned; empty: in any vertex.

        Such a stage keeps no state by key, see :meth:`check`.
        """
        return self.keys[stage][0] or ((),) * len(self.ports(stage))

    def members(self, stage: str) -> list[str]:
        """Return the stages whose layout changes together with this one."""
        return [name for name, group in self.group.items() if group == self.group[stage]]

    def layout(self, stage: str) -> Layout:
        """Return the current layout of a stage."""
        return dict(self.plan.layouts).get(stage) or plain(self.stages[stage].parallelism)

    def check(self, stage: str) -> None:
        """Check that the number of a stage's vertices can change.

        Raises:
            NotByKeyError: the number cannot change.
        """
        if stage not in self.keys:
            raise NotByKeyError(stage, NOT_BY_KEY)
        for name in self.members(stage):
            for place, keys in zip(self.places(name), self.keys[name], strict=False):
                try:
                    check_rule(place, keys)
                except NotByKeyError as error:
                    raise NotByKeyError(f"{name}: {error.operator}", error.reason) from None
        for reader in self.plan.stages:
            reads = [e for e in reader.inputs if e.upstream in self.members(stage)]
            is_split = any(e.routing == "forward" for e in reads) and reader.name not in self.keys
            if is_split and reader.parallelism > 1:
                # The vertices have reached different times, so a new vertex may be behind its
                # readers.
                reason = f"its vertices read single vertices of {stage} and of another stage"
                raise NotByKeyError(reader.name, reason)
            if is_split and any(not place.is_stateless for place in self.places(reader.name)):
                raise NotByKeyError(
                    reader.name, "it has state, and each of its vertices reads one other vertex"
                )


def laid_out(plan: PhysicalPlan, layouts: Mapping[str, Layout]) -> PhysicalPlan:
    """Return the plan with new layouts of groups; ``layouts`` has each stage of a group."""
    stages = Stages(plan)
    widths = {name: stage.parallelism for name, stage in stages.stages.items()}
    widths |= {name: layout.vertices for name, layout in layouts.items()}
    merged = {**dict(plan.layouts), **layouts}
    feeds = _feeds(plan)
    vertices: list[VertexSpec] = []
    for name, found in stages.vertices.items():
        for index in range(widths[name]):
            template = found[index] if index < len(found) else found[0]
            vertex = replace(template, id=VertexId(f"{name}.{index}"), index=index)
            inputs = tuple(
                c for f in feeds if f.down == name for c in f.inputs(plan, index, widths)
            )
            edges = [
                _edge(plan, template, e, index, feeds, widths, merged) for e in template.outputs
            ]
            vertex = replace(
                vertex, inputs=inputs, outputs=tuple(edges), operators=chain_of(template)
            )
            vertices.append(sealed(vertex))
    check_size(len(vertices), sum(len(v.inputs) for v in vertices))
    kept = tuple((name, layout) for name, layout in merged.items() if not layout.is_plain)
    made = tuple(replace(s, parallelism=widths[s.name]) for s in plan.stages)
    return numbered(replace(plan, vertices=tuple(vertices), stages=made, layouts=kept))


def sealed(vertex: VertexSpec) -> VertexSpec:
    """Return the vertex with the hash of its content."""
    streams = tuple((c.stream, c.port, c.payload) for c in vertex.inputs)
    outputs = tuple((e.streams, e.keys, e.bounds, e.owners) for e in vertex.outputs)
    meaning = (vertex.stage, vertex.index, streams, vertex.source, vertex.operators, outputs)
    return replace(vertex, state_schema=fingerprint(meaning))


@dataclass(frozen=True, slots=True)
class _Feed:
    """An edge between two stages; ``tail``: the suffix of its streams' names."""

    up: str
    down: str
    port: int
    routing: str
    tail: str

    def stream(self, i: int, j: int) -> str:
        return f"{self.up}.{i}--{self.down}.{j}{self.tail}"

    def is_stream(self, rest: str) -> bool:
        """Return whether ``rest``, a stream name without the writer, belongs to this edge."""
        return re.fullmatch(rf"{re.escape(self.down)}\.\d+{re.escape(self.tail)}", rest) is not None

    def writers(self, j: int, widths: Mapping[str, int]) -> Sequence[int]:
        n, m = widths[self.up], widths[self.down]
        return range(n) if self.routing == "hash" else range(j, n, m)

    def readers(self, i: int, widths: Mapping[str, int]) -> Sequence[int]:
        m = widths[self.down]
        return range(m) if self.routing == "hash" else [i % m]

    def inputs(self, plan: PhysicalPlan, j: int, widths: Mapping[str, int]) -> list[InputChannel]:
        """Return the channels of vertex ``j``: those of the former first vertex with new names."""
        stream = self.stream(0, 0)
        like = next(c for v in plan.vertices for c in v.inputs if c.stream == stream)
        streams = [self.stream(i, j) for i in self.writers(j, widths)]
        return [replace(like, stream=s, uri=f"{plan.root}/streams/{s}") for s in streams]


def _feeds(plan: PhysicalPlan) -> list[_Feed]:
    """Return all edges between stages, in the order of each reader's channels."""
    feeds: list[_Feed] = []
    for stage in plan.stages:
        slots: dict[str, int] = {}
        for edge in stage.inputs:
            slot = slots[edge.upstream] = slots.get(edge.upstream, -1) + 1
            tail = f"-{slot}" if slot else ""
            feeds.append(_Feed(edge.upstream, stage.name, edge.port, edge.routing, tail))
    return feeds


def _edge(
    plan: PhysicalPlan,
    template: VertexSpec,
    edge: OutputEdge,
    index: int,
    feeds: Sequence[_Feed],
    widths: Mapping[str, int],
    layouts: Mapping[str, Layout],
) -> OutputEdge:
    """Return the output of vertex ``index`` that corresponds to an output of the template."""
    stage = template.stage
    if edge.is_sink or edge.side:
        if index == template.index:
            return edge
        folder = split_part(edge.uris[0])[0] if edge.is_sink else f"{plan.root}/{edge.side}"
        tail = edge.streams[0].removeprefix(f"{stage}.{template.index}--")
        uri = part_uri(folder, part_name(index))
        return replace(edge, streams=(f"{stage}.{index}--{tail}",), uris=(uri,))
    rest = edge.streams[0].removeprefix(f"{stage}.{template.index}--")
    feed = next(f for f in feeds if f.up == stage and f.is_stream(rest))
    streams = tuple(feed.stream(index, j) for j in feed.readers(index, widths))
    uris = tuple(f"{plan.root}/streams/{s}" for s in streams)
    layout = layouts.get(feed.down)
    if feed.routing == "hash" and layout is not None and not layout.is_plain:
        return replace(edge, streams=streams, uris=uris, bounds=layout.bounds, owners=layout.owners)
    return replace(edge, streams=streams, uris=uris, bounds=(), owners=())


def key_shares(plan: PhysicalPlan) -> dict[str, dict[str, float]]:
    """Return the share of the slots that each vertex owns, for stages whose shares may differ."""
    shares: dict[str, dict[str, float]] = {}
    for stage, layout in plan.layouts:
        if not layout.is_plain:
            owned = [layout.slots_of_vertex(vertex) for vertex in range(layout.vertices)]
            parts = [sum(hi - lo for lo, hi in ranges) / SLOTS for ranges in owned]
            shares[stage] = {f"{stage}.{k}": round(part, 4) for k, part in enumerate(parts)}
    return shares
