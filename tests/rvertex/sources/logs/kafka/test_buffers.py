"""A buffer returns its contents in steps of the size that the reader accepts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, strategies as st

from rvertex.sources.formats.rows.bad_rows import DEAD
from rvertex.sources.logs.kafka.buffers import PartitionBuffer
from rvertex.sources.logs.protocol import LogRows, joined_rows

EVENTS = pa.schema([("_vs", pa.int64()), ("_ve", pa.int64()), ("text", pa.string())])


def piece(positions: list[int], next_position: int, dead: list[int]) -> LogRows:
    rows = [{"_vs": p, "_ve": p + 1, "text": "x" * (p % 5)} for p in positions]
    bad = [{"partition": 0, "position": p, "key": b"", "value": b"?", "reason": "r"} for p in dead]
    return LogRows(
        np.array(positions, np.int64),
        pa.RecordBatch.from_pylist(rows, schema=EVENTS),
        next_position,
        pa.RecordBatch.from_pylist(bad, schema=DEAD) if bad else None,
    )


@st.composite
def pieces(draw: st.DrawFn) -> list[LogRows]:
    """Rows, ties (several rows per message), gaps and undecodable messages."""
    made, position = [], 0
    for _ in range(draw(st.integers(1, 8))):
        at: list[int] = []
        dead: list[int] = []
        for _ in range(draw(st.integers(0, 4))):
            position += draw(st.integers(0, 2))
            kind = draw(st.sampled_from(["row", "ties", "dead"]))
            if kind == "dead":
                dead.append(position)
            else:
                at += [position] * (3 if kind == "ties" else 1)
            position += 1
        position += draw(st.integers(0, 1)) or int(not at and not dead)
        made.append(piece(at, position, dead))
    return made


@given(pieces(), st.lists(st.integers(1, 6), min_size=1))
def test_step_sizes_do_not_change_rows(put: list[LogRows], steps: list[int]) -> None:
    buffer = PartitionBuffer(0, 0, None)
    for rows in put:
        buffer.put(rows)
    at: list[int] = []
    dead: list[int] = []
    turn = 0
    while (found := buffer.take(steps[turn % len(steps)])) is not None:
        mine = found.positions.tolist()
        assert mine == found.batch["_vs"].to_pylist()
        assert len(mine) <= steps[turn % len(steps)] or len(set(mine)) == 1
        assert not at or not mine or at[-1] < mine[0]
        at += mine
        dead += [] if found.dead is None else found.dead["position"].to_pylist()
        assert buffer.given == found.next_position
        turn += 1
    assert at == [p for rows in put for p in rows.positions.tolist()]
    wanted = [p for rows in put if rows.dead is not None for p in rows.dead["position"].to_pylist()]
    assert dead == wanted
    assert buffer.given == buffer.fetched == put[-1].next_position


@given(pieces(), st.integers(0, 8), st.one_of(st.none(), st.integers(0, 12)), st.data())
def test_records_before_the_position_or_after_the_end_are_skipped(
    put: list[LogRows], begin: int, length: int | None, data: st.DataObject
) -> None:
    """A consumer that was assigned again repeats some messages."""
    until = None if length is None else begin + length
    buffer = PartitionBuffer(0, begin, until)
    at: list[int] = []
    dead: list[int] = []
    for k in range(len(put)):
        again = data.draw(st.integers(0, k))
        was_done = buffer.is_done
        buffer.put(joined_rows(put[again : k + 1]))
        assert not was_done or buffer.take(1) is None, "nothing comes after the end"
        found = buffer.take(100)
        if found is not None:
            at += found.positions.tolist()
            dead += [] if found.dead is None else found.dead["position"].to_pylist()
    last = put[-1].next_position
    end = last if until is None else min(until, last)
    bad = [rows.dead["position"].to_pylist() for rows in put if rows.dead is not None]
    assert at == [p for rows in put for p in rows.positions.tolist() if begin <= p < end]
    assert dead == [p for positions in bad for p in positions if begin <= p < end]
    assert buffer.is_done == ((until is not None and last >= until) or until == begin)


def test_a_reader_that_is_behind_takes_many_pieces_at_once() -> None:
    buffer = PartitionBuffer(0, 0, None)
    for p in range(1_000):
        buffer.put(piece([p], p + 1, []))
    sizes = [found.batch.num_rows for found in iter(lambda: buffer.take(300), None)]
    assert sizes == [300, 300, 300, 100]
    assert not buffer.is_full
    assert buffer.is_half_empty


def test_rows_of_one_message_stay_together_in_small_steps() -> None:
    buffer = PartitionBuffer(0, 0, None)
    buffer.put(piece([5, 5, 5, 6, 8, 8], 9, []))
    found = [buffer.take(1) for _ in range(4)]
    given = [
        None if rows is None else (rows.positions.tolist(), rows.next_position) for rows in found
    ]
    assert given == [([5, 5, 5], 6), ([6], 8), ([8, 8], 9), None]
