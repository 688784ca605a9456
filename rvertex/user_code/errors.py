"""The errors of code that users give to a query: what it raised, on which event, on which line."""

from __future__ import annotations

import traceback

from rstream.errors import IntegrityError, UsageError, error_class

#: What a call of a user's code can raise. All of it, or it would end the host: ``sys.exit()``, a
#: panic of a library written in Rust.
RAISED = BaseException
#: What comes from outside while a user's code runs.
INTERRUPTS = (KeyboardInterrupt, GeneratorExit)

_VALUE_CHARACTERS_MAX = 200


@error_class
class UserCodeError(UsageError):
    """A user's function raised on an event. ``seq`` counts the events of its operator from 0."""

    function: str
    reason: str
    line: str
    seq: int
    lifetime: str
    payload: str

    message = (
        "{function} raised {reason} at {line}\n"
        "on event {seq} of its input, lifetime {lifetime}: {payload}\n"
        'correct the function, or pass over such events with on_error="skip" or "dead_letter"'
    )


@error_class
class UserResultError(UsageError):
    """A user's function gave back something other than what was declared.

    ``place``: of the user's code, where what was raised does not tell it.
    """

    function: str
    reason: str
    place: str = ""

    message = "{function}: {reason}"


@error_class
class EndlessTimersError(UsageError):
    """A key goes on setting timers when the stream has ended."""

    function: str
    key: str
    timers_max: int

    message = (
        "{function}: key {key} has set {timers_max} timers one after the other "
        "when the stream had ended; set none if ctx.at_end"
    )


@error_class
class CrowdedTimersError(UsageError):
    """A key's timers set one another so close together that event time hardly gets on."""

    function: str
    key: str
    timers_max: int
    span_us: int

    message = (
        "{function}: {timers_max} timers of key {key} came due in one step, in "
        "{span_us} us of event time; times are microseconds: set timers further apart, "
        "for example at ctx.time + 1_000_000"
    )


@error_class
class UnknownCodeError(UsageError):
    """A plan names a class or a function that cannot be imported where it is read."""

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
    """Code that a plan names has been edited since: it would go on with another's state."""

    name: str
    path: str

    message = (
        "{name} is not what it was when the job was planned: {path} has changed, and its rows "
        "would be of two versions; put the file back, or run the query again with another root "
        "(what the query file itself defines is kept with the job)"
    )


@error_class
class CutDependentError(IntegrityError):
    """A function that has to work row by row gave other values when it was given other batches."""

    function: str
    row: int
    rows: int

    message = (
        "{function}: row {row} of a batch of {rows} has another value when the "
        "function is given another cutting of the same rows; its result may depend on nothing "
        "but the row"
    )


@error_class
class ReplayedValueError(IntegrityError):
    """A value was asked for that is not the one recorded at this place."""

    index: int
    recorded: str
    asked: str

    message = (
        "logged value {index} was recorded as {recorded}, and is now asked for as "
        "{asked}: the code that asks is not deterministic, or has changed"
    )


@error_class
class UnknownCallError(UsageError):
    """A call that may be made once only was begun before a restart, and has no answer."""

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
    """Code asked for the time, a random number or a lookup where nothing would record it."""

    kind: str

    message = (
        "ctx.{kind}() was called where values are not recorded, so that a restart could "
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
    """Type and message of what was raised; its ``__str__`` may be the user's, and raise too."""
    try:
        text = str(error)
    except Exception as second:
        text = f"its text cannot be shown, {type(second).__name__}"
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return reason.encode("utf-8", "backslashreplace").decode()  # half of a pair is no UTF-8


def shown(value: object) -> str:
    """``repr``, cut to a length that fits into a message."""
    text = repr(value)
    return text if len(text) <= _VALUE_CHARACTERS_MAX else text[: _VALUE_CHARACTERS_MAX - 3] + "..."


def _is_ours(filename: str) -> bool:
    """Whether a frame belongs to the operators that call the user."""
    path = "/" + filename.replace("\\", "/")  # Cython's are relative: pyarrow/table.pxi
    return any(part in path for part in ("/rvertex/", "/pyarrow/", "<keyed state"))


@error_class
class StoredRecordError(UsageError):
    """A stored plan or query has a record that this release cannot read."""

    record: str
    reason: str

    message = (
        "stored record {record}: {reason}; resume the job with the release that wrote it, or run "
        "the query from the start with another --root"
    )
