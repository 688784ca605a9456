"""Arrays by group code against a dictionary: growth, compaction, unchanged snapshots."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rvertex import errors
from rvertex.events import group_arrays
from rvertex.events.group_arrays import ArrowStore, GroupArray
from tests.support.budget import examples

steps = st.lists(
    st.tuples(st.integers(0, 40), st.dictionaries(st.integers(0, 39), st.text(max_size=2))),
    max_size=12,
)


@examples(60)
@given(steps=steps, garbage_max=st.sampled_from([1, 5, 1 << 16]))
def test_an_array_store_equals_a_dictionary(
    steps: list[tuple[int, dict[int, str]]], garbage_max: int
) -> None:
    patch = pytest.MonkeyPatch()
    with patch.context() as limits:
        limits.setattr(group_arrays, "_GARBAGE_ROWS_MIN", garbage_max)
        _run_store(steps)


def _run_store(steps: list[tuple[int, dict[int, str]]]) -> None:
    store, model, groups = ArrowStore(pa.string()), dict[int, str](), 0
    saved: list[tuple[list[pa.Array], list[str | None]]] = []
    for more, puts in steps:
        assert store.grow(groups + more) == groups
        groups += more
        puts = {code: value for code, value in puts.items() if code < groups}
        if puts:
            store.put(np.array(list(puts)), pa.array(list(puts.values())))
        model |= puts
        expected = [model.get(code) for code in range(groups)]
        assert store.values().to_pylist() == expected
        saved.append((store.save(), expected))
    for (chunks, at), expected in saved:
        again = ArrowStore(pa.string())
        again.restore(chunks, at.to_numpy())
        assert again.values().to_pylist() == expected


def test_shared_arrays_do_not_change() -> None:
    array = GroupArray(np.int64, 7)
    array.writable(3)[1] = 1
    before = array.shared()
    array.writable(5)[:] += 1
    again = array.shared()
    array.writable(5)[0] = 0
    assert before.tolist() == [7, 1, 7]
    assert again.tolist() == [8, 2, 8, 8, 8]
    assert array.read().tolist() == [0, 2, 8, 8, 8]


def test_growth_is_amortised() -> None:
    array = GroupArray(np.int64, 0)
    buffers = {array.writable(n).__array_interface__["data"][0] for n in range(1, 10_000)}
    assert len(buffers) < 12


@pytest.mark.parametrize(
    "error",
    [
        errors.UnknownColumnError("select", "a", ("b", "c")),
        errors.OperatorTypeError("sum", "column 's' is string"),
        errors.InvalidWindowError("size is 0"),
        errors.UnboundedLifetimeError(1, 2, 3),
        errors.SumOverflowError("n"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_survive_pickling(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
