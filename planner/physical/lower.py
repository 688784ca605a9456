"""Lowers the logical plan to the physical one: cuts stages at exchanges and fuses the rest.

Walking from the sources up, every node either joins the stage of its input or begins a new stage. A
stage is *closed* when another stage reads it over channels: after an exchange, at a shared subplan,
and below a union or a join. A node that follows a closed stage without an exchange begins a stage
that reads it vertex by vertex (*forward*).

Files are read in three places only: ``Discovery.statistics`` before the optimizer,
``Discovery.files`` after it, and ``marked`` (footers) at the end. The rest of planning reads none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import gcd
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.cost.dealing import dealt
from planner.cost.model import estimates
from planner.cost.options import PlanOptions
from planner.cost.parallelism import PARALLELISM, PARALLELISM_MAX, Parallelism
from planner.cost.statistics import Discover, Discovery, Look, SourceFiles, Statistics, Survey
from planner.durations import Duration, positive_duration_us
from planner.errors import InvalidPlanError
from planner.logical import nodes as logical
from planner.logical.nodes.user_step import lettered
from planner.logical.query import grid_us
from planner.logical.text import logical_text
from planner.logical.traversal import NodeMap, readers, topological
from planner.optimizer.optimizer import RULES, Rule, optimize_step_by_step
from planner.optimizer.skip_folders import without_folders
from planner.physical.choose_recovery import with_choices
from planner.physical.dictionaries import sources_of_unions
from planner.physical.endless_rows import waiting_notes
from planner.physical.literal_secrets import sink_notes, source_notes
from planner.physical.outputs import planned_outputs, root_of, sinks_of, with_outputs
from planner.physical.plan import PhysicalPlan, PlanTrace, Routing, check_size
from planner.physical.rules import filter_early, forward_ctis, late_decode, skip_sort
from planner.physical.sizing import add_costs, widths
from planner.physical.stage_builder import Feed, StageBuilder
from planner.physical.stages import build_vertices, pair_spec, stateless_spec, summarise
from rstream.format.codec import kept_type
from rvertex.operators.edges.spread import EdgeSpread
from rvertex.operators.user.call_once import CallOnce
from rvertex.sinks.spec import check_names, name_of, takes_changes
from rvertex.sources.discover import partition_count
from rvertex.sources.formats.carried import with_carried
from rvertex.sources.formats.row_groups import marked
from rvertex.sources.logs.opening import discover_units
from rvertex.sources.statistics import statistics_of
from rvertex.sources.survey import survey as survey_times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.logical.query import Query
    from planner.optimizer.optimizer import Root
    from planner.optimizer.trace import RuleStep
    from rvertex.operators.protocol import OperatorSpec
    from rvertex.sources.spec import SourcePartition

_NO_COLUMNS = pa.schema([])
PhysicalRule = Callable[[StageBuilder], None]
#: Each runs once over every stage, in this order: a rule relies on the rules before it.
PHYSICAL_RULES: tuple[PhysicalRule, ...] = (filter_early, skip_sort, late_decode, forward_ctis)


def lower(
    query: Query,
    *,
    root: str,
    parallelism: Parallelism = PARALLELISM,
    cti_every: Duration | None = None,
    partial_aggregation: bool = True,
    is_paced: bool = False,
    discover: Discover = discover_units,
    look: Look = statistics_of,
    survey: Survey = survey_times,
    rules: Sequence[Rule] = RULES,
) -> PhysicalPlan:
    """Return the physical plan of ``query`` for a job whose folder is ``root``.

    Raises:
        InvalidPlanError: the query cannot be run, or the plan exceeds the limits.
        StreamEngineError: a file cannot be read, or has a row without a time, naming both.
    """
    _check_parallelism(parallelism)
    for part in query.parts:
        _check_changes(part)
    check_names([spec for part in query.parts for spec in part.deliveries])
    every_us = None if cti_every is None else positive_duration_us(cti_every, what="cti_every")
    for node in topological(query.root):
        if isinstance(node, logical.Source):
            _check_types(node.schema)
    discovery = Discovery(discover, survey)
    written = without_folders(query.root, PlanOptions())
    known = discovery.statistics(written, look)

    @cache
    def optimized(n: int) -> tuple[Root, tuple[RuleStep, ...], NodeMap[SourceFiles]]:
        options = PlanOptions(n, partial_aggregation, is_paced, known)
        plan, steps = optimize_step_by_step(root_of(query, written), options, rules)
        return plan, steps, discovery.files(plan, sources_of_unions(plan))

    def attempt(n: int, widths: Mapping[int, int]) -> _Lowering:
        plan, steps, files = optimized(n)
        given = [part.cti_every_us for part in query.parts if part.cti_every_us]
        cti_every_us = every_us or gcd(*given) or grid_us(plan)
        plan_trace = PlanTrace(logical_text(written), logical_text(plan), steps)
        lowering = _Lowering(plan, plan_trace, n, widths, cti_every_us, files, known)
        add_costs(lowering.builders, estimates(plan, known))
        return lowering

    if parallelism != "auto":
        return _physical(attempt(parallelism, {}), root, query)
    recommended = widths(attempt(PARALLELISM, {}).builders)
    if max(recommended.values()) == 1:
        return _physical(attempt(1, {}), root, query)
    return _physical(attempt(PARALLELISM, recommended), root, query)


def _check_parallelism(parallelism: Parallelism) -> None:
    if parallelism == "auto":
        return
    if not isinstance(parallelism, int) or not 1 <= parallelism <= PARALLELISM_MAX:
        raise InvalidPlanError(
            f"parallelism={parallelism}: must be between 1 and {PARALLELISM_MAX}, or 'auto'"
        )


def _check_changes(query: Query) -> None:
    """Check that either all readers of the result accept changes, or none needs them.

    Raises:
        InvalidPlanError: one reader needs them, and another does not accept them.
    """
    form = query.plan.form
    for spec in query.deliveries if not query.takes_changes else ():
        if not spec.needs_changes:
            continue
        others = [name_of(other) for other in query.deliveries if not takes_changes(other)]
        if others:
            reason = (
                f"{', '.join(others)} needs the end of each row: deliver to it from another query"
            )
        elif form is not None and form.end is None:
            reason = "the output needs its end column: leave out end=None"
        else:
            reason = "the output must stay in the job's folder"
        raise InvalidPlanError(f"{name_of(spec)} needs the changes of rows, but {reason}")


def _check_types(schema: pa.Schema) -> None:
    """Check that streams can store the types of all columns.

    Raises:
        InvalidPlanError: a column has a type that streams do not store.
    """
    for field in schema:
        kept = kept_type(field.type)
        if kept != field.type:
            instead = "take it apart" if kept is None else f"cast it to {kept}, or declare it so"
            raise InvalidPlanError(
                f"column {field.name!r} is {field.type}, which streams cannot store: {instead}"
            )


def _physical(lowering: _Lowering, root: str, query: Query) -> PhysicalPlan:
    plan, builders = lowering.plan, lowering.builders
    root = root.rstrip("/")
    outputs = planned_outputs(query, sinks_of(plan), lowering.writers, root)
    deliveries = [spec for part in query.parts for spec in part.deliveries]
    check_size(
        sum(builder.parallelism for builder in builders),
        sum(feed.channel_count for builder in builders for feed in builder.feeds),
    )
    for builder, parts in lowering.dealt:  # ``marked`` reads the footers of files
        marks = [marked(part).units for part in parts]
        builder.partitions = tuple(
            replace(p, units=units) for p, units in zip(builder.partitions, marks, strict=True)
        )
    for rule in PHYSICAL_RULES:
        for builder in builders:
            rule(builder)
    for builder in builders:
        _check_types(builder.logical_schema)
    answers = [[o.answer for o in outputs if o.builder is one] for one in builders]
    built = zip(builders, answers, strict=True)
    vertices = [v for one, written in built for v in build_vertices(one, root, written)]
    physical = PhysicalPlan(
        stages=tuple(
            summarise(one, is_sink=bool(written))
            for one, written in zip(builders, answers, strict=True)
        ),
        vertices=tuple(vertices),
        output="",
        root=root,
        parallelism=lowering.parallelism,
        cti_every_us=lowering.cti_every_us,
        plan_trace=lowering.plan_trace,
        notes=tuple(
            dict.fromkeys([*lowering.notes, *sink_notes(deliveries), *waiting_notes(plan)])
        ),
    )
    physical = with_choices(with_outputs(physical, outputs), builders, query.recovery)
    physical.validate()
    return physical


class _Flow:
    """The stages that emit a node's rows, and how the next stage would read them."""

    def __init__(
        self, builders: list[StageBuilder], exchange: logical.Exchange | None = None
    ) -> None:
        self.builders = builders
        self.exchange = exchange


class _Lowering:
    """One walk over one plan; ``builders`` are its stages, upstream first."""

    def __init__(
        self,
        plan: logical.Sink | logical.Sinks,
        plan_trace: PlanTrace,
        parallelism: int,
        widths: Mapping[int, int],
        cti_every_us: int,
        files: NodeMap[SourceFiles],
        known: Statistics,
    ) -> None:
        self.plan = plan
        self.plan_trace = plan_trace
        self.cti_every_us = cti_every_us
        self.builders: list[StageBuilder] = []
        self.notes: list[str] = []
        #: The partitions of each source of files, before text columns became dictionaries.
        self.dealt: list[tuple[StageBuilder, tuple[SourcePartition, ...]]] = []
        self._parallelism = parallelism
        #: Vertices by number of stage; stages that are missing get the plan's parallelism.
        self._widths = widths
        self._files = files
        self._known = known
        self._flows: NodeMap[_Flow] = NodeMap()
        #: The names of folders for dead letters that are in use.
        self._letters: set[str] = set()
        counts = readers(plan)
        for node in topological(plan):
            if isinstance(node, logical.Sink | logical.Sinks):
                continue
            flow = self._lower(node)
            if flow.exchange is None and len(flow.builders) == 1:
                flow.builders[0].nodes.append(node)
            if counts[node] > 1:
                for builder in flow.builders:
                    builder.is_closed = True
            self._flows[node] = flow
        #: The stage that writes each output.
        self.writers = [self._writer(sink) for sink in sinks_of(plan)]

    @property
    def parallelism(self) -> int:
        """The greatest number of vertices of a keyed stage."""
        return (
            max([self._parallelism, *self._widths.values()]) if self._widths else self._parallelism
        )

    def _writer(self, sink: logical.Sink) -> StageBuilder:
        flow = self._flows[sink.input]
        if sink.changes or flow.exchange is not None or len(flow.builders) > 1:
            writer = self._open(flow)
        else:  # the stage of the input writes the output; other stages may read it, too
            writer = flow.builders[0]
        if sink.changes:
            writer.add(EdgeSpread(), "a start and an end for each row")
            writer.is_closed = True
        return writer

    def _lower(self, node: logical.LogicalNode) -> _Flow:
        inputs = [self._flows[child] for child in node.inputs]
        match node:
            case logical.Source():
                return _Flow([self._source(node)])
            case logical.Union():
                return _Flow([builder for flow in inputs for builder in self._branch(flow)])
            case logical.Exchange():
                assert inputs[0].exchange is None, "an exchange follows another"
                return _Flow(inputs[0].builders, node)
            case logical.TwoSided():
                return _Flow([self._pair(node, *inputs)])
            case logical.Step():
                return _Flow([self._step(node, inputs[0])])
            case logical.Filter() | logical.Project() | logical.Explode():
                builder = self._open(inputs[0])
                builder.add(stateless_spec(node, builder.payload), node.describe(), node.label)
                builder.is_cheap = builder.is_cheap and not node.codes
                return _Flow([builder])
            case logical.Recover(choice=choice):
                assert inputs[0].exchange is None, "an exchange is directly below a choice"
                for builder in inputs[0].builders:
                    builder.recovery = choice
                    builder.label = node.label or builder.label
                return inputs[0]
            case _:
                raise AssertionError(f"{type(node).__name__} is no part of a stage")

    def _source(self, node: logical.Source) -> StageBuilder:
        spec = replace(node.spec, cti_every_us=self.cti_every_us)
        files = self._files[node]
        self.notes += [*files.notes, *source_notes(spec)]
        n = partition_count(spec, files.units, node.partitions, self._keyed_width())
        builder = self._builder("source", n)
        is_dealt = spec.kind.is_numbered or spec.live is not None
        builder.is_fixed = node.partitions is not None or is_dealt
        builder.label = node.label
        parts = dealt(spec, files.units, n, files.times, self._known.of(spec))
        if spec.live is None:
            self.dealt.append((builder, parts))
        builder.partitions = tuple(
            replace(p, spec=with_carried(p.spec, files.carried)) for p in parts
        )
        builder.payload = builder.partitions[0].spec.schema
        builder.is_cheap = True
        found = parts[0].spec
        shown = replace(spec, delay_us=found.delay_us, delay_origin=found.delay_origin)
        builder.shows.append(replace(node, spec=shown).describe())
        return builder

    def _pair(self, node: logical.TwoSided, left: _Flow, right: _Flow) -> StageBuilder:
        kind = "clip" if isinstance(node, logical.Clip) else "join"
        builder = self._builder(kind, self._width([left, right]))
        self._connect(builder, 0, left)
        self._connect(builder, 1, right)
        builder.add(pair_spec(node), node.describe(), node.label)
        return builder

    def _step(self, node: logical.Step, flow: _Flow) -> StageBuilder:
        is_alone = isinstance(node, logical.UserStep) and isinstance(node.spec, CallOnce)
        # the step reads its log of values before its rows, so it begins another stage
        if is_alone:
            for upstream in flow.builders:
                upstream.is_closed = True
        builder = self._open(flow, node.stage_kind)
        if not node.takes_dictionaries:
            builder.decode(node.input.schema)
        if isinstance(node, logical.UserStep):
            operator: OperatorSpec = lettered(node, self._letters)
        else:
            operator = node.operator()
        builder.add(operator, node.describe(), node.label)
        builder.is_cheap = builder.is_cheap and node.is_cheap
        builder.is_closed = is_alone
        return builder

    def _branch(self, flow: _Flow) -> list[StageBuilder]:
        assert flow.exchange is None, "an exchange is directly below a union"
        return flow.builders

    def _open(self, flow: _Flow, kind: str = "") -> StageBuilder:
        """Return a stage that accepts more operators and has all the rows of ``flow``."""
        if flow.exchange is None and len(flow.builders) == 1 and not flow.builders[0].is_closed:
            return flow.builders[0]
        default = "union" if len(flow.builders) > 1 and flow.exchange is None else kind or "map"
        builder = self._builder(default, self._width([flow]))
        self._connect(builder, 0, flow)
        builder.payload = flow.builders[0].payload
        return builder

    def _width(self, flows: list[_Flow]) -> int:
        """Return the number of vertices of a stage that reads ``flows``."""
        exchanges = [flow.exchange for flow in flows]
        if any(exchange is not None and exchange.keys for exchange in exchanges):
            return self._keyed_width()
        if any(exchange is not None for exchange in exchanges):
            return 1
        return max(builder.parallelism for flow in flows for builder in flow.builders)

    def _keyed_width(self) -> int:
        """Return the number of vertices of the next stage, if nothing else decides it."""
        return self._widths.get(len(self.builders) + 1, self._parallelism)

    def _builder(self, kind: str, parallelism: int) -> StageBuilder:
        builder = StageBuilder(len(self.builders) + 1, kind, parallelism, _NO_COLUMNS)
        self.builders.append(builder)
        return builder

    def _connect(self, builder: StageBuilder, port: int, flow: _Flow) -> None:
        keys = () if flow.exchange is None else flow.exchange.keys
        routing: Routing = "forward" if flow.exchange is None else "hash" if keys else "gather"
        for upstream in flow.builders:
            upstream.is_closed = True
            slot = sum(1 for feed in upstream.exits if feed.downstream is builder)
            feed = Feed(upstream, builder, port, routing, keys, slot)
            upstream.exits.append(feed)
            builder.feeds.append(feed)
