"""Prepares a query for the root of a job: copies in-memory tables there, and plans the query.

The copies stay in the root, because a resumed job reads the tables again.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from jobmanager.storage.places import plan_at_absolute_paths
from jobmanager.storage.root import display_uri
from planner.logical.nodes import LogicalNode, Source
from planner.logical.traversal import topological, transform
from planner.physical.lower import lower
from rstream.store.local_files import link_file
from rvertex.sources.files import list_files
from rvertex.sources.versions import local_path

if TYPE_CHECKING:
    from jobmanager.config import JobConfig
    from jobmanager.storage.root import JobRoot
    from planner import Query
    from planner.logical.traversal import Shared
    from planner.physical.plan import PhysicalPlan

#: The folder of a root with the copies of in-memory tables.
INPUTS = "inputs"


def with_inputs_in(query: Query, root: JobRoot) -> Query:
    """Return the query with its in-memory tables replaced by copies below ``root``.

    Raises:
        SourceNotFoundError: the temporary files of a table are gone, for example because the
            process that made the query has ended.
    """
    if not has_inputs(query):
        return query

    def kept(node: LogicalNode, shared: Shared) -> LogicalNode:
        del shared
        if not isinstance(node, Source) or not _is_given(node):
            return node
        return replace(node, spec=replace(node.spec, path=_copied(node.spec.path, root)))

    return query.over(lambda plan: transform(plan, kept))


def has_inputs(query: Query) -> bool:
    """Return whether the query has in-memory tables."""
    return any(_is_given(node) for node in topological(query.root))


def _is_given(node: LogicalNode) -> bool:
    return isinstance(node, Source) and node.spec.files.given == "copy"


def _copied(path: str, root: JobRoot) -> str:
    """Copy a file or a folder into the root. Return the path of the copy."""
    name = os.path.basename(path)
    place = f"{root.uri.rstrip('/')}/{INPUTS}/{name}"
    for file in list_files("parquet", path):
        below = os.path.relpath(file, path) if file != path else ""
        _copy(file, f"{INPUTS}/{name}/{below}".rstrip("/"), root)
    return local_path(place) or place


def _copy(file: str, name: str, root: JobRoot) -> None:
    """Hard-link a file if the file system allows it, else copy it. It is durable at return."""
    folder = local_path(root.uri)
    if folder is None:
        with open(file, "rb") as source:
            root.store.put(name, source.read())
        return
    link_file(file, f"{folder}/{name}", sync=root.is_synced)


def lowered(query: Query, root: JobRoot, config: JobConfig) -> PhysicalPlan:
    """Return the physical plan. Its paths are absolute, so it can be resumed in any folder."""
    uri, is_paced = display_uri(root.uri), config.host.pace > 0
    plan = lower(query, root=uri, parallelism=config.parallelism, is_paced=is_paced)
    return plan_at_absolute_paths(plan)
