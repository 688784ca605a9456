"""Errors in the code that users pass to a query: the exception, its event and its line."""

from __future__ import annotations

import traceback

from rstream.errors import IntegrityError, UsageError, error_class

#: Exceptions of user code that are caught: all, because ``sys.exit()`` or a panic of a Rust library
#: would otherwise end the host.
RAISED = BaseException
#: Exceptions that interrupt user code from outside, so user code is not to blame.
INTERRUPTS = (KeyboardInterrupt, GeneratorExit)

_VALUE_CHARACTERS_MAX = 200


@error_class
class UserCodeError(UsageError):
    """A user's function raised on an event. ``seq``: the event's number in its operator, from 0."""

    function: str
    reason: str
    line: str
    seq: int
    lifetime: str
    payload: str

    message = (
        "{function} raised {reason} at {line}\non event {seq} of its input, lifetime "
        "{lifetime}: {payload}\ncorrect the function, or skip such events with "
        'on_error="skip" or "dead_letter"'
    )


@error_class
class UserResultError(UsageError):
    """A user's function returned a value that does not match its declaration.

    ``place``: line of the user's code, if there is no exception with a line.
    """

    function: str
    reason: str
    place: str = ""

    message = "{function}: {reason}"


@error_class
class EndlessTimersError(UsageError):
    """A key keeps setting timers after the end of the stream."""

    function: str
    key: str
    timers_max: int

    message = (
        "{function}: key {key} has set {timers_max} timers after the end of the stream; "
        "do not set timers if ctx.at_end"
    )


@error_class
class CrowdedTimersError(UsageError):
    """A key's timers set each other at intervals so short that event time hardly advances."""

    function: str
    key: str
    timers_max: int
    span_us: int

    message = (
        "{function}: {timers_max} timers of key {key} fired in one step, within {span_us} "
        "us of event time; times are microseconds: set timers further apart, for example "
        "at ctx.time + 1_000_000"
    )


@error_class
class UnknownCodeError(UsageError):
    """A plan names a class or function that cannot be imported on this machine."""

    name: str
    machine: str
    reason: str

    message = (
        "{name} cannot be imported on {machine} ({reason}); give its module with --py-files "
        "(py_files=), define it in the query file itself, which travels with the plan, or put its "
        "module where the Python of every worker finds it (PYTHONPATH, an installed package)"
    )


@error_class
class ChangedCodeError(UsageError):
    """A module was edited after planning, so new code would run on the state of the old code."""

    name: str
    path: str

    message = (
        "{name} has changed since the job was planned ({path}), so its rows would come "
        "from two versions; put the file back, or run the query again with another root "
        "(code in the query file itself is stored with the job)"
    )


@error_class
class CutDependentError(IntegrityError):
    """A function must work row by row, but its results changed with the batch boundaries."""

    function: str
    row: int
    rows: int

    message = (
        "{function}: row {row} of a batch of {rows} gets another value when the same rows "
        "come in other batches; the result must depend on the row alone"
    )


@error_class
class ReplayedValueError(IntegrityError):
    """A recomputation drew a value of another kind or argument than the recorded one."""

    index: int
    recorded: str
    requested: str

    message = (
        "logged value {index} was recorded for {recorded}, but is now requested for "
        "{requested}: the code is not deterministic, or has changed"
    )


@error_class
class UnknownCallError(UsageError):
    """A call that must not be repeated was started before a restart, and its result is unknown."""

    function: str
    key: str

    message = (
        "{function}: the call for key {key} was begun before a restart, and its answer is "
        "unknown. Find out whether it was made, then resume the job with the environment variable "
        "STREAMSCOPE_UNKNOWN_CALLS=skip (no further call; the row counts as failed) or =retry "
        "(call again)"
    )


@error_class
class NoLoggedValuesError(UsageError):
    """Code drew the time, a random number or a lookup where values are not recorded."""

    kind: str

    message = (
        "ctx.{kind}() was called where values are not recorded, so a restart could not repeat it"
    )


def line_of(error: BaseException) -> str:
    """Return file, line and text of the innermost frame of the user's code in ``error``."""
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
    """Return file and line of a user's function, for errors found after it returned."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    return f"{code.co_filename}:{code.co_firstlineno}, when {code.co_name} had returned"


def reason_of(error: BaseException) -> str:
    """Return type and message of an exception, even if its ``__str__`` raises."""
    try:
        text = str(error)
    except Exception as second:
        text = f"its text cannot be shown, {type(second).__name__}"
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    # A lone surrogate cannot be encoded as UTF-8
    return reason.encode("utf-8", "backslashreplace").decode()


def shown(value: object) -> str:
    """Return ``repr(value)``, shortened to a length that fits into a message."""
    text = repr(value)
    return text if len(text) <= _VALUE_CHARACTERS_MAX else text[: _VALUE_CHARACTERS_MAX - 3] + "..."


def _is_ours(filename: str) -> bool:
    """Return whether a frame belongs to this project's operators, which call the user's code."""
    path = "/" + filename.replace("\\", "/")  # Cython reports relative paths: pyarrow/table.pxi
    return any(part in path for part in ("/rvertex/", "/pyarrow/", "<keyed state"))


@error_class
class StoredRecordError(UsageError):
    """This release cannot read a record of a stored plan or query."""

    record: str
    reason: str

    message = (
        "stored record {record}: {reason}; resume the job with the release that wrote it, or run "
        "the query from the start with another --root"
    )
