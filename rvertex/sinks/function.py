"""Calls a user's function with the rows of each commit; a repeated call has the same arguments.

A function's effect and our record of the progress cannot be one atomic act. So the rows of a call
and its first seq are stored before the call. After a failure, the stored call is repeated first. A
call is only repeated with the same seq and rows, and the seq ranges of different calls do not
overlap. So a receiver that remembers the seqs it has processed gets each row exactly once. A call
that rejects its rows must have no effect: its seq may be used again, with fewer rows.

    open-<epoch>     an epoch that was opened; a writer of a lower epoch must not call any more
    state-<epoch>    the progress of its writer, and the call it is about to make

Invariant: a writer stores its call, then checks for a later epoch, then calls. A successor stores
its epoch, then reads the stored call. So a call that the successor has not read is never made.
"""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import msgpack
import pyarrow as pa

from rstream.errors import StoreError
from rvertex.sinks.errors import (
    DeliveryFencedError,
    DeliveryUnknownError,
    DestinationError,
    DestinationRefusedError,
    RowsRefusedError,
)
from rvertex.sinks.protocol import DeliveryProgress
from rvertex.user_code.errors import line_of, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream.store.protocol import BlobStore
    from rvertex.sinks.protocol import DeliveredRows
    from rvertex.sinks.spec import DeliveryPlace, FunctionSink

_FOLDER = "calls"
_OPEN, _STATE = "open-", "state-"
_DIGITS = 10
#: Errors of the function itself, which do not depend on the environment.
_BUGS = (NameError, ImportError, SyntaxError, NotImplementedError)
_LOGIN, _ADDRESS = "correct the token or the user of the function", "correct its address"
#: Errors of the rows: the same call would raise them again. An OSError may be transient.
_VALUES = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError)
_ROWS = (
    "correct the query, the function or the receiver, or keep such rows with "
    'on_bad_row="dead_letter"'
)
#: HTTP statuses that a retry does not fix, as urllib, requests and httpx raise them. A retry may
#: fix others: a busy receiver (408, 409, 425, 429) or a broken one (5xx).
_HTTP = {
    **dict.fromkeys((401, 402, 403, 407), _LOGIN),
    **dict.fromkeys((404, 405, 410), _ADDRESS),
    **dict.fromkeys((415, 431), "correct the headers of its request"),
}
_HTTP_ROWS = frozenset((400, 413, 414, 422))
#: A parameter of this name gets the name of the partition to which the seqs belong.
STREAM = "stream"


class FunctionDestination:
    """Calls for one partition; see :class:`rvertex.sinks.protocol.Destination`."""

    def __init__(self, function: Callable[..., Any], name: str, place: DeliveryPlace) -> None:
        assert place.store is not None, "a function keeps its progress in the job's folder"
        self._function, self._name, self._place = function, name, place
        self._store: BlobStore = place.store.child(_FOLDER)
        self._takes_stream = _takes_stream(function)
        self._epoch: int | None = None
        self._progress: DeliveryProgress | None = None
        self._first_seq: int | None = None
        self._batches: list[pa.RecordBatch] = []

    def open(self, epoch: int) -> DeliveryProgress | None:
        """Fence older writers, then repeat the call that one of them was about to make."""
        self.close()
        if self._newest(_OPEN) > epoch:
            raise DeliveryFencedError(self._name, epoch)
        self._store.put(_file(_OPEN, epoch), b"")
        state = self._last_state(epoch)
        if "call" in state:
            call = state["call"]
            try:
                self._call(call["first_seq"], call["then"][0], _batch(call["rows"]))
                state = {"done": call["then"]}
            except RowsRefusedError:  # the call had no effect; the rows are delivered again
                state = {"done": state["done"]}
        self._epoch = epoch
        self._note(epoch, state)
        for kind in (_OPEN, _STATE):
            for older in self._epochs(kind):
                if older < epoch:
                    self._store.delete(_file(kind, older))
        self._progress = DeliveryProgress(*state["done"]) if state.get("done") else None
        return self._progress

    def write(self, rows: DeliveredRows) -> None:
        """Buffer the rows for the call."""
        if self._first_seq is None:
            self._first_seq = rows.first_seq
        if rows.table.num_rows:
            self._batches.append(rows.table)

    def commit(self, progress: DeliveryProgress) -> None:
        """Store the call, make it, and store that it was made."""
        epoch, batches, first_seq = self._epoch, self._batches, self._first_seq
        if epoch is None:
            raise DestinationError(self._name, "it is not open")
        then = [progress.next_seq, progress.digest]
        self.close()  # forces an ``open`` unless all following steps succeed
        try:
            if batches:
                assert first_seq is not None
                batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
                call = {"first_seq": first_seq, "rows": _bytes(batch), "then": then}
                self._note(epoch, {"done": self._done(), "call": call})
                self._check_fence(epoch)
                try:
                    self._call(first_seq, progress.next_seq, batch)
                except RowsRefusedError:
                    self._note(epoch, {"done": self._done()})  # a retry may have fewer rows
                    raise
            if progress != self._progress:
                self._note(epoch, {"done": then})
                self._check_fence(epoch)
        except StoreError as error:
            raise DeliveryUnknownError(self._name, str(error)) from error
        self._epoch, self._progress = epoch, progress

    def close(self) -> None:
        """Discard the rows that were not committed."""
        self._epoch, self._first_seq, self._batches = None, None, []

    def _done(self) -> list[Any] | None:
        done = self._progress
        return None if done is None else [done.next_seq, done.digest]

    def _last_state(self, epoch: int) -> dict[str, Any]:
        """Return the newest writer's state. A writer that opens replaces the state before it."""
        gone = -1
        # Ends: a state is deleted only if a newer one exists
        while (newest := self._newest(_STATE)) >= 0:
            if newest > epoch:
                raise DeliveryFencedError(self._name, epoch)
            try:
                state: dict[str, Any] = msgpack.unpackb(self._store.get(_file(_STATE, newest)))
            except FileNotFoundError:
                if newest <= gone:
                    raise
                gone = newest
            else:
                return state
        return {}

    def _note(self, epoch: int, state: dict[str, Any]) -> None:
        self._store.put(_file(_STATE, epoch), msgpack.packb(state))

    def _check_fence(self, epoch: int) -> None:
        if self._newest(_OPEN) > epoch:
            raise DeliveryFencedError(self._name, epoch)

    def _newest(self, kind: str) -> int:
        return max(self._epochs(kind), default=-1)

    def _epochs(self, kind: str) -> list[int]:
        names = self._store.list()
        return [int(name.removeprefix(kind)) for name in names if name.startswith(kind)]

    def _call(self, first_seq: int, next_seq: int, batch: pa.RecordBatch) -> None:
        options = {STREAM: self._place.stream} if self._takes_stream else {}
        try:
            self._function(first_seq, batch, **options)
        except (Exception, SystemExit) as error:
            if _refuses_rows(error):
                reason = f"it raised {reason_of(error)} at {line_of(error)}"
                refused = self._name, first_seq, next_seq, reason, _ROWS
                raise RowsRefusedError(*refused) from error
            reason = f"it raised {reason_of(error)} (items from {first_seq})"
            advice = _refusal(error)
            if advice:
                raise DestinationRefusedError(self._name, reason, advice) from error
            raise DestinationError(self._name, reason) from error


def _refuses_rows(error: BaseException) -> bool:
    """Return whether a call failed because of its rows, so that other rows may succeed."""
    if _status(error) in _HTTP_ROWS:
        return True
    # JSONDecodeError is a ValueError, but comes from a broken receiver, not from the rows
    is_answer = isinstance(error, json.JSONDecodeError)
    return isinstance(error, _VALUES) and not isinstance(error, OSError) and not is_answer


def _status(error: BaseException) -> object:
    """Return the HTTP status of an error."""
    response = getattr(error, "response", None)
    return getattr(error, "code", None) or getattr(response, "status_code", None)


def _refusal(error: BaseException) -> str:
    """Return advice for an error that a retry does not fix; empty: a retry may succeed."""
    if isinstance(error, _BUGS):
        return "correct the function"
    status = _status(error)
    return _HTTP.get(status, "") if isinstance(status, int) else ""


def _takes_stream(function: Callable[..., Any]) -> bool:
    try:
        return STREAM in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function written in C has no signature
        return False


def _bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _batch(data: bytes) -> pa.RecordBatch:
    (batch,) = pa.ipc.open_stream(data)
    return batch


def _file(kind: str, epoch: int) -> str:
    return f"{kind}{epoch:0{_DIGITS}d}"


def open_destination(spec: FunctionSink, place: DeliveryPlace) -> FunctionDestination:
    """Open the destination, as :attr:`rvertex.sinks.spec.SinkSpec.home` requires."""
    return FunctionDestination(spec.code.target, spec.label, place)
