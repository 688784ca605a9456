"""Skips files in folders such as ``day=2026-01-01/`` that a filter excludes.

It runs before any file is opened, so the times in skipped files are not read either. The result is
the same only if a skipped row cannot change other rows: no row of the source may be late (the delay
is found by a scan, or there are no times), and bad rows must not matter to the job. Other sources
read these files completely, or only the times if they are Parquet (:mod:`skip_row_groups`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.expressions.predicates import conjuncts, may_fail
from planner.logical.nodes import Filter, LogicalNode, Source
from planner.logical.nodes.source import is_table
from planner.logical.traversal import NodeMap, Shared, shared_nodes, topological, transform
from planner.optimizer.rules.push_down_filter import push_down_filter
from planner.optimizer.rules.skip_row_groups import bounds

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions
    from rvertex.sources.spec import Bound, SourceSpec


def without_folders(root: LogicalNode, options: PlanOptions) -> LogicalNode:
    """Return the plan whose sources list the folders that they skip."""
    sources = [n for n in topological(root) if isinstance(n, Source) and _may_skip(n.spec)]
    if not sources:
        return root
    wanted = _wanted(push_down_filter(root, options))

    def change(node: LogicalNode, shared: Shared) -> LogicalNode:
        del shared
        if not isinstance(node, Source) or node not in wanted:
            return node
        return replace(node, spec=node.spec.with_options(folders=wanted[node]))

    return transform(root, change)


def _wanted(pushed: LogicalNode) -> NodeMap[tuple[Bound, ...]]:
    """Return the bounds that the only reader of a source puts on its folders."""
    shared = shared_nodes(pushed)
    bounds_of: NodeMap[tuple[Bound, ...]] = NodeMap()
    for node in topological(pushed):
        if not isinstance(node, Filter) or may_fail(node.predicate):
            continue
        below = node.input
        if isinstance(below, Source) and below not in shared and _may_skip(below.spec):
            all_bounds = [b for part in conjuncts(node.predicate) for b in bounds(part, below.spec)]
            bounds_of[below] = tuple(
                b for b in all_bounds if b.column in below.spec.files.folder_columns
            )
    return bounds_of


def _may_skip(spec: SourceSpec) -> bool:
    has_late_rows = spec.delay_origin != "auto" and not is_table(spec)
    minds_rows = spec.checks.on_bad_row != "fail" or spec.checks.of_values
    return bool(spec.files.folder_columns) and not (
        has_late_rows or minds_rows or spec.live is not None
    )
