"""The most frequent key and its share, estimated from a sample, for any cut of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rstream.clock import ManualClock
from rstream.items.hashing import slots_of
from rvertex.host.environment import HostLimits
from rvertex.host.watch import Watch
from rvertex.keys.hot_keys import HotKeys
from tests.support.builders import ev
from tests.support.lives import arrival, run_vertex, source_vertex

USER = ("user",)


def rows(share: float, count: int, seed: int = 0) -> pa.RecordBatch:
    """Rows of which ``share`` have user 7; the others are of 10,000 users."""
    draw = np.random.default_rng(seed)
    users = draw.integers(100, 10_100, count)
    users[draw.random(count) < share] = 7
    return pa.RecordBatch.from_pydict({"user": users, "region": np.zeros(count, np.int64)})


def observed(batches: list[pa.RecordBatch], keys: tuple[str, ...] = USER) -> tuple[str, float]:
    found = HotKeys([(keys, 2)])
    for batch in batches:
        found.observe(batch)
    return found.hottest


@pytest.mark.parametrize("size", [1, 50, 8_192, 200_000])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_hot_key_is_named_with_its_share(share: float, size: int) -> None:
    count = 40 if size > 50 else 20_000
    whole = rows(share, size) if size > 50 else rows(share, count * size)
    batches = [whole.slice(k * size, size) for k in range(count)] if size <= 50 else [whole] * count
    key, found = observed(batches)
    if size > 1:
        assert key == "user=7"
        assert abs(found - share) < 0.06
    else:  # a sample of one row each: too few to name a key, or the right key
        assert key in ("", "user=7")


def test_a_former_hot_key_is_forgotten() -> None:
    key, share = observed([rows(0.9, 100_000)] * 40 + [rows(0.0, 100_000, k) for k in range(200)])
    assert share < 0.05, key


def test_keys_of_several_columns_texts_and_nulls_are_named() -> None:
    batch = pa.RecordBatch.from_pydict({"user": [None] * 300, "page": ["a" * 200] * 300})
    assert observed([batch]) == ("user=None", 1.0)
    key, share = observed([batch], ("user", "page"))
    assert (key, share) == ("user=None, page='" + "a" * 63, 1.0)
    assert observed([batch.slice(0, 9)]) == ("", 0.0), "too few rows to name a key"
    empty = HotKeys([])
    empty.observe(batch)
    assert empty.hottest == ("", 0.0)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.timestamp("us"), 2**62, str(2**62)),
        (pa.date32(), 2**31 - 5, str(2**31 - 5)),
        (pa.binary(), b"\xff", "b'\\xff'"),
        (pa.dictionary(pa.int32(), pa.string()), "x", "'x'"),
    ],
)
def test_keys_of_any_type_are_shown(kind: pa.DataType, value: Any, text: str) -> None:
    keys = pa.array([value] * 200, kind)
    assert observed([pa.record_batch([keys], ["user"])]) == (f"user={text}", 1.0)


def test_the_hot_key_is_reported_with_the_timing_of_its_vertex() -> None:
    table = [ev(t, k=t if t % 10 == 0 else 7, x=float(t)) for t in range(4_000)]
    vertex = run_vertex(source_vertex(), [arrival(table)], []).vertex
    watch = Watch("h0.0", ManualClock(), HostLimits())
    assert watch.timing("s.0", 1).hot_key == "", "it has not been seen"
    watch.timing("s.0", 1, vertex)
    timing = watch.timing("s.0", 1)
    assert timing.hot_key == "k=7", "partial sums of each pane: half of them are of k=7"


@pytest.mark.parametrize("vertices", [1, 2])
def test_sampled_slots_have_equal_shares_of_recent_rows(vertices: int) -> None:
    found = HotKeys([(USER, vertices)])
    found.observe(rows(0.5, 100))
    assert found.slots == ((USER, ()),), "too few rows"
    for seed in range(14):  # small batches fill the sample, too
        found.observe(rows(0.5, 2, seed))
    assert len(found.slots[0][1]) == 64
    for seed in range(60):
        found.observe(rows(0.5, 100_000, seed))
    ((names, slots),) = found.slots
    hot = int(slots_of([pa.array([7])])[0])
    assert (names, len(slots)) == (USER, 64)
    assert list(slots) == sorted(slots)
    assert abs(slots.count(hot) - 32) < 5
    assert (found.hottest[0] == "user=7") == (vertices > 1)
