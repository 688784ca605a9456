"""The first rows of a result: rows of equal time keep the order of their partition."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import streamscope as ss
from jobmanager.delivery.answer import Answer, CurrentTable, begun
from jobmanager.errors import BeginningDeletedError
from rstream import INF_TIME, InlineBackground, RStream
from rstream.current import RowCopies
from rstream.errors import UsageError
from rstream.store.memory_blobs import MemoryBlobs
from tests.support.builders import cti, ev, make_items

if TYPE_CHECKING:
    from pathlib import Path

#: More rows of one time than an unstable sort keeps in order by chance.
ROWS = 400
EVENTS = [ss.event(k // 100, x=k) for k in range(ROWS)]


def stream() -> ss.Stream:
    return ss.Stream.from_items({"x": "int64"}, EVENTS, partitions=2)


def test_rows_with_equal_times_keep_the_order_of_the_files(tmp_path: Path) -> None:
    job = ss.run(stream(), root=str(tmp_path / "job"), executor="local")
    job.wait()
    rows = job.to_arrow()
    wanted = [row["x"] for row in sorted(rows.to_pylist(), key=lambda row: row["start"])]
    assert len(wanted) == ROWS
    for count in (150, 300, ROWS):
        assert Answer(job.plan).first(count)["x"].to_pylist() == wanted[:count]


def test_the_table_of_an_output_without_its_beginning_is_rejected() -> None:
    """A missing item may be the start of a row that is valid now, so the table would be wrong."""
    uri, payload = "memory://test-answer/retained", pa.schema([("x", pa.int64())])
    output = RStream.open(uri, payload, background=InlineBackground())
    for seq in range(3):
        output.write(seq, make_items([ev(seq, INF_TIME, x=seq)], payload))
        output.flush()
    output.garbage_collect(1)
    output.close()
    with pytest.raises(BeginningDeletedError, match="keeps it from seq 1 on"):
        begun(uri, RowCopies(MemoryBlobs(), "s"), None)


def test_a_table_can_be_read_before_the_watermark_but_not_at_it() -> None:
    """A table can be read before the watermark only: rows at the watermark may be missing."""
    uri, payload = "memory://test-answer/live", pa.schema([("x", pa.int64())])
    output = RStream.open(uri, payload, background=InlineBackground())
    output.write(0, make_items([ev(1, INF_TIME, x=1), cti(5)], payload))
    output.flush()
    output.close()
    table = CurrentTable.__new__(CurrentTable)
    copies = RowCopies(MemoryBlobs(), "s")
    found = table._of(uri, copies, 4)
    assert found is not None
    assert found.num_rows == 1
    with pytest.raises(UsageError, match=r"complete up to 1970-01-01 00:00:00\.000005 UTC; ask"):
        table._of(uri, copies, 5)


def test_head_keeps_the_order_of_each_partition() -> None:
    found = ss.head(stream(), ROWS).column("x").to_pylist()
    assert sorted(found) == list(range(ROWS))
    for time in range(ROWS // 100):
        rows = [x for x in found if x // 100 == time]
        falls = sum(left > right for left, right in itertools.pairwise(rows))
        assert falls <= 1, "the rows of two partitions, one after the other"
