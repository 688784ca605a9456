"""The shape of physical plans: stages, channels, partitioning, ids, limits, pickles.

Not covered: a well-formed but wrong plan; test_rules.py executes them.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from planner import InvalidPlanError, Query, Stream, agg, col, event, tumbling
from planner.logical.nodes import Source
from planner.physical.lower import lower
from rvertex.operators.joins.inner import TemporalJoin
from rvertex.operators.project import Project
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.sources.spec import SourceKind, SourceSpec, Streams, Topic, Unit
from tests.rooms import ROOT
from tests.support.plan_runner import answer
from tests.support.queries import QUERIES, bids, sales

if TYPE_CHECKING:
    from pathlib import Path

    from planner.physical.plan import PhysicalPlan


def plan_of(query: Query, parallelism: int = 2) -> PhysicalPlan:
    return lower(query, root="memory://job", parallelism=parallelism)


def shape(plan: PhysicalPlan) -> list[tuple[str, int, list[type]]]:
    return [
        (s.name, s.parallelism, [type(o) for o in plan.vertex(f"{s.name}.0").operators])
        for s in plan.stages
    ]


def test_an_aggregate_is_split_around_its_exchange() -> None:
    plan = plan_of(QUERIES["two_phases"](), parallelism=3)
    names = [(name, n) for name, n, _ in shape(plan)]
    assert names == [("s01-bids", 2), ("s02-agg", 3)]
    source, final = plan.vertex("s01-bids.1"), plan.vertex("s02-agg.2")
    assert [type(o) for o in source.operators] == [Project, PartialAggregate]
    assert source.source is not None
    assert str(source.source.spec.keep) == "(auction != 3)"
    assert isinstance(final.operators[0], FinalAggregate)
    (edge,) = source.outputs
    assert edge.streams == tuple(f"s01-bids.1--s02-agg.{j}" for j in range(3))
    assert edge.uris[0] == "memory://job/streams/s01-bids.1--s02-agg.0"
    assert edge.keys == ("auction",)
    assert edge.durability == "volatile"
    assert [c.stream for c in final.inputs] == ["s01-bids.0--s02-agg.2", "s01-bids.1--s02-agg.2"]
    (sink,) = final.outputs
    assert sink.is_sink
    assert sink.durability == "async"
    assert sink.streams == ("s02-agg.2--out",)
    assert sink.uris == ("memory://job/output/part-2-*",)
    assert plan.upstream("s02-agg.0") == ("s01-bids.0", "s01-bids.1")
    assert plan.downstream("s01-bids.0") == ("s02-agg.0", "s02-agg.1", "s02-agg.2")
    assert plan.ancestors("s02-agg.0") == {"s01-bids.0", "s01-bids.1"}
    assert plan.sink_streams()[1] == ("s02-agg.1--out", "memory://job/output/part-1-*")


def test_a_group_by_that_contains_the_join_key_needs_no_second_exchange() -> None:
    plan = plan_of(QUERIES["join_then_aggregate"]())
    assert [s.name for s in plan.stages] == ["s01-bids", "s02-sales", "s03-join"]
    join = plan.vertex("s03-join.0")
    assert [type(o) for o in join.operators] == [TemporalJoin, Project, WindowAggregate]
    assert [c.port for c in join.inputs] == [0, 0, 1, 1]
    assert {edge.durability for v in plan.vertices for edge in v.outputs if not edge.is_sink} == {
        "volatile"
    }


def test_a_group_by_without_the_join_key_is_exchanged_again() -> None:
    query = (
        bids().join(sales(), on="auction").group_by("tier").window(tumbling("20ms"))
        .agg(n=agg.count()).to_parquet()
    )  # fmt: skip
    plan = plan_of(query)
    assert [s.name for s in plan.stages] == ["s01-bids", "s02-sales", "s03-join", "s04-agg"]
    (edge,) = plan.vertex("s03-join.0").outputs
    assert (edge.keys, edge.durability) == (("tier",), "async")


def test_a_computed_key_is_exchanged() -> None:
    """After a cast, equal keys are still in one partition, but not in that of their hash."""
    query = (
        bids().join(sales(), on="auction")
        .with_columns(auction=col("auction") + 0)
        .group_by("auction").window(tumbling("20ms")).agg(n=agg.count()).to_parquet()
    )  # fmt: skip
    assert len(plan_of(query).stages) == 4


def test_both_sides_of_a_join_have_keys_of_one_type() -> None:
    plan = plan_of(QUERIES["join_then_aggregate"]())
    vertex = plan.vertex("s03-join.0")
    (join, *_) = vertex.operators
    assert isinstance(join, TemporalJoin)
    keys = (*join.left_on, *join.right_on)
    assert keys == ("auction", "auction as int64")
    assert {c.payload.field(keys[c.port]).type for c in vertex.inputs} == {pa.int64()}
    assert bids().join(sales(), on="auction").schema.field("auction").type == pa.int64()


def test_without_keys_there_is_one_vertex() -> None:
    plan = plan_of(QUERIES["without_keys"](), parallelism=4)
    assert plan.stages[-1].parallelism == 1
    (edge,) = plan.vertex("s01-bids.0").outputs
    assert (edge.streams, edge.keys) == (("s01-bids.0--s02-agg.0",), ())


def test_a_union_is_more_channels_on_one_port() -> None:
    plan = plan_of(QUERIES["union_then_aggregate"]())
    inputs = plan.vertex("s03-agg.0").inputs
    assert [c.stream.split("--")[0] for c in inputs] == [
        *("s01-bids.0", "s01-bids.1"),
        *("s02-sales.0", "s02-sales.1", "s02-sales.2"),
    ]
    assert {c.port for c in inputs} == {0}


def test_a_union_before_a_sink_reads_vertex_by_vertex() -> None:
    query = bids(partitions=3).select("auction").union(bids(partitions=1).select("auction"))
    plan = plan_of(query.to_parquet())
    assert [(s.name, s.parallelism) for s in plan.stages][2] == ("s03-union", 3)
    assert [len(plan.vertex(f"s03-union.{i}").inputs) for i in range(3)] == [2, 1, 1]


def test_a_shared_subplan_is_computed_once() -> None:
    plan = plan_of(QUERIES["self_join"]())
    assert [s.name for s in plan.stages].count("s02-sales") == 1
    assert len(plan.vertex("s02-sales.0").outputs) == 2
    once, again = bids(), bids()
    both = once.union(again).to_parquet()
    assert len(plan_of(both).stages) == 2, "equal subplans are one"
    streams = plan_of(both).vertex("s01-bids.0").output_streams
    assert streams == ("s01-bids.0--s02-union.0", "s01-bids.0--s02-union.0-1")
    assert answer(plan_of(both)).num_rows == 120


def test_one_partition_and_parallelism_one_need_no_exchange() -> None:
    query = (
        bids(partitions=1).group_by("auction").window(tumbling("20ms"))
        .agg(n=agg.count()).to_parquet()
    )  # fmt: skip
    assert len(plan_of(query, parallelism=1).stages) == 1
    assert len(plan_of(query, parallelism=2).stages) == 2


def test_a_join_without_exchanges_in_one_vertex() -> None:
    query = bids(partitions=1).join(sales(partitions=1), on="auction").to_parquet()
    plan = plan_of(query, parallelism=1)
    assert [s.name for s in plan.stages] == ["s01-bids", "s02-sales", "s03-join"]
    assert [i.routing for i in plan.stages[2].inputs] == ["forward", "forward"]


def test_a_source_has_at_most_one_partition_per_unit(tmp_path: Path) -> None:
    def discover(spec: SourceSpec) -> list[Unit]:
        return [Unit(f"{spec.path}/{k}") for k in range(3)]

    (tmp_path / "a.csv").write_text("t,x\n1,2\n")
    source = Stream.from_csv(str(tmp_path), vs="t", delay=0)
    for parallelism, partitions in ((1, 1), (2, 2), (3, 3), (8, 3)):
        plan = lower(source.to_parquet(), root="r", parallelism=parallelism, discover=discover)
        assert plan.stages[0].parallelism == partitions
    units = [v.source.units for v in plan.vertices if v.source is not None]
    assert [[u.path[-1] for u in us] for us in units] == [["0"], ["1"], ["2"]]
    explicit = Stream.from_csv(str(tmp_path), vs="t", delay=0, partitions=4).to_parquet()
    assert lower(explicit, root="r", discover=discover).stages[0].parallelism == 4


def test_the_cti_grid_divides_all_windows() -> None:
    def grid(query: Query, **kwargs: str) -> int:
        plan = lower(query, root="r", **kwargs)  # type: ignore[arg-type]
        sources = [v.source.spec.cti_every_us for v in plan.vertices if v.source is not None]
        assert set(sources) == {plan.cti_every_us}
        return plan.cti_every_us

    assert grid(QUERIES["two_phases"]()) == 10_000
    assert grid(QUERIES["aggregate_then_aggregate"]()) == 10_000
    assert grid(QUERIES["stateless"]()) == 1_000_000
    assert grid(bids().to_parquet(cti_every="5ms")) == 5_000
    assert grid(bids().to_parquet(), cti_every="7ms") == 7_000


def test_output_is_written_where_the_query_says() -> None:
    assert plan_of(bids().to_parquet()).output == "memory://job/output"
    plan = plan_of(bids().to_parquet("/data/out/"))
    assert plan.output == "/data/out"
    assert plan.sink_streams()[0][1] == "/data/out/part-0-*"
    assert plan_of(bids().to_rstream("s3://b/x")).output == "s3://b/x"


@pytest.mark.parametrize("name", QUERIES)
def test_plans_survive_pickling(name: str) -> None:
    plan = plan_of(QUERIES[name]())
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    assert again.plan_hash == plan.plan_hash
    again.validate()
    query = pickle.loads(pickle.dumps(QUERIES[name]()))
    assert plan_of(query) == plan


@pytest.mark.parametrize(("kind", "is_same"), [(Topic("json", ()), False), (Streams(), True)])
def test_the_start_of_a_log_is_in_the_hash_unless_it_is_the_first_row(
    kind: SourceKind, is_same: bool
) -> None:
    """Another start position of a topic means other rows.

    A stream simply starts after retention.
    """
    kept = pa.schema({"t": pa.int64()})
    topic = Stream.from_kafka("t", servers="b:1", schema=kept, vs="t", delay="1s")
    assert isinstance(topic.plan, Source)
    spec = replace(topic.plan.spec, kind=kind)
    stream = Stream(replace(topic.plan, spec=spec))
    plans = [
        lower(stream.to_parquet(), root="r", discover=lambda _, at=at: [Unit("t", first_seq=at)])
        for at in (0, 7)
    ]
    first, second = ([v.state_schema for v in plan.vertices] for plan in plans)
    assert (first == second) is is_same


def test_state_schemas_distinguish_plans_but_not_their_paths() -> None:
    here = plan_of(QUERIES["two_phases"]())
    there = lower(QUERIES["two_phases"](), root="/elsewhere")
    assert [v.state_schema for v in here.vertices] == [v.state_schema for v in there.vertices]
    assert here.plan_hash == there.plan_hash
    assert plan_of(QUERIES["two_phases"](), parallelism=3).plan_hash != here.plan_hash
    assert len({v.state_schema for v in here.vertices}) == len(here.vertices)


@pytest.mark.slow
def test_plans_are_the_same_in_every_process() -> None:
    code = (
        "import hashlib, pickle\n"
        "from planner.physical.lower import lower\n"
        "from planner.explain.text import explain\n"
        "from tests.support.queries import QUERIES\n"
        "for make in QUERIES.values():\n"
        "    plan = lower(make(), root='r')\n"
        "    print(plan.plan_hash, hashlib.sha256(explain(plan).encode()).hexdigest(),\n"
        "          *(v.id for v in plan.vertices), *(s for v in plan.vertices for s in\n"
        "          v.output_streams))\n"
    )
    own_seed = os.environ.get("PYTHONHASHSEED")
    there = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "2" if own_seed == "1" else "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    ).stdout
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(code, {})
    assert here.getvalue() == there
    assert len(there.splitlines()) == len(QUERIES)


def test_errors_of_limits_name_the_limit() -> None:
    with pytest.raises(InvalidPlanError, match="parallelism=0: must be between 1 and 256"):
        plan_of(bids().to_parquet(), parallelism=0)
    schema = {"k": "int64"}
    wide = Stream.from_items(schema, [event(0, k=1)], partitions=1024)
    query = wide.group_by("k").window(tumbling(1)).agg(n=agg.count()).to_parquet()
    with pytest.raises(InvalidPlanError, match="channels; the limit is"):
        plan_of(query, parallelism=65)
    with pytest.raises(InvalidPlanError, match=r"no vertex 's09-x\.0'"):
        plan_of(bids().to_parquet()).vertex("s09-x.0")
    with pytest.raises(InvalidPlanError, match="no stage 's09-x'"):
        plan_of(bids().to_parquet()).stage("s09-x")


def test_validate_finds_an_invalid_plan() -> None:
    plan = plan_of(QUERIES["two_phases"]())
    with pytest.raises((AssertionError, KeyError)):
        replace(plan, vertices=plan.vertices[1:]).validate()
    with pytest.raises(AssertionError):
        replace(plan, vertices=(*plan.vertices, plan.vertices[0])).validate()
