"""``max_by`` of text stored as dictionaries: only the chosen rows are decoded.

Not covered: text without repeats, which is never a dictionary (``test_ranked.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobmanager
from planner import Stream, agg, tumbling
from planner.physical.lower import lower
from rstream.items.dictionaries import is_dictionary
from rvertex.operators.windows.hopping import PartialAggregate, WindowAggregate

if TYPE_CHECKING:
    from pathlib import Path

ROWS, WINDOW_US = 6_000, 500_000
WORDS = ["a", None, "", "of more words", "b"]
TABLE = pa.table(
    {
        "t": np.arange(ROWS) * 1_000 + np.random.default_rng(1).integers(0, 9_000, ROWS),
        "k": np.arange(ROWS) % 3,
        "n": pa.array([None if i % 7 == 0 else (i * i) % 101 for i in range(ROWS)], pa.int64()),
        "word": [WORDS[i % 5] for i in range(ROWS)],
    }
)


def best(rows: list[dict[str, Any]], sign: int) -> str | None:
    """The text of the row with the greatest or least number; on ties the first in time."""
    known = [row for row in rows if row["n"] is not None]
    found: str | None = min(known, key=lambda row: (-sign * row["n"], row["t"]))["word"]
    return found


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_the_result_and_the_input_of_windows(tmp_path: Path, keys: tuple[str, ...]) -> None:
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    rows = Stream.from_parquet(str(tmp_path), vs="t", delay="10ms")
    windows = (rows.group_by(*keys) if keys else rows).window(tumbling(WINDOW_US))
    found = windows.agg(
        most=agg.max_by("word", "n"), least=agg.min_by("word", "n"), known=agg.count("n")
    )
    groups: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for row in TABLE.to_pylist():
        key = (row["t"] // WINDOW_US * WINDOW_US, *(row[k] for k in keys))
        groups.setdefault(key, []).append(row)
    expected = [
        (*key, best(group, 1), best(group, -1), sum(row["n"] is not None for row in group))
        for key, group in sorted(groups.items())
    ]
    table = jobmanager.collect(found, executor="local").sort_by(
        [(name, "ascending") for name in ("_vs", *keys)]
    )
    names = ["_vs", *keys, "most", "least", "known"]
    assert [tuple(row[n] for n in names) for row in table.to_pylist()] == expected

    plan = lower(found.to_parquet(), root="memory://ranked", parallelism=2)
    source = plan.vertex(plan.topological_order()[0])
    assert source.source is not None
    payloads = [source.source.spec.schema]
    for operator in source.operators:
        if isinstance(operator, PartialAggregate | WindowAggregate):
            break
        payloads.append(operator.output_schema(payloads[-1:]))
    structs = [kind for kind in payloads[-1].types if pa.types.is_struct(kind)]
    assert [is_dictionary(kind.field("value").type) for kind in structs] == [True]
    assert not any(is_dictionary(kind) for kind in source.output_payload.types)
