"""Late rows: the stream and the batch find the same rows late, also with an estimated delay.

Not covered: a mistake in the shared definition; tests/rvertex/vertex/test_reorder.py has a per-row
model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from planner import InvalidPlanError, Stream
from planner.batch.rows import source_events
from planner.logical.nodes import Source
from planner.physical.lower import lower
from rstream.items.batch import CTI, KIND, VS
from rstream.types import INF_TIME
from tests.support.budget import one_in
from tests.support.plan_runner import answer, run_plan, sorted_rows

if TYPE_CHECKING:
    from pathlib import Path

    from rvertex.sources.spec import LatePolicy

ROWS = 6_000


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows that are increasingly late, by up to 3 ms at the end, in four row groups."""
    rng = np.random.default_rng(3)
    order = np.arange(ROWS)
    times = order * 100 - rng.integers(0, 1 + order // 2)
    path = tmp_path_factory.mktemp("late") / "clicks.parquet"
    pq.write_table(pa.table({"t": times, "n": order}), path, row_group_size=ROWS // 4)
    return path


@pytest.mark.parametrize("delay", one_in(2, ["0s", "1ms", "p50", "p90", "p99.9"]))
@pytest.mark.parametrize("late", ["drop", "adjust"])
def test_the_batch_uses_the_same_rows(clicks: Path, delay: str, late: LatePolicy) -> None:
    stream = Stream.from_parquet(str(clicks), vs="t", delay=delay, late=late)
    assert isinstance(stream.plan, Source)
    for parallelism in (1, 3):
        query = stream.to_parquet(cti_every=37)
        plan = lower(query, root="memory://late", parallelism=parallelism)
        mine = answer(plan)
        events, last_cti = source_events(stream.plan, parallelism, 37)
        assert sorted_rows(mine) == sorted_rows(events)
        items = pa.concat_batches(
            [
                i.batch
                for name, s in run_plan(plan).items()
                if not name.endswith("late-s01-clicks")
                for i in s
            ]
        )
        ctis = items.filter(pc.field(KIND) == CTI).column(VS)
        assert pc.max(ctis.filter(pc.less(ctis, INF_TIME))).as_py() == last_cti
        lost = ROWS - mine.num_rows
        if late == "drop" and delay != "p99.9":
            assert 0 < lost < ROWS


@pytest.mark.slow
def test_late_rows_do_not_depend_on_batch_boundaries(clicks: Path) -> None:
    stream = Stream.from_parquet(str(clicks), vs="t", delay="p90")
    plan = lower(stream.to_parquet(), root="memory://late", parallelism=2)
    ((side, pairs),) = plan.side_streams().items()
    assert side == "late/s01-clicks"
    found = []
    for rows_max in (1, 700, 100_000):
        streams = run_plan(plan, rows_max=rows_max)
        found.append([row for s, _ in pairs for i in streams[s] for row in i.batch.to_pylist()])
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 100


def test_percentiles_are_parsed_and_shown(clicks: Path) -> None:
    for written in ("p99", "p99.5", "p90"):
        stream = Stream.from_parquet(str(clicks), vs="t", delay=written)
        assert f"delay={written} " in stream.plan.describe()
    with pytest.raises(InvalidPlanError, match="between p0 and p100"):
        Stream.from_parquet(str(clicks), vs="t", delay="p100")
