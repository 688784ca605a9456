"""The lifetime columns of an output: names, clashes, and columns that can be omitted."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import planner
from planner import (
    Stream,
    agg,
    col,
    count_window,
    cti,
    event,
    hopping,
    lit,
    session,
    snapshot,
    tumbling,
    ve,
    vs,
    when,
)
from planner.errors import InvalidPlanError
from planner.logical.table_form import fixed_length_us
from planner.sql.reading.errors import SqlError
from rstream.format.table import TIME_TYPE, TableForm

if TYPE_CHECKING:
    from planner.logical.windows import AnyWindow
    from rvertex.sources.spec import LatePolicy

POINTS = Stream.from_items({"k": "string", "x": "int64"}, [event(1, k="a", x=2)])
LONG = Stream.from_items({"k": "string", "x": "int64"}, [event(1, 9, k="a", x=2), event(2, 5)])
SAME = Stream.from_items({"k": "string"}, [event(1, 4, k="a"), event(2, 5)])
SUMS = POINTS.group_by("k").window(tumbling("10s")).agg(n=agg.count())
HOPS = POINTS.group_by("k").window(hopping("10s", "5s")).agg(n=agg.count())
WINDOWS = ("window_start", "window_end")


def names(stream: Stream) -> tuple[str, str | None]:
    form = stream.to_parquet().plan.form
    assert form is not None
    return form.start, form.end


def test_growing_sessions_do_not_have_windows_as_lifetimes() -> None:
    grown = POINTS.group_by("k").window(session("1s", running=True))
    assert names(grown.agg(n=agg.count(), window_start=agg.min(vs()))) == ("start", "end")


@pytest.mark.parametrize(
    "window", [tumbling("1s"), hopping("2s", "1s"), snapshot(), session("1s"), count_window(2)]
)
def test_lifetimes_of_windows_are_named_window_start_and_window_end(window: AnyWindow) -> None:
    stream = POINTS.group_by("k").window(window).agg(n=agg.count())
    for same in (
        stream,
        stream.filter(col("n") > 1).name("many"),
        stream.select("n"),
        stream.union(stream),
        stream.recover_with("checkpoint"),
        stream.apply(lambda rows: rows, {"n": "int64"}),
    ):
        assert names(same) == WINDOWS


@pytest.mark.parametrize(
    "stream",
    [
        POINTS,
        SUMS.join(SUMS.select("k"), on="k"),
        SUMS.shift("1s"),
        SUMS.select("k", x=col("n")).union(POINTS),
        SUMS.point_at_end(),
    ],
)
def test_other_lifetimes_are_named_start_and_end(stream: Stream) -> None:
    assert names(stream) == ("start", "end")


def test_names_can_be_chosen() -> None:
    assert SUMS.to_parquet(start="a", end="b").plan.form == TableForm("a", "b")
    assert SUMS.to_parquet(end="b").plan.form == TableForm("window_start", "b")
    assert SUMS.to_parquet(technical_columns=True).plan.form is None
    assert SUMS.to_rstream("s").plan.form is None
    for wrong in ({"start": "_vs"}, {"start": "a", "end": "a"}):
        with pytest.raises(InvalidPlanError):
            SUMS.to_parquet(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidPlanError, match="leave out start="):
        SUMS.to_parquet(start="a", technical_columns=True)


def test_a_name_clash_is_rejected() -> None:
    taken = POINTS.select("k", start=col("x"))
    with pytest.raises(InvalidPlanError, match=r"column 'start' .* to_parquet\(start='...'\)"):
        taken.to_parquet()
    assert taken.to_parquet(start="begin").plan.form == TableForm("begin", "end")
    assert SUMS.rename({"n": "start"}).to_parquet().plan.form == TableForm(*WINDOWS)
    moved = SUMS.with_columns(window_start=vs()).shift("1s").to_parquet().plan.form
    assert moved == TableForm("start", "end")


@pytest.mark.parametrize(
    "stream",
    [
        SUMS.with_columns(window_start=vs(), window_end=ve()),
        SUMS.with_columns(a=vs(), b=ve()).rename({"a": "window_start", "b": "window_end"}),
        SUMS.with_columns(window_start=vs(), window_end=ve()).filter(col("n") > 0),
        SUMS.with_columns(window_start=vs(), window_end=ve()).union(
            SUMS.with_columns(window_start=vs(), window_end=ve())
        ),
    ],
)
def test_a_column_equal_to_the_time_replaces_it(stream: Stream) -> None:
    form = stream.to_parquet().plan.form
    assert form == TableForm(*WINDOWS)
    assert form.added(stream.schema.names) == []
    none = stream.to_parquet(start=None, end=None).plan.form
    assert none == form


def test_columns_of_a_file_replace_the_times_taken_from_them(tmp_path: Path) -> None:
    path = str(tmp_path / "lives.csv")
    Path(path).write_text("start,end,k\n2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,a\n")
    lives = Stream.from_csv(path, vs="start", ve="end")
    assert lives.schema.field("start").type == TIME_TYPE
    assert lives.filter(col("k") == "a").to_parquet().plan.form == TableForm("start", "end")
    for other in (
        Stream.from_csv(path, vs="start", ve="end", late="adjust"),
        Stream.from_csv(path, vs="end"),
        Stream.from_csv(path, vs="start", ve="end", schema={"start": "string"}),
        lives.shift("1s"),
        lives.join(lives.select("k"), on="k"),
    ):
        with pytest.raises(InvalidPlanError, match="of the query has the name that"):
            other.to_parquet()


@pytest.mark.parametrize(
    "stream",
    [
        SUMS.with_columns(window_start=ve()),
        SUMS.with_columns(window_start=vs().cast("timestamp") + lit(0).cast("duration")),
        SUMS.with_columns(window_start=when(col("n") > 1).then(vs()).otherwise(ve())),
        SUMS.with_columns(window_start=vs()).union(SUMS.with_columns(window_start=ve())),
        SUMS.with_columns(window_start=vs().cast("int64")),
    ],
)
def test_a_column_that_may_differ_from_the_time_does_not_replace_it(stream: Stream) -> None:
    with pytest.raises(InvalidPlanError, match="window_start"):
        stream.to_parquet()


@pytest.mark.parametrize(
    ("stream", "length_us"),
    [
        (POINTS, 1),
        (SAME, 3),
        (Stream.from_items({"k": "string"}, [event(1, 4, k="a"), cti(5), event(6, 9)]), 3),
        (SUMS, 10_000_000),
        (HOPS, 10_000_000),
        (SUMS.shift("1s").filter(col("n") > 0), 10_000_000),
        (LONG.set_duration("3s"), 3_000_000),
        (LONG.point_at_end(), 1),
        (LONG.join(POINTS.select("k"), on="k"), 1),
        (SUMS.union(SUMS), 10_000_000),
    ],
)
def test_an_end_with_a_fixed_length_is_omitted(stream: Stream, length_us: int) -> None:
    form = stream.to_parquet(end=None).plan.form
    assert form is not None
    assert (form.end, form.length_us) == (None, length_us)


@pytest.mark.parametrize(
    "stream",
    [
        LONG,
        SUMS.select("k").union(LONG.select("k")),
        SUMS.union(POINTS.group_by("k").window(tumbling("5s")).agg(n=agg.count())),
        LONG.extend("1s"),
        POINTS.group_by("k").window(session("1s")).agg(n=agg.count()),
    ],
)
def test_an_end_without_a_fixed_length_is_kept(stream: Stream) -> None:
    with pytest.raises(InvalidPlanError, match="end=None"):
        stream.to_parquet(end=None)


@pytest.mark.parametrize(("late", "length_us"), [("drop", 1_000_000), ("adjust", None)])
def test_adjusted_late_rows_have_shorter_lifetimes(
    tmp_path: Path, late: LatePolicy, length_us: int | None
) -> None:
    path = tmp_path / "lives.csv"
    path.write_text("at,k\n2026-01-01T00:00:00Z,a\n")
    lives = Stream.from_csv(str(path), vs="at", ve=timedelta(seconds=1), late=late, delay=0)
    assert fixed_length_us(lives.plan) == length_us


def test_a_start_is_never_omitted() -> None:
    with pytest.raises(InvalidPlanError, match="start=None"):
        SUMS.to_parquet(start=None)
    form = SUMS.with_columns(at=vs()).to_parquet(start=None, end=None).plan.form
    assert form == TableForm("at", None, 10_000_000)


def test_a_table_form_in_sql_follows_from_options_and_columns() -> None:
    text = (
        "CREATE STREAM o WITH (path = 'o'{}); "
        "INSERT INTO o SELECT {} FROM s GROUP BY k, TUMBLE('10 s')"
    )

    def form(options: str, columns: str) -> TableForm | None:
        query = planner.sql(text.format(options, columns), {"s": POINTS})
        assert isinstance(query, planner.Query)
        return query.plan.form

    assert form("", "k, count(*) AS n") == TableForm(*WINDOWS)
    assert form("", "k, window_start, window_end") == TableForm(*WINDOWS)
    assert form(", start = 'a', end = NULL", "k") == TableForm("a", None, 10_000_000)
    assert form(", start = NULL", "k, window_start AS at") == TableForm("at", "window_end")
    with pytest.raises(SqlError, match=r"column 'window_end' of .* start|end='...'"):
        form("", "k, count(*) AS window_end")
    with pytest.raises(SqlError, match="times of an rstream"):
        form(", format = 'rstream', start = 'a'", "k")
