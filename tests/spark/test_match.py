"""Row patterns in Spark: the batch returns the same rows as the stream.

Not covered: rules of matching (see ``tests/rvertex/operators/test_match_patterns.py``).
"""

from __future__ import annotations

import pytest

import streamscope as ss
from streamscope import col, event, prev, rows_of

pytestmark = pytest.mark.spark


def test_the_batch_finds_the_same_matches() -> None:
    prices = [12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19]
    rows = [
        event(f"{i}s", symbol=symbol, price=price)
        for i, price in enumerate(prices)
        for symbol in "ab"
    ]
    ticker = ss.Stream.from_items({"symbol": "string", "price": "int64"}, rows)
    found = ticker.match(
        "S D+ U",
        partition_by="symbol",
        define={
            "D": col("price") < prev("price"),
            "U": col("price") > rows_of("D")["price"],
        },
        measures={"low": rows_of("D")["price"]},
        rows="all",
    )
    stream, batch = (
        sorted(map(str, made.to_pylist()))
        for made in (ss.collect(found, executor="local"), ss.collect_batch(found))
    )
    assert len(stream) == 10
    assert stream == batch
