"""Small queries over small data, one per kind of plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import (
    Query,
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
    when,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MS = 1_000


def bids(partitions: int = 2) -> Stream:
    """Point events, one per millisecond."""
    rows = [
        event(
            i * MS,
            auction=(i * 7) % 5 if i % 11 else None,
            bidder=f"b{(i * 3) % 4}",
            price=(i * 13) % 50,
            note="unread " * (i % 3),
        )
        for i in range(60)
    ]
    schema = {"auction": "int64", "bidder": "string", "price": "int64", "note": "string"}
    return Stream.from_items(schema, rows, partitions=partitions).name("bids")


def sales(partitions: int = 2) -> Stream:
    """A stream of intervals; the key has another integer type than the key of bids."""
    rows = [
        event(
            i * 5 * MS, i * 5 * MS + (i % 4 + 1) * 6 * MS, auction=i % 5, tier=f"t{i % 2}", price=i
        )
        for i in range(12)
    ]
    items = [*rows[:6], cti(25 * MS), *rows[6:]]
    schema = {"auction": "int32", "tier": "string", "price": "float64"}
    return Stream.from_items(schema, items, partitions=partitions).name("sales")


def stateless() -> Query:
    """Filter and projections: one stage, from source to sink."""
    return (
        bids()
        .filter(col("price") % 10 == 3)
        .with_columns(double=col("price") * 2)
        .select("auction", "double", who=col("bidder").str.upper())
        .filter((col("double") > 10) & col("auction").is_not_null())
        .to_parquet()
    )


def two_phases() -> Query:
    """An aggregate around an exchange."""
    return (
        bids()
        .group_by("auction")
        .window(hopping("20ms", "10ms"))
        .agg(n=agg.count(), total=agg.sum("price"), top=agg.max(col("price") * 2))
        .filter((col("n") > 2) & (col("auction") != 3))
        .to_parquet()
    )


def without_keys() -> Query:
    """Everything in one vertex."""
    return bids().window(tumbling("20ms")).agg(n=agg.count(), mean=agg.mean("price")).to_parquet()


def join_then_aggregate() -> Query:
    """The group key is the join's key under another name, so there is no second exchange."""
    return (
        bids()
        .join(sales(), on="auction")
        .filter((col("price_right") >= 2) & (col("bidder") != "b0") & (col("auction") < 4))
        .rename({"auction": "lot"})
        .with_columns(cheap=when(col("price") < 25).then("cheap").otherwise("dear"))
        .group_by("lot", "cheap")
        .window(tumbling("20ms"))
        .agg(n=agg.count(), last=agg.last("tier"))
        .to_parquet()
    )


def aggregate_then_aggregate() -> Query:
    """Two aggregates by the same keys, which need only one exchange."""
    return (
        bids()
        .group_by("bidder", "auction")
        .window(tumbling("10ms"))
        .agg(n=agg.count(), unused=agg.mean("price"))
        .group_by("auction", "bidder")
        .window(tumbling("30ms"))
        .agg(busiest=agg.max("n"))
        .to_parquet()
    )


def aggregate_then_join() -> Query:
    """A join of a source with its aggregate, which is already partitioned by the key."""
    source = bids()
    counts = source.group_by("auction").window(tumbling("20ms")).agg(n=agg.count())
    return source.select("auction", "price").join(counts, on="auction").to_parquet()


def self_join() -> Query:
    """Both sides are the same subplan."""
    dear = bids().filter(col("price") > 20).select("auction", "price")
    long = sales().select("auction", "tier")
    both = dear.join(long, on="auction")
    return both.join(long, left_on=["auction", "tier"], right_on=["auction", "tier"]).to_parquet()


def union_to_sink() -> Query:
    """A union without further steps is a separate stage."""
    return bids().select("auction").union(sales().select("auction")).to_parquet()


def union_then_aggregate() -> Query:
    """The branches of a union aggregate before the exchange; the filter moves into each."""
    left = bids().select("auction", kind=lit("bid"))
    right = sales(partitions=3).select("auction", kind=lit("sale"))
    return (
        left.union(right)
        .filter(col("auction") > 0)
        .group_by("kind")
        .window(tumbling("20ms"))
        .agg(n=agg.count())
        .to_parquet()
    )


def words() -> Query:
    """Explode below an aggregate."""
    return (
        bids()
        .select(word=(col("bidder") + " " + col("note")).str.split(), price=col("price"))
        .explode("word")
        .filter(col("price") > 5)
        .group_by("word")
        .window(tumbling("30ms"))
        .agg(n=agg.count())
        .to_parquet()
    )


def careful_filters() -> Query:
    """A cast that may fail stays behind the filter that protects it."""
    return (
        bids()
        .filter(col("bidder").str.starts_with("b"))
        .join(sales(), on="auction")
        .filter(col("bidder").str.slice(1).cast(int) > 1)
        .filter(col("_vs").dt.second() == 0)
        .select("bidder", "tier")
        .to_parquet()
    )


def sessions() -> Query:
    """Windows that depend on the rows have one phase; a filter on their key moves below them."""
    return (
        bids()
        .group_by("bidder")
        .window(session("5ms", max="20ms"))
        .agg(n=agg.count(), kinds=agg.count_distinct("auction"), unused=agg.last("note"))
        .filter((col("bidder") != "b2") & (col("n") > 0))
        .select("bidder", "n", "kinds")
        .to_parquet()
    )


def snapshots() -> Query:
    """Snapshot windows, then windows of four rows by the same key: one exchange for both."""
    return (
        sales()
        .group_by("tier")
        .window(snapshot())
        .agg(n=agg.count(), median=agg.quantile("price", 0.5))
        .group_by("tier")
        .window(count_window(4))
        .agg(most=agg.max("n"), top=agg.top_k("median", 2))
        .to_parquet()
    )


def whole_windows() -> Query:
    """One aggregate needs all rows of a window, so the query's others also have one phase."""
    return (
        bids()
        .group_by("auction")
        .window(tumbling("20ms"))
        .agg(n=agg.count(), high=agg.quantile("price", 0.9), product=agg.product(col("price") + 1))
        .to_parquet()
    )


QUERIES: dict[str, Callable[[], Query]] = {
    query.__name__: query
    for query in (
        stateless,
        two_phases,
        without_keys,
        join_then_aggregate,
        aggregate_then_aggregate,
        aggregate_then_join,
        self_join,
        union_to_sink,
        union_then_aggregate,
        words,
        sessions,
        snapshots,
        whole_windows,
        careful_filters,
    )
}
