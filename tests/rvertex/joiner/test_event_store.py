"""Primary rows can be looked up by id, in memory or on disk, until they expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.types import MIN_TIME
from rvertex.registry.joiner.event_store import EventStore
from rvertex.state.scratch import Scratch

if TYPE_CHECKING:
    from pathlib import Path

PAYLOAD = pa.schema([("q", pa.string()), ("text", pa.int64())])


def added(store: EventStore, first: int, count: int) -> None:
    numbers = range(first, first + count)
    columns = [pa.array([f"q{n}" for n in numbers]), pa.array(numbers, pa.int64())]
    rows = pa.RecordBatch.from_arrays(columns, schema=PAYLOAD)
    store.add(first, rows, np.arange(first, first + count))


def texts(store: EventStore, ids: list[str | None]) -> list[int | None]:
    rows, at = store.find(pa.array(ids, pa.string()))
    found = rows.column("text").to_pylist()
    return [None if k < 0 else found[k] for k in at.tolist()]


def test_rows_are_found_in_memory_and_on_disk(tmp_path: Path) -> None:
    store = EventStore(PAYLOAD, "q", 1 << 17, Scratch(str(tmp_path)))
    for first in range(0, 10_000, 500):
        added(store, first, 500)
    wanted = ["q9999", "q0", "q5", "none", None, "q0"]
    assert texts(store, wanted) == [9999, 0, 5, None, None, 0]
    assert (store.hits, store.disk_hits, store.misses) == (1, 3, 2)
    assert store.newest_us == 9999


def test_expired_rows_are_deleted_and_others_kept(tmp_path: Path) -> None:
    store = EventStore(PAYLOAD, "q", 1 << 30, Scratch(str(tmp_path)))
    for first in range(0, 4000, 1000):
        added(store, first, 1000)
    store.expire(3000)
    assert store.first_seq == 3000
    assert texts(store, ["q3000", "q3999"]) == [3000, 3999]
    store.expire(3500)  # some rows of a part
    assert texts(store, ["q3499", "q3500"]) == [None, 3500]


def test_rows_without_a_time_get_the_newest_time() -> None:
    store = EventStore(PAYLOAD, "q", 1 << 20)
    rows = pa.RecordBatch.from_pylist([{"q": "a", "text": 1}, {"q": "b", "text": 2}], PAYLOAD)
    store.add(0, rows, np.array([MIN_TIME, 6]))
    store.expire(-(1 << 64))
    assert texts(store, ["a", "b"]) == [1, 2]
    store.expire(6)
    assert texts(store, ["a", "b"]) == [1, 2]


def test_rows_without_an_id_are_never_found() -> None:
    store = EventStore(PAYLOAD, "q", 1 << 20)
    rows = pa.RecordBatch.from_pylist([{"q": None, "text": 1}, {"q": "a", "text": 2}], PAYLOAD)
    store.add(0, rows, np.array([5, 6]))
    assert texts(store, [None, "a"]) == [None, 2]
