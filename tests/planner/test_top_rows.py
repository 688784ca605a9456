"""The first rows of a key, against Python's sort at every instant, with any cuts and parallelism.

Not covered: errors of the batch, which ``tests/spark`` checks.
"""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from planner import InvalidPlanError, Stream, agg, asc, col, desc, event, lit, snapshot, tumbling
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME
from rvertex.aggregates.ranked import top_rows
from tests.support.budget import one_in
from tests.support.plan_runner import Schedule, answer

SCHEMA = {"k": "string", "x": "float64", "s": "string", "n": "int64"}
WAYS = {
    "greatest": ("x", lambda r: [_key(r["x"], down=True)]),
    "two": ([asc("s", nulls_first=True), desc(col("n") % 3)], lambda r: [
        (r["s"] is not None, r["s"] or ""), -(r["n"] % 3)
    ]),
}  # fmt: skip


def _key(value: float | None, *, down: bool) -> tuple[Any, ...]:
    if value is None:
        return (1, 0, 0.0)
    is_nan = math.isnan(value)
    number = 0.0 if is_nan else value
    return (0, -is_nan if down else is_nan, -number if down else number)


def made(points: bool) -> list[dict[str, Any]]:
    rng = Random(19)
    rows: list[dict[str, Any]] = []
    at = 0
    for n in range(28):
        at += rng.choice([0, 0, 1, 2])
        length = 1 if points else rng.choice([1, 3, 9, 40])
        values = rng.choice([None, math.nan, 0.0, -0.0, 1.5, 2.0, -3.0])
        row = {"k": rng.choice(["a", "b", None]), "x": values, "s": rng.choice(["u", "v", None])}
        rows.append({VS: at, VE: at + length, **row, "n": n})
    return rows


def stream_of(rows: list[dict[str, Any]]) -> Stream:
    items = [event(r[VS], r[VE], **{name: r[name] for name in SCHEMA}) for r in rows]
    return Stream.from_items(SCHEMA, items, partitions=2)


def ranks(rows: list[dict[str, Any]], by: Any, kind: str) -> list[tuple[int, dict[str, Any]]]:
    """The rows in order, each with its rank."""
    ordered = sorted(rows, key=lambda r: (*by(r), r[VS], r["n"]))
    places: list[int] = []
    distinct = 0
    for at, row in enumerate(ordered):
        is_new = at == 0 or by(row) != by(ordered[at - 1])
        distinct += is_new
        same = at + 1 if is_new or kind == "row_number" else places[-1]
        places.append(distinct if kind == "dense_rank" else same)
    return list(zip(places, ordered, strict=True))


def shown(row: dict[str, Any], place: int) -> str:
    return repr((row["k"], repr(row["x"]), row["s"], row["n"], place))


def alive(found: list[dict[str, Any]], at: int) -> list[str]:
    return sorted(shown(r, r["place"]) for r in found if r[VS] <= at < r[VE])


def answers(stream: Stream) -> list[list[dict[str, Any]]]:
    """Return the results at several parallelisms and cuts, which have the same rows."""
    plans = [lower(stream.to_parquet(), root="memory://top", parallelism=n) for n in (1, 3)]
    schedules = [Schedule((0,)), Schedule((3, 0, 1, 5, 2), rows_max=4, restores=True)]
    found = [
        sorted(answer(plan, schedule=schedule).to_pylist(), key=repr)
        for plan in plans
        for schedule in schedules
    ]
    assert all(repr(rows) == repr(found[0]) for rows in found[1:])
    return found[:1]


@pytest.mark.parametrize("kind", one_in(2, ["row_number", "rank", "dense_rank"]))
@pytest.mark.parametrize("way", WAYS)
def test_the_top_rows_of_a_window_are_valid_for_the_whole_window(kind: str, way: str) -> None:
    by, key = WAYS[way]
    rows = made(points=False)
    top = stream_of(rows).group_by("k").window(tumbling(20)).top(2, by, rank=kind, place="place")
    (found,) = answers(top)
    for start in range(0, 80, 20):
        expected = []
        for k in ("a", "b", None):
            inside = [r for r in rows if r["k"] == k and r[VS] < start + 20 and r[VE] > start]
            expected += [shown(r, place) for place, r in ranks(inside, key, kind) if place <= 2]
        assert alive(found, start) == alive(found, start + 19) == sorted(expected)
    assert {(r[VE] - r[VS]) for r in found} == {20}


@pytest.mark.parametrize("points", [True, False], ids=["points", "spans"])
@pytest.mark.parametrize("kind", ["row_number", "rank"])
def test_running_top_rows_are_right_at_each_instant(kind: str, points: bool) -> None:
    """Running first rows are right at each instant; a point counts from its start on."""
    rows = made(points)
    by, key = WAYS["greatest"]
    (found,) = answers(stream_of(rows).group_by("k").top(2, by, rank=kind, place="place"))
    lasting = [{**r, VE: INF_TIME} for r in rows] if points else rows
    for at in range(-1, 70):
        expected = []
        for k in ("a", "b", None):
            inside = [r for r in lasting if r["k"] == k and r[VS] <= at < r[VE]]
            expected += [shown(r, place) for place, r in ranks(inside, key, kind) if place <= 2]
        assert alive(found, at) == sorted(expected)
    # Rows that keep their place are not cut; rows of equal rank may swap places.
    for one, other in itertools.permutations(found if kind == "row_number" else [], 2):
        assert one[VE] != other[VS] or shown(one, one["place"]) != shown(other, other["place"])


@pytest.mark.parametrize("kind", ["row_number", "rank"])
def test_a_row_continues_when_its_rank_changes(kind: str) -> None:
    rows = made(points=False)
    (found,) = answers(stream_of(rows).group_by("k").top(3, "x", rank=kind))
    for one, other in itertools.permutations(found, 2):
        assert one[VE] != other[VS] or shown(one, 0) != shown(other, 0)


def test_equal_rows_are_counted() -> None:
    times = [(0, 9), (2, 6), (2, 20), (5, 7), (9, 12), (9, 12)]
    rows = [event(vs, ve, k="a", x=1.0 if vs < 9 else -1.0, s=None, n=0) for vs, ve in times]
    stream = Stream.from_items(SCHEMA, rows).group_by("k").top(3, "x")
    (found,) = answers(stream)
    for at in range(22):
        alive = sum(vs <= at < ve for vs, ve in times)
        assert sum(r[VS] <= at < r[VE] for r in found) == min(alive, 3)
    # A copy starts or ends only where the number of copies changes.
    assert sorted((r[VS], r[VE]) for r in found if r["x"] == 1) == [(0, 20), (2, 7), (2, 9)]


def test_columns_may_be_named_like_ranks() -> None:
    rows = [event(t, place=f"p{t}", position=t, top="a") for t in (1, 2, 3)]
    stream = Stream.from_items({"place": "string", "position": "int64", "top": "string"}, rows)
    for top in (
        stream.group_by("top").top(1, "position", place="n"),
        stream.group_by("top").window(tumbling(10)).top(1, "position", place="n"),
    ):
        assert top.schema.names == ["place", "position", "top", "n"]
        (found,) = answers(top)
        best = max(found, key=lambda row: row["position"])
        assert (best["place"], best["position"], best["top"], best["n"]) == ("p3", 3, "a", 1)
    lists = stream.group_by("top").window(tumbling(10)).agg(rows=agg.top_rows(1, "position"))
    (found,) = answers(lists)
    assert [*found[0]["rows"][0]] == ["place_", "position_", "place", "position", "top"]


def test_running_aggregates_follow_the_current_rows() -> None:
    rows = made(points=True)
    stream = stream_of(rows).group_by("k").agg(n=agg.count(), total=agg.sum("n"), low=agg.min("s"))
    (found,) = answers(stream)
    for at in range(-1, 100):
        expected = []
        for k in ("a", "b", None):
            inside = [r for r in rows if r["k"] == k and r[VS] <= at]
            if inside:
                low = min((r["s"] for r in inside if r["s"]), default=None)
                expected.append((k, len(inside), sum(r["n"] for r in inside), low))
        now = [r for r in found if r[VS] <= at < r[VE]]
        assert sorted([(r["k"], r["n"], r["total"], r["low"]) for r in now], key=repr) == sorted(
            expected, key=repr
        )


def test_lists_of_rows() -> None:
    rows = [event(i, k="a", x=float(i % 3), s=None, n=i) for i in range(5)]
    stream = Stream.from_items(SCHEMA, rows).group_by("k").window(tumbling(10))
    lists = stream.agg(top=agg.top_rows(2, "x", columns=["n"]))
    found = answer(lower(lists.to_parquet(), root="memory://top", parallelism=1)).to_pylist()
    expected = [{"place": 1, "position": 1, "n": 2}, {"place": 2, "position": 2, "n": 1}]
    assert found[0]["top"] == expected
    second = lists.select(n=col("top").item(1).field("n"))
    plan = lower(second.to_parquet(), root="memory://top", parallelism=1)
    assert answer(plan).column("n").to_pylist() == [1]


def test_wrong_arguments_of_top_rows_are_named() -> None:
    stream = stream_of(made(points=True))
    for make, words in (
        (lambda: agg.top_rows(0, "x"), "between 1 and"),
        (lambda: agg.top_rows(2, []), "the column that orders the rows"),
        (lambda: agg.top_rows(2, "x", rank="ntile"), "choose one of row_number, rank, dense_rank"),
        (lambda: stream.window(snapshot()).top(2, "nope"), "nope"),
        (lambda: stream.window(snapshot()).top(2, "x", place="n"), "there is already a column"),
        (lambda: stream.sort(), "needs a column or expression to order by"),
        (lambda: stream.sort(lit(None)), "has no order"),
    ):
        with pytest.raises(InvalidPlanError, match=words):
            make()


@pytest.mark.parametrize("parallelism", one_in(2, [3, 1]))
@pytest.mark.parametrize("n", [1, 9, 100])
def test_the_first_rows_of_a_stream(n: int, parallelism: int) -> None:
    stream = stream_of(made(points=False))
    schedules = [Schedule((0,)), Schedule((3, 0, 1, 5, 2), rows_max=4, restores=True)]
    for below in (stream, stream.sort("n"), stream.deduplicate("k", within=3)):
        whole = lower(below.limit(1_000).to_parquet(), root="memory://a", parallelism=parallelism)
        some = lower(below.limit(n).to_parquet(), root="memory://b", parallelism=parallelism)
        expected = repr(answer(whole).slice(0, n).to_pylist())
        assert [repr(answer(some, schedule=s).to_pylist()) for s in schedules] == [expected] * 2
    together = lower(
        stream.sort(desc("n")).limit(n).to_parquet(), root="memory://c", parallelism=parallelism
    )
    ordered = sorted(made(points=False), key=lambda row: (row[VS], -row["n"]))
    assert answer(together)["n"].to_pylist() == [row["n"] for row in ordered[:n]]


def test_a_limit_is_not_moved() -> None:
    """A filter above a LIMIT applies to the first rows only."""
    stream = stream_of(made(points=True))
    plan = lower(stream.limit(5).filter(col("n") > 2).to_parquet(), root="memory://limit")
    assert answer(plan).column("n").to_pylist() == [3, 4]
    assert any("limit 5" in line for stage in plan.stages for line in stage.operators)
    for wrong in (0, -1, 1.5, True, 2**70):
        with pytest.raises(InvalidPlanError, match="a whole number from 1 to"):
            stream.limit(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("latest", [False, True])
def test_the_first_rows_of_parts_contain_those_of_all(latest: bool) -> None:
    """The first rows are the same, whether parts are merged once or repeatedly."""
    rng = Random(5)
    codes = np.array([rng.randrange(2) for _ in range(40)])
    rows = [{"by0": k // 16, "vs": k // 8, "row": {"n": k}} for k in range(40)]
    kind = pa.struct(
        [("by0", pa.int64()), ("vs", pa.int64()), ("row", pa.struct([("n", pa.int64())]))]
    )
    order = top_rows.TopOrder("row_number", 3, ((True, False),), latest=latest)
    assert top_rows.TopOrder.read(str(order)) == order
    top = top_rows.TopRows("x", kind, order, merges=False)
    values = pa.array(rows, kind)
    whole = top.made(codes, values, 2)
    for cuts in ((0, 40), (0, 7, 40), (0, 3, 5, 21, 33, 40)):
        held, kept = codes[:0], values.slice(0, 0)
        for first, last in itertools.pairwise(cuts):
            held = np.concatenate([held, codes[first:last]])
            held, kept = top.shrink(
                held, pa.concat_arrays([kept, values.slice(first, last - first)])
            )
        assert top.made(held, kept, 2).equals(whole), cuts
        assert top.made(*top.shrink(*top.shrink(held, kept)), 2).equals(whole), cuts
