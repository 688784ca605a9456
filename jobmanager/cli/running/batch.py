"""``jobmanager run --batch``: the query as a Spark SQL batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jobmanager.driver.running.batch.run import run_batch
from rstream.errors import UsageError

if TYPE_CHECKING:
    from planner import Query
    from planner.cost.parallelism import Parallelism


def print_batch(
    query: Query | None,
    root: str | None,
    master: str | None,
    parallelism: Parallelism,
    shared_root: bool | None,
    as_json: bool,
) -> int:
    """Run a query as a batch and print the result; return the exit status."""
    assert query is not None
    if parallelism == "auto":
        raise UsageError("--parallelism auto is for streams; give --batch a number")
    done = run_batch(
        query, root=root, master=master, parallelism=parallelism, shared_root=shared_root
    )
    print(json.dumps(done) if as_json else f"{done['events_out']:,} events: {done['output']}")
    return 0
