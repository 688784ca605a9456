"""Jobs over a query of a user: ``python -m tests.sim --query FILE.py:NAME``.

``NAME`` is a function of the file, or a pair: the query and its inputs, as
:func:`streamscope.testing.assert_deterministic` takes them. Its rows arrive in an order of chance,
and the job has the limits and ways of recovery of all simulated jobs.
"""

from __future__ import annotations

import runpy
from random import Random
from typing import TYPE_CHECKING, Any

from planner.physical.lower import lower
from streamscope.testing.determinism import bound_to_rows
from streamscope.testing.runs import with_items
from tests.sim.workload import ROOT, Workload, workload_of

if TYPE_CHECKING:
    from collections.abc import Mapping

QueryAndInputs = tuple[Any, "Mapping[str, Any]"]


def query_at(place: str) -> QueryAndInputs:
    """The query and inputs that a file names."""
    path, _, name = place.rpartition(":")
    found = runpy.run_path(path)[name]
    query, inputs = found() if callable(found) else found
    return query, inputs


def make_query_workload(seed: int, given: QueryAndInputs) -> Workload:
    """The workload of a seed over a query."""
    random = Random(seed * 7_919 + 1)
    test, rows = bound_to_rows(*given)
    query = with_items(test, rows, random)
    plan = lower(query, root=ROOT, parallelism=random.choice([1, 2, 2, 3]))
    return workload_of(seed, "query", plan, random)
