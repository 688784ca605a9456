"""The result of a stream and of its Spark batch, without streams or hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.driver.running.batch.validate import collect_batch, compare
from planner import Query
from planner.physical.lower import lower
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    import pyarrow as pa

    from planner import Stream

MASTER = "local[2]"
PARALLELISM = 2


def streamed(stream: Stream | Query) -> pa.Table:
    """The result of the physical plan, in one thread."""
    query = stream if isinstance(stream, Query) else stream.to_parquet()
    return answer(lower(query, root="r", parallelism=PARALLELISM))


def batched(stream: Stream | Query) -> pa.Table:
    """The result of Spark."""
    return collect_batch(stream, master=MASTER, parallelism=PARALLELISM)


def assert_twins(stream: Stream | Query) -> pa.Table:
    """Check that both return the same rows. Return them."""
    batch = batched(stream)
    found = compare(streamed(stream), batch)
    assert found.is_equal, str(found)
    return batch
