"""Divides the state of an operator among vertices, and puts the parts side by side in one."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.batch import EVENT, KIND, VS, int64_column
from rstream.items.hashing import SLOTS, slots_of
from rstream.types import INF_TIME, MIN_TIME
from rvertex.checkpoint.conversion import Place
from rvertex.checkpoint.ranges.restrict import check_rule, restricted
from rvertex.checkpoint.ranges.sharded import Sharded
from rvertex.checkpoint.ranges.slots import NotByKeyError
from rvertex.events.run import Run, growing
from rvertex.operators.cti_forwarding import ForwardCtis
from rvertex.operators.edges.of_begins import EdgeOfBegins
from rvertex.operators.ordered.limit import Limit
from rvertex.operators.user.call_once import CallOnce
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.operators.user.lookup import Lookup
from rvertex.operators.user.transform import UserOperator
from rvertex.operators.windows.extremes import Extremes
from rvertex.operators.windows.hopping import PartialAggregate
from rvertex.operators.windows.session_phases import PartialSession
from rvertex.state.array_spill import ArraySpill
from rvertex.state.memory import StateMemory
from tests.support.cut_runs import Ports, merged_order, reopened, run_cut, through_bytes
from tests.support.small_limits import small_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.protocol import OperatorSpec, OperatorState

#: Operators without a rule: their state is not by key, or logged values depend on it.
REFUSED = (CallOnce, Limit, Lookup, UserOperator)
#: Tables of which parts together may have more rows than the whole: logs of windows, which number
#: the windows of all keys, and rows that open panes became.
_MAY_GROW = ("windows", "live")


def assert_divisible(
    spec: OperatorSpec,
    inputs: Sequence[Run],
    schemas: Sequence[pa.Schema],
) -> None:
    """Divide the state by ranges of the key's hash at an item, and again later: same rows.

    The parts together have no more rows than the state, or each would carry rows of other parts.
    After the first division two vertices work, one of them with two parts; after the second, one
    vertex has all parts. Only the operators in ``REFUSED``, and those without the key, are skipped,
    and so are first phases: their parts emit other rows, which the next phase merges.
    """
    if isinstance(spec, PartialAggregate | PartialSession | Extremes):
        return
    keys = _keys_of(spec)
    place = Place(0, spec, tuple(schemas))
    if any(set(names) - set(schema.names) for names, schema in zip(keys, schemas, strict=True)):
        return
    if not _has_rule(place, keys):
        return
    end: int = INF_TIME
    if isinstance(spec, KeyedProcessing):  # its timers may never end
        times = [int(t) for run in inputs for t in (*int64_column(run.events, VS), *run.ctis)]
        end = min(max(times, default=0) + 1, INF_TIME)
    inputs = [
        Run(run.events, growing(np.append(run.ctis.astype(np.int64), np.int64(end)), None))
        for run in inputs
    ]
    (expected,) = run_cut(spec, inputs, schemas, ())
    order = merged_order(inputs)
    draw = random.Random(len(order))
    at, then = sorted(draw.randrange(len(order) + 1) for _ in range(2))
    a, b = sorted(draw.randrange(1, SLOTS) for _ in range(2))
    pieces = [order.piece(inputs, 0, at // 2), order.piece(inputs, at // 2, at)]
    rows, state = _state_at(spec, schemas, pieces, draw.choice((None, 0)))
    covering = ((0, a), (a, b), (b, SLOTS))
    _assert_no_row_twice(state, [restricted(place, keys, slots, state) for slots in covering])
    for ranges in (((0, a), (b, SLOTS)), ((a, b),)):
        vertex = Sharded((spec,), keys, ranges)
        running = vertex.open(schemas)
        parts = [restricted(place, keys, slots, state) for slots in ranges]
        reached = [MIN_TIME] * len(parts)
        running.load(vertex.beginning(schemas, [[part] for part in parts], reached))
        rows += running.process(
            _of_slots(order.piece(inputs, at, then), keys, ranges)
        ).events.to_pylist()
        running = reopened(vertex, schemas, running.snapshot())
        rest = _of_slots(order.piece(inputs, then, len(order)), keys, ranges)
        rows += running.process(rest).events.to_pylist()
        for name, table in running.snapshot().tables.items():
            if name.startswith("pending"):  # other shards have not reached this point
                rows += [r for r in table.to_pylist() if r.pop(KIND) == EVENT]
    whole = sorted(map(repr, expected.events.to_pylist()))
    assert sorted(map(repr, rows)) == whole, f"divided at {at} of {len(order)}, slots {a}, {b}"


def _assert_no_row_twice(state: OperatorState, parts: Sequence[OperatorState]) -> None:
    """``parts``: of ranges that do not overlap and cover all slots."""
    for name, table in state.tables.items():
        if name.rpartition(".")[2] not in _MAY_GROW:
            rows = sum(part.tables[name].num_rows for part in parts if name in part.tables)
            assert rows <= table.num_rows, f"{name}: divided, {rows} rows of {table.num_rows}"


def _has_rule(place: Place, keys: tuple[tuple[str, ...], ...]) -> bool:
    """Return whether the operator is divisible by these keys; raise if it should be but is not."""
    try:
        check_rule(place, keys)
    except NotByKeyError as error:
        if isinstance(_inner(place.spec), REFUSED) or "lacks the column" in error.reason:
            return False
        raise
    return True


def _inner(spec: OperatorSpec) -> OperatorSpec:
    """The operator without wrappers."""
    if isinstance(spec, ForwardCtis):
        return _inner(spec.operator)
    return _inner(spec.inner) if isinstance(spec, EdgeOfBegins) else spec


def _state_at(
    spec: OperatorSpec, schemas: Sequence[pa.Schema], pieces: Sequence[Ports], budget: int | None
) -> tuple[list[dict[str, Any]], OperatorState]:
    """Return the output rows of these pieces, and the state after them (spilled if limited)."""
    rows: list[dict[str, Any]] = []
    with nullcontext() if budget is None else small_limits():
        operator = spec.open(schemas)
        arrays = ArraySpill([operator], StateMemory(budget))
        for piece in pieces:
            arrays.fit(0)
            rows += operator.process(piece).events.to_pylist()
        return rows, through_bytes(operator.snapshot())


def _keys_of(spec: OperatorSpec) -> tuple[tuple[str, ...], ...]:
    spec = _inner(spec)
    if hasattr(spec, "left_on") and hasattr(spec, "right_on"):
        return (spec.left_on, spec.right_on)
    on = getattr(spec, "keys", getattr(spec, "on", ()))
    return (on or ("k",),)


def _of_slots(
    ports: Ports, keys: Sequence[Sequence[str]], ranges: Sequence[tuple[int, int]]
) -> Ports:
    found = []
    for run, names in zip(ports, keys, strict=True):
        slots = slots_of([run.events.column(name) for name in names])
        mask = np.logical_or.reduce([(lo <= slots) & (slots < hi) for lo, hi in ranges])
        found.append(Run(run.events.filter(pa.array(mask)), run.ctis))
    return found
