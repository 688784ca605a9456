"""Code of users in the batch twin: equal answers, poison included, and clear refusals.

Cannot catch: functions whose result depends on the batches that Spark makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import jobmanager
from planner import KeyedContext, KeyedProcess, Stream, Timer, agg, col, event, tumbling, udf
from planner.spark_sql import BatchDataError, UnsupportedInBatchError
from tests.spark.batches import assert_twins, batched

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

ROWS = Stream.from_items(
    {"k": "string", "x": "int64", "t": "timestamp"},
    [event(t, t + 3, k="abc"[t % 3], x=None if t == 7 else t, t=t * 1000) for t in range(20)],
    partitions=2,
)


def odd_twice(batch: pa.RecordBatch) -> Any:
    found = [
        i for i, x in enumerate(batch.column("x").to_pylist()) for _ in range((x or 0) % 2 + 1)
    ]
    return {"_row": found, "x": batch.column("x").take(pa.array(found)), "t": batch[4].take(found)}


def picky(batch: pa.RecordBatch) -> Any:
    return {"y": [100 // (x - 5) for x in batch.column("x").to_pylist()]}


class Nothing(KeyedProcess):
    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        pass


def test_user_code_row_by_row() -> None:
    doubled = ROWS.apply(odd_twice, {"x": "int64", "t": "timestamp"})
    counted = doubled.window(tumbling(5)).agg(n=agg.count(), x=agg.sum("x"))
    assert_twins(counted)
    skipped = assert_twins(ROWS.apply(picky, {"y": "int64"}, on_error="skip"))
    assert skipped.num_rows == 18
    half = udf(lambda x: x / 2, returns="float64")
    longer = udf(lambda k, x: pc.binary_join_element_wise(k, pc.cast(x, pa.string()), "-"),
                 returns="string", vectorised=True)  # fmt: skip
    assert_twins(
        ROWS.filter(half(col("x")) > 2.0).select(
            "t", h=half(col("x")), l=longer(col("k"), col("x") + 1), u=col("k").str.upper()
        )
    )


class Totals(KeyedProcess):
    output = {"n": "int64", "total": "int64"}  # noqa: RUF012
    n: int = 0
    total: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        self.total += event.x
        ctx.set_timer(event.vs + 5)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(self.n, self.total)


def test_a_process_on_spark_is_that_of_this_process(tmp_path: Path) -> None:
    stream = ROWS.group_by("k").process(Totals, on_error="dead_letter")
    status = {}
    for executor in ("local", "spark"):
        root = str(tmp_path / executor)
        job = jobmanager.run(stream, root=root, executor=executor, master="local[4]")
        found = job.wait(120)
        letters = jobmanager.read_dead_letters(root).to_pylist()
        status[executor] = (found["output_digest"], found["poisoned_events"], letters)
    assert status["local"] == status["spark"]
    assert status["spark"][1] == 1


def test_what_has_no_twin_or_fails() -> None:
    with pytest.raises(UnsupportedInBatchError, match=r"process Nothing by k.*sequence of ev"):
        batched(ROWS.group_by("k").process(Nothing))
    with pytest.raises(BatchDataError, match="picky raised"):
        batched(ROWS.apply(picky, {"y": "int64"}))
