"""The rows of a joiner's step, as it claims them and appends them to the output log."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from rvertex.registry.joiner.rows import UNJOINABLE, LogInput, Rows

if TYPE_CHECKING:
    from rstream.intake.producers import Ack, ProducerPosition
    from rvertex.registry.joiner.rows import JoinSpec
    from rvertex.registry.joiner.steps import Step

_DIGEST_BYTES = 16


class OutputLog(Protocol):
    """The log of joined rows; :class:`rstream.Appender` is one."""

    def open_producer(self, producer: str) -> ProducerPosition:
        """Return the producer's next number, and fence the producer's earlier processes."""

    def append(self, rows: pa.RecordBatch, *, producer: str, epoch: int, number: int) -> Ack:
        """Append rows durably.

        A repeated number is acknowledged, but its rows are not appended again.
        """

    def close(self) -> None:
        """Release the resources of the log."""


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """A step that the journal has stored, and its rows, which are not yet in the output log.

    ``keys``: the id that the step claims in the registry for each row. Only rows whose id it gets
    are appended, so that no other site appends them, too.
    """

    step: Step
    keys: list[bytes]
    times_us: list[int]
    rows: pa.RecordBatch


def prepared(
    schema: pa.Schema,
    spec: JoinSpec,
    foreign: LogInput,
    step: Step,
    joined: Rows,
    marked: Rows,
    found: pa.RecordBatch,
    at: np.ndarray,
) -> Begun:
    """Return the rows of a step. ``at``: the row of ``found`` for each of ``joined``."""
    pairs = joined_rows(schema, joined.rows, found.take(pa.array(at)))
    alone = joined_rows(schema, marked.rows, None)
    keys = foreign.keys(joined.rows, spec.id)
    keys += [mark_of(key) for key in foreign.keys(marked.rows, spec.id)]
    both = Rows.concat([joined, marked], foreign.payload)
    times = foreign.times_us(both.rows).tolist()
    return Begun(step, keys, times, pa.concat_batches([pairs, alone]))


def mark_of(key: bytes) -> bytes:
    """Return the id under which a row without its partner is claimed."""
    digest = hashlib.blake2b(key, digest_size=_DIGEST_BYTES, person=UNJOINABLE.encode())
    return digest.digest()


def joined_rows(
    schema: pa.Schema, foreign: pa.RecordBatch, primary: pa.RecordBatch | None
) -> pa.RecordBatch:
    """Return foreign rows with the columns of their primary rows, or with nulls."""
    count = foreign.num_rows
    columns = list(foreign.columns)
    rest = list(schema)[len(columns) : -1]
    if primary is None:
        columns += [pa.nulls(count, field.type) for field in rest]
    else:
        columns += [primary.column(field.name) for field in rest]
    columns.append(pa.array(np.full(count, primary is None), pa.bool_()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
