"""The properties of every logical node, for an example of each class.

Not covered: a node that declares too few needed columns or too many kept ones; random plans
(tests/planner/test_random_plans.py) do.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from planner import KeyedContext, KeyedProcess, Stream, agg, col, event, session, tumbling
from planner.logical import nodes
from planner.logical.nodes import Exchange, Extremes, LogicalNode, Sinks
from planner.logical.traversal import topological

_FIELDS = {"k": "int64", "x": "int64", "l": pa.list_(pa.int64())}
ROWS = Stream.from_items(_FIELDS, [event(1, k=1, x=2, l=[3])], partitions=2)


class _Count(KeyedProcess):
    """Emits the number of events so far."""

    output = {"n": "int64"}  # noqa: RUF012
    n: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        ctx.emit(self.n)


_STREAMS = (
    ROWS.group_by("k").window(tumbling("1mo", zone="Europe/Oslo")).agg(n=agg.count()),
    ROWS.filter(col("x") > 1).explode("l"),
    ROWS.select("k", "x").union(ROWS.select("k", x=col("x") + 1)),
    ROWS.join(ROWS.for_ever().select("k"), on="k"),
    ROWS.join(ROWS.select("k"), on="k", within=(0, 5)),
    ROWS.clip(ROWS.shift(1), on="k").stitch("k"),
    ROWS.join_asof(ROWS.select("k"), by="k"),
    ROWS.group_by("k").window(tumbling(4)).agg(n=agg.count(), m=agg.max("x")),
    ROWS.group_by("k").window(session(4)).agg(n=agg.count()),
    ROWS.group_by("k").process(_Count),
    ROWS.recover_with("checkpoint"),
    ROWS.sort("x").limit(2),
    ROWS.deduplicate("k", within=5),
    ROWS.match("A B", partition_by="k", define={"A": col("x") > 1}, measures={"n": col("x")}),
    ROWS.group_by("k").rolling(rows=3).with_columns(n=agg.count(), m=agg.max("x")),
)
_PLACED = (
    Exchange(ROWS.plan, ("k",)),
    Extremes(ROWS.plan, "x", is_max=True),
    Sinks(tuple(stream.to_parquet().plan for stream in _STREAMS[1:3])),
)
EXAMPLES = {
    type(node).__name__: node
    for plan in (*(stream.to_parquet().plan for stream in _STREAMS), *_PLACED)
    for node in topological(plan)
}


def classes(base: type) -> set[str]:
    """The concrete subclasses of ``base``."""
    below = set[str]().union(*(classes(sub) for sub in base.__subclasses__()))
    is_base = getattr(base, "__abstractmethods__", None)
    return below if is_base else below | {base.__name__}


def test_every_node_is_public_and_has_an_example() -> None:
    found = classes(LogicalNode)
    assert found <= set(vars(nodes))
    assert found == set(EXAMPLES)


@pytest.mark.parametrize("node", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_a_node_describes_itself(node: LogicalNode) -> None:
    assert node.with_inputs(node.inputs) == node
    assert node.describe() == node.describe().strip() != ""
    assert len(node.input_keys) == len(node.inputs)
    for child, keys in zip(node.inputs, node.input_keys, strict=True):
        assert set(keys or ()) <= set(child.schema.names)
    if node.keeps_lifetimes:
        assert node.is_point == node.inputs[0].is_point


@pytest.mark.parametrize("node", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_a_node_returns_the_requested_columns(node: LogicalNode) -> None:
    for wanted in ({"k"}, {"k", "x"}, set(node.schema.names)):
        needed = node.columns_needed(wanted & set(node.schema.names))
        assert len(needed) == len(node.inputs)
        for child, columns in zip(node.inputs, needed, strict=True):
            assert columns <= set(child.schema.names)
        narrowed = node.narrowed(node.inputs, wanted)
        assert type(narrowed) is type(node)
        assert wanted & set(node.schema.names) <= set(narrowed.schema.names)
    assert node.narrowed(node.inputs, set(node.schema.names)).schema.equals(node.schema)


@pytest.mark.parametrize(("name", "outputs"), [("WindowAgg", "nm"), ("Over", ("over_n", "over_m"))])
def test_one_of_several_unused_aggregates_is_kept(name: str, outputs: tuple[str, str]) -> None:
    """At least one aggregate must stay: without any there would be no windows."""
    node = EXAMPLES[name]
    first, second = outputs
    for wanted, left in (({"k"}, {first}), ({second}, {second}), ({*outputs}, {*outputs})):
        narrowed = node.narrowed(node.inputs, wanted)
        assert {a.output for a in narrowed.aggregates} == left  # type: ignore[attr-defined]
