"""Tables of events as the test language, ``ev(1, 5, a="x")`` and ``cti(5)``, and conversions.

Source: Trill's tests (an input is a readable table). A table lists events in any order;
:func:`make_run` sorts it into the normal form that vertices get.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.batch import CTI, EVENT, KIND, VE, VS, event_schema, item_schema
from rvertex.events.run import Run, to_items

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Ev:
    """An event with lifetime ``[vs, ve)``."""

    vs: int
    ve: int
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cti:
    """A CTI: no later item starts before ``time``."""

    time: int


Item = Ev | Cti


def ev(vs: int, ve: int | None = None, /, **payload: Any) -> Ev:
    """An event; without ``ve`` a point event."""
    return Ev(vs, vs + 1 if ve is None else ve, payload)


def cti(time: int) -> Cti:
    """A CTI at ``time``."""
    return Cti(time)


def make_events(items: Sequence[Item], payload: pa.Schema) -> pa.RecordBatch:
    """Return the events of a table, sorted by ``vs`` (stable), as ``_vs, _ve, payload``."""
    events = sorted((i for i in items if isinstance(i, Ev)), key=lambda e: e.vs)
    columns = [
        pa.array([e.vs for e in events], pa.int64()),
        pa.array([e.ve for e in events], pa.int64()),
    ]
    columns += [pa.array([e.payload.get(f.name) for e in events], f.type) for f in payload]
    return pa.RecordBatch.from_arrays(columns, schema=event_schema(payload))


def make_run(items: Sequence[Item], payload: pa.Schema) -> Run:
    """Return a table of events and CTIs as a run in normal form."""
    ctis = sorted({i.time for i in items if isinstance(i, Cti)})
    run = Run(make_events(items, payload), np.array(ctis, np.int64))
    run.check()
    return run


def make_items(items: Sequence[Item], payload: pa.Schema) -> pa.RecordBatch:
    """Return a table as a batch of items, in the order of the table (normal form or not)."""
    vs = [i.vs if isinstance(i, Ev) else i.time for i in items]
    ve = [i.ve if isinstance(i, Ev) else i.time for i in items]
    kind = [EVENT if isinstance(i, Ev) else CTI for i in items]
    columns = [pa.array(kind, pa.int8()), pa.array(vs, pa.int64()), pa.array(ve, pa.int64())]
    columns += [
        pa.array([i.payload.get(f.name) if isinstance(i, Ev) else None for i in items], f.type)
        for f in payload
    ]
    return pa.RecordBatch.from_arrays(columns, schema=item_schema(payload))


def table_of(run: Run) -> list[Item]:
    """Return a run as a table, in item order, for comparison with a literal."""
    rows = to_items(run).to_pylist()
    out: list[Item] = []
    for row in rows:
        kind, vs, ve = row.pop(KIND), row.pop(VS), row.pop(VE)
        out.append(Cti(vs) if kind == CTI else Ev(vs, ve, row))
    return out
