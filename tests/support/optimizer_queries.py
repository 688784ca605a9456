"""Small queries that a rule of the optimizer was written for; none gives an empty answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import Query, agg, col, lit, tumbling, when
from tests.support.queries import bids, sales

if TYPE_CHECKING:
    from collections.abc import Callable


def constants() -> Query:
    """Literals meet; conditions that always or never hold disappear, a cast that may fail stays."""
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
    """Two sources written twice are read once; what differs in the end stays apart."""
    dear = bids().filter(col("price") > 20).select("auction", "price")
    again = bids().filter(col("price") > 20).select("auction", "price")
    return dear.union(again, bids().select("auction", "price")).to_parquet()


def union_of_unions() -> Query:
    """What follows row by row goes into the branches, so that rows are merged once."""
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


OPTIMIZER_QUERIES: dict[str, Callable[[], Query]] = {
    query.__name__: query
    for query in (
        constants,
        equal_subplans,
        union_of_unions,
        filter_into_both_sides,
    )
}
