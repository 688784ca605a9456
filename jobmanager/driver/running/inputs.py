"""Keeps the tables that a query was given: a job needs them as long as it may be resumed."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.logical.nodes import LogicalNode, Source
from planner.logical.traversal import topological, transform
from rstream.store.local_files import link_file
from rvertex.sources.files import list_files
from rvertex.sources.versions import local_path

if TYPE_CHECKING:
    from jobmanager.storage.root import JobRoot
    from planner import Query
    from planner.logical.traversal import Shared

#: The folder of a root in which they lie.
INPUTS = "inputs"


def with_inputs_in(query: Query, root: JobRoot) -> Query:
    """The query reading copies below ``root`` of the tables that it was given in memory.

    Raises:
        SourceNotFoundError: the process that made the query has ended, or its files were deleted.
    """
    if not has_inputs(query):
        return query

    def kept(node: LogicalNode, shared: Shared) -> LogicalNode:
        del shared
        if not isinstance(node, Source) or not _is_given(node):
            return node
        return replace(node, spec=replace(node.spec, path=_copied(node.spec.path, root)))

    return replace(query, plan=transform(query.plan, kept))  # type: ignore[arg-type]


def has_inputs(query: Query) -> bool:
    """Whether the query was given tables in memory."""
    return any(_is_given(node) for node in topological(query.plan))


def _is_given(node: LogicalNode) -> bool:
    return isinstance(node, Source) and node.spec.given == "copy"


def _copied(path: str, root: JobRoot) -> str:
    """The place of the copy of a file or a folder."""
    name = os.path.basename(path)
    place = f"{root.uri.rstrip('/')}/{INPUTS}/{name}"
    for file in list_files("parquet", path):
        below = os.path.relpath(file, path) if file != path else ""
        _copy(file, f"{INPUTS}/{name}/{below}".rstrip("/"), root)
    return local_path(place) or place


def _copy(file: str, name: str, root: JobRoot) -> None:
    """A link where the file system has links, else a copy; durable before the job begins."""
    folder = local_path(root.uri)
    if folder is None:
        with open(file, "rb") as source:
            root.store.put(name, source.read())
        return
    link_file(file, f"{folder}/{name}", sync=root.is_synced)
