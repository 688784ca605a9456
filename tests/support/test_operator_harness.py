"""The harness detects each kind of broken operator."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from rstream.items.batch import event_schema
from rvertex.aggregates.spec import AggregateSpec
from rvertex.checkpoint.ranges.slots import SlotRange
from rvertex.events.run import NO_CTIS, Run
from rvertex.keys import key_table
from rvertex.operators.protocol import EMPTY_STATE, OperatorState
from rvertex.operators.windows.hopping import WindowAggregate
from tests.rooms import FILES, nodes
from tests.support.builders import cti, ev, make_run
from tests.support.operator_harness import assert_cut_invariant
from tests.support.small_limits import LIMITS, small_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

PAYLOAD = pa.schema([("n", pa.int64())])
RUN = make_run([ev(1, n=1), ev(2, n=2), cti(3), ev(3, n=3), ev(5, n=4), cti(7)], PAYLOAD)


class _Base:
    """Passes its input through."""

    holds_ctis = False

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        return inputs[0]

    def open(self, inputs: Sequence[pa.Schema]) -> _Base:
        return type(self)()

    def process(self, ports: Sequence[Run]) -> Run:
        return ports[0]

    def snapshot(self) -> OperatorState:
        return EMPTY_STATE

    def load(self, state: OperatorState) -> None:
        pass


class _CountsBatches(_Base):
    """Its output shows how the input was cut."""

    def process(self, ports: Sequence[Run]) -> Run:
        (run,) = ports
        rows = run.events.num_rows
        return Run(run.events.set_column(2, "n", pa.array(np.full(rows, rows))), run.ctis)


class _ForgetsState(_Base):
    """Numbers its events, but the number is not in the snapshot."""

    _seen = 0

    def process(self, ports: Sequence[Run]) -> Run:
        (run,) = ports
        rows = run.events.num_rows
        numbers = np.arange(self._seen, self._seen + rows)
        self._seen += rows
        return Run(run.events.set_column(2, "n", pa.array(numbers)), run.ctis)


class _AliasesState(_Base):
    """Its snapshot is the same array that it changes later."""

    def __init__(self) -> None:
        self._total = np.zeros(1, np.int64)

    def process(self, ports: Sequence[Run]) -> Run:
        (run,) = ports
        values = self._total[0] + np.cumsum(run.events.column("n").to_numpy())
        if len(values):
            self._total[0] = values[-1]
        return Run(run.events.set_column(2, "n", pa.array(values)), run.ctis)

    def snapshot(self) -> OperatorState:
        return OperatorState({}, {"total": pa.table({"n": pa.array(self._total)})})

    def load(self, state: OperatorState) -> None:
        self._total = state.tables["total"].column("n").to_numpy().copy()


class _BreaksPromises(_Base):
    """Passes CTIs on at once, but delays events, so an event may follow a later CTI."""

    def __init__(self) -> None:
        self._held = pa.RecordBatch.from_pylist([], event_schema(PAYLOAD))

    def process(self, ports: Sequence[Run]) -> Run:
        (run,) = ports
        held, self._held = self._held, run.events
        return Run(held, run.ctis)

    def snapshot(self) -> OperatorState:
        return OperatorState({}, {"held": pa.Table.from_batches([self._held])})

    def load(self, state: OperatorState) -> None:
        (self._held,) = state.tables["held"].combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], event_schema(PAYLOAD))
        ]


class _DelaysCtis(_Base):
    """Emits CTIs two calls later, behind events that they should stand before."""

    def __init__(self) -> None:
        self._late = [NO_CTIS, NO_CTIS]

    def process(self, ports: Sequence[Run]) -> Run:
        (run,) = ports
        self._late.append(run.ctis)
        return Run(run.events, self._late.pop(0))


@dataclass(frozen=True)
class _SwallowsPort(_Base):
    """Concatenates its ports out of order."""

    def process(self, ports: Sequence[Run]) -> Run:
        return Run(pa.concat_batches([run.events for run in reversed(ports)]), ports[0].ctis)


def test_a_correct_operator_passes() -> None:
    out = assert_cut_invariant(_Base(), [RUN], [PAYLOAD], [2, 4], [1])
    assert out.events.equals(RUN.events)


def test_an_empty_run_passes() -> None:
    empty = Run(RUN.events.slice(0, 0), NO_CTIS)
    assert assert_cut_invariant(_Base(), [empty], [PAYLOAD], [2]).is_empty


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (_CountsBatches(), "cut at"),
        (_ForgetsState(), "restored at each"),
        (_AliasesState(), "snapshot"),
        (_BreaksPromises(), "after CTI|cut at"),
        (_DelaysCtis(), r"CTI\(3\) after an event at 3"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, _Base) else "",
)
def test_a_broken_operator_is_detected(spec: _Base, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        assert_cut_invariant(spec, [RUN], [PAYLOAD], [2, 4])


def test_unsorted_output_is_detected() -> None:
    early = make_run([ev(0, n=1), cti(3), cti(7)], PAYLOAD)
    with pytest.raises(AssertionError, match="not sorted by _vs"):
        assert_cut_invariant(_SwallowsPort(), [early, RUN], [PAYLOAD, PAYLOAD], [2])


@pytest.mark.parametrize("fault", ["owned twice", "left behind"])
def test_a_wrongly_divided_state_is_detected(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = pa.schema([("k", pa.int64())])
    rows = [ev(time, 40, k=time) for time in range(1, 20)]
    whole = WindowAggregate(("k",), 50, 50, (AggregateSpec("count", None, "n"),), points=False)

    def mask(self: SlotRange, columns: Sequence[pa.Array]) -> np.ndarray:
        return np.full(len(columns[0]), fault == "owned twice")

    run = make_run([*rows, cti(30)], columns)
    assert_cut_invariant(whole, [run], [columns])
    monkeypatch.setattr(SlotRange, "mask", mask)
    with pytest.raises(AssertionError, match="divided at"):
        assert_cut_invariant(whole, [run], [columns])


def test_small_limits_are_used_everywhere() -> None:
    """No module imports a limit by name, because it would keep the old value."""
    names = {path.rsplit(".", 1)[1] for path in LIMITS}
    for file in (file for file in FILES if file.startswith("rvertex/")):
        imports = [node for node in nodes(file) if isinstance(node, ast.ImportFrom)]
        assert not names & {alias.name for node in imports for alias in node.names}, file
    assert key_table._KEYS_MIN > 0
    with small_limits():
        assert LIMITS["rvertex.keys.key_table._KEYS_MIN"] == key_table._KEYS_MIN
    assert key_table._KEYS_MIN > 0
