"""MATCH over many keys at once against one key at a time, in runs of few and many rows.

Not covered: a mistake of both searches; ``test_match_patterns.py`` compares them with an
exhaustive matcher.
"""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from planner.api.expressions import col
from planner.expressions.nodes import resolve
from rstream.items.batch import event_schema
from rstream.types import INF_TIME
from rvertex.events.run import Run
from rvertex.operators.ordered.matching import keys, lockstep
from rvertex.operators.ordered.matching.earliest import Earliest
from rvertex.operators.ordered.matching.match import MatchRows
from rvertex.operators.ordered.matching.navigation import Leaf
from rvertex.operators.ordered.matching.pattern import Repetition, Sequence, Var
from rvertex.operators.ordered.matching.spec import Condition, Measure
from tests.support.budget import one_in, seeds
from tests.support.cut_runs import run_cut
from tests.support.exact import assert_same_items
from tests.support.operator_harness import items_of

if TYPE_CHECKING:
    from rvertex.operators.ordered.matching.pattern import Pattern

I64 = pa.int64()
PAYLOAD = pa.schema([("k", I64), ("x", I64)])
LEAVES = (Leaf("row", I64, None, "x"), Leaf("row", I64, None, "x", move=-1))
MEASURES = (
    Leaf("row", I64, (0,), "x", from_first=True),
    Leaf("aggregate", I64, (1,), None, function="count"),
    Leaf("row", I64, None, "x", move=-1),
)
MANY, ONE = Repetition(Var(1), 1, None), Repetition(Var(1), 0, 1)
PATTERNS: dict[str, tuple[Pattern, bool]] = {
    "A B+ C": (Sequence((Var(0), MANY, Var(2))), False),
    "A B+ C by PREV": (Sequence((Var(0), MANY, Var(2))), True),
    "A+ B? C": (Sequence((Repetition(Var(0), 1, None), ONE, Var(2))), False),
    "A B+? C": (Sequence((Var(0), Repetition(Var(1), 1, None, greedy=False), Var(2))), True),
}


def spec_of(pattern: Pattern, within_us: int, reads_prev: bool) -> MatchRows:
    schema = pa.schema([("leaf0", I64), ("leaf1", I64)])
    tests = [col("leaf0") < 4, col("leaf0") < 9, col("leaf0") >= 8]
    if reads_prev:
        tests = [col("leaf0") < 7, col("leaf0") <= col("leaf1"), col("leaf0") > col("leaf1") + 2]
    read = (0, 1) if reads_prev else (0,)
    conditions = [Condition(resolve(test.node, schema), read) for test in tests]
    measures = [
        Measure(f"m{i}", I64, resolve(col(f"leaf{i}").node, pa.schema([(f"leaf{i}", I64)])))
        for i in range(len(MEASURES))
    ]
    return MatchRows(
        ("k",), pattern, ("A", "B", "C"), tuple(conditions), LEAVES[: len(read)],
        tuple(measures), MEASURES, ("k",), within_us=within_us,
    )  # fmt: skip


def random_run(chance: np.random.Generator) -> Run:
    """A few thousand rows with some hundred keys; one key has many rows."""
    rows, key_count = 4_000, int(chance.choice([60, 400]))
    vs = np.cumsum(chance.random(rows) < chance.choice([0.02, 0.7]))
    key = np.where(chance.random(rows) < 0.05, 0, chance.integers(0, key_count, rows))
    x = np.where(key == 0, chance.choice([3, 5], rows), chance.integers(0, 11, rows))
    columns = [pa.array(c) for c in (vs, vs + 1, key, x)]
    events = pa.RecordBatch.from_arrays(columns, schema=event_schema(PAYLOAD))
    return Run(events, np.append(np.unique(vs)[5::7], INF_TIME))


@pytest.mark.parametrize("seed", one_in(4, seeds(700, 8)))
@pytest.mark.parametrize("name", PATTERNS)
def test_many_keys_equal_single_keys(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern, reads_prev = PATTERNS[name]
    chance = random.Random(seed)
    run = random_run(np.random.default_rng(seed))
    spec = spec_of(pattern, chance.choice([INF_TIME, 4, 50, 1000]), reads_prev)
    monkeypatch.setattr(lockstep, "KEYS_MIN", 10**9)
    alone = items_of(run_cut(spec, [run], [PAYLOAD], ()), spec.output_schema([PAYLOAD]))
    monkeypatch.setattr(lockstep, "KEYS_MIN", 30)
    monkeypatch.setattr(keys, "POOL_ROWS_MAX", chance.choice([2, 64]))
    cuts, at = [], 0
    while at < 4_000:
        at += chance.choice([1, 3, 100, 700, 1500])
        cuts.append(at)
    for restore in (False, True):
        outputs = run_cut(spec, [run], [PAYLOAD], cuts, restore=restore)
        assert_same_items(items_of(outputs, spec.output_schema([PAYLOAD])), alone, f"{restore=}")
    assert alone.num_rows > len(run.ctis), "there are matches"


@pytest.mark.parametrize("seed", seeds(800, 5))
def test_earliest_times_equal_a_dict(seed: int) -> None:
    chance = random.Random(seed)
    times, model = Earliest(), dict.fromkeys(range(30), INF_TIME)
    for _ in range(300):
        if chance.random() < 0.5:
            some = chance.sample(range(30), chance.randrange(1, 8))
            new = [chance.choice([INF_TIME, chance.randrange(50)]) for _ in some]
            times.set_all(np.array(some), np.array(new))
            model |= dict(zip(some, new, strict=True))
        else:
            code, time = chance.randrange(30), chance.randrange(50)
            times.set(code, time)
            model[code] = time
        if chance.random() < 0.3:
            before = chance.randrange(25)
            taken = sorted(code for code, time in model.items() if time < before)
            assert sorted(times.take_before(before).tolist()) == taken
            model |= dict.fromkeys(taken, INF_TIME)
        assert times.first() == min(model.values())


def test_an_unchanged_earliest_time_leaves_no_stale_entries() -> None:
    """One key waits for ever, and the times of 1,000 others change: they are not kept."""
    times, codes, sizes = Earliest(), np.arange(1, 1001), []
    times.set(0, 1)
    for turn in range(100):
        times.set_all(codes, np.full(1000, 10 + turn))
        times.set(1 + turn, 5)
        sizes.append(len(pickle.dumps(times)))
        assert times.first() == 1
    assert max(sizes) < 20 * sizes[0], sizes[::10]
    times.set(0, int(INF_TIME))
    assert sorted(times.take_before(6)) == [100]
    assert len(times.take_before(200)) == 999
