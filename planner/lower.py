"""From the logical plan to the physical one: stages are cut at exchanges, the rest is fused.

Walking from the sources up, every node either joins the stage that its input is in or begins a new
one. A stage is *closed* once something reads it over channels: after an exchange, where a subplan
is shared, and below a union or a join. Whatever follows a closed stage without an exchange begins
a stage that reads it vertex by vertex (*forward*).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

import pyarrow as pa

from planner import logical
from planner.durations import Duration, positive_duration_us
from planner.errors import InvalidPlanError
from planner.explain import describe
from planner.optimizer import RULES, Rule, optimize
from planner.options import CTI_EVERY_US, PARALLELISM, PARALLELISM_MAX, PlanOptions
from planner.physical import PhysicalPlan, Routing, check_size
from planner.properties import is_stateless
from planner.stages import Draft, Feed, build_vertices, pair_spec, stateless_spec, summarise
from planner.traversal import NodeMap, readers, topological
from rvertex.operators.stitch import Stitch
from rvertex.sources.discover import assign
from rvertex.sources.discover import discover as discover_units
from rvertex.sources.row_groups import marked
from rvertex.sources.spec import SourceSpec, Unit

if TYPE_CHECKING:
    from planner.query import Query

_NO_COLUMNS = pa.schema([])
Discover = Callable[[SourceSpec], Sequence[Unit]]


def lower(
    query: Query,
    *,
    root: str,
    parallelism: int = PARALLELISM,
    cti_every: Duration | None = None,
    partial_aggregation: bool = True,
    discover: Discover = discover_units,
    rules: Sequence[Rule] = RULES,
) -> PhysicalPlan:
    """The physical plan of ``query`` for a job whose folder is ``root``.

    Raises:
        InvalidPlanError: the query cannot be run, or the plan would be larger than the limits.
    """
    if not 1 <= parallelism <= PARALLELISM_MAX:
        raise InvalidPlanError(f"parallelism={parallelism}: it is between 1 and {PARALLELISM_MAX}")
    options = PlanOptions(parallelism, partial_aggregation)
    plan = optimize(query.plan, options, rules)
    every_us = query.cti_every_us or _cti_every_us(plan)
    if cti_every is not None:
        every_us = positive_duration_us(cti_every, what="cti_every")
    lowering = _Lowering(plan, options, every_us, discover)
    last = lowering.finish(plan)
    root = root.rstrip("/")
    output = plan.uri.rstrip("/") if plan.uri is not None else f"{root}/output"
    drafts = lowering.drafts
    check_size(
        sum(draft.parallelism for draft in drafts),
        sum(feed.channel_count for draft in drafts for feed in draft.feeds),
    )
    vertices = [v for d in drafts for v in build_vertices(d, root, output, is_sink=d is last)]
    physical = PhysicalPlan(
        stages=tuple(summarise(draft, is_sink=draft is last) for draft in drafts),
        vertices=tuple(vertices),
        output=output,
        root=root,
        parallelism=parallelism,
        cti_every_us=every_us,
    )
    physical.validate()
    return physical


def _cti_every_us(plan: logical.LogicalNode) -> int:
    """What divides all windows, so that each closes as soon as it can."""
    spans = [
        us
        for node in topological(plan)
        if isinstance(node, logical.WindowAgg)
        for us in (node.size_us, node.every_us)
    ]
    return gcd(*spans) if spans else CTI_EVERY_US


class _Flow:
    """Where a node's rows come from, and how the next stage would get them."""

    def __init__(self, drafts: list[Draft], exchange: logical.Exchange | None = None) -> None:
        self.drafts = drafts
        self.exchange = exchange


class _Lowering:
    """One walk over one plan; ``drafts`` are its stages, upstream first."""

    def __init__(
        self, plan: logical.Sink, options: PlanOptions, cti_every_us: int, discover: Discover
    ) -> None:
        self.drafts: list[Draft] = []
        self._options = options
        self._cti_every_us = cti_every_us
        self._discover = discover
        self._flows: NodeMap[_Flow] = NodeMap()
        counts = readers(plan)
        for node in topological(plan.input):
            flow = self._lower(node)
            if counts[node] > 1:
                for draft in flow.drafts:
                    draft.is_closed = True
            self._flows[node] = flow

    def finish(self, plan: logical.Sink) -> Draft:
        """The stage that writes the answer."""
        return self._open(self._flows[plan.input])

    def _lower(self, node: logical.LogicalNode) -> _Flow:
        inputs = [self._flows[child] for child in node.inputs]
        match node:
            case logical.Source():
                return _Flow([self._source(node)])
            case logical.Union():
                return _Flow([draft for flow in inputs for draft in self._branch(flow)])
            case logical.Exchange():
                assert inputs[0].exchange is None, "an exchange follows another"
                return _Flow(inputs[0].drafts, node)
            case logical.Join() | logical.Clip():
                return _Flow([self._pair(node, *inputs)])
            case logical.Stitch(on=on):
                draft = self._open(inputs[0], kind="stitch")
                draft.add(Stitch(on), describe(node), node.label)
                draft.is_cheap = False
                return _Flow([draft])
            case logical.Lifetime(change=change):
                draft = self._open(inputs[0])
                draft.add(change, describe(node), node.label)
                draft.is_cheap = draft.is_cheap and is_stateless(node)
                return _Flow([draft])
            case logical.WindowAgg():
                draft = self._open(inputs[0], kind="agg")
                draft.add(node.operator(), describe(node), node.label)
                draft.is_cheap = draft.is_cheap and node.phase == "partial"
                return _Flow([draft])
            case logical.DataWindowAgg():
                draft = self._open(inputs[0], kind="agg")
                draft.add(node.operator(), describe(node), node.label)
                draft.is_cheap = False
                return _Flow([draft])
            case logical.Filter() | logical.Project() | logical.Explode():
                assert is_stateless(node)
                draft = self._open(inputs[0])
                draft.add(stateless_spec(node), describe(node), node.label)
                return _Flow([draft])
            case logical.Sink():
                raise AssertionError("a sink is the root of its plan")

    def _source(self, node: logical.Source) -> Draft:
        spec = replace(node.spec, cti_every_us=self._cti_every_us)
        units = tuple(self._discover(spec))
        n = node.partitions or max(1, min(self._options.parallelism, len(units)))
        draft = self._draft("source", n)
        draft.label = node.label
        draft.partitions = tuple(marked(p) for p in assign(spec, units, n))
        draft.payload = spec.schema
        draft.is_cheap = True
        draft.shows.append(describe(node))
        return draft

    def _pair(self, node: logical.Join | logical.Clip, left: _Flow, right: _Flow) -> Draft:
        kind = "join" if isinstance(node, logical.Join) else "clip"
        draft = self._draft(kind, self._width([left, right]))
        self._connect(draft, 0, left)
        self._connect(draft, 1, right)
        draft.add(pair_spec(node), describe(node), node.label)
        return draft

    def _branch(self, flow: _Flow) -> list[Draft]:
        assert flow.exchange is None, "an exchange is directly below a union"
        return flow.drafts

    def _open(self, flow: _Flow, kind: str = "") -> Draft:
        """A stage that may be added to and has all the rows of ``flow``."""
        if flow.exchange is None and len(flow.drafts) == 1 and not flow.drafts[0].is_closed:
            return flow.drafts[0]
        default = "union" if len(flow.drafts) > 1 and flow.exchange is None else kind or "map"
        draft = self._draft(default, self._width([flow]))
        self._connect(draft, 0, flow)
        draft.payload = flow.drafts[0].payload
        return draft

    def _width(self, flows: list[_Flow]) -> int:
        """Vertices of a stage that reads ``flows``."""
        exchanges = [flow.exchange for flow in flows]
        if any(exchange is not None and exchange.keys for exchange in exchanges):
            return self._options.parallelism
        if any(exchange is not None for exchange in exchanges):
            return 1
        return max(draft.parallelism for flow in flows for draft in flow.drafts)

    def _draft(self, kind: str, parallelism: int) -> Draft:
        draft = Draft(len(self.drafts) + 1, kind, parallelism, _NO_COLUMNS)
        self.drafts.append(draft)
        return draft

    def _connect(self, draft: Draft, port: int, flow: _Flow) -> None:
        routing: Routing = "forward"
        keys: tuple[str, ...] = ()
        if flow.exchange is not None:
            keys = flow.exchange.keys
            routing = "hash" if keys else "gather"
        for upstream in flow.drafts:
            upstream.is_closed = True
            slot = sum(1 for feed in upstream.exits if feed.downstream is draft)
            feed = Feed(upstream, draft, port, routing, keys, slot)
            upstream.exits.append(feed)
            draft.feeds.append(feed)
