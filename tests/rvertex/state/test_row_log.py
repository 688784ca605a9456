"""The log of a keyed process against a dictionary, restored from tables that are cut anywhere."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rvertex.state.row_log import NUMBER, RowLog
from tests.support.budget import examples

SCHEMA = pa.schema([(NUMBER, pa.int64()), ("value", pa.int64())])

#: So many rows are written, and of those before them that are current, these end.
writes = st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(0, 60))
#: Rows of a piece in which a snapshot comes back.
cuts = st.integers(1, 12)


def write(log: RowLog, rows: int, gone: list[int]) -> list[int]:
    """Append rows whose values are ten times their numbers; returns the numbers."""
    numbers = list(range(log.next_number, log.next_number + rows))
    values = [10 * number for number in numbers]
    log.append([pa.record_batch([numbers, values], schema=SCHEMA)], gone)
    return numbers


def restored(log: RowLog, rows_max: int) -> RowLog:
    saved, again = log.save(), RowLog(SCHEMA)
    pieces = saved["keys"].to_batches(max_chunksize=rows_max)
    again.load(pa.Table.from_batches(pieces, SCHEMA), saved["current"])
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
def test_log_is_a_dictionary(steps: list[tuple[int, int, int] | int]) -> None:
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


def test_pieces_of_which_all_is_gone_are_left_out() -> None:
    log = RowLog(SCHEMA)
    numbers = write(log, 40, [])
    write(log, 2, numbers[20:])
    again = restored(log, 10)
    assert write(again, 1, []) == [42]
    write(again, 1, [0])
    assert current_rows(again).column(0).to_pylist() == [*range(1, 20), 40, 41, 42, 43]


def test_no_number_is_given_again_while_its_batch_is_there() -> None:
    log = RowLog(SCHEMA)
    write(log, 10, [])
    write(log, 0, [5, 6, 7, 8, 9])
    assert restored(log, 5).next_number == 10
