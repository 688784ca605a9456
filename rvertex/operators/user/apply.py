"""APPLY: a user's function over the columns of many events at once.

The function gets a RecordBatch with ``_vs``, ``_ve`` and the payload, and returns columns of the
declared schema. Each result row must depend on its input row alone, since batch boundaries are
arbitrary. Without a column ``_row`` the result has one row per input row. With it, result row i
belongs to input row ``_row[i]`` (counted from 0, non-decreasing), so rows may be dropped or
repeated. Result rows have the lifetime of their input row. CTIs (watermarks) are unchanged.

Poison: if the function raises, the batch is halved repeatedly until the rows are found on which it
raises. ``check_cuts``: each batch is also computed with other batch boundaries, and the results are
compared.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema
from rstream.items.hashing import hash_column
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import Run
from rvertex.operators.horizon import SameLifetimes
from rvertex.operators.protocol import OperatorState
from rvertex.state.doing import calling
from rvertex.user_code.code import (
    NOT_POISON,
    OnError,
    Poison,
    SkipsPoison,
    UserCode,
    dead_letter_outputs,
)
from rvertex.user_code.errors import RAISED, CutDependentError, UserResultError, reason_of
from rvertex.user_code.result import ROW, declared_columns, result_columns, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.events.side_output import SideOutput
    from rvertex.operators.horizon import Durations


@dataclass(frozen=True, slots=True)
class Apply(SameLifetimes):
    """Computes the columns ``schema`` by ``function``."""

    holds_ctis: ClassVar[bool] = False

    function: UserCode
    schema: pa.Schema
    on_error: OnError = "fail"
    check_cuts: bool = False
    #: Folder of its dead letters; "": named after the function.
    letters: str = ""

    def side_outputs(self, inputs: Sequence[pa.Schema]) -> tuple[SideOutput, ...]:
        """Return the dead letters, if they are kept."""
        return dead_letter_outputs(self.function, self.on_error, self.letters, inputs[0])

    def horizon_us(self, durations: Durations) -> int | None:
        """Return 0 if poison ends the job.

        Otherwise return None: the number of poison events depends on all input.
        """
        return 0 if self.on_error == "fail" else None

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the declared schema."""
        return self.schema

    def open(self, inputs: Sequence[pa.Schema]) -> ApplyOperator:
        """Open the operator; its state is two counters."""
        (payload,) = inputs
        return ApplyOperator(self, payload)


class ApplyOperator(SkipsPoison):
    """The running operator of :class:`Apply`."""

    def __init__(self, spec: Apply, payload: pa.Schema) -> None:
        self._spec = spec
        self._name = spec.function.name
        self._schema = event_schema(spec.schema)
        self._poison = Poison(spec.function, spec.on_error, payload)
        #: The number of the next event.
        self._seq = 0

    def process(self, ports: Sequence[Run]) -> Run:
        """Call the function for the whole batch; if it raises, for parts of the batch."""
        (run,) = ports
        events = run.events
        if events.num_rows == 0:
            return Run(empty_batch(self._schema), run.ctis)
        pieces = self._pieces(events, self._seq)
        self._seq += events.num_rows
        if self._spec.check_cuts:
            self._check_cuts(events)
        return Run(pa.concat_batches(pieces) if pieces else empty_batch(self._schema), run.ctis)

    def snapshot(self) -> OperatorState:
        """Return the counters."""
        return OperatorState({"seq": self._seq, "poisoned": self._poison.count})

    def load(self, state: OperatorState) -> None:
        """Restore the counters."""
        self._seq, self._poison.count = state.header["seq"], state.header["poisoned"]

    def _pieces(self, events: pa.RecordBatch, seq: int) -> list[pa.RecordBatch]:
        """Return the result rows for ``events``; ``seq``: the number of the first event."""
        try:
            return [self._called(events)]
        except (*NOT_POISON, UserResultError):
            raise
        except RAISED as error:
            if events.num_rows == 1:
                self._meet(error, events, seq)
                return []
            half = events.num_rows // 2
            before = self._poison.count
            pieces = self._pieces(events.slice(0, half), seq)
            pieces += self._pieces(events.slice(half), seq + half)
            if not self._poison.is_passed_over and before == self._poison.count:
                reason = (
                    f"it raised {reason_of(error)} on {events.num_rows} rows, but not on "
                    "smaller parts of them: its result must not depend on the batch"
                )
                raise UserResultError(self._name, reason) from error
            return pieces

    def _called(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Call the function; return its result rows with lifetimes."""
        function = self._spec.function.target
        with calling(function):
            columns = result_columns(self._name, function(events))
        times = [events.column(VS), events.column(VE)]
        rows: int | None = events.num_rows
        if ROW in columns:
            of = rows_of(self._name, columns[ROW], events.num_rows)
            times = [time.take(pa.array(of)) for time in times]
            rows = len(of)
        arrays = declared_columns(self._name, columns, self._spec.schema, rows)
        return pa.RecordBatch.from_arrays([*times, *arrays], schema=self._schema)

    def _meet(self, error: BaseException, event: pa.RecordBatch, seq: int) -> None:
        """Handle a poison event: write it to the dead letters, or end the job."""
        values: list[Any] = [column[0].as_py() for column in event.columns]
        self._poison.meet(error, seq, values[0], values[1], tuple(values[2:]))

    def _check_cuts(self, events: pa.RecordBatch) -> None:
        """Check that single rows, and two parts, yield the same rows as the whole batch."""
        quiet = ApplyOperator(self._spec, pa.schema(list(events.schema)[2:]))
        whole = _joined(quiet._pieces(events, 0), self._schema)
        rows = events.num_rows
        for cuts in (range(rows + 1), (0, rows // 2, rows), (0, 1, rows)):
            pieces: list[pa.RecordBatch] = []
            for lo, hi in itertools.pairwise(cuts):
                if hi > lo:
                    pieces += quiet._pieces(events.slice(lo, hi - lo), lo)
            row = _first_difference(whole, _joined(pieces, self._schema))
            if row is not None:
                raise CutDependentError(self._name, row, rows)


def _joined(pieces: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    return pa.concat_batches(pieces) if pieces else empty_batch(schema)


def _first_difference(a: pa.RecordBatch, b: pa.RecordBatch) -> int | None:
    """Return the first row in which two batches of one schema differ, bit by bit; None: equal."""
    rows = min(a.num_rows, b.num_rows)
    differs = np.zeros(rows, bool)
    for left, right in zip(a.columns, b.columns, strict=True):
        left, right = left.slice(0, rows), right.slice(0, rows)
        differs |= hash_column(left, exact=True) != hash_column(right, exact=True)
    if differs.any():
        return int(differs.argmax())
    return None if a.num_rows == b.num_rows else rows
