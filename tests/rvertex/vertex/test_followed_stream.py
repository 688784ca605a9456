"""A source vertex that follows a stream emits its items, for any cuts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, strategies as st

from rstream.items.batch import CTI, EVENT, KIND, VE, VS
from rstream.types import INF_TIME
from rvertex.checkpoint.codec import decode_snapshot, encode_snapshot
from rvertex.sources.logs.protocol import LogRows
from rvertex.sources.spec import Live, SourcePartition, SourceSpec, Streams, Unit
from rvertex.vertex.rvertex import RVertex
from tests.support.budget import examples
from tests.support.logs import PAYLOAD, log_vertex

RESTORE = -1


@st.composite
def streams(draw: st.DrawFn) -> pa.RecordBatch:
    """Items in normal form, up to the end."""
    rows: list[dict[str, object]] = []
    time = 0
    for _ in range(draw(st.integers(0, 12))):
        time += draw(st.integers(0, 3))
        kind = draw(st.sampled_from([EVENT, EVENT, CTI]))
        if kind == CTI:
            time += 1
        event = {name: len(rows) for name in PAYLOAD.names} if kind == EVENT else {}
        rows.append({KIND: kind, VS: time, VE: time + 4 * (kind == EVENT), **event})
    rows.append({KIND: CTI, VS: INF_TIME, VE: INF_TIME})
    fields = [pa.field(KIND, pa.int8()), pa.field(VS, pa.int64()), pa.field(VE, pa.int64())]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema([*fields, *PAYLOAD]))


class Follower:
    """The vertex, its restarts, and the rows that it emitted."""

    def __init__(self) -> None:
        spec = log_vertex(1, delay_us=0, cti_every_us=4, replays=False)
        followed = SourceSpec(
            kind=Streams(),
            path="",
            schema=PAYLOAD,
            columns=PAYLOAD,
            vs=None,
            late="error",
            cti_every_us=4,
            live=Live(idle="wait"),
        )
        source = SourcePartition(followed, (Unit("", stream=0),), 0)
        self.spec = replace(spec, source=source, outputs=spec.outputs[:1])
        self.vertex = RVertex(self.spec, pending_rows_max=4)
        self.out: list[dict[str, object]] = []

    def take(self, items: pa.RecordBatch, lo: int, hi: int) -> None:
        log = self.vertex.log
        assert log is not None
        log.offer(0, LogRows(np.arange(lo, hi, dtype=np.int64), items.slice(lo, hi - lo), hi))
        while (result := self.vertex.execute()) is not None:
            for found in result.outputs:
                self.out += [] if found is None else found.batch.to_pylist()

    def restore(self) -> None:
        data = encode_snapshot(self.vertex.get_snapshot())
        self.vertex = RVertex(self.spec, pending_rows_max=4)
        self.vertex.load(decode_snapshot(data, name="test", state_schema="tag"))


def followed(items: pa.RecordBatch, cuts: list[int]) -> Follower:
    """Items with random cuts, and restores in between."""
    life, at = Follower(), 0
    for cut in cuts:
        if cut == RESTORE:
            life.restore()
            continue
        hi = min(at + cut, items.num_rows)
        if hi > at:
            life.take(items, at, hi)
        at = hi
    if at < items.num_rows:
        life.take(items, at, items.num_rows)
    return life


@examples(40)
@given(streams(), st.lists(st.sampled_from([1, 2, 5, RESTORE]), max_size=20))
def test_the_items_and_the_end_do_not_depend_on_the_pieces(
    items: pa.RecordBatch, cuts: list[int]
) -> None:
    whole, cut = followed(items, []), followed(items, cuts)
    assert cut.vertex.is_finished
    assert whole.vertex.is_finished
    names = [KIND, VS, VE, *PAYLOAD.names]
    plain = [[{name: row[name] for name in names} for row in life.out] for life in (whole, cut)]
    assert plain[0] == plain[1]
    wanted = [row for row in items.to_pylist() if row[KIND] == EVENT]
    assert [row for row in plain[0] if row[KIND] == EVENT] == wanted
    assert cut.vertex.digests() == whole.vertex.digests()
