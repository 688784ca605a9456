"""The fluent interface: schemas, and errors at the line with the mistake."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner import (
    InvalidDurationError,
    InvalidPlanError,
    Query,
    Stream,
    UnknownColumnError,
    agg,
    col,
    cti,
    event,
    hopping,
    lit,
    tumbling,
    udf,
)
from planner.physical.lower import lower
from rstream.errors import UsageError
from tests.support.plan_runner import answer, sorted_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = {"k": "string", "x": "int64", "f": "float64", "ok": "bool", "tags": pa.list_(pa.string())}
S = Stream.from_items(SCHEMA, [event(5, k="a", x=1), event(7, 9, k="b"), cti("1s")])


def rows(query: Query) -> list[dict[str, object]]:
    return sorted_rows(answer(lower(query, root="memory://job")))


def names(stream: Stream) -> dict[str, str]:
    return {f.name: str(f.type) for f in stream.schema}


def test_each_method_returns_the_expected_columns() -> None:
    assert names(S.select("x", col("k").alias("key"), twice=col("x") * 2)) == {
        "x": "int64",
        "key": "string",
        "twice": "int64",
    }
    assert list(names(S.with_columns(x=col("f"), n=lit(1)))) == ["k", "x", "f", "ok", "tags", "n"]
    assert names(S.with_columns(x=col("f")))["x"] == "double"
    assert list(names(S.drop("tags", "ok"))) == ["k", "x", "f"]
    assert list(names(S.rename({"k": "key"}))) == ["key", "x", "f", "ok", "tags"]
    assert names(S.explode("tags"))["tags"] == "string"
    assert S.filter(col("ok")).schema == S.schema
    assert S.pipe(lambda stream: stream.select("k")).schema.names == ["k"]


def test_repr_shows_the_columns() -> None:
    stream = S.select("k", "x")
    assert repr(stream) == "Stream(k: string, x: int64)"
    assert repr(stream.to_parquet()) == "Query(k: string, x: int64)"


def test_an_aggregate_has_the_expected_columns_and_types() -> None:
    counted = S.group_by("k", big=col("x") > 5).window(tumbling("1s")).agg(
        n=agg.count(),
        some=agg.count("f"),
        oks=agg.sum("ok"),
        mean=agg.mean("x"),
        top=agg.max(col("x") * 2),
        first=agg.first("tags"),
        sum=agg.sum("f"),
    )  # fmt: skip
    assert names(counted) == {
        "k": "string",
        "big": "bool",
        "n": "int64",
        "some": "int64",
        "oks": "int64",
        "mean": "double",
        "top": "int64",
        "first": "list<item: string>",
        "sum": "double",
    }


def test_an_aggregate_may_read_a_key_or_replace_a_column_of_the_input() -> None:
    grouped = S.group_by("x").window(tumbling("1s"))
    got = rows(grouped.agg(k=agg.max("x"), n=agg.count("k")).to_parquet())
    assert got == [
        {"_vs": 0, "_ve": 1_000_000, "x": 1, "k": 1, "n": 1},
        {"_vs": 0, "_ve": 1_000_000, "x": None, "k": None, "n": 1},
    ]
    regrouped = S.group_by(x=col("f")).window(tumbling("1s")).agg(total=agg.sum("x"))
    assert names(regrouped) == {"x": "double", "total": "double"}, "the key hides the column"


def test_computed_inputs_of_aggregates_do_not_collide() -> None:
    stream = S.select("k", n_input=col("x"), n=col("x"))
    made = stream.group_by("n_input").window(tumbling("1s"))
    got = rows(
        made.agg(n=agg.sum(col("n") * 2), m=agg.max("n"), twice=agg.max(col("n") * 2)).to_parquet()
    )
    assert [(r["n_input"], r["n"], r["m"], r["twice"]) for r in got] == [
        (1, 2, 1, 2),
        (None, None, None, None),
    ]


def test_a_null_predicate_drops_the_row() -> None:
    assert rows(S.filter(None).to_parquet()) == []
    assert rows(S.filter(lit(True)).select(col("k")).to_parquet())[0]["k"] == "a"


def test_a_join_renames_columns_of_the_same_name() -> None:
    other = S.select("k", "x", y=col("f"))
    assert list(names(S.drop("tags", "ok").join(other, on="k"))) == ["k", "x", "f", "x_right", "y"]
    both = S.select("k", "x").join(other, left_on=["x"], right_on=["x"])
    assert list(names(both)) == ["k", "x", "k_right", "x_right", "y"]


def test_union_accepts_columns_in_any_order_and_widens_types() -> None:
    left, right = S.select("k", "x"), S.select(x=col("f"), k=col("k"))
    assert names(left.union(right)) == {"k": "string", "x": "double"}
    assert left.union().schema == left.schema


def test_a_stream_of_items_returns_these_items() -> None:
    stream = Stream.from_items(
        pa.schema([("a", pa.int64())]),
        [
            event(vs=0, ve=5, a=1),
            event("1ms", a=2),
            event(datetime(1970, 1, 1, tzinfo=UTC)),
            cti(9),
        ],
    )
    assert rows(stream.to_parquet()) == [
        {"_vs": 0, "_ve": 1, "a": None},
        {"_vs": 0, "_ve": 5, "a": 1},
        {"_vs": 1000, "_ve": 1001, "a": 2},
    ]


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: S.select("y"), "no column 'y' in the input. The columns are: k, x, f, ok, tags"),
    (lambda: S.filter(col("kk") == "a"), "no column 'kk' in (kk == \"a\"); did you mean 'k'? "),
    (lambda: S.filter(col("x")), "filter(x): it is int64, not bool"),
    (lambda: S.filter("x > 5"), 'filter("x > 5"): it is string, not bool'),
    (lambda: S.select(), "select() takes at least one column"),
    (lambda: S.select(col("x") + 1), "(x + 1) needs a name: pass it as name=..., or use .alias"),
    (lambda: S.select(3), "3 is not a column name or an expression"),  # type: ignore[arg-type]
    (lambda: S.select("x", x=col("f")), "select(...) returns two columns named 'x'"),
    (lambda: S.select(_vs=col("x")), "the column name '_vs' is reserved"),
    (lambda: S.with_columns(n=None), "always null; cast it to a type: .cast(\"int64\")"),
    (lambda: S.with_columns(n=lambda r: r), "cannot be part of an expression; write conditions"),  # type: ignore[arg-type]
    (lambda: S.drop("y"), "no column 'y' in drop(...)"),
    (lambda: S.rename({"x": "k"}), "rename(...) returns two columns named 'k'"),
    (lambda: S.explode("x"), "explode('x'): it is int64, not a list"),
    (lambda: S.explode(5), "explode() takes the name of a column, not 5"),  # type: ignore[arg-type]
    (lambda: S.explode("tags", position=5), "a column's name is text, not 5"),  # type: ignore[arg-type]
    (lambda: S.join(S, on="y"), "no column 'y' in join(...)"),
    (lambda: S.join(S, on="k", how="outer"), "join(how='outer') is not supported"),
    (lambda: S.join(S), "join(...) takes on=, or as many columns in left_on= as in right_on="),
    (lambda: S.join(S, on="k", left_on="k"), "join(...) takes on=, or left_on= and right_on="),
    (lambda: S.join(S, left_on="k", right_on="x"), "keys 'k' (string) and 'x' (int64) do not"),
    (lambda: S.join("k"), "join() takes another stream, not 'k'"),  # type: ignore[arg-type]
    (lambda: S.join(S.with_columns(x_right=col("x")), on="k").join(S, on="k"),
     "two columns would be called 'x_right'; rename one"),
    (lambda: S.union(S.select("k")), "union(...): the columns differ: k, x, f, ok, tags and k"),
    (lambda: S.select("x").union(S.select(x=col("k"))), "column 'x' is int64 and string"),
    (lambda: S.group_by("tags"), "group_by('tags'): a key cannot be list<item: string>"),
    (lambda: S.group_by("k").window("10s"), "window() takes hopping(...), tumbling(...), "),  # type: ignore[arg-type]
    (lambda: S.window(tumbling("1s")).agg(), "agg() takes at least one aggregate"),
    (lambda: S.window(tumbling("1s")).agg(agg.count()), "write agg(n=agg.count())"),
    (lambda: S.group_by("k").agg(agg.count()), "agg() needs the name of each result"),
    (lambda: S.agg(n=agg.count()), ".group_by('key').window(tumbling('10s')), or .window(...)"),
    (lambda: S.process(object), "write .group_by('key').process(...)"),
    (lambda: udf(lambda x: x), 'write udf(lambda x: x + 1, returns="int64")'),  # type: ignore[call-overload]
    (lambda: S.window(tumbling("1s")).agg(n="x"), "needs an aggregate, such as agg.count()"),  # type: ignore[arg-type]
    (lambda: S.window(tumbling("1s")).agg(n=agg.sum("k")), "'sum' does not take string"),
    (lambda: S.window(tumbling("1s")).agg(n=agg.max("tags")), "'max' does not take list"),
    (lambda: S.group_by("k").window(tumbling("1s")).agg(k=agg.count()), "already has that name"),
    (lambda: S.window(tumbling("1s")).agg(n=agg.sum("y")), "no column 'y'"),
    (lambda: tumbling("ten seconds"), "window size 'ten seconds' is not a duration; write it like"),
    (lambda: hopping("10s", 0), "window every 0 has to be longer than zero"),
    (lambda: S.to_parquet(cti_every="0s"), "cti_every '0s' has to be longer than zero"),
    (lambda: S.name("a/b"), "name('a/b'): up to 40 letters"),
    (lambda: S.join(S, on=[col("k")]), "keys are names of columns; compute them first"),  # type: ignore[list-item]
    (lambda: Stream.from_items({"a": int}, [event(2**63 - 2, 2**63 - 1), event(2**63 - 1, 2**63)]),
     "does not fit into 64 bits"),
    (lambda: col(3), "col() takes the name of a column, not 3"),  # type: ignore[arg-type]
    (lambda: event(5, 5), "event(5, 5): an event needs vs < ve"),
    (lambda: event("soon"), "vs 'soon' is not a time; write it like"),
    (lambda: Stream.from_items({"a": "int64"}, [event(1, b=1)]), "no column 'b' in event(...)"),
    (lambda: Stream.from_items({"a": "int64"}, [event(1, a="x")]), "do not fit their schema"),
    (lambda: Stream.from_items({"a": "int64"}, [(1, 2)]), "items must be event(...)"),  # type: ignore[list-item]
    (lambda: Stream.from_items({"a": "int65"}, []), "'int65'; did you mean 'int64'? The types"),
    (lambda: Stream.from_items({"_vs": "int64"}, []), "column name '_vs' is reserved"),
    (lambda: Stream.from_items({"a": int}, [], partitions=0), "partitions=0: must be between"),
    (lambda: S.filter(col("k").str.contains("(", regex=True)), "is not a regular expression"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), MISTAKES, ids=[m[:50] for _, m in MISTAKES])
def test_mistakes_are_usage_errors_of_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def readings(tmp_path: Path) -> str:
    table = pa.table(
        {
            "at": pa.array([0, 60_000, 30_000], pa.timestamp("ms", "UTC")),
            "us": pa.array([0, 60_000_000, 30_000_000], pa.int64()),
            "iso": ["1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z", "1970-01-01T00:00:30Z"],
            "until": pa.array([10**6, 10**9, 10**8], pa.timestamp("us")),
            "minutes": pa.array([1, 0, 2], pa.int32()),
            "v": [1.0, 2.0, 3.0],
        }
    )
    path = str(tmp_path / "readings.parquet")
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize("vs", ["at", "us", "iso"])
def test_times_of_any_kind(readings: str, vs: str) -> None:
    stream = Stream.from_parquet(readings, vs=vs, delay="1m").select("v")
    assert [(r["_vs"], r["_ve"]) for r in rows(stream.to_parquet())] == [
        (0, 1),
        (30_000_000, 30_000_001),
        (60_000_000, 60_000_001),
    ]


@pytest.mark.parametrize("ve", ["+30s", timedelta(seconds=30), 30_000_000])
def test_ends_of_fixed_length(readings: str, ve: str | timedelta | int) -> None:
    stream = Stream.from_parquet(readings, vs="at", ve=ve, delay="1m").select("v")
    assert [r["_ve"] for r in rows(stream.to_parquet())] == [30_000_000, 60_000_000, 90_000_000]


def test_times_computed_from_columns_read_only_these_columns(readings: str) -> None:
    stream = Stream.from_parquet(
        readings,
        vs=col("at") + col("minutes") * timedelta(minutes=1),
        ve=col("until") + timedelta(hours=1),
        delay="10m",
        late="error",
    )
    plan = lower(stream.select("v").to_parquet(), root="r")
    assert plan.stages[0].reads == ("at", "until", "minutes", "v")
    assert [(r["_vs"], r["v"]) for r in answer(plan).to_pylist()] == [
        (60_000_000, 1.0),
        (60_000_000, 2.0),
        (150_000_000, 3.0),
    ]


def test_only_needed_columns_are_read(readings: str) -> None:
    for late in ("drop", "adjust", "error"):
        stream = Stream.from_parquet(readings, vs="at", delay="1m", late=late)
        plan = lower(stream.filter(col("us") > 0).select("v").to_parquet(), root="r")
        every = tuple(pq.read_schema(readings).names)
        assert plan.stages[0].reads == (every if late == "drop" else ("at", "us", "v"))
        assert answer(plan).num_rows == 2


def test_csv_json_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t;n\n0;007\n5;-\n")
    csv = Stream.from_csv(
        str(tmp_path / "a.csv"), vs="t", delimiter=";", null_values=["-"], schema={"n": "string"}
    )
    assert [r["n"] for r in rows(csv.to_parquet())] == ["007", None]
    (tmp_path / "a.jsonl").write_text('{"t": 1, "n": {"x": 1}}\n{"t": 2}\n')
    assert names(Stream.from_json(str(tmp_path / "a.jsonl"), vs="t"))["n"] == "struct<x: int64>"
    (tmp_path / "a.txt").write_text("the cat\nthe dog\n")
    text = lower(Stream.from_text(str(tmp_path / "a.txt")).to_parquet(), root="r")
    assert text.stages[0].operators == (f"text {tmp_path}/a.txt",)
    words = (
        Stream.from_text(str(tmp_path / "a.txt"))
        .select(word=col("line").str.split())
        .explode("word")
        .group_by("word")
        .window(tumbling("1s"))
        .agg(n=agg.count())
    )
    assert sorted((r["word"], r["n"]) for r in rows(words.to_parquet())) == [
        ("cat", 1),
        ("dog", 1),
        ("the", 2),
    ]


@pytest.mark.parametrize("delimiter", ["||", "", '"', "\n", "é"])
def test_invalid_delimiters_are_rejected(tmp_path: Path, delimiter: str) -> None:
    (tmp_path / "a.csv").write_text("t,x\n1,2\n")
    with pytest.raises(InvalidPlanError, match="it must be one ASCII character"):
        Stream.from_csv(str(tmp_path / "a.csv"), vs="t", delimiter=delimiter)


def test_wrong_options_of_a_file_are_named(readings: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownColumnError, match="no column 'time' in vs="):
        Stream.from_parquet(readings, vs="time")
    with pytest.raises(InvalidPlanError, match="vs=v is double; a time is a timestamp"):
        Stream.from_parquet(readings, vs="v")
    with pytest.raises(InvalidPlanError, match="does not take"):
        Stream.from_parquet(readings, vs=col("at") + col("minutes"))
    with pytest.raises(UnknownColumnError, match="no column 'z' in schema= of"):
        Stream.from_parquet(readings, vs="at", schema={"z": "int64"})
    with pytest.raises(InvalidDurationError, match="delay 'long' is not a duration"):
        Stream.from_parquet(readings, vs="at", delay="long")
    with pytest.raises(InvalidDurationError, match=r"ve '\+0s' has to be longer than zero"):
        Stream.from_parquet(readings, vs="at", ve="+0s")
    with pytest.raises(InvalidPlanError, match="delay '-1s' is negative"):
        Stream.from_parquet(readings, vs="at", delay="-1s")
    with pytest.raises(InvalidPlanError, match="late='ignore': choose one of"):
        Stream.from_parquet(readings, vs="at", late="ignore")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"nowhere\.parquet"):
        Stream.from_parquet(str(tmp_path / "nowhere.parquet"), vs="at")
