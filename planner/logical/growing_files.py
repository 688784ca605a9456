"""Queries that are run day by day: folders are read as logs of files, so that more may come.

The rows of a folder are then those of its files in the order in which these were taken, of one
partition, so what days give together is what one run gives that takes all files at once. Files
that were taken have to stay as they are. State is recovered from checkpoints, unless the query says
otherwise: what rebuilds it by replay would read the files of the day before again. Source: ADR 39.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.errors import InvalidPlanError
from planner.logical.nodes import LogicalNode, Source
from planner.logical.nodes.recover import recovery_choice
from planner.logical.traversal import topological, transform
from rvertex.sources.files import SUFFIXES, is_single_file
from rvertex.sources.logs.folder import PARTITIONS, POLL_EVERY, POLL_EVERY_US
from rvertex.sources.spec import MAX_AHEAD_US, LogSpec

if TYPE_CHECKING:
    from planner.logical.query import Query
    from planner.logical.traversal import Shared
    from rvertex.sources.spec import TakenFiles


def with_growing_files(query: Query) -> Query:
    """The query with every folder as a log of files; single files, items and streams stay.

    Raises:
        InvalidPlanError: no source can grow, or one cannot be read file after file.
        SourceNotFoundError: a path is not there.
    """
    grown = query.over(lambda plan: transform(plan, _grown))
    if not any(isinstance(n, Source) and n.spec.log is not None for n in topological(grown.root)):
        raise InvalidPlanError(
            "no source of the query can grow, so there is nothing to continue with: read a folder, "
            "to which files are added, instead of single files"
        )
    return replace(grown, recovery=query.recovery or recovery_choice("checkpoint", None))


def with_taken_files(source: Source, rule: TakenFiles) -> Source:
    """The source with another rule for the files that it has read."""
    log = source.spec.log
    assert log is not None, source
    return replace(source, spec=replace(source.spec, log=replace(log, taken_files=rule)))


def _grown(node: LogicalNode, shared: Shared) -> LogicalNode:
    del shared
    if not isinstance(node, Source) or node.spec.format not in (*SUFFIXES, "text"):
        return node
    spec = node.spec
    if spec.log is not None:
        return with_taken_files(node, "kept")
    if spec.given != "no" or is_single_file(spec.format, spec.path):
        return node
    shown = spec.shown or spec.path
    if spec.vs is None:
        raise InvalidPlanError(
            f"{shown}: lines of text have no time but their number, which more files would change; "
            "read CSV, JSON or Parquet to go on day by day"
        )
    if spec.delay_origin == "auto":
        raise InvalidPlanError(
            f'{shown}: delay="auto" needs all files, and future files are unknown; '
            'say how far rows may be out of order, such as delay="10m"'
        )
    options = (*spec.options, (PARTITIONS, 1), (POLL_EVERY, POLL_EVERY_US))
    ahead_us = int(spec.option(MAX_AHEAD_US, 0)) or None
    log = LogSpec("wait", taken_files="kept", on_error=spec.on_bad_row, max_ahead_us=ahead_us)
    grown = replace(spec, options=options, log=log, latest_us=None)
    return replace(node, spec=grown, partitions=1)
