"""Side outputs: rows that a step does not process, each kind in a separate stream.

A source emits its late rows to a side output, an operator the rows that it rejects. A side stream
is durable, and no vertex reads it. It is stored in the job's folder, beside the result.

Invariants: (1) the events of a side stream keep the order of the input, so they do not depend on
batch boundaries; (2) a side stream is not sorted by ``vs``, so its only CTI is ``CTI(INF_TIME)`` at
its end; (3) a side stream without rows has no items, not even that CTI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from rstream.items.batch import EVENT, cti_batch, item_schema
from rstream.types import INF_TIME, implements

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Folders of side outputs in the job's folder.
LATE = "late"
DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True, slots=True)
class SideOutput:
    """One side output. ``name`` is its folder, such as ``dead_letters/parse``."""

    name: str
    payload: pa.Schema


@runtime_checkable
class DeclaresSideOutputs(Protocol):
    """The specification of an operator or source that may have side outputs."""

    def side_outputs(self, inputs: Sequence[pa.Schema]) -> tuple[SideOutput, ...]:
        """Return its side outputs, given the payload schema of each port."""


@runtime_checkable
class HasSideOutputs(Protocol):
    """A running operator, or input side, with side outputs."""

    def drain_side_outputs(self) -> Sequence[pa.RecordBatch]:
        """Return the events ``_vs, _ve, payload`` of each side output since the last call.

        A vertex calls this after every ``process``, so these events are never part of a snapshot.
        """


def side_outputs_of(spec: object, inputs: Sequence[pa.Schema]) -> tuple[SideOutput, ...]:
    """Return the side outputs of an operator; most have none."""
    return spec.side_outputs(inputs) if implements(spec, DeclaresSideOutputs) else ()


def to_side_items(
    events: pa.RecordBatch | None, payload: pa.Schema, *, seq: int, is_end: bool
) -> pa.RecordBatch | None:
    """Return the next items of a side stream whose next seq is ``seq``; None if there are none."""
    schema = item_schema(payload)
    pieces: list[pa.RecordBatch] = []
    if events is not None and events.num_rows:
        kind = pa.array(np.full(events.num_rows, EVENT, np.int8))
        pieces.append(pa.RecordBatch.from_arrays([kind, *events.columns], schema=schema))
    if is_end and (seq or pieces):
        pieces.append(cti_batch(INF_TIME, schema))
    return pa.concat_batches(pieces) if pieces else None
