"""The destination suite on folders of Parquet tables; a process dies at every store call.

Not covered: a store without exclusive creation.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from rstream import MemoryBlobs, StoreError
from rvertex.sinks.errors import DeliveryFencedError, DeliveryUnknownError, DestinationError
from rvertex.sinks.parquet import KEY, ROW_GROUP_ROWS, ParquetDestination
from rvertex.sinks.spec import DeliveryPlace, ParquetSink, destination
from tests.rvertex.sinks.conformance import Conformance, deliver
from tests.rvertex.sinks.places import SCHEMA, Row, expected, items, progress
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths

if TYPE_CHECKING:
    import pyarrow as pa

    from rstream.store.protocol import BlobStore
    from rvertex.sinks.protocol import Destination


@dataclass(frozen=True)
class ParquetPlace:
    """A folder on the local disk."""

    path: str
    job: str = "job"
    refused: dict[str, str] = field(default_factory=dict)

    def destination(self, partition: int, schema: pa.Schema = SCHEMA) -> Destination:
        place = DeliveryPlace(self.job, "d", partition, 2, schema)
        return destination(ParquetSink(self.path), place)

    def rows(self) -> list[Row]:
        """The files in the order of their names."""
        files = sorted(Path(self.path).glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    def shown(self, column: str, value: Any) -> Any:
        return value


class TestParquet(Conformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> ParquetPlace:
        return ParquetPlace(str(tmp_path / "table"))


def test_every_reader_sees_a_clean_table(tmp_path: Path) -> None:
    """Readers of the folder see only rows, with the columns of the query."""
    path = str(tmp_path / "table")
    for job in ("first", "second"):
        writer = ParquetPlace(path, job).destination(0)
        assert writer.open(1) is None
        deliver(writer, 0, 0, 10)
        deliver(writer, 0, 10, 13)
        writer.commit(progress(0, 14))
        writer.close()
    rows = 2 * len(expected(0, 13))
    assert pl.read_parquet(f"{path}/*.parquet").shape == (rows, 3)
    table = ds.dataset(path).to_table()
    assert (table.num_rows, table.schema.remove_metadata()) == (rows, SCHEMA)


def test_metadata_names_the_writer_of_a_file(tmp_path: Path) -> None:
    writer = ParquetPlace(str(tmp_path)).destination(1)
    writer.open(3)
    deliver(writer, 1, 0, 4)
    newest = sorted(tmp_path.glob("part-1-*.parquet"))[-1]
    told = pq.read_metadata(newest).metadata[KEY.encode()].decode()
    assert '"delivery": "job/d"' in told
    assert '"epoch": 3' in told
    assert f'"digest": "{progress(1, 4).digest.hex()}"' in told


def test_a_note_is_stored_with_the_next_file(tmp_path: Path) -> None:
    writer = ParquetPlace(str(tmp_path)).destination(0)
    writer.open(1)
    for seq in (1, 4, 7):  # each time only a CTI, then rows
        writer.commit(progress(0, seq))
        assert len([*tmp_path.glob("_part-*")]) == 1
        deliver(writer, 0, seq, seq + 2)
        assert not [*tmp_path.glob("_part-*")]


def test_large_commits_have_several_row_groups(tmp_path: Path) -> None:
    writer = ParquetPlace(str(tmp_path)).destination(0)
    writer.open(1)
    seqs = 2 * ROW_GROUP_ROWS
    for lo in range(0, seqs, seqs // 8):
        writer.write(items(0, lo, lo + seqs // 8))
    writer.commit(progress(0, seqs))
    newest = sorted(tmp_path.glob("*.parquet"))[-1]
    assert pq.read_metadata(newest).num_row_groups == 2
    assert ParquetPlace(str(tmp_path)).rows() == expected(0, seqs)


def life(store: BlobStore, epoch: int, answered: list[int]) -> int:
    """Run a writer: rows, only CTIs, rows. Return the progress that it got.

    ``answered``: commits of all runs; items below may no longer be readable.
    """
    writer = open_memory(store)
    found = writer.open(epoch)
    told = 0 if found is None else found.next_seq
    assert told >= max(answered, default=0)
    for end in (5, 9, 10, 14):
        if end > told:
            if end != 10:  # item 9 is a CTI
                writer.write(items(0, told, end))
            writer.commit(progress(0, end))
            told = end
            answered.append(told)
    return told


def open_memory(store: BlobStore) -> ParquetDestination:
    place = DeliveryPlace("job", "d", 0, 1, SCHEMA)
    return ParquetDestination(ParquetSink("memory"), place, store)


def rows_in(store: BlobStore) -> list[Row]:
    found: list[Row] = []
    for name in store.list():
        if name.endswith(".parquet"):
            found += pq.read_table(store.open(name)).to_pylist()
    return found


def test_all_rows_encoded_before_a_commit_are_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rvertex.sinks.parquet.ROW_GROUP_ROWS", 3)
    place = ParquetPlace(str(tmp_path / "table"))
    writer = place.destination(0)
    writer.open(1)
    for seqs in ([0, 2, 4, 9, 12, 20], [20, 23, 24]):
        for first, end in itertools.pairwise(seqs):
            writer.write(items(0, first, end))
        writer.commit(progress(0, seqs[-1]))
        assert place.rows() == expected(0, seqs[-1])
    writer.close()


def test_a_crash_at_every_call() -> None:
    """A writer dies at any store call, and its successor dies, too."""
    undisturbed = Life()
    life(CrashingBlobs(MemoryBlobs(), undisturbed), 1, [])
    ways = deaths(undisturbed.calls, is_atomic=True)
    assert len(ways) >= 8
    for at, how in ways:
        for second, second_how in ways:
            store, answered = MemoryBlobs(), list[int]()
            for epoch, death in enumerate([(at, how), (second, second_how)], 1):
                with contextlib.suppress(DiedError):
                    life(CrashingBlobs(store, Life(*death)), epoch, answered)
            assert life(store, 3, answered) == 14
            assert rows_in(store) == expected(0, 14), (at, how, second, second_how)


def test_after_a_failure_the_delivery_must_be_opened_again() -> None:
    """After a failure a writer must be opened again: a commit would skip rows."""

    class Busy(MemoryBlobs):
        is_busy = False

        def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
            if self.is_busy:
                raise StoreError(path, "busy")
            return super().put_new(path, data)

    store = Busy()
    writer = open_memory(store)
    writer.open(1)
    store.is_busy = True
    with pytest.raises(DeliveryUnknownError, match="busy"):
        deliver(writer, 0, 0, 4)
    store.is_busy = False
    with pytest.raises(DestinationError, match="not open"):
        writer.commit(progress(0, 4))
    assert writer.open(1) is None


def test_a_note_is_read_by_a_successor() -> None:
    """A replaced writer leaves a note of CTIs; it is fenced, but the note is true."""
    store = MemoryBlobs()
    old, successor = open_memory(store), open_memory(store)
    old.open(1)
    deliver(old, 0, 0, 3)
    assert successor.open(2) == progress(0, 3)
    with pytest.raises(DeliveryFencedError):
        old.commit(progress(0, 4))
    next_one = open_memory(store)
    assert next_one.open(3) == progress(0, 4)
    deliver(next_one, 0, 4, 9)
    assert open_memory(store).open(4) == progress(0, 9)
    assert rows_in(store) == expected(0, 9)


@pytest.mark.slow
def test_delivery_to_every_kind_of_store(shared_store: BlobStore) -> None:
    first, second = open_memory(shared_store), open_memory(shared_store)
    first.open(1)
    deliver(first, 0, 0, 6)
    assert second.open(2) == progress(0, 6)
    with pytest.raises(DeliveryFencedError):
        deliver(first, 0, 6, 9)
    deliver(second, 0, 6, 12)
    assert rows_in(shared_store) == expected(0, 12)
