"""Builds the vertices of finished stages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.expressions.nodes import Column, Node
from planner.expressions.per_value import as_dictionary, by_value
from planner.expressions.predicates import may_fail
from planner.fingerprint import fingerprint
from planner.logical import nodes as logical
from planner.logical.table_form import side_form
from planner.physical.plan import Stage, StageInput
from rstream.items.batch import RESERVED
from rstream.store.part_files import part_name, part_uri
from rvertex.events.side_output import side_outputs_of
from rvertex.operators.edges.join import EdgeJoin
from rvertex.operators.edges.lifetimes.clip import EdgeClip
from rvertex.operators.edges.of_begins import NUMBER, EdgeOfBegins
from rvertex.operators.explode import Explode
from rvertex.operators.filter import Filter
from rvertex.operators.joins.anti import AntiJoin
from rvertex.operators.joins.as_of import AsOfJoin
from rvertex.operators.joins.conditional import ConditionalJoin
from rvertex.operators.joins.inner import TemporalJoin
from rvertex.operators.joins.interval import IntervalJoin
from rvertex.operators.joins.left import LeftJoin
from rvertex.operators.lifetimes.clip import Clip
from rvertex.operators.project import Project
from rvertex.vertex.source_input import source_sides
from rvertex.vertex.spec import InputChannel, OutputEdge, VertexId, VertexSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from planner.physical.plan import PhysicalPlan
    from planner.physical.stage_builder import Feed, StageBuilder
    from rstream.format.table import TableForm
    from rvertex.events.side_output import SideOutput
    from rvertex.operators.protocol import OperatorSpec
    from rvertex.sources.spec import SourcePartition


def stateless_spec(
    node: logical.Filter | logical.Project | logical.Explode, payload: pa.Schema
) -> OperatorSpec:
    """Return the operator of a stateless node; plain columns are copied, not computed.

    ``payload``: the input columns; some may be dictionary-encoded.
    """
    given = zip(payload, node.input.schema, strict=True)
    carried = {f.name for f, plain in given if not f.type.equals(plain.type)}
    match node:
        case logical.Filter(predicate=predicate):
            test, is_total = by_value(predicate, carried), _is_total(predicate)
            return Filter(test, is_total=is_total, edges=node.edges)
        case logical.Explode(column=column):
            return Explode(column)
        case logical.Project(columns=columns):
            rewritten = [(name, as_dictionary(by_value(expr, carried))) for name, expr in columns]
            made = tuple((name, _by_name(expr)) for name, expr in rewritten)
            return Project(made, edges=node.edges)


def _is_total(predicate: Node) -> bool:
    """Return whether the predicate is true or false for every row, of any lifetime."""
    return not may_fail(predicate) and not set(predicate.columns()) & set(RESERVED)


def pair_spec(node: logical.TwoSided) -> OperatorSpec:
    """Return the operator of a node with two ports."""
    match node:
        case logical.Clip(edges=True):
            return EdgeClip(node.left_on, node.right_on)
        case logical.Clip():
            return Clip(node.left_on, node.right_on)
        case logical.AsOf():
            on = (node.left_on, node.right_on)
            is_outer = node.how == "left"
            number: tuple[logical.Side, str, str] = ("left", NUMBER, NUMBER)
            columns = (*node.columns, number) if node.edges else node.columns
            nearest = AsOfJoin(*on, columns, node.strategy, node.tolerance_us, is_outer)
            return EdgeOfBegins(nearest) if node.edges else nearest
        case logical.IntervalJoin():
            assert node.where is None or node.how != "inner", "a filter follows it"
            made = (node.columns, node.lo_us, node.hi_us, node.how, node.where, node.reads)
            return IntervalJoin(node.left_on, node.right_on, *made)
        case logical.Join(edges=True, where=where, reads=reads):
            matches = (node.columns, node.how, where, reads)
            return EdgeJoin(node.left_on, node.right_on, *matches)
        case logical.Join(where=where, how=how) if where is not None:
            assert how != "inner", "a filter follows it"
            pairs = (node.left_on, node.right_on, node.columns)
            return ConditionalJoin(*pairs, where, node.reads, how)
        case logical.Join(how="inner"):
            return TemporalJoin(node.left_on, node.right_on, node.columns)
        case logical.Join(how="left"):
            return LeftJoin(node.left_on, node.right_on, node.columns)
        case _:
            assert isinstance(node, logical.Join), node
            output = tuple((column, name) for _, column, name in node.columns)
            return AntiJoin(node.left_on, node.right_on, output)


def _by_name(expr: Node) -> Node | str:
    if isinstance(expr, Column) and expr.name not in RESERVED:
        return expr.name
    return expr


@dataclass(frozen=True, slots=True)
class Output:
    """The folder of a result, and the form of its files."""

    folder: str
    form: TableForm | None
    #: The suffix of its streams' names, unique among the outputs of a job.
    tail: str = "out"

    def stream(self, builder: StageBuilder, index: int) -> str:
        """Return the id of the sink stream of vertex ``index``."""
        return f"{builder.name}.{index}--{self.tail}"


def build_vertices(
    builder: StageBuilder, root: str, outputs: Sequence[Output] = ()
) -> list[VertexSpec]:
    """Build the vertices of a finished stage, which writes ``outputs``."""
    return [_vertex(builder, index, root, outputs) for index in range(builder.parallelism)]


def _vertex(builder: StageBuilder, index: int, root: str, answers: Sequence[Output]) -> VertexSpec:
    inputs = tuple(channel for feed in builder.feeds for channel in _inputs(feed, index, root))
    outputs = [_output(feed, index, root) for feed in builder.exits]
    payload = None if builder.logical_schema.equals(builder.payload) else builder.logical_schema
    for answer in answers:
        stream, uri = answer.stream(builder, index), part_uri(answer.folder, part_name(index))
        outputs.append(OutputEdge((stream,), (uri,), (), "async", True, "", payload, answer.form))
    outputs += [_side_output(side, builder, index, root) for side in _sides(builder)]
    source = builder.partitions[index] if builder.partitions else None
    operators = tuple(builder.operators)
    vertex = VertexSpec(
        id=VertexId(f"{builder.name}.{index}"),
        stage=builder.name,
        index=index,
        inputs=inputs,
        source=source,
        operators=operators,
        outputs=tuple(outputs),
        output_payload=builder.payload,
        state_schema="",
    )
    return replace(vertex, state_schema=_meaning(vertex))


def with_hashes_of(plan: PhysicalPlan, former: PhysicalPlan) -> PhysicalPlan:
    """Return the plan; vertices with the meaning that they have in ``former`` get their hash there.

    A release may compute another hash of the same vertex, because a record has a new field.
    """
    known = {vertex.id: vertex for vertex in former.vertices}

    def like_former(vertex: VertexSpec) -> VertexSpec:
        before = known.get(vertex.id)
        if before is None or _meaning(before) != _meaning(vertex):
            return vertex
        return replace(vertex, state_schema=before.state_schema)

    return replace(plan, vertices=tuple(map(like_former, plan.vertices)))


def _meaning(vertex: VertexSpec) -> str:
    """Return a hash of what a vertex reads, computes and writes."""
    source = vertex.source
    return fingerprint(
        (
            vertex.stage,
            vertex.index,
            tuple((channel.stream, channel.port, channel.payload) for channel in vertex.inputs),
            _from_its_beginning(source),
            (*_early_filter(source), *vertex.operators),
            tuple((edge.streams, edge.keys) for edge in vertex.outputs),
        )
    )


def _from_its_beginning(source: SourcePartition | None) -> SourcePartition | None:
    """Remove the first offset of a log from its identity, because retention may move it."""
    if source is None or source.spec.live is None or not source.spec.kind.is_numbered:
        return source
    return replace(source, units=tuple(replace(unit, first_seq=0) for unit in source.units))


def _early_filter(source: SourcePartition | None) -> list[OperatorSpec]:
    """Return the filter in the source as an operator, for the hash of the vertex."""
    if source is None or source.spec.keep is None:
        return []
    return [Filter(source.spec.keep, is_total=True)]


def _inputs(feed: Feed, index: int, root: str) -> list[InputChannel]:
    streams = [feed.stream(i, index) for i in feed.writers_to(index)]
    return [
        InputChannel(s, _uri(root, s), feed.port, feed.upstream.payload, feed.durability)
        for s in streams
    ]


def _output(feed: Feed, index: int, root: str) -> OutputEdge:
    streams = tuple(feed.stream(index, j) for j in feed.readers_of(index))
    return OutputEdge(streams, tuple(_uri(root, s) for s in streams), feed.keys, feed.durability)


def _sides(builder: StageBuilder) -> list[SideOutput]:
    """Return the side outputs of the source and of the operators of a stage."""
    sides = source_sides(builder.partitions[0].spec, builder.name) if builder.partitions else []
    ports = [builder.partitions[0].spec.schema] if builder.partitions else builder.ports()
    for operator in builder.operators:
        sides += side_outputs_of(operator, ports)
        ports = [operator.output_schema(ports)]
    return sides


def _side_output(side: SideOutput, builder: StageBuilder, index: int, root: str) -> OutputEdge:
    stream = f"{builder.name}.{index}--{side.name.replace('/', '-')}"
    uri = part_uri(f"{root}/{side.name}", part_name(index))
    form = side_form(side.payload.names)
    return OutputEdge((stream,), (uri,), (), "async", False, side.name, side.payload, form)


def _uri(root: str, stream: str) -> str:
    return f"{root}/streams/{stream}"


def summarise(builder: StageBuilder, *, is_sink: bool) -> Stage:
    """Summarise the stage for ``explain`` and reports."""
    inputs = tuple(
        StageInput(
            upstream=feed.upstream.name,
            port=feed.port,
            routing=feed.routing,
            keys=feed.keys,
            durability=feed.durability,
            reason=feed.reason,
        )
        for feed in builder.feeds
    )
    spec = builder.partitions[0].spec if builder.partitions else None
    reads = () if spec is None else tuple(spec.columns.names or spec.schema.names)
    return Stage(
        name=builder.name,
        parallelism=builder.parallelism,
        operators=tuple(builder.shows),
        inputs=inputs,
        reads=reads,
        schema=builder.logical_schema,
        is_sink=is_sink,
        cost=builder.cost,
    )
