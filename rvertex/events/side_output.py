"""Side outputs: rows that a step puts aside, each kind in a stream of its own.

A source keeps its late rows so, an operator the rows it cannot take. A side stream is durable and
no vertex reads it; it lies in the job's folder, not in that of the answer.

Invariants: (1) its events are in the order in which they were found, which is that of the input,
so it does not depend on the cutting; (2) it is not sorted by ``vs`` and promises nothing: its only
CTI is ``CTI(INF_TIME)`` at its end; (3) a stream without rows has no items at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from rstream.items.batch import EVENT, cti_batch, item_schema
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Folders of side outputs in the job's folder.
LATE = "late"
DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True, slots=True)
class Side:
    """A kind of rows that is put aside. ``name`` is its folder, such as ``dead_letters/parse``."""

    name: str
    payload: pa.Schema


@runtime_checkable
class PutsAsideSpec(Protocol):
    """The specification of an operator (or source) that puts rows aside."""

    def sides(self, inputs: Sequence[pa.Schema]) -> tuple[Side, ...]:
        """What it puts aside, given the payload schema of each port."""
        ...


@runtime_checkable
class PutsAside(Protocol):
    """A running operator, or input side, that puts rows aside."""

    def take_aside(self) -> Sequence[pa.RecordBatch]:
        """For each side its events ``_vs, _ve, payload`` since the last call, in order found.

        A vertex calls it after every ``process``, so what an operator has put aside is never part
        of a snapshot.
        """
        ...


def sides_of(spec: object, inputs: Sequence[pa.Schema]) -> tuple[Side, ...]:
    """What an operator puts aside; most put nothing."""
    return spec.sides(inputs) if isinstance(spec, PutsAsideSpec) else ()


def to_side_items(
    events: pa.RecordBatch | None, payload: pa.Schema, *, seq: int, is_end: bool
) -> pa.RecordBatch | None:
    """The next items of a side stream whose next seq is ``seq``; None if there are none."""
    schema = item_schema(payload)
    pieces: list[pa.RecordBatch] = []
    if events is not None and events.num_rows:
        kind = pa.array(np.full(events.num_rows, EVENT, np.int8))
        pieces.append(pa.RecordBatch.from_arrays([kind, *events.columns], schema=schema))
    if is_end and (seq or pieces):
        pieces.append(cti_batch(INF_TIME, schema))
    return pa.concat_batches(pieces) if pieces else None
