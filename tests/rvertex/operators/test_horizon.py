"""Horizons: declared horizons are sufficient, alone and in chains; a third of one is not.

Every operator test checks the horizon of its own inputs, too (``assert_cut_invariant``). Cannot
catch: a state that needs more than a few dozen rows, such as a rebuilt key index.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rvertex.aggregates.spec import AggregateSpec
from rvertex.events.run import Run
from rvertex.operators.filter import Filter
from rvertex.operators.horizon import chain_horizon, chain_output_duration, horizon_of
from rvertex.operators.joins.anti import AntiJoin
from rvertex.operators.joins.as_of import AsOfJoin
from rvertex.operators.joins.conditional import ConditionalJoin
from rvertex.operators.joins.inner import Side, TemporalJoin
from rvertex.operators.joins.left import LeftJoin
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.clip import Clip
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift
from rvertex.operators.lifetimes.stitch import Stitch
from rvertex.operators.protocol import EMPTY_STATE, Operator, OperatorState
from rvertex.operators.windows.count import CountWindowAggregate
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.operators.windows.session import SessionAggregate
from rvertex.operators.windows.snapshots.window import SnapshotAggregate
from tests.support.budget import one_in, scaled
from tests.support.builders import Item, cti, ev, make_events, make_run
from tests.support.operator_harness import assert_horizon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import OperatorSpec

LEFT = pa.schema([("k", pa.int64()), ("x", pa.float64())])
RIGHT = pa.schema([("k", pa.int64()), ("y", pa.float64())])
SUMS = (AggregateSpec("count", None, "n"), AggregateSpec("sum", "x", "x"))
DISTINCT = (AggregateSpec("count_distinct", "x", "n"),)
BOTH: tuple[tuple[Side, str, str], ...] = (
    ("left", "k", "k"),
    ("left", "x", "x"),
    ("right", "y", "y"),
)
K = ("k",)
RUNS = scaled(4)


@dataclass(frozen=True)
class Positive:
    """``x > 0``."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.greater(batch.column("x"), 0.0)


@dataclass(frozen=True)
class Differ:
    """``x <> y``."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.not_equal(batch.column("x"), batch.column("y"))


class Chain:
    """Operators in a chain, as in a vertex."""

    def __init__(self, *operators: OperatorSpec) -> None:
        self.operators = operators

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        for operator in self.operators:
            inputs = [operator.output_schema(inputs)]
        return inputs[0]

    def horizon_us(self, durations: Durations) -> int | None:
        return chain_horizon(self.operators, durations)

    def output_duration(self, durations: Durations) -> int | None:
        return chain_output_duration(self.operators, durations)

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        running = []
        for operator in self.operators:
            running.append(operator.open(inputs))
            inputs = [operator.output_schema(inputs)]
        return _RunningChain(running)


class _RunningChain:
    def __init__(self, operators: list[Operator]) -> None:
        self._operators = operators

    def process(self, ports: Sequence[Run]) -> Run:
        for operator in self._operators:
            ports = [operator.process(ports)]
        return ports[0]

    def snapshot(self) -> OperatorState:
        return EMPTY_STATE

    def load(self, state: OperatorState) -> None:
        raise NotImplementedError


def _inputs(seed: int, schemas: Sequence[pa.Schema], durations: Durations) -> list[Run]:
    rng = random.Random(seed)
    ctis = np.array(sorted(rng.sample(range(45), rng.randint(1, 8))), np.int64)
    runs = []
    for schema, duration in zip(schemas, durations, strict=True):
        table = []
        for _ in range(14):
            vs, length = rng.randint(0, 40), rng.randint(1, duration or 1)
            value = rng.choice([0.1, 0.7, -0.3, 1e16, -1e16])
            table.append(ev(vs, vs + length, **{"k": rng.randint(0, 1), schema.names[1]: value}))
        runs.append(Run(make_events(table, schema), ctis))
    return runs


def _is_enough(spec: OperatorSpec, inputs: list[Run], horizon_us: int, cuts: range) -> bool:
    schemas = [pa.schema(list(run.events.schema)[2:]) for run in inputs]
    try:
        assert_horizon(spec, inputs, schemas, horizon_us, cuts)
    except AssertionError:
        return False
    return True


ONE_PORT: dict[str, tuple[OperatorSpec, int]] = {
    "tumbling": (WindowAggregate(K, 10, 10, SUMS, points=True), 1),
    "hopping": (WindowAggregate(K, 10, 4, SUMS, points=True), 1),
    "gaps": (WindowAggregate(K, 8, 10, SUMS, points=True), 1),
    "of intervals": (WindowAggregate(K, 10, 4, SUMS, points=False), 6),
    "gathered": (WindowAggregate(K, 10, 4, DISTINCT, points=True), 1),
    "panes": (PartialAggregate(K, 10, 10, SUMS, points=True), 1),
    "partial": (PartialAggregate(K, 10, 4, SUMS, points=False), 6),
    "snapshot": (SnapshotAggregate(K, SUMS), 7),
    "chop": (Chop(4, 1), 9),
    "point at end": (PointAtEnd(), 9),
}
CONDITIONAL = ConditionalJoin(
    K, K, BOTH, Differ(), (("left", "x", "x"), ("right", "y", "y")), "left"
)
TWO_PORTS: dict[str, tuple[OperatorSpec, int, int]] = {
    "join": (TemporalJoin(K, K, BOTH), 5, 9),
    "anti join": (AntiJoin(K, K, (("k", "k"), ("x", "x"))), 5, 9),
    "anti join, long left": (AntiJoin(K, K, (("k", "k"), ("x", "x"))), 9, 5),
    "left join": (LeftJoin(K, K, BOTH), 5, 9),
    "clip": (Clip(K, K), 9, 3),
    "as of": (AsOfJoin(K, K, BOTH, "nearest", 5, True), 3, 3),
}
CASES: dict[str, tuple[OperatorSpec, Durations]] = {
    **{name: (spec, (duration,)) for name, (spec, duration) in ONE_PORT.items()},
    **{name: (spec, (left, right)) for name, (spec, left, right) in TWO_PORTS.items()},
}
HOPPING = WindowAggregate(K, 8, 4, SUMS, points=False)
CHAINS: dict[str, tuple[Chain, Durations]] = {
    "filter, window": (Chain(Filter(Positive()), HOPPING), (5,)),
    "window, window": (Chain(WindowAggregate(K, 6, 3, SUMS, points=True), HOPPING), (1,)),
    "two phases": (
        Chain(PartialAggregate(K, 8, 4, SUMS, True), FinalAggregate(K, 8, 4, SUMS, True)),
        (1,),
    ),
    "join, window": (Chain(TemporalJoin(K, K, BOTH), HOPPING), (5, 7)),
    "anti join, chop": (Chain(AntiJoin(K, K, (("k", "k"), ("x", "x"))), Chop(3)), (7, 4)),
    "clip, snapshot": (Chain(Clip(K, K), SnapshotAggregate(K, SUMS)), (7, 2)),
    "snapshot, extend, point at end": (
        Chain(SnapshotAggregate(K, SUMS), Extend(3), PointAtEnd()),
        (6,),
    ),
    "shift, chop, shift, window": (Chain(Shift(9), Chop(2), Shift(-4), HOPPING), (7,)),
    "point at end, last, snapshot": (
        Chain(PointAtEnd(), SetDuration(6), SnapshotAggregate(K, SUMS)),
        (5,),
    ),
}


def _ports(durations: Durations) -> list[pa.Schema]:
    return [LEFT, RIGHT][: len(durations)]


def _assert_enough(spec: OperatorSpec, durations: Durations, horizon_us: int) -> None:
    for seed in range(RUNS):
        inputs = _inputs(seed, _ports(durations), durations)
        assert _is_enough(spec, inputs, horizon_us, range(seed % 6, 40, 6)), seed


def _assert_noticed(spec: OperatorSpec, durations: Durations, horizon_us: int) -> None:
    """Check that the harness detects an insufficient horizon."""
    assert any(
        not _is_enough(
            spec, _inputs(seed, _ports(durations), durations), horizon_us, range(1, 40, 2)
        )
        for seed in range(100)
    )


@pytest.mark.parametrize("name", one_in(3, CASES))
def test_a_full_horizon_suffices_and_a_third_does_not(name: str) -> None:
    spec, durations = CASES[name]
    horizon_us = horizon_of(spec, durations)
    assert horizon_us is not None
    _assert_enough(spec, durations, horizon_us)
    _assert_noticed(spec, durations, horizon_us // 3)


@pytest.mark.parametrize("name", one_in(3, CHAINS))
def test_horizons_of_a_chain_add_up(name: str) -> None:
    spec, durations = CHAINS[name]
    horizon_us = chain_horizon(spec.operators, durations)
    assert horizon_us is not None
    _assert_enough(spec, durations, horizon_us)
    _assert_noticed(spec, durations, horizon_us // 4)


def test_a_condition_does_not_change_the_horizon_of_a_join() -> None:
    for durations in ((5, 9), (9, 5), (None, 5)):
        horizon_us = horizon_of(CONDITIONAL, durations)
        assert horizon_us == horizon_of(LeftJoin(K, K, BOTH), durations)


@pytest.mark.slow
def test_the_horizon_of_a_conditional_join_exceeds_its_lifetimes() -> None:
    _assert_enough(CONDITIONAL, (9, 5), 18)
    _assert_noticed(CONDITIONAL, (9, 5), 9)


def test_sessions_with_a_maximum_length_depend_on_their_first_event() -> None:
    table: list[Item] = [ev(t, k=0, x=0.1) for t in range(0, 60, 4)]
    table += [cti(t) for t in range(1, 60, 6)]
    spec = SessionAggregate(K, 5, 12, SUMS)
    run = make_run(table, LEFT)
    assert not _is_enough(spec, [run], 5 + 12, range(25))
    assert not _is_enough(spec, [run], 2 * (5 + 12), range(25))
    assert horizon_of(spec, (1,)) is None


def test_operators_without_a_bound_declare_it() -> None:
    session = SessionAggregate(K, 5, None, SUMS)
    unbounded: list[OperatorSpec] = [Stitch(K), CountWindowAggregate(K, 2, SUMS), session]
    for operator in unbounded:
        assert horizon_of(operator, (1,)) is None
        assert chain_horizon([Filter(Positive()), operator], (1,)) is None
    for name, (spec, durations) in CASES.items():
        points = name in {"tumbling", "hopping", "gaps", "gathered", "panes", "as of"}
        assert (horizon_of(spec, (None,) * len(durations)) is None) is not points, name
    assert chain_horizon([PointAtEnd()], (None,)) is None
    assert chain_horizon([SetDuration(3), PointAtEnd()], (None,)) == 3
    assert chain_output_duration([Extend(4), Chop(3)], (None,)) == 3
    assert chain_output_duration([Extend(-4)], (3,)) == 1


def test_an_operator_without_a_declaration_has_no_bound() -> None:
    class Silent:
        holds_ctis: ClassVar[bool] = False

        def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
            return inputs[0]

        def open(self, inputs: Sequence[pa.Schema]) -> Operator:
            raise NotImplementedError

    assert chain_horizon([Silent()], (1,)) is None
    assert chain_output_duration([Silent()], (1,)) is None
