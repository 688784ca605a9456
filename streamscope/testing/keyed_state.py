"""Read the state of a keyed process under test as rows, and set it for a key."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.errors import UsageError
from rvertex.operators.user.keyed_process import KeyedProcessing
from rvertex.user_code.keyed.state_table import read_rows, with_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rvertex.operators.protocol import OperatorState
    from rvertex.vertex.spec import Snapshot
    from streamscope.testing.plan_run import PlanRun, VertexRun

Place = tuple["VertexRun", int, KeyedProcessing]


def read_state(run: PlanRun, process: str | None) -> list[dict[str, Any]]:
    """Return the state of a keyed process: per key a row of key columns, fields and ``timers``."""
    rows = []
    for vertex, k, spec in _places(run, process):
        state = vertex.vertex.get_snapshot().states[1 + k]
        rows += read_rows(state.tables, spec.keys)
    return rows


def set_state(run: PlanRun, key: Any, values: Mapping[str, Any], process: str | None) -> None:
    """Set state fields of a key.

    Raises:
        UsageError: several processes or vertices exist, or a field is unknown or of another type.
    """
    ((vertex, k, spec), *others) = _places(run, process)
    if others:
        raise UsageError("set_state needs parallelism=1: which vertex has a key is not known")
    known = [field.name for field in spec.fields]
    for name in values:
        if name not in known:
            raise UsageError(f"{spec.process.name} has no field {name!r}; it has {known}")
    snapshot = vertex.vertex.get_snapshot()
    state = snapshot.states[1 + k]
    keys = key if isinstance(key, tuple) else (key,)
    try:
        tables = with_row(state.tables, spec.fields, keys, values)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise UsageError(f"{spec.process.name}: {error}") from None
    vertex.load(_with_state(snapshot, 1 + k, replace(state, tables=tables)))


def _with_state(snapshot: Snapshot, at: int, state: OperatorState) -> Snapshot:
    states = [*snapshot.states]
    states[at] = state
    return replace(snapshot, states=tuple(states))


def _places(run: PlanRun, process: str | None) -> list[Place]:
    """Return the vertices that run a keyed process, and its index among their operators."""
    places = [
        (vertex, k, spec)
        for vertex in run.vertices.values()
        for k, spec in enumerate(vertex.spec.operators)
        if isinstance(spec, KeyedProcessing) and process in (None, spec.process.name)
    ]
    names = sorted({spec.process.name for _, _, spec in places})
    if not places:
        raise UsageError(f"the query has no keyed process {process or ''}".rstrip())
    if len(names) > 1:
        raise UsageError(f"name a process: {', '.join(names)}")
    return places
