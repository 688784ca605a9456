"""Equal calls of a projection are computed once; ``item`` and ``SPLIT_PART``.

Not covered: a function whose value depends on the number of calls, which is not allowed.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import jobmanager
import planner
from planner import Stream, col, event, when
from planner.errors import ExpressionTypeError
from planner.expressions.nodes import Call, evaluate_all, resolve
from planner.sql.reading.errors import SqlError

BATCH = pa.record_batch({"s": ["a/b/c", "", None, "x", "//"], "n": [1, 2, 3, None, 5]})


def test_equal_calls_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    real = Call.computed

    def computed(self: Call, batch: Any) -> Any:
        counted.append(self.function)
        return real(self, batch)

    monkeypatch.setattr(Call, "computed", computed)
    parts = col("s").str.split("/")
    exprs = [
        parts.item(0),
        parts.item(2),
        when(parts.item(0) == "x").then(1).otherwise(2),
        col("n"),
    ]
    nodes = [resolve(e.node, BATCH.schema) for e in exprs]
    together = evaluate_all(nodes, BATCH)
    assert counted.count("split") == 1
    assert counted.count("item") == 2
    counted.clear()
    assert [a.to_pylist() for a in together] == [n.evaluate(BATCH).to_pylist() for n in nodes]


def test_items_of_lists() -> None:
    items = [col("s").str.split("/").item(k).evaluate(BATCH).to_pylist() for k in (0, 2)]
    assert items == [["a", "", None, "x", ""], ["c", None, None, None, ""]]
    sliced = col("s").str.split("/").item(0).evaluate(BATCH.slice(3))
    assert sliced.to_pylist() == ["x", ""]
    with pytest.raises(ExpressionTypeError, match="item"):
        col("n").item(0).output_type(BATCH.schema)
    last = col("s").str.split("/").item(-1).evaluate(BATCH.slice(3))
    assert last.to_pylist() == ["x", ""]


def test_split_part_returns_the_part_at_a_position_from_1() -> None:
    stream = Stream.from_items(
        {"s": "string"}, [event(k, s=s) for k, s in enumerate(["a/b", "", None, "/c"])]
    )
    parts = planner.sql("SELECT split_part(s, '/', 2) AS part FROM t", {"t": stream})
    assert isinstance(parts, Stream)
    assert [row["part"] for row in jobmanager.collect(parts).to_pylist()] == ["b", "", None, "c"]
    with pytest.raises(SqlError, match="counts positions from 1"):
        planner.sql("SELECT split_part(s, '/', 0) AS part FROM t", {"t": stream})
