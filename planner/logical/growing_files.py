"""Plans a query that runs again, day by day, over folders to which files are added.

The rows of a folder are ordered by the order in which its files were read, in one partition. So the
runs of several days return the same rows as one run over all files. Files that were read must not
change. Unless the query chooses otherwise, state is recovered from checkpoints instead of replay,
which would read the files of earlier days again. Source: ADR 39.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.errors import InvalidPlanError
from planner.logical.nodes import LogicalNode, Source
from planner.logical.nodes.recover import recovery_choice
from planner.logical.traversal import topological, transform
from rvertex.sources.files import SUFFIXES, is_single_file
from rvertex.sources.spec import LiveFolder

if TYPE_CHECKING:
    from planner.logical.query import Query
    from planner.logical.traversal import Shared
    from rvertex.sources.spec import TakenFiles


def with_growing_files(query: Query) -> Query:
    """Return the query with every folder read as a log of files; other sources stay unchanged.

    Raises:
        InvalidPlanError: no source can grow, or one cannot be read file by file.
        SourceNotFoundError: a path does not exist.
    """
    grown = query.over(lambda plan: transform(plan, _grown))
    if not any(isinstance(n, Source) and n.spec.live is not None for n in topological(grown.root)):
        raise InvalidPlanError(
            "no source of the query can grow, so there is nothing to continue with: read a folder, "
            "to which files are added, instead of single files"
        )
    return replace(grown, recovery=query.recovery or recovery_choice("checkpoint", None))


def with_taken_files(source: Source, rule: TakenFiles) -> Source:
    """Return the source with this rule for how it remembers the files that it has read."""
    live = source.spec.live
    assert isinstance(live, LiveFolder), source
    return replace(source, spec=replace(source.spec, live=replace(live, taken_files=rule)))


def _grown(node: LogicalNode, shared: Shared) -> LogicalNode:
    del shared
    if not isinstance(node, Source) or node.spec.format not in (*SUFFIXES, "text"):
        return node
    spec = node.spec
    if spec.live is not None:
        return with_taken_files(node, "kept")
    if spec.files.given != "no" or is_single_file(spec.format, *spec.paths):
        return node
    shown = spec.shown or spec.path
    if spec.vs is None:
        raise InvalidPlanError(
            f"{shown}: lines of text have their line number as time, which added files would "
            "change; read CSV, JSON or Parquet to continue day by day"
        )
    if spec.delay_origin == "auto":
        raise InvalidPlanError(
            f'{shown}: delay="auto" needs all files, and future files are unknown; set '
            'how far rows may be out of order, such as delay="10m"'
        )
    live = LiveFolder("wait", taken_files="kept")
    grown = replace(spec, live=live, checks=replace(spec.checks, latest_us=None))
    return replace(node, spec=grown, partitions=1)
