"""Small queries, each written for a rule of the optimizer; none has an empty result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import Query, Stream, agg, col, event, hopping, lit, tumbling, when
from tests.support.queries import bids, sales

if TYPE_CHECKING:
    from collections.abc import Callable


def constants() -> Query:
    """Literals are folded; constant conditions disappear, and a cast that may fail stays."""
    return (
        bids()
        .filter((lit(2) + 3 > 4) & (col("price") > lit(60) / 6) & ~~(col("auction") != 9))
        .filter(lit("b") == "b")
        .select(
            "auction",
            tax=col("price") * (lit(1) + 0.5),
            kind=when(lit(1) > 2).then(lit("never")).when(col("price") > 30).then(lit("dear"))
            .when(lit(True)).then(lit("cheap")).otherwise(lit("never")),
            digits=when(lit(False)).then(col("bidder").str.slice(1).cast(int))
            .otherwise(lit("7").cast(int)),
        )
        .to_parquet()
    )  # fmt: skip


def equal_subplans() -> Query:
    """Two equal sources are read once; the differing parts stay separate."""
    dear = bids().filter(col("price") > 20).select("auction", "price")
    again = bids().filter(col("price") > 20).select("auction", "price")
    return dear.union(again, bids().select("auction", "price")).to_parquet()


def union_of_unions() -> Query:
    """Row-by-row steps move into the branches, so rows are merged once."""
    both = bids().select("auction", "price").union(sales().select("auction", "price"))
    more = bids(partitions=1).select("auction", price=col("price") + 1)
    return (
        both.union(more)
        .with_columns(price=col("price") * 2, key=col("auction") % 2)
        .group_by("key")
        .window(tumbling("20ms"))
        .agg(n=agg.count(), total=agg.sum("price"))
        .to_parquet()
    )


def filter_into_both_sides() -> Query:
    """A condition on the key reaches both sides of an anti join, and both branches of a union."""
    quiet = bids().set_duration("4ms").join(sales(), on="auction", how="anti")
    other = sales().select(auction=col("auction").cast(int), price=col("price").cast(int))
    return (
        quiet.select("auction", "price")
        .union(other)
        .filter((col("auction") > 1) & (col("price") < 40))
        .to_parquet()
    )


def visits() -> Stream:
    """Point events of twenty users on four pages."""
    rows = [event(i * 1_000, user=(i * 7) % 20, page=f"p{i % 4}", ms=i % 13) for i in range(120)]
    return Stream.from_items({"user": "int64", "page": "string", "ms": "int64"}, rows, partitions=3)


def exchanged_once() -> Query:
    """Aggregates by user and page, then by user: one exchange by user serves both and a join."""
    by_page = visits().group_by("user", "page").window(tumbling("40ms")).agg(n=agg.count())
    most = by_page.group_by("user").window(tumbling("40ms")).agg(most=agg.max("n"))
    twice = by_page.select("user", "page", "n").join(most, on="user")
    return twice.filter(col("n") >= col("most")).to_parquet()


def joined_by_part_of_the_keys() -> Query:
    """The left side is already partitioned by user, so the right one is exchanged by user only."""
    slow = visits().group_by("user").window(tumbling("40ms")).agg(ms=agg.max("ms"))
    seen = visits().set_duration("9ms").select("user", "ms")
    return slow.join(seen, on=["user", "ms"]).to_parquet()


def union_of_alike() -> Query:
    """Both branches are partitioned by user, and so is their union, grouped without an exchange."""
    fast = visits().group_by("user").window(tumbling("20ms")).agg(ms=agg.min("ms"))
    slow = visits().group_by("user").window(tumbling("40ms")).agg(ms=agg.max("ms"))
    return (
        fast.union(slow).group_by("user").window(tumbling("40ms")).agg(spread=agg.stddev("ms"))
        .to_parquet()
    )  # fmt: skip


def long_joins() -> Query:
    """The first two joins make many rows, which the last one drops again."""
    wide = bids().set_duration("30ms").select("auction", bid=col("price"))
    wider = bids(partitions=1).set_duration("20ms").select("auction", "bidder")
    rare = sales().filter((col("tier") == "t0") & (col("price") < 3))
    lots = sales().select(kind=col("tier"), lot=col("auction")).filter(col("lot") == 2)
    return (
        wide.join(wider, on="auction")
        .join(rare.select("auction", "tier"), on="auction")
        .select("bid", "bidder", "tier", who=col("auction"))
        .join(lots, left_on=["tier", "who"], right_on=["kind", "lot"])
        .select("who", "bid", "bidder", "kind")
        .to_parquet()
    )


def wide_keys_of_join() -> Query:
    """A condition on a key of a wider type reaches the narrow column that it came from."""
    both = bids().select("auction", "price").join(sales().select("auction", "tier"), on="auction")
    return both.filter(col("auction") >= 3).to_parquet()


def greatest_of_window() -> Query:
    """The auctions with the most bids; each vertex emits only the greatest of its counts."""
    counts = bids().group_by("auction").window(hopping("20ms", "10ms")).agg(n=agg.count())
    counts = counts.set_duration("10ms")
    most = counts.window(tumbling("10ms")).agg(most=agg.max("n"))
    return counts.join(most, left_on="n", right_on="most").to_parquet()


OPTIMIZER_QUERIES: dict[str, Callable[[], Query]] = {
    query.__name__: query
    for query in (
        constants,
        equal_subplans,
        union_of_unions,
        filter_into_both_sides,
        exchanged_once,
        joined_by_part_of_the_keys,
        union_of_alike,
        long_joins,
        wide_keys_of_join,
        greatest_of_window,
    )
}
