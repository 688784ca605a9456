"""The log of a keyed process against a dictionary, restored from tables with any cuts."""

from __future__ import annotations

import random
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.hashing import hash_rows
from rvertex.errors import CorruptCheckpointError
from rvertex.state.hash_index import HashIndex
from rvertex.state.memory import StateMemory
from rvertex.state.row_log import NUMBER, RowLog
from tests.support.budget import examples
from tests.support.small_limits import small_limits

SCHEMA = pa.schema([(NUMBER, pa.int64()), ("value", pa.int64())])

#: The number of written rows, and which of the earlier current rows end.
writes = st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(0, 60))
#: Rows per piece of a restored snapshot.
cuts = st.integers(1, 12)


def write(log: RowLog, rows: int, gone: list[int]) -> list[int]:
    """Append rows whose values are ten times their numbers. Return the numbers."""
    numbers = list(range(log.next_number, log.next_number + rows))
    values = [10 * number for number in numbers]
    log.append([pa.record_batch([numbers, values], schema=SCHEMA)], gone)
    return numbers


def restored(log: RowLog, rows_max: int) -> RowLog:
    saved, again = log.save(), RowLog(SCHEMA)
    pieces = saved["keys"].to_batches(max_chunksize=rows_max)
    again.load({**saved, "keys": pa.Table.from_batches(pieces, SCHEMA)})
    loaded = again.current()
    assert pa.Table.from_batches(loaded, SCHEMA).equals(current_rows(log))
    return again


def current_rows(log: RowLog) -> pa.Table:
    saved = log.save()
    for mask in saved["current"].column(0).chunks:
        assert len(mask) > 0
        assert 2 * mask.true_count >= len(mask)
    return saved["keys"].filter(saved["current"].column(0))


@examples(60)
@given(steps=st.lists(writes | cuts, max_size=12))
def test_the_log_equals_a_dictionary(steps: list[tuple[int, int, int] | int]) -> None:
    log, model = RowLog(SCHEMA), dict[int, int]()
    for step in steps:
        if isinstance(step, int):
            log = restored(log, step)
        else:
            rows, lo, hi = step
            gone = list(model)[lo:hi]
            model = {number: value for number, value in model.items() if number not in gone}
            model |= {number: 10 * number for number in write(log, rows, gone)}
        assert current_rows(log).to_pydict() == {
            NUMBER: list(model),
            "value": list(model.values()),
        }


def test_pieces_without_live_rows_are_left_out() -> None:
    log = RowLog(SCHEMA)
    numbers = write(log, 40, [])
    write(log, 2, numbers[20:])
    again = restored(log, 10)
    assert write(again, 1, []) == [42]
    write(again, 1, [0])
    assert current_rows(again).column(0).to_pylist() == [*range(1, 20), 40, 41, 42, 43]


def test_a_number_is_not_reused_while_its_batch_exists() -> None:
    log = RowLog(SCHEMA)
    write(log, 10, [])
    write(log, 0, [5, 6, 7, 8, 9])
    assert restored(log, 5).next_number == 10


def damaged(_: int | None) -> None:
    raise CorruptCheckpointError("part", "damaged")


def test_damaged_rows_are_not_copied_to_scratch() -> None:
    memory = StateMemory(0)
    with small_limits():
        log = RowLog(SCHEMA, ["value"], holder=memory.holder())
        write(log, 9, [])
        log.release()
        log.find([pa.array([10])])
        tables = log.save()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SCHEMA) as writer:
            writer.write_table(tables["keys"])
        part, again = sink.getvalue(), RowLog(SCHEMA, ["value"], holder=memory.holder())
        memory.unverified.add(part, part.size, damaged)
        again.load({**tables, "keys": pa.ipc.open_stream(part).read_all()})
        with pytest.raises(CorruptCheckpointError):
            again.release()


@pytest.mark.parametrize("seed", range(3))
def test_an_index_on_scratch_is_restored_without_reading_rows(seed: int) -> None:
    draw, memory = random.Random(seed), StateMemory(0)
    with small_limits():
        log = RowLog(SCHEMA, ["value"], holder=memory.holder())
        for rows in (9, 4, 7, 1):
            write(log, rows, draw.sample(range(log.next_number), log.next_number // 4))
        log.release()
        log.find([pa.array([10, 20, 30, 777])])
        write(log, 3, [])
        log.release()
        saved = log.save()
        cut = {n: pa.Table.from_batches(t.to_batches(max_chunksize=2)) for n, t in saved.items()}
        expected = pa.Table.from_batches(log.current(), SCHEMA)
        again = RowLog(SCHEMA, ["value"], holder=memory.holder())
        with mock.patch.object(HashIndex, "of", side_effect=AssertionError) as made:
            again.load(cut)
            indexed = sum(part.rows for part in log._parts if part.index is not None)
            assert again._parts[0].index is not None
        assert made.call_count == 0
        assert indexed > 0
        assert pa.Table.from_batches(again.current(), SCHEMA).equals(expected)
        wanted = [*expected.column("value").to_pylist(), 5, 15]
        found = pa.Table.from_batches(again.find([pa.array(wanted)]), SCHEMA)
        assert found.sort_by(NUMBER).equals(expected)
        assert again.next_number == log.next_number
        again.release()
        for number in draw.sample(expected.column(NUMBER).to_pylist(), 4):
            write(log, 0, [number])
            write(again, 0, [number])
            assert pa.Table.from_batches(again.current(), SCHEMA).equals(current_rows(log))


@pytest.mark.parametrize("hashes", [2, 2**64])
@pytest.mark.parametrize("seed", range(3))
def test_the_newest_row_of_a_key_stays(seed: int, hashes: int) -> None:
    """Older rows are dropped, at once or step by step, also if different keys have one hash."""

    def few(columns: list[pa.Array]) -> np.ndarray:
        return hash_rows(columns) % np.uint64(hashes) if hashes < 2**64 else hash_rows(columns)

    draw, memory, newest = random.Random(seed), StateMemory(0), dict[int, int]()
    with (
        small_limits(),
        mock.patch("rvertex.state.log_part.hash_rows", few),
        mock.patch("rvertex.state.row_log.hash_rows", few),
    ):
        log = RowLog(SCHEMA, ["value"], holder=memory.holder())
        for step in range(9):
            numbers = range(log.next_number, log.next_number + draw.randrange(6))
            keys = [draw.randrange(8) for _ in numbers]
            newest |= dict(zip(keys, numbers, strict=True))
            log.append([pa.record_batch([list(numbers), keys], schema=SCHEMA)], (), held=False)
            log.release()
            log.drop_replaced(None if step == 8 else draw.randrange(4))
            found = log.look_up([pa.array(range(8))], NUMBER, -1)
            assert found.tolist() == [newest.get(key, -1) for key in range(8)]
        assert sorted(current_rows(log).column(0).to_pylist()) == sorted(newest.values())
