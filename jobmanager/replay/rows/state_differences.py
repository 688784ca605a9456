"""Compares the state of a replayed vertex with that of a retained checkpoint.

The vertex reads its input again exactly up to the checkpoint's positions, like a vertex that
recovers by replay. Then both states belong to the same moment, and are compared by table.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobmanager.replay.recorded import Recorded, vertex_of
from jobmanager.replay.rerun import Rerun, Shape
from jobmanager.storage.root import JobRoot
from rstream.errors import StreamEngineError
from rstream.items.json_text import json_text, plain_rows
from rvertex.operators.protocol import without_indexes
from rvertex.vertex.rvertex import RVertex
from rvertex.vertex.spec import ReplayFrom

if TYPE_CHECKING:
    import pyarrow as pa

    from jobmanager.replay.differences import Difference
    from jobmanager.replay.recorded import Retained
    from rvertex.operators.protocol import OperatorState
    from rvertex.vertex.spec import Snapshot, VertexSpec

#: The most rows to show per table and side.
ROWS_SHOWN = 3
_ROWS_MAX = 100_000


def state_difference(root: str, difference: Difference, vertex: str, *, trust: bool = False) -> str:
    """Describe how the states differ at the first retained checkpoint after an output difference.

    Empty if no checkpoint with a state is retained after it, or the vertex reads a source.
    """
    recorded = Recorded(JobRoot(root, trust=trust))
    spec = vertex_of(recorded.plan, vertex)
    output = spec.output_streams.index(difference.stream)
    later = [c for c in recorded.checkpoints(spec.id) if c.outputs[output] >= difference.seq]
    if not later or spec.source is not None:
        return ""
    checkpoint = later[-1]
    try:
        snapshot = recorded.snapshot(checkpoint, spec)
        if snapshot.replay_from is not None:
            return ""
        replayed = _states_at(recorded, spec, snapshot)
    except StreamEngineError as error:
        return f"the state at {checkpoint.name} cannot be compared: {error}"
    names = ["input", *(type(operator).__name__ for operator in spec.operators)]
    lines = [
        line
        for name, ours, theirs in zip(names, replayed, snapshot.states, strict=True)
        for line in _lines(name, theirs, ours)
    ]
    where = f"state at {_place(checkpoint)}"
    return "\n".join([f"{where}:", *lines]) if lines else f"{where}: equal"


def _states_at(
    recorded: Recorded, spec: VertexSpec, snapshot: Snapshot
) -> tuple[OperatorState, ...]:
    """Replay from the beginning to exactly a snapshot's positions. Return the operators' states."""
    fresh = RVertex(spec, pending_rows_max=1).get_snapshot()
    origin = ReplayFrom(fresh.inputs, fresh.states[0])
    rerun = Rerun(Shape.of(recorded.plan), recorded)
    with contextlib.closing(rerun):
        (run,) = rerun.open({spec.id: None})
        run.vertex.load(replace(snapshot, replay_from=origin))
        while run.vertex.is_replaying and run.turn():
            pass
        return run.vertex.states()


def _lines(name: str, recorded: OperatorState, replayed: OperatorState) -> list[str]:
    lines = [
        f"  {name}.{key}: recorded {recorded.header.get(key)!r}, replayed {value!r}"
        for key, value in replayed.header.items()
        if recorded.header.get(key) != value
    ]
    tables = [without_indexes(state.tables) for state in (recorded, replayed)]
    for table in sorted({*tables[0], *tables[1]}):
        sides = [of_state.get(table) for of_state in tables]
        bags = [_bag(side) for side in sides]
        for what, bag in (("recorded", bags[0] - bags[1]), ("replayed", bags[1] - bags[0])):
            rows = list(bag.elements())
            lines += [f"  {name}.{table}, only {what}: {row}" for row in rows[:ROWS_SHOWN]]
            if len(rows) > ROWS_SHOWN:
                lines.append(f"  {name}.{table}, only {what}: {len(rows) - ROWS_SHOWN:,} more rows")
    return lines


def _bag(table: pa.Table | None) -> Counter[str]:
    if table is None:
        return Counter()
    rows: list[dict[str, Any]] = list(plain_rows(table.slice(0, _ROWS_MAX)))
    return Counter(json_text(row) for row in rows)


def _place(checkpoint: Retained) -> str:
    return f"{checkpoint.name}, after input {', '.join(map(str, checkpoint.reads))}"
