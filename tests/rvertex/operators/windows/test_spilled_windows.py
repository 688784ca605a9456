"""Windows whose state exceeds their memory: the same rows, bit by bit.

The operator harness runs every operator with small budgets. These tests check that the budgets make
windows spill, with all kinds of keys and functions and many rows, and what a snapshot shares.

Not covered: wrong rows both with and without a budget (``test_hopping.py``).
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rvertex.aggregates.spec import AggregateSpec
from rvertex.events.ordering import in_time_order
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.protocol import in_pieces
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.state.memory import StateMemory, give_memory
from tests.support.budget import one_in
from tests.support.exact import assert_same_items
from tests.support.operator_harness import check_output, items_of
from tests.support.small_limits import small_limits

ROWS, STEPS, SIZE = 160, 6, 200
PAYLOAD = pa.schema(
    [("k", pa.string()), ("l", pa.int64()), ("x", pa.float64()), ("s", pa.string())]
)
MERGED = ("sum", "mean", "min", "max", "first", "last", "count_distinct", "variance", "product")
HOLISTIC = ("mode", "array_agg")
ARGUMENTS = {"variance": 1}


def specs(functions: tuple[str, ...], columns: str = "x") -> tuple[AggregateSpec, ...]:
    found = [
        AggregateSpec(name, c, f"{name}_{c}", ARGUMENTS.get(name))
        for name in functions
        for c in columns
    ]
    return (*found, AggregateSpec("count", None, "n"))


def steps(seed: int, *, points: bool) -> list[Run]:
    draw = random.Random(seed)
    vs = np.sort([draw.randrange(1_000) for _ in range(ROWS)])
    lasts = np.array([1 if points else draw.randrange(1, 300) for _ in range(ROWS)])
    rows = pa.record_batch(
        {
            "_vs": vs,
            "_ve": vs + lasts,
            "k": [
                draw.choice([None, "a", "ä", *(f"k{i}" for i in range(30))]) for _ in range(ROWS)
            ],
            "l": [draw.choice([None, draw.randrange(5), 2**62]) for _ in range(ROWS)],
            "x": [draw.choice([0.1, 1e17, -1e17, -0.0, float("nan"), None]) for _ in range(ROWS)],
            "s": pa.array([draw.choice(["u", None, "v", "w"]) for _ in range(ROWS)]),
        }
    )
    text = rows.column("k").dictionary_encode()
    rows = rows.set_column(2, "k", text) if seed % 2 else rows
    cuts = np.linspace(0, ROWS, STEPS + 1).astype(int)
    runs = []
    for lo, hi in itertools.pairwise(cuts):
        end = np.array([vs[hi] if hi < ROWS else 5_000])
        before = np.array([vs[lo]]) if lo else end
        runs.append(Run(rows.slice(lo, hi - lo), end if end[0] > before[0] else end[:0]))
    return runs


def output(spec: Any, schema: pa.Schema, runs: list[Run], memory: StateMemory) -> pa.RecordBatch:
    operator = spec.open([schema])
    give_memory(operator, memory)
    return items_of([operator.process([run]) for run in runs], spec.output_schema([schema]))


def check(spec: Any, schema: pa.Schema, runs: list[Run]) -> None:
    expected = output(spec, schema, runs, StateMemory(None))
    for budget in (0, 500):
        memory = StateMemory(budget)
        with small_limits():
            found = output(spec, schema, runs, memory)
        assert memory.scratch.written_bytes > 0, f"nothing was spilled with {budget} bytes"
        assert_same_items(found, expected, f"budget {budget}")
    roomy = StateMemory(10**9)
    output(spec, schema, runs, roomy)
    assert roomy.scratch.written_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize("every", [SIZE, SIZE // 2])
@pytest.mark.parametrize("seed", [1, 2])
def test_spilled_windows_of_points_emit_the_same_items(seed: int, every: int) -> None:
    columns = specs(MERGED) + specs(("first", "max", "count_distinct"), "s")[:-1]
    spec = WindowAggregate(("k", "l"), SIZE, every, columns, points=True)
    check(spec, PAYLOAD, steps(seed, points=True))


@pytest.mark.parametrize("seed", one_in(2, [1, 2]))
def test_functions_of_all_values_of_a_window(seed: int) -> None:
    spec = WindowAggregate(("k",), SIZE, SIZE, specs(HOLISTIC), points=True)
    check(spec, PAYLOAD, steps(seed, points=True))


@pytest.mark.parametrize("seed", one_in(2, [1, 2]))
def test_spilled_windows_of_intervals_emit_the_same_items(seed: int) -> None:
    spec = PartialAggregate(("l",), SIZE, SIZE // 2, specs(("sum", "min", "last")), points=False)
    check(spec, PAYLOAD, steps(seed, points=False))


def test_partial_rows_are_merged() -> None:
    aggregates = specs(MERGED)
    partial = PartialAggregate(("k",), SIZE, SIZE, aggregates, points=True)
    schema = partial.output_schema([PAYLOAD])
    operator = partial.open([PAYLOAD])
    rows = [operator.process([run]).events for run in steps(2, points=True)]
    twice, _ = in_time_order(pa.concat_batches([*rows, *rows]))
    cuts = range(0, twice.num_rows, 20)
    runs = [Run(twice.slice(at, 20), NO_CTIS) for at in cuts]
    end = Run(twice.slice(0, 0), np.array([5_000]))
    check(FinalAggregate(("k",), SIZE, SIZE, aggregates, points=True), schema, [*runs, end])


def test_a_closing_window_is_emitted_in_pieces() -> None:
    spec = WindowAggregate(("l", "k"), SIZE, SIZE, specs(("sum", "last")), points=True)
    *runs, last = steps(2, points=True)
    with small_limits():
        operator = spec.open([PAYLOAD])
        give_memory(operator, StateMemory(0))
        out = [run for given in runs for run in in_pieces([operator], [given]) if run is not None]
        pieces = [run for run in in_pieces([operator], [last]) if run is not None]
    assert len(pieces) > 3
    check_output([*out, *pieces], spec.output_schema([PAYLOAD]))
    whole = output(spec, PAYLOAD, [*runs, last], StateMemory(None))
    assert_same_items(items_of([*out, *pieces], spec.output_schema([PAYLOAD])), whole, "pieces")
