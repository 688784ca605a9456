"""Rows in runs by key, against one stable sort of all rows.

Keys have all types; rows are cut anywhere; budgets spill nothing, all, or some; runs are saved and
restored between any two pieces. Planted bugs are detected.

Not covered: a mistake of the stable sort itself (``tests/rvertex/keys/test_sort_keys.py``).
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from rvertex.state import key_runs
from rvertex.state.key_runs import (
    KeyRuns,
    SortedRun,
    blocks_of,
    in_key_order,
    key_ranges,
    place_of,
    stable_key_order,
)
from rvertex.state.memory import UNLIMITED, StateMemory
from tests.support.budget import one_in
from tests.support.small_limits import small_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = 120
KINDS: dict[str, dict[str, Callable[[random.Random], Any]]] = {
    "numbers": {"k": lambda draw: draw.randrange(40)},
    "few": {"k": lambda draw: draw.randrange(3)},
    "text and nulls": {"k": lambda draw: draw.choice([None, "", "a", "ä", "b" * 9, "zz"])},
    "doubles": {"k": lambda draw: draw.choice([None, 0.0, -0.0, float("nan"), -1.5, 1e300])},
    "two columns": {
        "k": lambda draw: draw.choice(["x", None, "y"]),
        "l": lambda draw: draw.choice([None, -(2**62), 2**62, 5]),
    },
}


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with small_limits():
        yield


def drawn(kind: str, seed: int) -> pa.RecordBatch:
    draw = random.Random(seed)
    keys = {name: [make(draw) for _ in range(ROWS)] for name, make in KINDS[kind].items()}
    types = {"text and nulls": pa.string(), "doubles": pa.float64()}
    columns = {
        name: pa.array(values, types.get(kind)) if name == "k" else pa.array(values)
        for name, values in keys.items()
    }
    return pa.record_batch({**columns, "row": pa.array(range(ROWS))})


def gathered(rows: pa.RecordBatch, names: list[str], budget: int, seed: int) -> KeyRuns:
    """Runs of the rows, with a random cut and restore."""
    draw, memory = random.Random(seed), StateMemory(budget)
    holder = memory.holder()
    runs = KeyRuns(names, holder)
    cuts = sorted(draw.randrange(ROWS) for _ in range(20))
    for lo, hi in itertools.pairwise([0, *cuts, ROWS]):
        runs.add(rows.slice(lo, hi - lo))
        holder.used_bytes = runs.memory_bytes
        if draw.random() < 0.2:
            saved = runs.save()
            runs = KeyRuns(names, holder)
            runs.restore(saved)
    assert len(runs) == ROWS
    return runs


def check(kind: str, budget: int, seed: int) -> None:
    rows = drawn(kind, seed)
    names = list(KINDS[kind])
    order = stable_key_order([rows.column(name) for name in names], ROWS)
    expected = rows if order is None else rows.take(pa.array(order))
    found, last = [], None
    cuts = [place_of([expected.column(name) for name in names], at) for at in range(7, ROWS, 30)]
    for batches, end in gathered(rows, names, budget, seed).pieces(cuts):
        if not batches:
            last = end
            continue
        piece = in_key_order(batches, names, UNLIMITED.holder())
        keys = [piece.column(name) for name in names]
        assert last is None or place_of(keys, 0) >= last, "a key is in two pieces"
        assert end is None or place_of(keys, piece.num_rows - 1) < end
        found.append(piece)
        last = end
    assert last is None
    assert repr(pa.concat_batches(found).to_pydict()) == repr(expected.to_pydict())


@pytest.mark.parametrize("kind", one_in(2, KINDS))
@pytest.mark.parametrize("budget", [0, 1_000, 10**9])
def test_pieces_equal_one_stable_sort(kind: str, budget: int) -> None:
    for seed in range(2):
        check(kind, budget, seed)


def fails(budget: int = 0) -> bool:
    try:
        for kind in KINDS:
            check(kind, budget, 1)
    except AssertionError:
        return True
    return False


def test_a_row_lost_in_a_merge_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    real = key_runs.blocks_of
    calls = itertools.count()

    def losing(rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        return real(rows.slice(1)) if next(calls) == 10 else real(rows)

    assert not fails()
    monkeypatch.setattr(key_runs, "blocks_of", losing)
    assert fails()


@pytest.mark.parametrize("off", [-1, 1])
def test_a_fence_that_is_off_by_one_is_detected(monkeypatch: pytest.MonkeyPatch, off: int) -> None:
    real = SortedRun.first_at

    def shifted(run: SortedRun, place: Any) -> int:
        return min(max(real(run, place) + off, 0), len(run))

    monkeypatch.setattr(SortedRun, "first_at", shifted)
    assert fails()


def test_a_merge_in_the_wrong_order_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    real = key_runs.key_ranges
    monkeypatch.setattr(key_runs, "key_ranges", lambda runs, *cut: real(runs[::-1], *cut))
    assert fails()


def test_runs_are_merged_and_saved_ones_do_not_change() -> None:
    rows = drawn("numbers", 1)
    memory = StateMemory(0)
    runs = KeyRuns(["k"], memory.holder())
    saved = []
    for at in range(0, ROWS, 5):
        runs.add(rows.slice(at, 5))
        saved.append(runs.save())
    assert runs.save()["lengths"].num_rows < 12, "sixty runs were merged"
    for count, tables in enumerate(saved, 1):
        again = KeyRuns(["k"], memory.holder())
        again.restore(tables)
        found = sorted(
            v for some, _ in again.pieces() for rows in some for v in rows.column("row").to_pylist()
        )
        assert found == list(range(count * 5))


def test_ranges_of_runs_with_the_same_keys_are_even(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs with the same keys are divided into ranges of about equal size."""
    monkeypatch.setattr("rvertex.state.key_runs.BLOCK_ROWS", 256)
    rng, runs, rows_max = np.random.default_rng(1), [], 1_000
    for number in range(40):
        keys = pa.record_batch({"k": np.sort(rng.integers(0, 1 << 40, 8 * 256))})
        runs.append(SortedRun(("k",), blocks_of(keys), number=number))
    lengths = [sum(b.num_rows for b in batches) for batches, _ in key_ranges(runs, rows_max)]
    assert sum(lengths) == 40 * 8 * 256
    assert max(lengths) < 3 * rows_max
