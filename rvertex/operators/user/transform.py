"""TRANSFORM: an operator that a user writes, with its own state.

The contract is in docs/USERCODE.md. ``execute(events, ctis)`` gets a piece of the stream in normal
form: a RecordBatch with ``_vs``, ``_ve`` and the payload, sorted by ``_vs``, and the list of the
CTI (watermark) times among them. ``CTI(t)`` follows all events with ``vs < t``. ``execute`` returns
rows with ``_vs``, ``_ve`` and the declared columns (any type that ``apply`` may return, or None).
If it holds CTIs back, it returns a pair of rows and CTIs. The concatenated return values must be a
stream in normal form, and must not depend on how the input was divided into calls.
``get_snapshot()`` returns a dictionary of plain values and Arrow tables; ``load(state)`` restores
it in a new object. An optional ``open(ctx)`` is called first.

Poison: changes that ``execute`` made before it raised cannot be undone. So a step that raised is
repeated from the snapshot before it, one event at a time, with a snapshot before each event.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import msgpack
import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.lifetime import frontier_after
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import NO_CTIS, Run, concat
from rvertex.operators.cti_hold import HeldCtis
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
from rvertex.user_code.context import VertexContext
from rvertex.user_code.errors import RAISED, UserResultError
from rvertex.user_code.result import declared_columns, result_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.events.side_output import SideOutput
    from rvertex.user_code.context import ValueShell, ValueSource


@dataclass(frozen=True, slots=True)
class UserOperator:
    """Runs a user's object. ``code``: its class, or an object to copy."""

    holds_ctis: ClassVar[bool] = True

    code: UserCode
    schema: pa.Schema
    on_error: OnError = "fail"
    #: Folder of its dead letters; "": named after the class.
    letters: str = ""
    #: Whether it emits exactly the input's CTIs, each as soon as its rows have reached the CTI's
    #: time.
    passes_ctis: bool = False

    def side_outputs(self, inputs: Sequence[pa.Schema]) -> tuple[SideOutput, ...]:
        """Return the dead letters, if they are kept."""
        return dead_letter_outputs(self.code, self.on_error, self.letters, inputs[0])

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the declared schema."""
        return self.schema

    def open(self, inputs: Sequence[pa.Schema]) -> UserOperatorRunner:
        """Return a new object of the user's class."""
        (payload,) = inputs
        return UserOperatorRunner(self, payload)


class UserOperatorRunner(SkipsPoison):
    """The running operator of :class:`UserOperator`."""

    def __init__(self, spec: UserOperator, payload: pa.Schema) -> None:
        self._spec = spec
        self._name = spec.code.name
        self._schema = event_schema(spec.schema)
        self._poison = Poison(spec.code, spec.on_error, payload)
        self._context = VertexContext()
        self._target = self._new()
        self._seq = 0
        self._last_vs: int = MIN_TIME
        self._last_cti: int = MIN_TIME
        self._held = HeldCtis(keeps_own=False) if spec.passes_ctis else None
        #: The greatest time of its input so far.
        self._frontier: int = MIN_TIME

    def use_values(self, source: ValueSource, shell: ValueShell) -> None:
        """Implement :class:`~rvertex.user_code.context.DrawsValues`."""
        self._context.use_values(source, shell)

    def process(self, ports: Sequence[Run]) -> Run:
        """Call ``execute`` once; if it raises, once per event; more often if CTIs are thinned."""
        if self._held is None:
            return self._called(ports)
        return self._held.follow(ports, self._in_time)

    def _called(self, ports: Sequence[Run]) -> Run:
        """Call ``execute``, handle poison, and check the result."""
        (run,) = ports
        if run.is_empty:
            return Run(empty_batch(self._schema), NO_CTIS)
        before = self._state() if self._poison.is_passed_over else None
        try:
            out = self._execute(run)
        except (*NOT_POISON, UserResultError):
            raise
        except RAISED as error:
            if before is None:
                raise self._fatal(error, run) from error
            self._restore(before)
            out = self._one_by_one(run)
        self._seq += run.events.num_rows
        self._check(out, run)
        return out

    def snapshot(self) -> OperatorState:
        """Return the object's snapshot, split into plain values and tables."""
        state = self._state()
        tables = {f"user {k}": v for k, v in state.items() if isinstance(v, pa.Table)}
        plain = {k: v for k, v in state.items() if not isinstance(v, pa.Table)}
        try:
            packed = msgpack.packb(plain)
        except (TypeError, ValueError, OverflowError) as error:
            reason = f"get_snapshot(): {error}; state is plain values and pyarrow Tables"
            raise UserResultError(self._name, reason) from None
        header = {
            "user": packed,
            "seq": self._seq,
            "poisoned": self._poison.count,
            "drawn": self._context.next_index,
            "last": [self._last_vs, self._last_cti],
            "held": [] if self._held is None else [self._frontier, *self._held.save()],
        }
        return OperatorState(header, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state`` in a new object."""
        header = state.header
        self._seq, self._poison.count = header["seq"], header["poisoned"]
        self._last_vs, self._last_cti = header["last"]
        if self._held is not None:
            self._frontier, *held = header["held"]
            self._held.load(held)
        self._context.load(header["drawn"])
        tables = {k.removeprefix("user "): v for k, v in state.tables.items()}
        self._restore({**msgpack.unpackb(header["user"], strict_map_key=False), **tables})

    def _in_time(self, ports: Sequence[Run]) -> Run:
        """Call ``execute``; raise an error if its output is ahead of its input.

        A buffered CTI could not be emitted after output that is later than the CTI.
        """
        out = self._called(ports)
        self._frontier = frontier_after(self._frontier, ports)
        reached = frontier_after(MIN_TIME, [out])
        if reached > self._frontier:
            raise UserResultError(
                self._name,
                f"execute() returned a row or CTI at {reached} but its input has only "
                f"reached {self._frontier}; before a process with timers, output may not "
                "be ahead of the input: use .shift(...) after it instead",
            )
        return out

    def _new(self) -> Any:
        """Create and open a new object."""
        target = self._spec.code.target
        made = target() if isinstance(target, type) else copy.deepcopy(target)
        if hasattr(made, "open"):
            made.open(self._context)
        return made

    def _state(self) -> dict[str, Any]:
        """Get the object's snapshot, as a copy."""
        state = self._target.get_snapshot()
        if not isinstance(state, dict) or not all(isinstance(k, str) for k in state):
            raise UserResultError(self._name, "get_snapshot() has to return a dict by name")
        return {k: v if isinstance(v, pa.Table) else copy.deepcopy(v) for k, v in state.items()}

    def _restore(self, state: dict[str, Any]) -> None:
        self._target = self._new()
        self._target.load(state)

    def _execute(self, run: Run) -> Run:
        """Call ``execute`` and convert its result to a run."""
        with calling(self._target.execute):
            result = self._target.execute(run.events, run.ctis.tolist())
        ctis = run.ctis
        if isinstance(result, tuple):
            if len(result) != 2:
                raise UserResultError(self._name, "execute() returns rows, or (rows, ctis)")
            result, given = result
            ctis = np.array(given, np.int64)
        if result is None:
            return Run(empty_batch(self._schema), ctis)
        columns = result_columns(self._name, result)
        arrays = declared_columns(self._name, columns, self._schema, None)
        return Run(pa.RecordBatch.from_arrays(arrays, schema=self._schema), ctis)

    def _one_by_one(self, run: Run) -> Run:
        """Repeat the run, one call per item, and skip the events on which ``execute`` raises."""
        events, done, runs = run.events, 0, []
        vs = int64_column(events, VS)
        for time in [*run.ctis.tolist(), None]:
            count = len(vs) if time is None else int(vs.searchsorted(time))
            runs += [
                self._one(Run(events.slice(i, 1), NO_CTIS), self._seq + i)
                for i in range(done, count)
            ]
            done = max(done, count)
            if time is not None:
                runs.append(self._execute(Run(events.slice(0, 0), np.array([time], np.int64))))
        return concat(runs)

    def _one(self, run: Run, seq: int) -> Run:
        """Call ``execute`` for one event; if it raises, restore the state and skip the event."""
        before = self._state()
        try:
            return self._execute(run)
        except (*NOT_POISON, UserResultError):
            raise
        except RAISED as error:
            self._restore(before)
            vs, ve, *values = (column[0].as_py() for column in run.events.columns)
            self._poison.meet(error, seq, vs, ve, tuple(values))
            return Run(empty_batch(self._schema), NO_CTIS)

    def _fatal(self, error: BaseException, run: Run) -> Exception:
        """Return the error of a run that cannot be retried by event; it names the first event."""
        if run.events.num_rows == 0:
            return self._poison.fatal(error, self._seq, self._last_cti, self._last_cti, None)
        vs, ve, *values = (column[0].as_py() for column in run.events.columns)
        fatal = self._poison.fatal(error, self._seq, vs, ve, tuple(values))
        more = f" (the first of {run.events.num_rows} events given to that call)"
        fatal.payload += more
        fatal.args = (*fatal.args[:-1], fatal.payload)
        return fatal

    def _check(self, out: Run, run: Run) -> None:
        """Check that the output is a stream in normal form."""
        vs, ve = int64_column(out.events, VS), int64_column(out.events, VE)
        starts = np.concatenate([[max(self._last_vs, self._last_cti)], vs])
        times = np.concatenate([[self._last_cti], out.ctis])
        is_first = self._last_cti == MIN_TIME
        if (starts[1:] < starts[:-1]).any():
            raise UserResultError(self._name, "execute() returned rows that are not in vs order")
        if (vs >= ve).any():
            raise UserResultError(self._name, "execute() returned a row without vs < ve")
        if (times[1:] <= times[:-1])[is_first:].any():
            raise UserResultError(self._name, "execute() returned CTIs that do not increase")
        if INF_TIME in run.ctis and INF_TIME not in out.ctis:
            raise UserResultError(
                self._name, "the stream has ended: execute() has to return CTI(INF) as well"
            )
        self._last_vs = int(starts[-1])
        self._last_cti = int(times[-1])
