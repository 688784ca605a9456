"""Nexmark: the generator's promises, and every query against DuckDB on 20,000 events.

The events are 20 pieces of 1,000, two seconds apart, so that there are several windows. Cannot
catch: effects of the benchmark's rate and size; the benchmark checks its own results.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import jobmanager
from tests.support.budget import one_in

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from nexmark import compare, folder, generator, shape
from nexmark.queries import QUERIES
from nexmark.reference import REFERENCE
from nexmark.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

PIECES = [(lo, lo + 1_000) for lo in range(0, 400_000, 20_000)]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nexmark")
    folder.write(path, PIECES)
    return path


@pytest.fixture(scope="module")
def connection(events: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with compare.connect(events) as connection:
        yield connection


@pytest.mark.parametrize("name", one_in(6, QUERIES))
def test_a_query_has_the_result_of_duckdb(
    name: str, events: Path, connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    query = QUERIES[name](Streams(events)).to_parquet(start="alive_from", end="alive_until")
    job = jobmanager.run(query, root=str(tmp_path / "job"), executor="local")
    assert job.wait()["events_out"] > 0
    found = compare.mismatch(connection, name, compare.answer_of(job.output))
    assert found is None, f"{name}: {found}"


def test_a_wrong_result_is_reported(connection: duckdb.DuckDBPyConnection) -> None:
    wrong = REFERENCE["q2"].replace("123", "124")
    found = compare.mismatch(connection, "q2", wrong)
    assert found is not None
    assert found.expected != found.found
    assert any(example.startswith("too many") for example in found.examples)


@pytest.mark.parametrize("kind", generator.KINDS)
def test_a_range_of_events_can_be_generated_alone(kind: str) -> None:
    make = generator.KINDS[kind]
    whole, parts = make(0, 3_000), [make(0, 1_234), make(1_234, 3_000)]
    assert whole.to_pylist() == [row for part in parts for row in part.to_pylist()]


def test_events_have_the_shape_of_nexmark() -> None:
    lo, hi = 1_000_000, 1_100_000
    persons, auctions, bids = (make(lo, hi) for make in generator.KINDS.values())
    assert [len(persons), len(auctions), len(bids)] == [2_000, 6_000, 92_000]
    auction, bidder = (np.asarray(bids[name]) for name in ("auction", "bidder"))
    hot_auctions = np.mean((auction - shape.FIRST_ID) % shape.HOT_IDS == 0)
    hot_bidders = np.mean((bidder - shape.FIRST_ID) % shape.HOT_IDS == 1)
    assert 0.5 < hot_auctions < 0.52
    assert 0.75 < hot_bidders < 0.77
    assert auction.min() > shape.FIRST_ID + 3 * lo // shape.PERIOD_EVENTS - 200


def test_events_arrive_out_of_order_within_the_delay() -> None:
    event = shape.arrived(0, 10_000)
    assert sorted(event.tolist()) == list(range(10_000))
    behind = np.maximum.accumulate(event) - event
    assert 0 < behind.max() * shape.EVENT_US < 100_000
