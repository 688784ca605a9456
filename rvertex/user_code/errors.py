"""The errors of code that users give to a query: what it raised, on which event, on which line."""

from __future__ import annotations

import traceback

from rstream.errors import IntegrityError, UsageError

_VALUE_CHARACTERS_MAX = 200


class UserCodeError(UsageError):
    """A user's function raised on an event. ``seq`` counts the events of its operator from 0."""

    def __init__(
        self, function: str, reason: str, line: str, seq: int, lifetime: str, payload: str
    ) -> None:
        super().__init__(function, reason, line, seq, lifetime, payload)
        self.function, self.reason, self.line = function, reason, line
        self.seq, self.lifetime, self.payload = seq, lifetime, payload

    def __str__(self) -> str:
        return (
            f"{self.function} raised {self.reason} at {self.line}\n"
            f"on event {self.seq} of its input, lifetime {self.lifetime}: {self.payload}\n"
            'correct the function, or pass over such events with on_error="skip" or "dead_letter"'
        )


class UserResultError(UsageError):
    """A user's function gave back something other than what was declared.

    ``place``: of the user's code, where what was raised does not tell it.
    """

    def __init__(self, function: str, reason: str, place: str = "") -> None:
        super().__init__(function, reason, place)
        self.function, self.reason, self.place = function, reason, place

    def __str__(self) -> str:
        return f"{self.function}: {self.reason}"


class EndlessTimersError(UsageError):
    """A key goes on setting timers when the stream has ended."""

    def __init__(self, function: str, key: str, timers_max: int) -> None:
        super().__init__(function, key, timers_max)
        self.function, self.key, self.timers_max = function, key, timers_max

    def __str__(self) -> str:
        return (
            f"{self.function}: key {self.key} has set {self.timers_max} timers one after the other "
            "when the stream had ended; set none if ctx.at_end"
        )


class CrowdedTimersError(UsageError):
    """A key's timers set one another so close together that event time hardly gets on."""

    def __init__(self, function: str, key: str, timers_max: int, span_us: int) -> None:
        super().__init__(function, key, timers_max, span_us)
        self.function, self.key = function, key
        self.timers_max, self.span_us = timers_max, span_us

    def __str__(self) -> str:
        return (
            f"{self.function}: {self.timers_max} timers of key {self.key} came due in one step, in "
            f"{self.span_us} us of event time; times are microseconds: set timers further apart, "
            "for example at ctx.time + 1_000_000"
        )


class UnknownCodeError(UsageError):
    """A plan names a class or a function that cannot be imported where it is read."""

    def __init__(self, name: str, machine: str, reason: str) -> None:
        super().__init__(name, machine, reason)
        self.name, self.machine, self.reason = name, machine, reason

    def __str__(self) -> str:
        return (
            f"{self.name} cannot be imported on {self.machine} ({self.reason}); define it in the "
            "query file itself, which travels with the plan, or put its module where the Python of "
            "every worker finds it (PYTHONPATH, an installed package), then resume"
        )


class CutDependentError(IntegrityError):
    """A function that has to work row by row gave other values when it was given other batches."""

    def __init__(self, function: str, row: int, rows: int) -> None:
        super().__init__(function, row, rows)
        self.function, self.row, self.rows = function, row, rows

    def __str__(self) -> str:
        return (
            f"{self.function}: row {self.row} of a batch of {self.rows} has another value when the "
            "function is given another cutting of the same rows; its result may depend on nothing "
            "but the row"
        )


class ReplayedValueError(IntegrityError):
    """A value was asked for that is not the one recorded at this place."""

    def __init__(self, index: int, recorded: str, asked: str) -> None:
        super().__init__(index, recorded, asked)
        self.index, self.recorded, self.asked = index, recorded, asked

    def __str__(self) -> str:
        return (
            f"logged value {self.index} was recorded as {self.recorded}, and is now asked for as "
            f"{self.asked}: the code that asks is not deterministic, or has changed"
        )


class NoLoggedValuesError(UsageError):
    """Code asked for the time, a random number or a lookup where nothing would record it."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind

    def __str__(self) -> str:
        return (
            f"ctx.{self.kind}() was called where values are not recorded, so that a restart could "
            "not repeat it"
        )


def line_of(error: BaseException) -> str:
    """File, line and text of the innermost place in the user's code that ``error`` came from."""
    if isinstance(error, UserResultError) and error.place:
        return error.place
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not _is_ours(f.filename)] or list(frames)
    if not own:
        return "an unknown line"
    frame = own[-1]
    return f"{frame.filename}:{frame.lineno}, in {frame.name}" + (
        f": {frame.line}" if frame.line else ""
    )


def place_of(function: object) -> str:
    """Where a function of the user's begins, for what is found wrong when it has returned."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    return f"{code.co_filename}:{code.co_firstlineno}, when {code.co_name} had returned"


def reason_of(error: BaseException) -> str:
    """Type and message of what was raised."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: object) -> str:
    """``repr``, cut to a length that fits into a message."""
    text = repr(value)
    return text if len(text) <= _VALUE_CHARACTERS_MAX else text[: _VALUE_CHARACTERS_MAX - 3] + "..."


def _is_ours(filename: str) -> bool:
    """Whether a frame belongs to the operators that call the user."""
    path = "/" + filename.replace("\\", "/")  # Cython's are relative: pyarrow/table.pxi
    return any(part in path for part in ("/rvertex/", "/pyarrow/", "<keyed state"))
