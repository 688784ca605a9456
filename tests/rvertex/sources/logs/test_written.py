"""Output streams of other jobs: where a query that follows them starts.

Not covered: a retention that deletes more between the plan and the first read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream import InlineBackground, RStream, open_store
from rstream.log.durable import DurableLog
from rstream.log.retention import collect
from rvertex.sources.logs.written import WrittenItems, written_units
from rvertex.sources.spec import Live, SourceSpec, Streams
from tests.support.content import PAYLOAD, items, small_limits

if TYPE_CHECKING:
    from pathlib import Path


def test_a_stream_shortened_by_retention_is_followed_from_its_kept_rows(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path / "s")
    stream = RStream.open(
        uri, PAYLOAD, limits=small_limits(), background=InlineBackground(), keeps_digest=True
    )
    for seq in (0, 4, 8):
        stream.write(seq, items(seq, seq + 4))
        stream.flush(0)
    stream.close()
    spec = SourceSpec(Streams(), uri, PAYLOAD, PAYLOAD, vs=None, live=Live())
    assert [unit.first_seq for unit in written_units(spec)] == [0]
    log = DurableLog(open_store(uri), "s")
    log.keeps_digest = True
    collect(log, 8)
    (unit,) = written_units(spec)
    assert unit.first_seq == 8
    found = WrittenItems(spec, unit, unit.first_seq).read_next(100)
    assert found is not None
    assert found.positions.tolist() == [8, 9, 10, 11]
