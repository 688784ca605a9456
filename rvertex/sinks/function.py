"""Calls a function with the rows of each commit; what it was called with never changes.

Nothing can make the effect of a function and our progress one act. So the rows of a call are
written down before it, with its first number, and whoever goes on after a failure first repeats the
call that is written down. A function may be called again only with the same number and the same
rows, and the ranges of its calls do not overlap: a receiver that keeps the numbers it has seen has
each row exactly once. A call that refuses its rows has no effect: its number may come again, with
fewer rows.

    open-<epoch>     an epoch that was opened; nothing older may call any more
    state-<epoch>    the progress of its writer, and the call that it is about to make

Invariant: a writer notes its call, then looks for a later epoch, then calls; a successor notes its
epoch, then looks for a call. So a call that a successor has not seen is never made.
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
#: Of the function itself, whatever the world is like.
_BUGS = (NameError, ImportError, SyntaxError, NotImplementedError)
_LOGIN, _ADDRESS = "correct the token or the user of the function", "correct its address"
#: Of the rows: the same call would raise it again. An OSError may pass.
_VALUES = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError)
_ROWS = (
    "correct the query, the function or the receiver, or keep such rows with "
    'on_bad_row="dead_letter"'
)
#: Answers over HTTP that no retry mends, as urllib, requests and httpx raise them. Others pass: a
#: receiver that is busy (408, 409, 425, 429) or broken (5xx).
_HTTP = {
    **dict.fromkeys((401, 402, 403, 407), _LOGIN),
    **dict.fromkeys((404, 405, 410), _ADDRESS),
    **dict.fromkeys((415, 431), "correct the headers of its request"),
}
_HTTP_ROWS = frozenset((400, 413, 414, 422))
#: A function that has a parameter of this name is told which partition the numbers count.
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
        """Keep older writers from calling, then repeat the call that one was about to make."""
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
            except RowsRefusedError:  # it had no effect; the delivery sends the rows again
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
        """Keep the rows for the call."""
        if self._first_seq is None:
            self._first_seq = rows.first_seq
        if rows.table.num_rows:
            self._batches.append(rows.table)

    def commit(self, progress: DeliveryProgress) -> None:
        """Note the call, make it, note that it was made."""
        epoch, batches, first_seq = self._epoch, self._batches, self._first_seq
        if epoch is None:
            raise DestinationError(self._name, "it is not open")
        then = [progress.next_seq, progress.digest]
        self.close()  # until all went well
        try:
            if batches:
                assert first_seq is not None
                batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
                call = {"first_seq": first_seq, "rows": _bytes(batch), "then": then}
                self._note(epoch, {"done": self._done(), "call": call})
                self._check_mine(epoch)
                try:
                    self._call(first_seq, progress.next_seq, batch)
                except RowsRefusedError:
                    self._note(epoch, {"done": self._done()})  # it may follow with fewer rows
                    raise
            if progress != self._progress:
                self._note(epoch, {"done": then})
                self._check_mine(epoch)
        except StoreError as error:
            raise DeliveryUnknownError(self._name, str(error)) from error
        self._epoch, self._progress = epoch, progress

    def close(self) -> None:
        """Forget what was not committed."""
        self._epoch, self._first_seq, self._batches = None, None, []

    def _done(self) -> list[Any] | None:
        done = self._progress
        return None if done is None else [done.next_seq, done.digest]

    def _last_state(self, epoch: int) -> dict[str, Any]:
        """What the newest writer noted; one that opens meanwhile notes its own and deletes that."""
        gone = -1
        while (newest := self._newest(_STATE)) >= 0:  # ends: what is gone left something newer
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

    def _check_mine(self, epoch: int) -> None:
        if self._newest(_OPEN) > epoch:
            raise DeliveryFencedError(self._name, epoch)

    def _newest(self, kind: str) -> int:
        return max(self._epochs(kind), default=-1)

    def _epochs(self, kind: str) -> list[int]:
        names = self._store.list()
        return [int(name.removeprefix(kind)) for name in names if name.startswith(kind)]

    def _call(self, first_seq: int, next_seq: int, batch: pa.RecordBatch) -> None:
        told = {STREAM: self._place.stream} if self._takes_stream else {}
        try:
            self._function(first_seq, batch, **told)
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
    """Whether it is the rows that make a call fail: other rows may pass."""
    if _status(error) in _HTTP_ROWS:
        return True
    is_answer = isinstance(error, json.JSONDecodeError)  # of a receiver that is in trouble
    return isinstance(error, _VALUES) and not isinstance(error, OSError) and not is_answer


def _status(error: BaseException) -> object:
    """The status of an answer over HTTP."""
    response = getattr(error, "response", None)
    return getattr(error, "code", None) or getattr(response, "status_code", None)


def _refusal(error: BaseException) -> str:
    """What to do about an error that no retry mends; empty: it may pass."""
    if isinstance(error, _BUGS):
        return "correct the function"
    status = _status(error)
    return _HTTP.get(status, "") if isinstance(status, int) else ""


def _takes_stream(function: Callable[..., Any]) -> bool:
    try:
        return STREAM in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function of C
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
    """See :attr:`rvertex.sinks.spec.SinkSpec.home`."""
    return FunctionDestination(spec.code.target, spec.label, place)
