"""Which nodes emit rows at their start; the output stays the same table."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest

from planner import (
    KeyedContext,
    KeyedProcess,
    Query,
    Stream,
    agg,
    col,
    count_window,
    event,
    hopping,
    lit,
    prev,
    session,
    tumbling,
    ve,
    vs,
)
from planner.optimizer.optimizer import RULES
from planner.optimizer.rules import open_rows
from planner.physical.lower import lower
from rstream.items.edges import is_end, paired
from rstream.types import INF_TIME
from tests.support.budget import one_in
from tests.support.edges import joined_lives
from tests.support.plan_runner import Schedule, answer

if TYPE_CHECKING:
    from collections.abc import Callable


def things(seed: int, rows: int = 40) -> Stream:
    """Points with a text key, some of them null."""
    chance = random.Random(seed)
    times = sorted(chance.randint(0, 60) for _ in range(rows))
    items = [
        event(t, k=chance.choice(["a", "b", "c", None]), x=chance.randint(0, 3)) for t in times
    ]
    schema = {"k": "string", "x": "int64"}
    return Stream.from_items(schema, items, partitions=2)


def versions(seed: int) -> Stream:
    return things(seed).upserts("k", deleted=col("x") == 0)


TIME = pa.timestamp("us", "UTC")
LESS = col("x") < col("x_right")
QUERIES: dict[str, Callable[[], Stream]] = {
    "running total": lambda: things(1).group_by("k").agg(n=agg.count(), s=agg.sum("x")),
    "distinct count": lambda: things(1).group_by("k").agg(d=agg.count_distinct("x")),
    "total of all": lambda: things(2).group_by().agg(n=agg.count(), top=agg.max("x")),
    "versions": lambda: versions(3),
    "filtered": lambda: versions(3).filter(col("x") > 1).select("k", y=col("x") * 2),
    "per version": lambda: versions(4).group_by("x").agg(n=agg.count(), last=agg.max("k")),
    "mean per version": lambda: versions(4).group_by().agg(m=agg.mean("x")),
    "join": lambda: versions(5).join(versions(6).select("k", y=col("x")), on="k"),
    "left": lambda: versions(5).join(versions(6).select("k", y=col("x")), on="k", how="left"),
    "anti": lambda: versions(5).join(versions(6), on="k", how="anti"),
    "left of all": lambda: (
        things(7)
        .for_ever()
        .join(things(8, 3).for_ever().select("k", y=col("x")), on="k", how="left")
    ),
    "first rows": lambda: things(9).group_by("k").top(2, by="x"),
    "condition": lambda: versions(18).join(versions(19), on="k", how="left", where=LESS),
    "no match": lambda: versions(18).join(versions(19), on="k", how="anti", where=LESS),
    "reads its start": lambda: versions(14).with_columns(s=vs()).filter(vs() > lit(5).cast(TIME)),
    "best": lambda: versions(20).group_by("x").agg(best=agg.max_by("k", "k"), n=agg.count()),
    "frame": lambda: (
        versions(21).group_by("x").rolling(rows=2).with_columns(n=agg.count(), m=agg.max("k"))
    ),
    "first": lambda: versions(22).deduplicate("x"),
    "first within": lambda: versions(22).deduplicate("x", within="9us"),
    "limit": lambda: versions(23).limit(7),
    "last before": lambda: versions(24).join_asof(versions(25).select("k", y=col("x")), by="k"),
    "nearest": lambda: versions(26).join_asof(
        things(27).select("k", y=col("x")), by="k", strategy="nearest", tolerance="4us"
    ),
    "session so far": lambda: (
        things(29)
        .group_by("k")
        .window(session("3us", "9us", running=True))
        .agg(n=agg.count(), d=agg.count_distinct("x"))
    ),
    "window so far": lambda: (
        things(30)
        .group_by("k")
        .window(tumbling("10us"), emit="changes")
        .agg(n=agg.count(), m=agg.max("x"))
    ),
    "windows so far": lambda: (
        things(30)
        .set_duration("7us")
        .window(hopping("10us", "5us", "3us"), emit="changes")
        .agg(n=agg.count(), m=agg.mean("x"), d=agg.count_distinct("k"))
    ),
    "shifted": lambda: versions(28).shift("-3us"),
    "extended": lambda: versions(32).extend("3us"),
    "session of versions": lambda: (
        versions(33).group_by("x").window(session("2us", running=True)).agg(n=agg.count())
    ),
    "frame of a mean": lambda: (
        running().group_by("x").rolling(rows=2).with_columns(n=agg.count()).select("x", "n")
    ),
    "first of a mean": lambda: running().deduplicate("x"),
    "start of a mean": lambda: running().with_columns(s=vs()),
    "versions of a mean": lambda: running().clip(running(), on="x"),
    "union": lambda: versions(10).union(versions(11)).group_by("k").agg(n=agg.count()),
}


def with_changes(stream: Stream) -> Query:
    query = stream.to_parquet(technical_columns=True)
    return replace(query, plan=replace(query.plan, changes=True))


@pytest.mark.parametrize("name", one_in(3, QUERIES))
@pytest.mark.parametrize("parallelism", [1, 2])
def test_edges_encode_the_same_table(name: str, parallelism: int) -> None:
    stream = QUERIES[name]()
    changed = answer(lower(with_changes(stream), root="r", parallelism=parallelism))
    whole = answer(lower(stream.to_parquet(), root="r", parallelism=parallelism))
    assert joined_lives(_rows(paired(changed))) == joined_lives(_rows(whole))
    assert is_end(changed.column("_vs").to_numpy(), changed.column("_ve").to_numpy()).any()


@pytest.mark.parametrize("name", one_in(6, QUERIES))
def test_batches_and_restores_do_not_change_rows(name: str) -> None:
    plan = lower(with_changes(QUERIES[name]()), root="r", parallelism=2)
    again = answer(plan, schedule=Schedule((1, 5, 2, 0, 4), rows_max=5, restores=True))
    assert again.equals(answer(plan))


def running() -> Stream:
    """For some keys the mean does not change from row to row."""
    means = things(16).with_columns(x=col("x") // 2).group_by("k").agg(x=agg.mean("x"))
    return means.with_columns(x=col("x").cast("int64"))


@pytest.mark.parametrize(
    "stream",
    [
        running().clip(things(17), on="k"),
        versions(17).clip(running(), on="k"),
        running().group_by().agg(x=agg.last("x"), all=agg.collect("k")),
        running().group_by().agg(all=agg.array_agg("k")),
        running().group_by().agg(all=agg.string_agg("k", "")),
        running().group_by().agg(all=agg.array_agg("k", order_by="x")),
        running().group_by().agg(x=agg.last("k", order_by="x")),
    ],
    ids=["clipped", "clips", "in order", "list", "text", "ordered list", "last by order"],
)
def test_a_reader_of_start_times_gets_every_change(stream: Stream) -> None:
    """An unchanged result stays valid; with whole rows it would start again."""
    changed = answer(lower(with_changes(stream), root="r"))
    whole = answer(lower(stream.to_parquet(), root="r"))
    rows = [[(vs, ve, repr(row)) for vs, ve, *row in _rows(t)] for t in (paired(changed), whole)]
    assert joined_lives(rows[0]) == joined_lives(rows[1])


def test_a_point_joined_with_versions_is_complete() -> None:
    """The reader needs no ends: the events are points, and are emitted at once."""
    stream = things(12).join(versions(13).select("k", y=col("x")), on="k")
    plan = lower(stream.to_parquet(), root="r")
    assert any("rows at once" in line for stage in plan.stages for line in stage.operators)
    found = answer(plan)
    length = found.column("_ve").to_numpy() - found.column("_vs").to_numpy()
    assert len(found) > 0
    assert (length == 1).all()


class Current(KeyedProcess):
    """The valid rows of a key, emitted at each change."""

    output: ClassVar[dict[str, str]] = {"x": "int64", "is_end": "bool", "alive": "int64"}
    alive: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.alive += 1
        ctx.emit(event.x, False, self.alive)

    def on_end(self, event: Any, ctx: KeyedContext) -> None:
        self.alive -= 1
        ctx.emit(event.x, True, self.alive)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_process_with_on_end_does_not_wait_for_ends(parallelism: int) -> None:
    current = versions(31).group_by("k").process(Current)
    plan = lower(current.to_parquet(), root="r", parallelism=parallelism)
    assert any("rows at once" in line for stage in plan.stages for line in stage.operators)
    found = answer(plan)
    rows = answer(lower(versions(31).to_parquet(), root="r")).to_pylist()
    begins = [(r["_vs"], r["k"], r["x"], False) for r in rows]
    ends = [(r["_ve"], r["k"], r["x"], True) for r in rows if r["_ve"] != INF_TIME]
    told = [(r["_vs"], r["k"], r["x"], r["is_end"]) for r in found.to_pylist()]
    assert sorted(told, key=repr) == sorted([*begins, *ends], key=repr)
    last = {r["k"]: r["alive"] for r in sorted(found.to_pylist(), key=lambda r: r["_vs"])}
    assert last == {k: sum(r["_ve"] == INF_TIME for r in rows if r["k"] == k) for k in last}
    again = answer(plan, schedule=Schedule((3, 1, 2), rows_max=5, restores=True))
    assert again.equals(found)


@pytest.mark.parametrize(
    "stream",
    [
        versions(14).with_columns(ended=ve()),
        versions(14).extend("-1us"),
        things(15).group_by("k").window(tumbling("10us")).agg(n=agg.count()),
        things(15).set_duration(5).clip(things(15), on="k"),
    ],
    ids=["reads its end", "ends earlier", "windows", "bounded"],
)
def test_readers_of_complete_rows_get_them(stream: Stream) -> None:
    plan = lower(with_changes(stream), root="r")
    assert not any("rows at once" in line for stage in plan.stages for line in stage.operators)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def lasting(seed: int) -> Stream:
    """Intervals."""
    chance = random.Random(seed)
    items = [
        event(t, t + chance.randint(1, 20), k=chance.choice("abc"), z=chance.randint(0, 3))
        for t in sorted(chance.randint(0, 60) for _ in range(30))
    ]
    return Stream.from_items({"k": "string", "z": "int64"}, items, partitions=2)


def ending(seed: int) -> Stream:
    """Rows whose end is not known at their start."""
    return versions(seed).join(lasting(seed), on="k")


def means(seed: int) -> Stream:
    """Means: results that are often equal."""
    return things(seed).group_by("k").agg(m=agg.mean("x")).with_columns(m=col("m").round())


def cut(seed: int) -> Stream:
    """Rows that end with the next row of their key, or with a row that ends all."""
    rows = ending(seed).select("k", "z").set_duration("30us")
    return rows.union(rows.shift("5us")).clip(versions(seed), on="k")


#: Steps whose rows depend on starts, or on the rows that are valid in a window.
READERS: dict[str, Callable[[], Stream]] = {
    "tumbling": lambda: ending(1).group_by("k").window(tumbling("10us")).agg(n=agg.count()),
    "hopping": lambda: ending(2).window(hopping("15us", "6us")).agg(s=agg.sum("x"), z=agg.max("z")),
    "offset": lambda: ending(3).window(tumbling("10us", "3us")).agg(n=agg.count_distinct("z")),
    "median": lambda: (
        ending(4).group_by("k").window(tumbling("10us")).agg(m=agg.quantile("x", 0.5))
    ),
    "interval": lambda: ending(5).join(versions(6), on="k", within=("-5us", "5us")),
    "interval full": lambda: ending(5).join(versions(6), on="k", within=("0s", "5us"), how="full"),
    "as of": lambda: things(7).join_asof(versions(8).select("k", y=col("x")), by="k"),
    "chop": lambda: ending(14).chop("7us"),
    "chop of a mean": lambda: means(15).join(lasting(15), on="k").chop("7us"),
    "windows of a mean": lambda: (
        means(16).join(lasting(16), on="k").window(tumbling("9us")).agg(n=agg.count())
    ),
    "match": lambda: ending(17).match(
        "A B",
        partition_by="k",
        define={"B": col("x") > prev("x")},
        measures={"n": col("x")},
        within="9us",
    ),
    "set duration": lambda: ending(9).set_duration("4us"),
    "for ever": lambda: ending(10).for_ever(),
    "point at end": lambda: ending(11).point_at_end(),
    "by number": lambda: versions(12).group_by("k").window(count_window(3)).agg(s=agg.sum("x")),
    "in order": lambda: cut(13).window(hopping("15us", "6us")).agg(z=agg.last("z")),
}


@pytest.mark.parametrize("name", one_in(4, READERS))
@pytest.mark.parametrize("parallelism", one_in(2, [2, 1]))
def test_readers_of_starts_and_windows_do_not_wait_for_ends(name: str, parallelism: int) -> None:
    query = READERS[name]().to_parquet()
    plan = lower(query, root="r", parallelism=parallelism)
    assert any("rows at once" in line for stage in plan.stages for line in stage.operators)
    found = answer(plan)
    assert len(found) > 0
    again = answer(plan, schedule=Schedule((1, 5, 2, 0, 4), rows_max=5, restores=True))
    assert again.equals(found)
    rules = [rule for rule in RULES if rule is not open_rows]
    whole = answer(lower(query, root="r", parallelism=parallelism, rules=rules))
    assert sorted(map(repr, _rows(found))) == sorted(map(repr, _rows(whole)))
