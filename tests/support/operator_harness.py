"""The operator harness: one input, cut and restored in every way, must give one output.

:func:`assert_cut_invariant` runs an operator all at once, item by item, at the given cuts and with
``snapshot`` -> new ``open()`` -> ``load`` between pieces, and compares the outputs item by item
(floats bit by bit). It also checks the guarantees of every operator: events sorted by ``vs``,
strictly increasing CTIs that hold, ``vs < ve``, the announced schema, and snapshots that later
processing does not change. Every operator also runs without a memory budget, and operators that
spill also with small budgets. Half of the runs have small limits
(:mod:`tests.support.small_limits`), so that few rows also run the code for many.

If an operator declares a horizon (:mod:`rvertex.operators.horizon`), then at any cut a new one that
got only the items within the horizon must continue exactly like the one that got everything; also
if it got some earlier items, as after another operator that is being rebuilt. If an operator
declares that it does not delay CTIs (``holds_ctis``), they must be the same without any event:
``ctx.at_end`` must not depend on which rows share a vertex.

Not covered: a result with the same error for every cut, which the naive evaluators
(``tests/support/naive.py``) detect. Source: Jet's and Trill's operator tests.
"""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.run import NO_CTIS, Run, to_items
from rvertex.operators.cti_forwarding import ForwardCtis
from rvertex.operators.horizon import horizon_of, output_duration_of
from rvertex.operators.protocol import Stateless
from rvertex.state.memory import SpillsState
from tests.support.budget import DEPTH
from tests.support.cut_runs import MergedOrder, Ports, merged_order, reopened, run_cut
from tests.support.divided import assert_divisible
from tests.support.exact import assert_same_items
from tests.support.small_limits import small_limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator, OperatorSpec, OperatorState

#: The number of places at which an operator is rebuilt from its horizon.
REPLAYS = 2
#: Memory limits of an operator's state, in bytes: nothing, and a few rows.
BUDGETS = (0, 400)


def items_of(outputs: Sequence[Run], payload: pa.Schema) -> pa.RecordBatch:
    """The items of consecutive output runs, as they would be written to a stream."""
    empty = to_items(Run(pa.RecordBatch.from_pylist([], schema=event_schema(payload)), NO_CTIS))
    return pa.concat_batches([empty, *(to_items(run) for run in outputs)])


def check_output(outputs: Sequence[Run], payload: pa.Schema) -> pa.RecordBatch:
    """Check the guarantees of an operator for its reader; return the items of all its runs."""
    schema = event_schema(payload)
    last_vs: int | None = None
    last_cti: int | None = None
    for run in outputs:
        assert run.events.schema.equals(schema), f"announced {payload}, emitted {run.events.schema}"
        run.check()
        if len(run.ctis):
            first = int(run.ctis[0])
            assert last_cti is None or first > last_cti, (first, last_cti)
            assert last_vs is None or first > last_vs, f"CTI({first}) after an event at {last_vs}"
        if run.events.num_rows:
            run.events.validate(full=True)
            vs = int64_column(run.events, VS)
            # An end edge has its start in _ve.
            assert (vs != int64_column(run.events, VE)).all(), "an event needs a lifetime"
            assert last_vs is None or vs[0] >= last_vs, f"event at {vs[0]} after one at {last_vs}"
            assert last_cti is None or vs[0] >= last_cti, f"event at {vs[0]} after CTI({last_cti})"
            last_vs = int(vs[-1])
        if len(run.ctis):
            last_cti = int(run.ctis[-1])
    if not outputs:
        return items_of((), payload)
    events = pa.concat_batches([run.events for run in outputs])
    return to_items(Run(events, np.concatenate([run.ctis for run in outputs])))


def assert_cut_invariant(
    spec: OperatorSpec,
    inputs: Sequence[Run],
    input_schemas: Sequence[pa.Schema],
    *splits: Sequence[int],
) -> Run:
    """Run ``spec`` in every way over ``inputs``. Return the output, which is always the same.

    Args:
        spec: The operator.
        inputs: One whole run per port, all with the same CTIs.
        input_schemas: Payload schema of each port.
        splits: Each a list of cuts in the merged sequence (out of range cuts are ignored).
    """
    for run in inputs[1:]:
        assert np.array_equal(run.ctis, inputs[0].ctis), "ports must carry the same CTIs"
    payload = spec.output_schema(input_schemas)
    whole = run_cut(spec, inputs, input_schemas, ())
    expected = check_output(whole, payload)
    if not (spec.holds_ctis or isinstance(spec, ForwardCtis)):
        without = [Run(run.events.slice(0, 0), run.ctis) for run in inputs]
        ctis = spec.open(input_schemas).process(without).ctis
        assert np.array_equal(ctis, whole[0].ctis), (
            f"{spec} holds CTIs back: its spec has to say holds_ctis = True"
        )
    with small_limits():
        at_once = run_cut(spec, inputs, input_schemas, ())
    assert_same_items(items_of(at_once, payload), expected, "all at once, with small limits")
    every = range(1, len(merged_order(inputs)))
    for cuts in (every, *splits):
        for restore in (False, True):
            is_small = restore != (cuts is every)
            with small_limits() if is_small else nullcontext():
                outputs = run_cut(spec, inputs, input_schemas, cuts, restore=restore)
            label = f"cut at {list(cuts)}{', restored at each' if restore else ''}"
            label += ", with small limits" if is_small else ""
            assert_same_items(check_output(outputs, payload), expected, label)
    _assert_budgets(spec, inputs, input_schemas, (every, *splits), expected)
    for cuts in splits or ((len(every) // 2,),):
        _assert_snapshots_stay(spec, inputs, input_schemas, cuts)
    assert_divisible(spec, inputs, input_schemas)
    horizon_us = horizon_of(spec, durations_of(inputs))
    if horizon_us is not None:
        places = sorted({k * len(every) // (REPLAYS + 1) for k in range(1, REPLAYS + 1)})
        assert_horizon(spec, inputs, input_schemas, horizon_us, places)
    return whole[0]


def _assert_budgets(
    spec: OperatorSpec,
    inputs: Sequence[Run],
    schemas: Sequence[pa.Schema],
    splits: Sequence[Sequence[int]],
    expected: pa.RecordBatch,
) -> None:
    """Check that the output does not depend on what is spilled; small limits force spills."""
    payload = spec.output_schema(schemas)
    operator = spec.open(schemas)
    if isinstance(operator, Stateless):
        return
    ways = list(_ways_to_spill(splits))
    if not isinstance(operator, SpillsState):
        ways = ways[:1]
    for cuts, restore, budget_bytes in ways:
        with small_limits():
            outputs = run_cut(
                spec, inputs, schemas, cuts, restore=restore, budget_bytes=budget_bytes
            )
        label = f"cut at {list(cuts)}, a budget of {budget_bytes} bytes"
        label += ", restored at each" if restore else ""
        assert_same_items(check_output(outputs, payload), expected, label)


def _ways_to_spill(splits: Sequence[Sequence[int]]) -> Iterator[tuple[Sequence[int], bool, int]]:
    """List the runs: the cuts, whether to restore at each, and the memory budget.

    Item by item costs most. So each combination of cuts and restores gets one budget, and item by
    item runs either with or without restores if there are other cuts. The number of items decides,
    so random inputs of different lengths cover every way. ``make deep`` runs all of them.
    """
    every = splits[0]
    turn = len(every)
    for k, (cuts, restore) in enumerate(itertools.product(splits, (False, True))):
        is_left_out = cuts is every and len(splits) > 1 and restore == bool(turn // 2 % 2)
        if DEPTH > 1 or not is_left_out:
            budget_bytes = BUDGETS[(k + k // 2 + turn) % len(BUDGETS)]
            for budget in BUDGETS if DEPTH > 1 else (budget_bytes,):
                yield cuts, restore, budget


def durations_of(inputs: Sequence[Run]) -> Durations:
    """The longest lifetime of the events of each port; None if one is endless."""
    durations: list[int | None] = []
    for run in inputs:
        vs, ve = int64_column(run.events, VS), int64_column(run.events, VE)
        is_endless = bool((ve == INF_TIME).any())
        durations.append(None if is_endless else int((ve - vs).max(initial=1)))
    return tuple(durations)


def assert_horizon(
    spec: OperatorSpec,
    inputs: Sequence[Run],
    schemas: Sequence[pa.Schema],
    horizon_us: int,
    cuts: Sequence[int],
) -> None:
    """At each of ``cuts``, an operator rebuilt from its horizon continues like the old one."""
    payload = spec.output_schema(schemas)
    order = merged_order(inputs)
    cuts = sorted({cut for cut in cuts if 0 < cut < len(order)})
    outputs = run_cut(spec, inputs, schemas, cuts)
    output_duration = output_duration_of(spec, durations_of(inputs))
    if output_duration is not None:
        for run in outputs:
            vs, ve = int64_column(run.events, VS), int64_column(run.events, VE)
            assert (ve - vs <= output_duration).all(), f"lives longer than {output_duration}"
    for k, cut in enumerate(cuts):
        first = _first_needed(order, cut, horizon_us)
        for prefix in ((), _every_second(order, inputs, first)):
            late = spec.open(schemas)
            for piece in prefix:
                late.process(piece)
            late.process(order.piece(inputs, first, cut))
            again = [late.process(order.piece(inputs, cut, len(order)))]
            label = f"rebuilt at {cut} from {first} by a horizon of {horizon_us}"
            if prefix:
                label += ", after a part of what came before"
            assert_same_items(items_of(again, payload), items_of(outputs[k + 1 :], payload), label)


def _first_needed(order: MergedOrder, cut: int, horizon_us: int) -> int:
    """The first item within the horizon of the last CTI before ``cut``; 0 without a CTI."""
    ctis = order.times[:cut][order.port[:cut] < 0]
    if len(ctis) == 0:
        return 0
    return int(order.times.searchsorted(max(int(ctis[-1]) - horizon_us, MIN_TIME)))


def _every_second(order: MergedOrder, inputs: Sequence[Run], end: int) -> list[Ports]:
    """Return all CTIs and every second event before ``end``, as one piece."""
    ports = []
    for run in order.piece(inputs, 0, end):
        kept = np.arange(run.events.num_rows) % 2 == 0
        ports.append(Run(run.events.filter(pa.array(kept)), run.ctis))
    return [ports]


def _assert_snapshots_stay(
    spec: OperatorSpec, inputs: Sequence[Run], schemas: Sequence[pa.Schema], splits: Sequence[int]
) -> None:
    """Check that snapshots taken in between, but loaded at the end, continue in the same way."""
    payload = spec.output_schema(schemas)
    order = merged_order(inputs)
    cuts = [0, *sorted({s for s in splits if 0 < s < len(order)}), len(order)]
    operator = spec.open(schemas)
    states, outputs = [], []
    for lo, hi in itertools.pairwise(cuts):
        states.append(operator.snapshot())
        outputs.append(operator.process(order.piece(inputs, lo, hi)))
    for k, state in enumerate(states):
        expected = items_of(outputs[k:], payload)
        for load in (reopened, _shared):
            late = load(spec, schemas, state)
            again = [
                late.process(order.piece(inputs, lo, hi))
                for lo, hi in zip(cuts[k:-1], cuts[k + 1 :], strict=True)
            ]
            label = f"snapshot {k} of cuts {cuts}, {load.__name__}"
            assert_same_items(items_of(again, payload), expected, label)


def _shared(spec: OperatorSpec, schemas: Sequence[pa.Schema], state: OperatorState) -> Operator:
    """Return a new operator that shares the arrays of ``state``, as replicas in a host do."""
    operator = spec.open(schemas)
    operator.load(state)
    return operator
