"""Every operator, and whole queries, as a stream and as a Spark batch.

Not covered: an error that both share (such as one in the source readers), or the order of rows.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, assume, given
from typer.testing import CliRunner

import jobmanager
from jobmanager.cli.main import app
from jobmanager.driver.running.batch.validate import compare
from planner import (
    Stream,
    agg,
    asc,
    col,
    count_window,
    desc,
    event,
    hopping,
    list_of,
    lit,
    session,
    snapshot,
    struct,
    tumbling,
)
from planner.batch.spark_sql import BatchDataError, UnsupportedInBatchError
from rstream import read_events
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import LateRowError, SumOverflowError, UnboundedLifetimeError
from tests.spark.batches import MASTER, assert_twins, batched, streamed
from tests.support.budget import examples
from tests.support.queries import QUERIES
from tests.support.random_plans import Spread, streams
from tests.support.temporal_queries import TEMPORAL_QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.logical.windows import AnyWindow


pytestmark = pytest.mark.spark
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NAN = math.nan
SCHEMA = {"k": "string", "g": "float64", "n": "int64", "x": "float64", "t": "timestamp"}


class Newest(Spread):
    """An aggregate whose values and result are times."""

    type = pa.timestamp("us")

    def result(self, state: list[int]) -> int | None:
        return max(state, default=None)


def events(spans: bool) -> Stream:
    """Forty events around time zero with ties, nulls, NaN and both zeros; points or intervals."""
    groups = [0.0, -0.0, NAN, None, 1.5]
    values = [0.5, None, NAN, -2.25, math.inf, 3.0, 1e-3, -0.0]
    items = [
        event(
            i // 2 * 3 - 30,
            i // 2 * 3 - 29 + (i * 7 % 23 if spans else 0),
            k=None if i % 6 == 5 else f"k{i % 3}",
            g=groups[i * 3 % 5],
            n=None if i % 7 == 3 else i * 37 % 19 - 9,
            x=values[i * 5 % 8] if i < 30 else float(i),
            t=i * 1_000_003 - 20_000_000 if i % 4 else None,
        )
        for i in range(40)
    ]
    return Stream.from_items(SCHEMA, items, partitions=2)


def placeless(stream: Stream) -> Stream:
    """The same events after a step after which a batch no longer knows their order."""
    return stream.union(stream.filter(lit(False)))


ALL = {
    "rows": agg.count(),
    "values": agg.count("n"),
    "sum_n": agg.sum("n"),
    "sum_x": agg.sum("x"),
    "mean_n": agg.mean("n"),
    "mean_x": agg.mean(col("x") + 1),
    "min_n": agg.min("n"),
    "max_x": agg.max("x"),
    "min_x": agg.min("x"),
    "max_k": agg.max("k"),
    "min_t": agg.min("t"),
    "any": agg.max(col("n") > 5),
    "odd": agg.sum(col("n") % 2 == 1),
}


@pytest.mark.parametrize("spans", [False, True], ids=["points", "spans"])
@pytest.mark.parametrize("keys", [[], ["k"], ["g", "k"]], ids=lambda keys: "-".join(keys) or "all")
def test_windows_have_the_same_rows_as_a_batch(spans: bool, keys: list[str]) -> None:
    grouped = events(spans).group_by(*keys)
    windows = [tumbling(10), hopping(10, 5), hopping(7, 3), hopping(4, 6), hopping(1, 1)]
    made = [
        grouped.window(window).agg(**ALL).with_columns(window=lit(number))
        for number, window in enumerate(windows)
    ]
    assert_twins(made[0].union(*made[1:]))


MORE = {
    "spread": agg.variance("n"),
    "whole": agg.variance("x", ddof=0),
    "deviation": agg.stddev(col("x") + 1, ddof=3),
    "product": agg.product("n"),
    "kinds_g": agg.count_distinct("g"),
    "kinds_k": agg.count_distinct("k"),
    "top_x": agg.top_k("x", 3),
    "top_t": agg.top_k("t", 1),
    "low": agg.quantile("n", 0.3),
    "high": agg.quantile("x", 0.9),
    "often_g": agg.mode("g"),
    "often_k": agg.mode("k"),
    "user": agg.user(Spread(), "n"),
    "latest": agg.user(Newest(), "t"),
    "best": agg.max_by(col("n") % 3, "x"),
    "worst": agg.min_by(lit("same"), "g"),
}
WINDOWS: list[AnyWindow] = [hopping(9, 4, offset=2), snapshot(), session(3), session(4, max=11)]


@pytest.mark.parametrize("keys", [[], ["g", "k"]], ids=["all", "g-k"])
def test_all_windows_and_aggregates(keys: list[str]) -> None:
    stream = events(spans=True).filter(col("x").is_null() | (col("x") < 1e300))
    more = MORE if keys else {"spread": MORE["spread"]}
    made = [
        stream.group_by(*keys).window(window).agg(n=agg.count(), **more).with_columns(w=lit(number))
        for number, window in enumerate(WINDOWS)
    ]
    assert assert_twins(made[0].union(*made[1:])).num_rows > 20


@pytest.mark.parametrize("keys", [[], ["g", "k"]], ids=["all", "g-k"])
def test_growing_sessions_have_the_same_rows_as_a_batch(keys: list[str]) -> None:
    stream = events(spans=True).filter(col("x").is_null() | (col("x") < 1e300))
    whole = ("low", "high", "often_g", "often_k", "user", "latest")
    more = {name: one for name, one in MORE.items() if name not in whole}
    windows = (session(3, running=True), session(4, max=11, running=True))
    made = [
        stream.group_by(*keys).window(w).agg(n=agg.count(), **more).with_columns(w=lit(number))
        for number, w in enumerate(windows)
    ]
    assert assert_twins(made[0].union(*made[1:])).num_rows > 20


def test_count_windows_need_an_order_to_run_as_a_batch() -> None:
    apart = events(spans=True).with_columns(i=col("n")).filter(col(VS) % 2 == 0)
    alone = [event(i * 3, i * 3 + i % 5 + 1, k=i % 3, n=i * 7 % 11) for i in range(40)]
    stream = Stream.from_items({"k": "int64", "n": "int64"}, alone, partitions=3)
    for count in (1, 3):
        made = stream.group_by("k").window(count_window(count))
        assert assert_twins(made.agg(n=agg.sum("n"), last=agg.last("n"))).num_rows > 10
    together = placeless(apart).window(count_window(3)).agg(n=agg.count())
    with pytest.raises(BatchDataError, match="their order is known to the stream only"):
        batched(together)


def test_data_windows_of_endless_events() -> None:
    items = [event(0, INF_TIME, k=1), event(3, 9, k=1), event(20, 30, k=2), event(40, INF_TIME)]
    stream = Stream.from_items({"k": "int64"}, items).group_by("k")
    for window in (
        snapshot(),
        session(5),
        session(5, max=7),
        session(col("k"), max=9),
        session(5, max=7, running=True),
    ):
        assert_twins(stream.window(window).agg(n=agg.count()))


def test_stitches_have_the_same_rows_unless_rows_start_together() -> None:
    stream = events(spans=True)
    assert_twins(stream.select("g", "k").stitch())
    assert_twins(stream.select("g", "k", one=lit(1)).stitch(["g", "k"]))
    tied = [event(1, 5, k=1, a=1), event(1, 3, k=1, a=2), event(3, 9, k=2, a=3)]
    together = placeless(Stream.from_items({"k": "int64", "a": "int64"}, tied))
    assert streamed(together.stitch("k")).num_rows == 2
    with pytest.raises(BatchDataError, match="start together with different values"):
        batched(together.stitch("k"))


@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_joins_with_conditions_have_the_same_rows_as_a_batch(how: str) -> None:
    left = events(spans=True).select("k", "g", "n")
    right = events(spans=True).shift(2).select("k", "g", m=col("n"))
    for where in (col("n") < col("m"), col("n") > 2, (col("m") - col("n")) % 2 == 0):
        assert assert_twins(left.join(right, on="k", how=how, where=where)).num_rows > 0


def test_first_and_last_follow_time() -> None:
    at = col(VS) % 2 == 0
    some = events(spans=True).filter(at).with_columns(same=lit("same"), start=col(VS))
    made = some.group_by("k").window(hopping(10, 5)).agg(
        start=agg.first("start"), end=agg.last("start"), same=agg.last("same"),
    )  # fmt: skip
    assert_twins(made)
    items = [event(i * 7 - 20, i * 7 - 5, n=None if i % 3 == 0 else i) for i in range(9)]
    apart = Stream.from_items({"n": "int64"}, items)
    assert_twins(apart.window(hopping(20, 10)).agg(a=agg.first("n"), b=agg.last("n")))


@pytest.mark.parametrize("pick", [agg.first, agg.last], ids=["first", "last"])
def test_an_ambiguous_first_or_last_is_rejected(pick: Callable[[str], Any]) -> None:
    items = [event(1, 9, n=1), event(1, 9, n=None), event(1, 9, n=1)]
    made = placeless(Stream.from_items({"n": "int64"}, items))
    stream = made.window(tumbling(10)).agg(n=pick("n"))
    assert streamed(stream).num_rows == 1
    with pytest.raises(BatchDataError, match="several events of a window start together"):
        batched(stream)


def test_windows_at_the_ends_of_time() -> None:
    last = INF_TIME - 1
    items = [event(MIN_TIME), event(MIN_TIME, MIN_TIME + 20), event(last - 15, last), event(0)]
    stream = Stream.from_items({"n": "int64"}, items)
    for window in (tumbling(7), hopping(10, 3), hopping(3, 10), tumbling(INF_TIME // 2)):
        assert_twins(stream.window(window).agg(n=agg.count()))


def test_endless_lifetimes_in_windows_are_rejected_by_both() -> None:
    items = [event(0, INF_TIME, n=1)]
    stream = Stream.from_items({"n": "int64"}, items).window(tumbling(10)).agg(n=agg.count())
    with pytest.raises(UnboundedLifetimeError):
        streamed(stream)
    with pytest.raises(BatchDataError, match="more than 1000000 windows"):
        batched(stream)


def test_sums_that_overflow_are_rejected_by_both() -> None:
    items = [event(i, n=2**62) for i in range(3)]
    whole = Stream.from_items({"n": "int64"}, items).window(tumbling(10))
    with pytest.raises(SumOverflowError):
        streamed(whole.agg(n=agg.sum("n")))
    with pytest.raises(BatchDataError, match=r"sum\(n\)"):
        batched(whole.agg(n=agg.sum("n")))


def test_joins_have_the_same_rows_as_a_batch() -> None:
    left = events(spans=False).select("k", "g", "n")
    right = events(spans=True).select("k", "g", m=col("x"))
    on_null_and_nan = left.join(right, on="g")
    on_both = left.join(right, on=["k", "g"])
    across = left.join(right, left_on="n", right_on="g")
    itself = right.join(right, on="k").filter(col("m") < col("m_right"))
    for joined in (on_null_and_nan, on_both, across, itself):
        assert assert_twins(joined).num_rows > 0


def test_joins_of_long_and_touching_lifetimes() -> None:
    left = [event(MIN_TIME, INF_TIME, k=1, a="all"), event(-5, 0, k=1, a="before")]
    left += [event(i * 10, i * 10 + 10, k=i % 2, a=f"a{i}") for i in range(12)]
    right = [event(0, 10, k=1, b="b0"), event(110, INF_TIME, k=1, b="end"), event(9, k=1, b="p")]
    right += [event(i * 15 - 60, i * 15 - 59, k=i % 3, b=f"p{i}") for i in range(10)]
    joined = Stream.from_items({"k": "int64", "a": "string"}, left).join(
        Stream.from_items({"k": "int32", "b": "string"}, right, partitions=3), on="k"
    )
    assert assert_twins(joined).num_rows == 7


CHANGES: dict[str, Callable[[Stream], Stream]] = {
    "later": lambda s: s.shift(7),
    "earlier": lambda s: s.shift(-7),
    "length": lambda s: s.set_duration(5),
    "longer": lambda s: s.extend(4),
    "shorter": lambda s: s.extend(-4),
    "ends": lambda s: s.point_at_end(),
    "chop": lambda s: s.chop(6),
    "chop_at": lambda s: s.chop(10, offset=-3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_lifetimes_are_the_same_in_a_batch(change: Callable[[Stream], Stream]) -> None:
    assert assert_twins(change(events(spans=True))).num_rows > 0


def test_endless_lifetimes_are_the_same_or_rejected_in_a_batch() -> None:
    items = [event(0, INF_TIME, n=1), event(INF_TIME - 9, INF_TIME - 2, n=2), event(3, 9, n=3)]
    stream = Stream.from_items({"n": "int64"}, items)
    made = [stream.set_duration(8), stream.extend(5), stream.extend(-7), stream.point_at_end()]
    numbered = [s.with_columns(number=lit(i)) for i, s in enumerate(made)]
    assert_twins(numbered[0].union(*numbered[1:]))
    assert_twins(stream.filter(col("n") != 2).shift(10))
    with pytest.raises(BatchDataError, match="chop: an event never ends"):
        batched(stream.chop(10))
    with pytest.raises(BatchDataError, match="would start outside the time axis"):
        batched(stream.shift(10))


@pytest.mark.parametrize("how", ["left", "anti"])
@pytest.mark.parametrize("keys", [["g"], ["k", "g"]], ids="-".join)
def test_outer_joins_have_the_same_rows_as_a_batch(how: str, keys: list[str]) -> None:
    left = events(spans=True).select("k", "g", "n")
    right = events(spans=True).filter(col("n") > 3).shift(2).select("k", "g", m=col("x"))
    assert assert_twins(left.join(right, on=keys, how=how)).num_rows > 0
    none = right.filter(lit(False))
    assert assert_twins(left.join(none, on=keys, how=how)).num_rows == 40


def test_the_worked_example_of_the_anti_join() -> None:
    left = Stream.from_items({"k": "int64"}, [event(100, 110, k=1)])
    items = [event(101, 103, k=1), event(106, 108, k=1), event(106, 109, k=1)]
    right = Stream.from_items({"k": "int64"}, items)
    found = assert_twins(left.join(right, on="k", how="anti"))
    pieces = zip(found[VS].to_pylist(), found[VE].to_pylist(), strict=True)
    assert list(pieces) == [(100, 101), (103, 106), (109, 110)]


def test_clips_have_the_same_rows_as_a_batch() -> None:
    left = events(spans=True).select("k", "n")
    assert_twins(left.clip(left, on="k"))
    right = events(spans=True).filter(col("n") > 3).shift(2)
    assert_twins(left.extend(50).clip(right, on="k"))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_interval_joins_have_the_same_rows_as_a_batch(how: str) -> None:
    left = events(spans=False).select("k", "g", "n")
    right = events(spans=False).filter(col("n") > 3).shift(2).select("k", "g", m=col("x"))
    for within in ((0, 9), (-7, 3), (2, 12), (-9, -1)):
        where = None if within[0] else col("n") > 6
        joined = left.join(right, on=["k", "g"], within=within, how=how, where=where)
        assert assert_twins(joined).num_rows > 0
    assert_twins(left.join(right, within=(0, 3), how=how))


@pytest.mark.parametrize("strategy", ["backward", "forward", "nearest"])
def test_as_of_joins_have_the_same_rows_as_a_batch(strategy: str) -> None:
    left = events(spans=True).select("k", "g", "n")
    right = events(spans=True).filter(col("n") > 3).shift(2).select("k", "g", m=col("x"))
    within = None if strategy == "backward" else 7
    for how, by in (("left", ["k", "g"]), ("inner", ["k"]), ("left", [])):
        joined = left.join_asof(right, by=by or None, strategy=strategy, tolerance=within, how=how)
        assert assert_twins(joined).num_rows > 0
    assert_twins(left.join_asof(right, by="k", strategy=strategy, tolerance=3))
    unplaced = right.stitch(["k", "g", "m"]).with_columns(other=lit("same"))
    assert_twins(
        left.join_asof(unplaced.select("k", "other"), by="k", strategy=strategy, tolerance=3)
    )


def test_union_explode_and_types() -> None:
    schema = {"words": pa.list_(pa.string()), "d": pa.dictionary(pa.int32(), pa.string())}
    items = [
        event(0, 5, words=["a", None, "b"], d="x"),
        event(-3, 1, words=[], d=None),
        event(2, 3, words=None, d="y"),
        event(4, 9, words=[""], d="x"),
    ]
    stream = Stream.from_items(schema, items)
    assert_twins(stream)
    exploded = stream.explode("words")
    assert assert_twins(exploded.union(exploded.filter(col("d") == "x"))).num_rows == 8


def test_lists_and_maps_have_the_same_rows_as_a_batch() -> None:
    schema = {"m": pa.map_(pa.string(), pa.int64()), "l": pa.list_(pa.float64()), "i": "int64"}
    items = [
        event(0, 5, m=[("a", 1), ("b", None), ("a", 3)], l=[1.0, None, math.nan], i=-1),
        event(1, 3, m=[], l=[], i=0),
        event(2, 3, m=None, l=None, i=None),
        event(4, 9, m=[("b", 7)], l=[0.0], i=2**40),
    ]
    stream = Stream.from_items(schema, items)
    assert_twins(stream)
    m, l_ = col("m"), col("l")
    assert_twins(
        stream.with_columns(
            a=m.item("a"),
            b=l_.item(col("i")),
            c=l_.item(0),
            d=m.map.length(),
            e=l_.list.contains(1.0),
            f=l_.list.contains(math.nan),
            g=m.map.keys(),
            h=m.map.values(),
            j=list_of(col("i"), 7),
            k=l_.list.contains(1),
        )
    )
    assert_twins(stream.window(tumbling(99)).top(2, "i").with_columns(m2=list_of(m, m)))
    for name in ("m", "l"):
        for outer in (False, True):
            assert_twins(stream.explode(name, outer=outer, position="at"))
            assert_twins(stream.explode(name, outer=outer))


def test_columns_with_unusual_names_have_the_same_rows_as_a_batch() -> None:
    names = ["a b", "A B", "`tick`", "dot.ted", "select", "c0", "ö", "let1", "element"]
    items = [event(i, **{n: i * j for j, n in enumerate(names)}) for i in range(4)]
    stream = Stream.from_items(dict.fromkeys(names, "int64"), items)
    total = stream.with_columns(total=col("a b") + col("`tick`") * col("dot.ted") // col("let1"))
    assert_twins(total.set_duration(2).join(stream, on="A B"))


def test_an_empty_input_has_an_empty_result_as_a_batch() -> None:
    empty = Stream.from_items(SCHEMA, [])
    counted = empty.group_by("k").window(tumbling(10)).agg(n=agg.count())
    assert assert_twins(empty.join(counted, on="k")).num_rows == 0


@pytest.mark.parametrize("late", ["drop", "adjust"])
def test_late_rows_are_handled_the_same_in_a_batch(late: Any, tmp_path: Path) -> None:
    for part in range(3):
        rows = [{"at": (i * 7_919 + part * 13) % 1_000, "n": i} for i in range(60)]
        text = "".join(json.dumps({**row, "to": row["at"] + 3}) + "\n" for row in rows)
        (tmp_path / f"{part}.jsonl").write_text(text)
    stream = Stream.from_json(str(tmp_path), vs="at", ve="to", delay="300us", late=late)
    rows_left = assert_twins(stream).num_rows
    assert (rows_left < 180) == (late == "drop")
    counted = stream.window(tumbling("100us")).agg(n=agg.count(), total=agg.sum("n"))
    assert_twins(counted)
    found = Stream.from_json(str(tmp_path), vs="at", ve="to")
    assert assert_twins(found).num_rows == 180
    strict = Stream.from_json(str(tmp_path), vs="at", delay="300us", late="error")
    with pytest.raises(LateRowError) as by_stream:
        streamed(strict)
    with pytest.raises(LateRowError) as by_batch:
        batched(strict)
    assert by_batch.value.args == by_stream.value.args


@pytest.mark.parametrize("name", sorted(set(QUERIES) | set(TEMPORAL_QUERIES)))
def test_each_query_has_the_same_rows_as_a_batch(name: str) -> None:
    assert_twins({**QUERIES, **TEMPORAL_QUERIES}[name]())


@examples(
    12,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(streams(steps=6))
def test_random_plans_have_the_same_rows_as_a_batch(stream: Stream) -> None:
    try:
        batch = batched(stream)
    except BatchDataError as error:  # a payload that depends on ties
        assume("start together" not in str(error))
        raise
    except UnsupportedInBatchError as error:  # and an order that only the stream knows
        assume("is known to the stream only" not in str(error))
        raise
    found = compare(streamed(stream), batch)
    assert found.is_equal, str(found)


def test_the_batch_is_sorted_and_typed_as_the_stream() -> None:
    stream = events(spans=True)
    batch = jobmanager.collect_batch(stream, master=MASTER)
    assert batch.schema.equals(streamed(stream).schema)
    lives = list(zip(batch[VS].to_pylist(), batch[VE].to_pylist(), strict=True))
    assert lives == sorted(lives)


def validate(target: str) -> tuple[int, dict[str, Any]]:
    """Run ``jobmanager validate TARGET --json``. Return the exit status and the output."""
    done = CliRunner().invoke(app, ["validate", target, "--master", MASTER, "--json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return done.exit_code, found


@pytest.mark.parametrize("name", ["alerts", "wordcount", "flights"])
def test_examples_are_validated(name: str) -> None:
    code, found = validate(str(EXAMPLES / f"{name}.py"))
    assert code == 0, found
    assert found["equal"]
    assert found["stream_rows"] == found["batch_rows"] > 100


def test_a_difference_is_shown(tmp_path: Path) -> None:
    """Java's case mappings may change a string's length, Arrow's do not."""
    file = tmp_path / "different.py"
    file.write_text(
        "from planner import Stream, col, event\n"
        'items = [event(0, s="a"), event(7, s="stra\\u00dfe")]\n'
        'query = Stream.from_items({"s": "string"}, items).select(s=col("s").str.upper())\n'
    )
    code, found = validate(str(file))
    assert code == 1
    assert found["first_difference"] == {
        "only_in_stream": None,
        "only_in_batch": {VS: 7, VE: 8, "s": "STRASSE"},
    } or found["first_difference"]["only_in_stream"] == {VS: 7, VE: 8, "s": "STRA\u1e9eE"}
    done = CliRunner().invoke(app, ["validate", str(file), "--master", MASTER])
    assert "different: 2 rows by stream, 2 by batch" in done.stdout


def test_run_as_a_batch_writes_the_answer_of_a_job(tmp_path: Path) -> None:
    root = str(tmp_path / "batch")
    arguments = ["run", str(EXAMPLES / "alerts.py"), "--batch", "--root", root, "--master", MASTER]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["state"] == "finished"
    rows = read_events(f"{summary['output']}/part-0-*")
    assert rows.num_rows == summary["events_out"] > 300
    files = json.loads((Path(summary["output"]) / "_SUCCESS").read_text())["files"]
    assert sorted(files) == sorted(p.name for p in Path(summary["output"]).glob("*.parquet"))
    assert jobmanager.collect(Stream.from_rstream(summary["output"])).num_rows == rows.num_rows
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 2


def test_first_rows_and_orders() -> None:
    """First rows in windows, in running results, and of structs equal those of the stream."""
    stream = events(spans=True).filter(col("k").is_null() | (col("n") != 3))
    by = [asc("x", nulls_first=True), desc("g"), "n"]
    for kind in ("row_number", "rank", "dense_rank"):
        grouped = stream.group_by("k")
        made = grouped.window(hopping(9, 4)).top(2, by, rank=kind, place="place")
        running = grouped.top(2, by, rank=kind, place="place")
        assert assert_twins(made.union(running)).num_rows > 20
    equal = stream.select("k", "x").group_by("k").top(3, asc("x", nulls_first=True))
    assert assert_twins(equal).num_rows > 10
    made = stream.with_columns(s=struct(n=col("n"), k=col("k"))).select("x", m=col("s").field("n"))
    assert assert_twins(made.sort(desc("x"), col("m") + 1)).num_rows > 20
    forever = events(spans=False).for_ever().group_by("k")
    assert assert_twins(forever.agg(n=agg.count(), total=agg.sum("n"))).num_rows > 20


def test_the_first_of_equal_rows_is_known_only_to_the_stream() -> None:
    tied = [event(1, 5, k=1, a=1), event(1, 5, k=1, a=2)]
    together = placeless(Stream.from_items({"k": "int64", "a": "int64"}, tied))
    top = together.window(snapshot()).top(1, "k")
    with pytest.raises(BatchDataError, match="start together with different values"):
        batched(top)


def test_the_first_rows_of_a_stream() -> None:
    stream = events(spans=True)
    for n in (1, 7, 1_000):
        assert assert_twins(stream.limit(n)).num_rows >= min(n, 20)
        assert assert_twins(stream.sort(desc("x"), col("n") + 1).limit(n)).num_rows >= min(n, 20)
    tied = [event(t, k=k) for t in (1, 5) for k in (1, 2)]
    together = placeless(Stream.from_items({"k": "int64"}, tied))
    assert assert_twins(together.limit(2)).num_rows == 2
    with pytest.raises(BatchDataError, match="limit: some events that start together"):
        batched(together.limit(3))


def test_versions_and_first_events() -> None:
    stream = events(spans=True)
    for within in (None, 3):
        assert assert_twins(stream.deduplicate(["g", "k"], within=within)).num_rows > 3
    with pytest.raises(UnsupportedInBatchError, match="which event is the first"):
        batched(placeless(stream).deduplicate("k"))
    apart = [event(i * 3, k=i % 4, n=i, gone=i % 5 == 0) for i in range(20)]
    rows = Stream.from_items({"k": "int64", "n": "int64", "gone": "bool"}, apart)
    assert assert_twins(rows.upserts("k", deleted=col("gone"))).num_rows > 10
