"""Estimates against real plans, hints, recommended parallelism, and flushed channels.

Not covered: constants that are wrong by a factor; benchmarks/ measures them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner import InvalidPlanError, Stream, agg, col, event, lit, tumbling
from planner.cost import per_row
from planner.cost.model import ROWS_ASSUMED, Estimate, estimates
from planner.cost.selectivity import selectivity
from planner.cost.statistics import Discovery, Statistics
from planner.expressions.nodes import resolve
from planner.logical.nodes import Source
from planner.optimizer.optimizer import RULES
from planner.physical.lower import lower
from planner.physical.sizing import RECOMMENDED_MAX
from planner.quantities import format_bytes, format_count, format_seconds
from rstream.types import INF_TIME
from rvertex.errors import SourceSchemaError
from rvertex.sources.discover import discover
from rvertex.sources.formats.registry import FORMATS
from rvertex.sources.statistics import SAMPLE_ROWS, SourceStatistics, statistics_of
from tests.support.budget import one_in
from tests.support.plan_runner import answer, run_plan, sorted_rows
from tests.support.queries import QUERIES, bids

if TYPE_CHECKING:
    from pathlib import Path

    from planner.physical.plan import PhysicalPlan, StageCost


def estimate_of(stream: Stream) -> Estimate:
    known = Discovery(discover).statistics(stream.plan, statistics_of)
    return estimates(stream.plan, known)[stream.plan]


def cost(plan: PhysicalPlan, stage: int) -> StageCost:
    found = plan.stages[stage].cost
    assert found is not None
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of 20,000 rows, one row per millisecond; 50 users, and a name per row."""
    for k in range(2):
        rows = range(k * 20_000, (k + 1) * 20_000)
        columns = {
            "t": pa.array([i * 1_000 for i in rows], pa.int64()),
            "end": pa.array([i * 1_000 + 5_000 for i in rows], pa.int64()),
            "user": pa.array([i % 50 for i in rows], pa.int32()),
            "name": [f"name-{i:06d}" for i in rows],
        }
        pq.write_table(pa.table(columns), tmp_path / f"{k}.parquet", row_group_size=5_000)
    return tmp_path


def files(folder: Path) -> Stream:
    return Stream.from_parquet(str(folder), vs="t", ve="end")


# ---- what is known of sources


def test_files_provide_rows_time_span_and_distinct_values(folder: Path) -> None:
    found = estimate_of(files(folder))
    assert (found.rows, found.span_s, found.lifetime_us) == (40_000, 39.999001, 5_000)
    assert found.rows_per_s == pytest.approx(1_000, rel=0.01)
    assert found.distinct["user"] == 50
    assert found.distinct["name"] == pytest.approx(12_800, rel=0.1), "from a sample of 4,096"
    assert found.column_bytes["user"] == pytest.approx(4, rel=0.1)
    assert found.column_bytes["name"] == pytest.approx(15, rel=0.1)
    assert not found.is_assumed


def test_rows_of_text_files_are_extrapolated(tmp_path: Path) -> None:
    lines = [f"{i},{i % 7}" for i in range(100_000, 120_000)]
    (tmp_path / "a.csv").write_text("\n".join(["t,x", *lines, ""]))
    found = estimate_of(Stream.from_csv(str(tmp_path / "a.csv"), vs="t"))
    assert found.rows == pytest.approx(20_000, rel=0.05)
    assert found.span_s == pytest.approx(0.02, rel=0.05)
    few = tmp_path / "b.csv"
    few.write_text("t,x\n1,1\n2,2\n")
    assert estimate_of(Stream.from_csv(str(few), vs="t")).rows == 2


def test_parquet_metadata_provides_them_without_reading_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    found = estimate_of(Stream.from_parquet(str(tmp_path), vs="t"))
    assert (found.rows, found.is_assumed) == (0, False)


def test_unreadable_statistics_are_assumed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n1,1\n")
    stream = Stream.from_csv(str(path), vs="t", schema={"x": "int64"})
    path.unlink()
    assert isinstance(stream.plan, Source)
    assert statistics_of(stream.plan.spec, ()) is not None, "no unit, no rows"
    found = estimates(stream.plan, Statistics())[stream.plan]
    assert (found.rows, found.is_assumed) == (ROWS_ASSUMED, True)


def test_the_same_files_give_the_same_statistics(folder: Path) -> None:
    plan = files(folder).plan
    assert isinstance(plan, Source)
    found = [statistics_of(plan.spec, discover(plan.spec)) for _ in range(2)]
    assert isinstance(found[0], SourceStatistics)
    assert found[0] == found[1]
    assert found[0].sample_rows == SAMPLE_ROWS


# ---- hints


def test_hints_override_statistics_of_files(folder: Path) -> None:
    hinted = files(folder).hint(rate=5_000, keys={"name": 40_000}).hint(keys={"user": 60})
    found = estimate_of(hinted)
    assert found.rows_per_s == pytest.approx(5_000)
    assert (found.distinct["name"], found.distinct["user"]) == (40_000, 60)
    without = lower(files(folder).to_parquet(technical_columns=True), root="r")
    states = [
        v.state_schema for v in lower(hinted.to_parquet(technical_columns=True), root="r").vertices
    ]
    assert states == [v.state_schema for v in without.vertices], "hints are no part of the meaning"


def test_a_declared_max_duration_is_checked(folder: Path) -> None:
    good = files(folder).hint(max_duration=5_000).select("user").to_parquet()
    assert answer(lower(good, root="r")).num_rows == 40_000
    wrong = files(folder).hint(max_duration=4_999).select("user").to_parquet()
    with pytest.raises(
        Exception, match="has a lifetime longer than 4999 us, the declared max_duration"
    ):
        answer(lower(wrong, root="r"))
    items = Stream.from_items({"k": "int64"}, [event(0, 9, k=1)])
    with pytest.raises(InvalidPlanError, match="max_duration=8us\\): an event lasts 9us"):
        items.hint(max_duration=8)


def test_an_endless_lifetime_from_before_1970_exceeds_the_declared_maximum(
    tmp_path: Path,
) -> None:
    """The length would overflow int64 and become negative."""
    table = pa.table({"t": [-5], "e": [INF_TIME], "k": [1]})
    pq.write_table(table, tmp_path / "a.parquet")
    read = Stream.from_parquet(str(tmp_path / "a.parquet"), vs="t", ve="e")
    with pytest.raises(
        Exception, match="has a lifetime longer than 9 us, the declared max_duration"
    ):
        answer(lower(read.hint(max_duration=9).to_parquet(), root="r"))
    items = Stream.from_items({"k": "int64"}, [event(-5, INF_TIME, k=1)])
    with pytest.raises(InvalidPlanError, match="an event lasts"):
        items.hint(max_duration=9)
    with pytest.raises(InvalidPlanError, match="would lack the ends of events"):
        items.to_parquet(end=None)


def test_every_kind_of_operator_has_a_cost() -> None:
    found = {name: value for name, value in vars(per_row).items() if name.isupper()}
    rates = {k: v for k, v in found.items() if isinstance(v, float)}
    rates |= {name: format.row_us for name, format in FORMATS.items()}
    assert len(rates) > 20
    assert not [name for name, rate in rates.items() if not 0 < rate < float("inf")]


def test_wrong_hints_are_named() -> None:
    with pytest.raises(InvalidPlanError, match=r"call it directly on Stream\.from_parquet"):
        bids().filter(col("price") > 1).hint(rate=3)
    with pytest.raises(InvalidPlanError, match=r"hint\(rate=0\): must be a positive number"):
        bids().hint(rate=0)
    for rate in (1, 0.5):
        slow = bids().hint(rate=rate).plan
        assert isinstance(slow, Source)
        assert slow.hints.rate_per_s == rate
    with pytest.raises(InvalidPlanError, match="no column 'pric' in hint"):
        bids().hint(keys={"pric": 3})
    with pytest.raises(InvalidPlanError, match=r"hint\(keys={'price': 0}\)"):
        bids().hint(keys={"price": 0})


# ---- estimates


@pytest.mark.parametrize("name", ["two_phases", "aggregate_then_join", "union_to_sink", "words"])
def test_estimates_are_near_the_actual_numbers(name: str) -> None:
    plan = lower(QUERIES[name](), root="r")
    rows = answer(plan).num_rows
    assert rows / 10 <= cost(plan, -1).rows_out <= rows * 10


def test_estimated_state_follows_lifetimes_and_rates() -> None:
    def state(lifetime_us: int, rate: float) -> float:
        rows = [event(i * 1_000, i * 1_000 + lifetime_us, k=i % 3) for i in range(100)]
        stream = Stream.from_items({"k": "int64"}, rows, partitions=2).hint(rate=rate)
        plan = lower(stream.join(stream, on="k").to_parquet(), root="r")
        return cost(plan, -1).state_bytes

    assert state(2_000, 1_000) == pytest.approx(2 * state(1_000, 1_000))
    assert state(1_000, 2_000) == pytest.approx(2 * state(1_000, 1_000))


@pytest.mark.parametrize("ends", [(9_000, 4_000), (4_000, 9_000)])
def test_estimated_pairs_live_as_long_as_both_rows_and_left_rows_as_themselves(
    ends: tuple[int, int],
) -> None:
    left, right = (
        Stream.from_items({"k": "int64"}, [event(i, i + us, k=i % 3) for i in range(0, 90_000, 50)])
        for us in ends
    )
    found = {how: estimate_of(left.join(right, on="k", how=how)) for how in ("inner", "left")}
    assert found["inner"].lifetime_us == pytest.approx(min(ends))
    assert found["left"].lifetime_us == pytest.approx(ends[0])


def test_frames_of_rows_keep_their_number_of_rows_per_key() -> None:
    def state(rows: int, keys: int) -> float:
        events = [event(i, i + 1, k=i % keys) for i in range(1_000)]
        stream = Stream.from_items({"k": "int64"}, events).hint(keys={"k": keys})
        frames = stream.group_by("k").rolling(rows=rows).with_columns(n=agg.count())
        return cost(lower(frames.to_parquet(), root="r"), -1).state_bytes

    assert state(21, 5) == pytest.approx(2 * state(11, 5)), "besides the row itself"
    assert state(21, 10) == pytest.approx(2 * state(21, 5))


def test_estimated_state_does_not_exceed_the_input() -> None:
    day = bids().group_by("auction").window(tumbling("1d")).agg(mid=agg.quantile("price", 0.5))
    plan = lower(day.to_parquet(), root="r")
    assert 0 < cost(plan, 1).state_bytes <= cost(plan, 0).bytes_out


@pytest.mark.parametrize(
    ("predicate", "share"),
    [
        (col("k") == 3, 1 / 20),
        (col("k") != 3, 19 / 20),
        ((col("k") == 3) & (col("k") == 4), 1 / 400),
        ((col("k") == 3) | (col("k") == 4), 1 / 10 - 1 / 400),
        (~(col("k") == 3), 19 / 20),
        (col("k").is_in([1, 2, 3]), 3 / 20),
        (col("unknown") == 1, 1 / 10),
        (col("unknown") > 1, 1 / 3),
        (lit(True), 1),
        (lit(False), 0),
    ],
    ids=str,
)
def test_the_selectivity_of_a_predicate_is_estimated(predicate: object, share: float) -> None:
    schema = pa.schema({"k": pa.int64(), "unknown": pa.int64()})
    node = resolve(predicate.node, schema)  # type: ignore[attr-defined]
    assert selectivity(node, {"k": 20.0}) == pytest.approx(share)


# ---- what follows for stages


def pretended(folder: Path, *, rows: int, span_s: float, parallelism: int | str) -> PhysicalPlan:
    """The plan with estimates for this number of rows; the files are not read."""

    def look(spec: object, units: object) -> SourceStatistics:
        found = statistics_of(spec, units)  # type: ignore[arg-type]
        assert found is not None
        return replace(found, rows=rows, first_us=0, last_us=int(span_s * 1e6))

    stream = files(folder).hint(keys={"user": 1_000})
    query = stream.group_by("user").window(tumbling("1s")).agg(mid=agg.quantile("t", 0.5))
    return lower(
        query.to_parquet(),
        root="r",
        parallelism=parallelism,  # type: ignore[arg-type]
        look=look,
    )


def test_little_work_needs_one_vertex(folder: Path) -> None:
    plan = pretended(folder, rows=40_000, span_s=40, parallelism="auto")
    assert [s.parallelism for s in plan.stages] == [1, 1]
    assert cost(plan, -1).why == "one vertex does"


def test_auto_gives_every_stage_the_vertices_it_needs(folder: Path) -> None:
    plan = pretended(folder, rows=400_000_000, span_s=100_000, parallelism="auto")
    widths = [s.parallelism for s in plan.stages]
    assert widths == [cost(plan, k).recommended_parallelism for k in range(2)]
    assert widths[1] > widths[0] > 1, "the second stage works harder"
    assert "of work" in cost(plan, 1).why
    assert plan.parallelism == max(widths)
    plan.validate()
    fast = pretended(folder, rows=4_000_000_000, span_s=10, parallelism="auto")
    assert fast.stages[0].parallelism == 8, "as many as there are row groups"
    assert cost(fast, 0).why == "there are 8 pieces to read"
    assert fast.stages[1].parallelism == RECOMMENDED_MAX
    fixed = pretended(folder, rows=400_000_000, span_s=10, parallelism=3)
    assert [s.parallelism for s in fixed.stages] == [3, 3]


@pytest.mark.parametrize("name", one_in(3, sorted(QUERIES)))
def test_the_result_is_the_same_for_any_widths(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage gets its own parallelism, except stages that must agree on their keys."""
    monkeypatch.setattr("planner.physical.sizing.WORK_S_MAX", 2e-6)
    query = QUERIES[name]()
    plan = lower(query, root="r", parallelism="auto")
    expected = answer(lower(query, root="r", parallelism=1))
    assert sorted_rows(answer(plan)) == sorted_rows(expected)


def test_a_join_and_its_inputs_have_equal_numbers_of_vertices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("planner.physical.sizing.WORK_S_MAX", 3e-6)
    plan = lower(QUERIES["aggregate_then_join"](), root="r", parallelism="auto")
    forward = {
        (plan.stage(edge.upstream).parallelism, stage.parallelism)
        for stage in plan.stages
        for edge in stage.inputs
        if edge.routing == "forward" and not plan.stage(edge.upstream).reads
    }
    assert all(a == b for a, b in forward), forward
    assert max(s.parallelism for s in plan.stages) > 2


def test_few_rows_after_expensive_work_are_flushed(folder: Path) -> None:
    def plan(rows: int) -> PhysicalPlan:
        def look(spec: object, units: object) -> SourceStatistics:
            found = statistics_of(spec, units)  # type: ignore[arg-type]
            assert found is not None
            return replace(found, rows=rows, first_us=0, last_us=10**9)

        query = files(folder).window(tumbling("100s")).agg(n=agg.count()).to_parquet()
        return lower(query, root="r", parallelism=1, look=look)

    def durability(rows: int) -> tuple[str, str]:
        edge = plan(rows).stages[1].inputs[0]
        return edge.durability, edge.reason

    assert durability(10_000) == ("volatile", "cheap to recompute from the source")
    assert durability(10**9)[0] == "async"
    assert "flushing costs less" in durability(10**9)[1]


def test_costs_do_not_depend_on_disabled_rules() -> None:
    query = QUERIES["two_phases"]()
    for rules in (RULES, RULES[1:]):
        plan = lower(query, root="r", rules=rules)
        assert all(stage.cost is not None for stage in plan.stages)
        assert run_plan(plan)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_count(0), "0"),
        (format_count(4.8), "4.8"),
        (format_count(999), "999"),
        (format_count(1_234_567), "1.23M"),
        (format_bytes(2048), "2 KiB"),
        (format_bytes(3.5 * 2**30), "3.5 GiB"),
        (format_seconds(0.0000035), "3.5 us"),
        (format_seconds(0.25), "250 ms"),
        (format_seconds(90), "1.5 min"),
    ],
)
def test_quantities_are_shown_with_readable_units(text: str, expected: str) -> None:
    assert text == expected


# ---- what is said of files that are not like the first


def test_each_use_of_a_source_has_its_own_notes(tmp_path: Path) -> None:
    """Two uses of the same files have separate notes: they read different columns."""
    rows = "".join(f"{n},{n},{n}\n" for n in range(300))
    (tmp_path / "a.csv").write_text(f"t,x,y\n{rows}300,300,many\n")
    # Different delays, so that the plan reads the file twice.
    one, other = (Stream.from_csv(str(tmp_path), vs="t", delay=delay) for delay in ("1s", "2s"))
    first, second = one.select("x"), other.select(x=col("y").str.length())
    assert lower(first.to_parquet(), root="r").notes == ()
    (note,) = lower(first.union(second).to_parquet(), root="r").notes
    assert "column 'y' is text because of line 302" in note


def test_each_use_of_a_source_is_checked_by_its_own_types(tmp_path: Path) -> None:
    """Two uses of a source are checked separately: only the first one converts the column."""
    for n, kind in enumerate([pa.bool_(), pa.string()]):
        columns = {"t": pa.array([n]), "x": pa.array([n]), "y": pa.array([1]).cast(kind)}
        pq.write_table(pa.table(columns), tmp_path / f"{n}.parquet")
    converted, plain = (
        Stream.from_parquet(str(tmp_path), vs="t", delay="1s", schema=schema).select("x")
        for schema in ({"y": "string"}, None)
    )
    lower(converted.to_parquet(), root="r")
    with pytest.raises(SourceSchemaError, match="column 'y': it is string here, but bool"):
        lower(converted.union(plain).to_parquet(), root="r")
