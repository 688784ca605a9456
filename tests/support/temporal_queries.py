"""Small queries with changed lifetimes, clips, stitches, left and anti joins; none is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import Query, agg, col, hopping
from tests.support.queries import bids, sales

if TYPE_CHECKING:
    from collections.abc import Callable


def lifetimes() -> Query:
    """Changes of lifetimes join the stage of their input.

    A filter on the payload moves below them.
    """
    return (
        bids()
        .set_duration("5ms")
        .extend("2ms")
        .shift("-1ms")
        .chop("4ms", offset="1ms")
        .extend("-1ms")
        .point_at_end()
        .filter(col("price") > 10)
        .select("auction", "price")
        .to_parquet()
    )


def lifetimes_in_filters() -> Query:
    """Filters that read lifetimes stay above the steps that change them."""
    return (
        sales()
        .extend("3ms")
        .filter(col("_ve") - col("_vs") > 10_000)
        .chop("10ms")
        .filter((col("_vs") % 10_000 == 0) & (col("tier") == "t0"))
        .select("auction", "tier")
        .to_parquet()
    )


def left_join() -> Query:
    """A filter on the left side moves down; one on the right, which sees nulls, stays."""
    return (
        bids()
        .set_duration("8ms")
        .select("auction", "bidder", "price")
        .join(sales().select("auction", "tier"), on="auction", how="left")
        .filter((col("price") > 5) & (col("auction") != 2) & (col("tier").is_null() | True))
        .filter(col("tier").is_null() | (col("tier") == "t1"))
        .to_parquet()
    )


def anti_join_then_aggregate() -> Query:
    """Pieces of rows without a match, counted by the key that already partitions them."""
    busy = bids().filter(col("price") > 25).set_duration("3ms")
    return (
        sales()
        .join(busy, left_on="auction", right_on="auction", how="anti")
        .filter(col("auction") > 0)
        .group_by("auction")
        .window(hopping("20ms", "10ms"))
        .agg(n=agg.count(), most=agg.max("price"))
        .to_parquet()
    )


def clip_by_itself() -> Query:
    """Each bid lasts until the next one of its auction; only keys are needed of the right side."""
    source = bids().set_duration("1h")
    return source.clip(source, on="auction").select("auction", "price").to_parquet()


def as_of_nearest() -> Query:
    """The sale nearest to a bid: a filter on the bid moves down, one on the sale stays."""
    return (
        bids()
        .join_asof(sales(), by="auction", strategy="nearest", tolerance="6ms")
        .filter((col("price") > 5) & (col("auction") != 2))
        .filter(col("tier").is_null() | (col("tier") == "t1"))
        .select("auction", "bidder", "tier")
        .to_parquet()
    )


def stitch_by_key() -> Query:
    """The times at which an auction has any sale; a filter on its key moves below the stitch."""
    return (
        sales()
        .select("auction", tier=col("auction") + 1)
        .stitch("auction")
        .filter(col("auction") < 4)
        .to_parquet()
    )


TEMPORAL_QUERIES: dict[str, Callable[[], Query]] = {
    query.__name__: query
    for query in (
        lifetimes,
        lifetimes_in_filters,
        left_join,
        anti_join_then_aggregate,
        clip_by_itself,
        as_of_nearest,
        stitch_by_key,
    )
}
