"""The valid rows of a stream: read at once, through copies at any item, and by brute force."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from rstream import InlineBackground
from rstream.current import CurrentRows, RowCopies
from rstream.errors import SequenceDiscardedError
from rstream.log.durable import DurableLog
from rstream.log.retention import collect
from rstream.log.stream import RStream
from rstream.store.blobs import open_store
from rstream.store.memory_blobs import MemoryBlobs
from rstream.types import INF_TIME
from tests.support.budget import seeds
from tests.support.builders import Cti, Ev, cti, ev, make_items
from tests.support.content import small_limits

if TYPE_CHECKING:
    from pathlib import Path

FOREVER = int(INF_TIME)
PAYLOAD = pa.schema([("k", pa.int64())])
Row = tuple[int, int, int]


def some_rows(chance: Random) -> list[Row]:
    rows = []
    for _ in range(60):
        start = chance.randint(0, 40)
        end = chance.choice([FOREVER, start + chance.randint(1, 9)])
        rows.append((start, end, chance.randint(0, 3)))
    return rows


def written(uri: str, rows: list[Row], chance: Random) -> int:
    """Write the rows with a start and an end each, and CTIs. Return the number of items."""
    edges: list[tuple[int, int, Ev | Cti]] = []
    edges += [(start, 1, ev(start, FOREVER, k=k)) for start, _, k in rows]
    edges += [(end, 0, ev(end, start, k=k)) for start, end, k in rows if end != FOREVER]
    edges += [(t, -1, cti(t)) for t in sorted(chance.sample(range(1, 55), 9))] + [(60, -1, cti(60))]
    batch = make_items([item for *_, item in sorted(edges, key=lambda e: e[:2])], PAYLOAD)
    background = InlineBackground()
    stream = RStream.open(uri, PAYLOAD, background=background, limits=small_limits(), stream_id="s")
    for lo in range(0, batch.num_rows, 10):
        stream.write(lo, batch.slice(lo, 10))
    stream.close()
    return batch.num_rows


def alive(table: pa.Table | None) -> list[Any]:
    rows = [] if table is None else table.to_pylist()
    return sorted((r["_vs"], r["k"]) for r in rows)


@pytest.mark.parametrize("seed", seeds(0, 4))
def test_every_copy_leads_to_the_same_rows(seed: int, tmp_path: Path) -> None:
    chance, uri = Random(seed), str(tmp_path / "s")
    rows = some_rows(chance)
    count = written(uri, rows, chance)
    store = MemoryBlobs()
    for _ in range(6):
        copies = RowCopies(store, "a stream/0")
        current = copies.newest() or CurrentRows()
        cut = chance.randint(current.seq, count)
        current.advance(uri, upto_seq=cut)
        if current.rows is not None:
            copies.put(current)
            assert len(store.list()) == 1
        found = copies.newest() or CurrentRows()
        found.advance(uri)
        expected = sorted((s, k) for s, e, k in rows if s <= 59 < e)
        assert alive(found.alive(59)) == expected
    for at in range(60):
        found = CurrentRows()
        found.advance(uri, at_us=at)
        assert alive(found.alive(at)) == sorted((s, k) for s, e, k in rows if s <= at < e), at


def test_a_failed_read_can_be_repeated(tmp_path: Path) -> None:
    chance, uri = Random(1), str(tmp_path / "s")
    rows = some_rows(chance)
    count = written(uri, rows, chance)
    current = CurrentRows()
    current.advance(uri, upto_seq=7)
    log = DurableLog(open_store(uri), "s")
    log.keeps_digest = True
    collect(log, count // 2)
    with pytest.raises(SequenceDiscardedError):
        current.advance(uri)
    assert current.seq == 7


def test_an_added_column_is_null_in_earlier_rows(tmp_path: Path) -> None:
    uri, more = str(tmp_path / "s"), pa.schema([*PAYLOAD, ("m", pa.int64())])
    first = make_items([ev(0, FOREVER, k=1), cti(5)], PAYLOAD)
    then = make_items([ev(6, FOREVER, k=2, m=3), ev(7, 0, k=1, m=None), cti(8)], more)
    for seq, schema, batch in ((0, PAYLOAD, first), (first.num_rows, more, then)):
        stream = RStream.open(
            uri, schema, background=InlineBackground(), limits=small_limits(), stream_id="s"
        )
        stream.write(seq, batch)
        stream.close()
    current = CurrentRows()
    current.advance(uri)
    found = current.alive(8)
    assert found is not None
    assert found.select(["k", "m"]).to_pylist() == [{"k": 2, "m": 3}]
    before = CurrentRows()
    before.advance(uri, at_us=6)
    found = before.alive(6)
    assert found is not None
    assert found.select(["k", "m"]).to_pylist() == [{"k": 1, "m": None}, {"k": 2, "m": 3}]
