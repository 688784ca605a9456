"""Spilled keys: operators with memory for no row, for some rows, and for all.

The output equals that of a plain dictionary, with any cuts and restores. Planted bugs are detected.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from rstream.items.batch import event_schema
from rstream.items.hashing import SLOTS, slots_of
from rstream.types import INF_TIME
from rvertex.checkpoint.conversion import Place
from rvertex.checkpoint.ranges.restrict import restricted
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.ordered.deduplicate import Deduplicate
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.state.memory import StateMemory, give_memory
from rvertex.user_code.code import UserCode
from rvertex.user_code.errors import UserCodeError
from rvertex.user_code.keyed.process import KeyedContext, KeyedProcess, Timer
from rvertex.user_code.keyed.state_fields import state_fields
from tests.support.budget import one_in
from tests.support.builders import Item, cti, ev, make_run
from tests.support.operator_harness import assert_cut_invariant
from tests.support.small_limits import small_limits
from tests.support.spill_bugs import SPILL_BUGS

if TYPE_CHECKING:
    from rvertex.operators.protocol import OperatorSpec

PAYLOAD = pa.schema([("k", pa.int64()), ("s", pa.string()), ("x", pa.float64())])
KINDS = ("timers", "two keys", "forever", "for a while")


class Quiet(KeyedProcess):
    """Emits a row per event, and one when its key was quiet for 3; then the key may be reset."""

    seen: int = 0
    names: list[str]

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.seen += 1
        self.names.append(event.s or "")
        ctx.set_timer(event.vs + 3, "end")
        ctx.set_timer(event.vs + 1 + self.seen % 4, "")
        ctx.emit(self.seen, ",".join(self.names))

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(-self.seen, timer.name)
        if timer.name:
            self.names.clear()
            self.seen = 0 if self.seen % 2 else 7


def processing(*keys: str) -> KeyedProcessing:
    code, fields = UserCode("Quiet", Quiet), state_fields(Quiet, KeyedProcess)
    output = pa.schema([("n", pa.int64()), ("what", pa.string())])
    return KeyedProcessing(keys, code, fields, output, "fail")


def spec(kind: str) -> OperatorSpec:
    if kind in ("timers", "two keys"):
        return processing(*(("x",) if kind == "timers" else ("k", "s")))
    return Deduplicate(("s", "x"), 2) if kind == "for a while" else Deduplicate(("k",), INF_TIME)


def drawn(seed: int, rows: int) -> list[Item]:
    """Events with few keys, some at one time; nulls, NaN and -0.0 are keys, too."""
    draw, time = random.Random(seed), 0
    items: list[Item] = []
    for _ in range(rows):
        time += draw.choice([0, 0, 1, 2, 5])
        x = draw.choice([None, float("nan"), 0.0, -0.0, 1.5])
        items.append(
            ev(time, k=draw.choice([None, 0, 1, 2, 3]), s=draw.choice([None, "", "b"]), x=x)
        )
        if draw.random() < 0.2:
            items.append(cti(time))
    return [*items, cti(int(INF_TIME))]


def check(kind: str, seed: int, rows: int = 26) -> None:
    cuts = sorted(random.Random(seed).sample(range(1, rows), 4))
    assert_cut_invariant(spec(kind), [make_run(drawn(seed, rows), PAYLOAD)], [PAYLOAD], cuts)


def check_all(seeds: range) -> None:
    for seed in seeds:
        for kind in KINDS:
            check(kind, seed)


@pytest.mark.parametrize("kind", one_in(2, KINDS))
def test_the_output_does_not_depend_on_the_budget(kind: str) -> None:
    check(kind, 1, rows=8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_output_does_not_depend_on_the_budget_for_many_inputs(kind: str) -> None:
    for seed in range(2, 5):
        check(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPILL_BUGS)
def test_planted_bugs_are_found(name: str) -> None:
    with (
        mock.patch.object(*SPILL_BUGS[name]()),
        pytest.raises((AssertionError, UserCodeError)),
    ):
        check_all(range(1, 6))


@pytest.mark.parametrize("kind", ["two keys", "forever"])
def test_keys_on_scratch_are_divided_by_range(kind: str) -> None:
    run, of = make_run(drawn(1, 40), PAYLOAD), spec(kind)
    cut, end, place = 25, np.array([INF_TIME]), Place(0, of, (PAYLOAD,))
    before, after = (Run(run.events.slice(*at), NO_CTIS) for at in ((0, cut), (cut, 15)))
    with small_limits():
        whole = of.open([PAYLOAD])
        give_memory(whole, StateMemory(0))
        whole.process([before])
        state = whole.snapshot()
        assert kind != "forever" or "log.keys" in state.tables
        expected, found = whole.process([Run(after.events, end)]).events, []
        for slots in ((0, SLOTS // 3), (SLOTS // 3, SLOTS)):
            part = of.open([PAYLOAD])
            give_memory(part, StateMemory(0))
            part.load(restricted(place, (("k",),), slots, state))
            own = slots_of([after.events.column("k")])
            mask = pa.array((own >= slots[0]) & (own < slots[1]))
            found.append(part.process([Run(after.events.filter(mask), end)]).events)
    assert sorted(map(repr, pa.Table.from_batches(found).to_pylist())) == sorted(
        map(repr, expected.to_pylist())
    )


def fed(operator: Any, memory: StateMemory, keys: np.ndarray) -> tuple[list[Any], int]:
    """The output for many keys, in steps of a thousand rows, and the peak memory in bytes."""
    out, most = [], 0
    for lo in range(0, len(keys), 1_000):
        vs = np.arange(lo, lo + len(keys[lo : lo + 1_000]))
        texts = pa.array([f"{key:09}" for key in keys[lo : lo + 1_000]])
        columns = [pa.array(vs), pa.array(vs + 1), pa.array(keys[lo : lo + 1_000]), texts]
        columns.append(pa.array(keys[lo : lo + 1_000] / 7))
        events = pa.RecordBatch.from_arrays(columns, schema=event_schema(PAYLOAD))
        out.append(operator.process([Run(events, NO_CTIS)]).events)
        most = max(most, memory.used_bytes)
    end = Run(events.slice(0, 0), np.array([int(INF_TIME)]))
    return [*out, operator.process([end]).events], most


@pytest.mark.parametrize("kind", ["two keys", "forever"])
def test_memory_use_stays_near_the_budget(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rvertex.state.memory.RUN_BYTES_MIN", 10_000)
    monkeypatch.setattr("rvertex.operators.user.keyed_process.RECALLED_ROWS", 1 << 12)
    keys = np.random.default_rng(0).integers(0, 12_000, 12_000)
    found = []
    for budget in (None, 100_000):
        memory = StateMemory(budget)
        operator = spec(kind).open([PAYLOAD])
        give_memory(operator, memory)
        out, most = fed(operator, memory, keys)
        found.append(pa.Table.from_batches(out))
        assert budget is None or (most < 6 * budget and memory.scratch.written_bytes > 100_000)
    assert found[0].equals(found[1])
