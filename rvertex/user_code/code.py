"""User code in a plan, and the handling of events on which it raises.

``on_error``: "fail" ends the job with the event in the message; the job can be resumed. "skip"
skips the event and counts it. "dead_letter" also writes the event, its number and the error to a
separate stream. An event is *poison* if the code raises on it alone. A call that raised has changed
nothing, so the later output is the same after recovery and for any batch boundaries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from rstream.errors import IntegrityError, OperatingError
from rstream.items.batch import event_schema
from rvertex.events.side_output import DEAD_LETTERS, SideOutput
from rvertex.user_code.errors import (
    INTERRUPTS,
    CrowdedTimersError,
    EndlessTimersError,
    NoLoggedValuesError,
    UserCodeError,
    line_of,
    reason_of,
    shown,
)
from rvertex.user_code.plain_values import as_given
from rvertex.user_code.sources import check_unchanged

OnError = Literal["fail", "skip", "dead_letter"]
ON_ERROR: tuple[OnError, ...] = ("fail", "skip", "dead_letter")
#: The first columns of a dead letter; the event's columns follow.
LETTER_SEQ, LETTER_ERROR = "seq", "error"
#: Errors that the event does not cause.
NOT_POISON = (
    IntegrityError,
    OperatingError,
    NoLoggedValuesError,
    EndlessTimersError,
    CrowdedTimersError,
    MemoryError,
    *INTERRUPTS,
)


@dataclass(frozen=True, slots=True)
class UserCode:
    """A user's function, class or object. Comparisons use ``identity``."""

    identity: str
    target: Any = field(compare=False, repr=False, metadata={"fingerprint": False})
    #: False if it is declared as not deterministic. Then its vertex needs strong productions.
    is_deterministic: bool = True
    #: Whether it draws nondeterministic values from its context. These must be recorded.
    draws_values: bool = False
    #: The modules from which it is imported, with the digests of their files.
    sources: tuple[tuple[str, str], ...] = field(
        default=(), compare=False, repr=False, metadata={"fingerprint": False}
    )

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.identity.partition("#")[0]

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.identity, self.target, self.is_deterministic, self.draws_values)
        return as_planned, (*fields, self.sources)


def as_planned(*fields: Any) -> UserCode:
    """Unpickle user code that is not called. Modules that it names may have changed since."""
    return UserCode(*fields)


def as_unchanged(*fields: Any) -> UserCode:
    """Unpickle user code that will be called.

    Raises:
        ChangedCodeError: a module that it names has changed.
    """
    code = UserCode(*fields)
    check_unchanged(code.sources, code.name)
    return code


def letter_schema(payload: pa.Schema) -> pa.Schema:
    """Return the payload schema of dead letters; ``payload``: the schema of the events."""
    head = [(LETTER_SEQ, pa.int64()), (LETTER_ERROR, pa.string())]
    taken = {LETTER_SEQ, LETTER_ERROR}
    fields = [(f.name if f.name not in taken else f"event_{f.name}", f.type) for f in payload]
    return pa.schema([*head, *fields])


def dead_letter_outputs(
    code: UserCode, on_error: OnError, name: str, payload: pa.Schema
) -> tuple[SideOutput, ...]:
    """Return the side output of an operator that writes dead letters."""
    if on_error != "dead_letter":
        return ()
    return (SideOutput(f"{DEAD_LETTERS}/{name or code.name}", letter_schema(payload)),)


class Poison:
    """Handles the poison events of one operator. ``payload``: the schema of its input."""

    def __init__(self, code: UserCode, on_error: OnError, payload: pa.Schema) -> None:
        self._code, self._on_error = code, on_error
        self._payload = payload
        self._schema = letter_schema(payload)
        self.count = 0
        self._letters: list[tuple[int, int, int, str, tuple[Any, ...]]] = []

    @property
    def is_passed_over(self) -> bool:
        """Whether poison events are skipped. If not, they end the job."""
        return self._on_error != "fail"

    def meet(
        self, error: BaseException, seq: int, vs: int, ve: int, values: tuple[Any, ...] | None
    ) -> None:
        """Handle an exception of user code on an event or, if ``values`` is None, on a timer.

        Raises:
            UserCodeError: the policy is "fail".
        """
        if not self.is_passed_over:
            raise self.fatal(error, seq, vs, ve, values) from error
        self.pass_over(reason_of(error), line_of(error), seq, vs, ve, values)

    def pass_over(
        self, reason: str, line: str, seq: int, vs: int, ve: int, values: tuple[Any, ...] | None
    ) -> None:
        """Count a skipped event that raised ``reason``; keep it with the policy "dead_letter"."""
        self.count += 1
        if self._on_error == "dead_letter":
            row = (None,) * len(self._payload) if values is None else values
            self._letters.append((vs, ve, seq, f"{reason} at {line}", row))

    def fatal(
        self, error: BaseException, seq: int, vs: int, ve: int, values: tuple[Any, ...] | None
    ) -> UserCodeError:
        """Return the error that ends the job."""
        return self.failure(reason_of(error), line_of(error), seq, vs, ve, values)

    def failure(
        self, reason: str, line: str, seq: int, vs: int, ve: int, values: tuple[Any, ...] | None
    ) -> UserCodeError:
        """Return the error that ends the job, for an exception of user code."""
        if values is None:
            payload = "(a timer)"
        else:
            pairs = zip(self._payload, values, strict=True)
            payload = ", ".join(
                f"{field.name}={shown(as_given(v, field.type))}" for field, v in pairs
            )
        return UserCodeError(self._code.name, reason, line, seq, f"[{vs}, {ve})", payload)

    def drain_side_outputs(self) -> list[pa.RecordBatch]:
        """Return the dead letters since the last call, in the order of their events."""
        if self._on_error != "dead_letter":
            return []
        letters, self._letters = self._letters, []
        columns = [[letter[k] for letter in letters] for k in range(4)]
        columns += [[letter[4][k] for letter in letters] for k in range(len(self._payload))]
        types = [pa.int64(), pa.int64(), *self._schema.types]
        arrays = [pa.array(c, kind) for c, kind in zip(columns, types, strict=True)]
        return [pa.RecordBatch.from_arrays(arrays, schema=event_schema(self._schema))]


class SkipsPoison:
    """Base of operators that skip poison events and emit dead letters."""

    _poison: Poison

    @property
    def poisoned_events(self) -> int:
        """Number of calls that raised and were skipped."""
        return self._poison.count

    def drain_side_outputs(self) -> list[pa.RecordBatch]:
        """Return and clear the dead letters since the last call."""
        return self._poison.drain_side_outputs()
