"""The errors of vertices, of their inputs and of the hosts they run on."""

from __future__ import annotations

from datetime import datetime, timedelta

from rstream.errors import IntegrityError, OperatingError, UsageError, error_class

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - shown as UTC
#: Times in this range, from 1971 to the end of Python's calendar, are formatted as dates.
_CALENDAR_US, _CALENDAR_END_US = 31_536_000_000_000, 253_402_300_800_000_000


@error_class
class OutputLostError(OperatingError):
    """Durable items that a vertex had written are lost, so it must write them again."""

    stream: str
    seq: int
    reason: str

    message = "stream {stream} has lost its items from seq {seq} on: {reason}"


@error_class
class CorruptCheckpointError(IntegrityError):
    """A checkpoint is damaged or a part of it is missing."""

    name: str
    reason: str

    message = "checkpoint {name} is corrupt: {reason}"


@error_class
class SnapshotSchemaError(UsageError):
    """A checkpoint was made by another plan."""

    name: str
    found: str
    expected: str

    message = (
        "checkpoint {name} belongs to another plan (its vertex has state schema {found}, "
        "this one {expected}); resume with the query that wrote it"
    )


@error_class
class CheckpointFormatError(UsageError):
    """A checkpoint was written by a version with another state format."""

    name: str
    found: str
    expected: str

    message = (
        "checkpoint {name} was written by another version (its format is {found}, this "
        "version has {expected}); resume with the version that wrote it, or run the query "
        "again with another root"
    )


@error_class
class LimitExceededError(OperatingError):
    """A wait took longer than its limit."""

    limit: str
    limit_s: float
    what: str

    message = "{what} (limit {limit} = {limit_s:g} s)"


@error_class
class SourceNotFoundError(UsageError):
    """The path of a source contains no file that can be read."""

    path: str
    reason: str

    message = "source {path}: {reason}"


@error_class
class UnfinishedStreamError(UsageError):
    """A stream that is used as a source is not complete (yet)."""

    path: str
    reason: str

    message = "source {path}: {reason}"


@error_class
class SourceSchemaError(UsageError):
    """A file lacks a column, or its column has a type that cannot be converted."""

    path: str
    column: str
    reason: str

    message = "source {path}: column {column!r}: {reason}"


@error_class
class SourceVanishedError(OperatingError):
    """A discovered file is gone or not readable any more; restoring it helps."""

    path: str
    reason: str

    message = (
        "source {path}: the file cannot be read any more: {reason} (every worker "
        "has to see it under this path)"
    )


@error_class
class UnreadableTextError(UsageError):
    """A file of a text format is not text, or is in another encoding."""

    path: str
    reason: str

    message = "source {path}: {reason}"


@error_class
class CorruptSourceError(IntegrityError):
    """A file, or one row group of it (counted from 0), cannot be decoded."""

    path: str
    row_group: int | None
    reason: str

    def __str__(self) -> str:
        where = "" if self.row_group is None else f", row group {self.row_group}"
        return f"source {self.path}{where}: corrupt: {self.reason}"


@error_class
class SourceChangedError(IntegrityError):
    """A file was changed after it was discovered, so rows of two versions would mix."""

    path: str
    row_group: int | None
    expected: str
    found: str

    def __str__(self) -> str:
        where = "" if self.row_group is None else f", row group {self.row_group}"
        return (
            f"source {self.path}{where}: changed since the job was planned: "
            f"{self.expected} then, {self.found} now; put the file back as it was, with its time "
            "(cp -p), or run the query again with another root"
        )


@error_class
class SourceOrderChangedError(IntegrityError):
    """A row is late, although planning had read all times to choose the delay."""

    path: str
    row: int
    vs: int

    def __str__(self) -> str:
        return (
            f"source {self.path}: changed since the job was planned: row {self.row} "
            f"(counted from 0) of a partition starts at {self.vs}{_utc(self.vs)}, but "
            "none of its rows started then; run the query again with another root"
        )


@error_class
class SourceRowError(IntegrityError):
    """One row of a file cannot become an event. Rows and lines are counted from 1."""

    path: str
    row: int
    line: int | None
    column: str | None
    value: str
    reason: str
    #: What the user can do, added at the end of the message.
    remedy: str = ""

    def __str__(self) -> str:
        line = "" if self.line is None else f" (line {self.line})"
        column = "" if self.column is None else f", column {self.column!r}"
        return (
            f"source {self.path}: data row {self.row}{line}, counted from 1{column}: "
            f"{self.reason}: {self.value}{self.remedy}"
        )


@error_class
class UnknownColumnError(UsageError):
    """An operator names a column that its input does not have."""

    operator: str
    column: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.operator}: there is no column {self.column!r}; "
            f"the columns are {', '.join(self.known) or '(none)'}"
        )


@error_class
class OperatorTypeError(UsageError):
    """The type of a column or expression is not supported by an operator."""

    operator: str
    reason: str

    message = "{operator}: {reason}"


@error_class
class InvalidWindowError(UsageError):
    """A window has an invalid size or step."""

    reason: str

    message = "window: {reason}"


@error_class
class UnboundedLifetimeError(UsageError):
    """An event with a (nearly) endless lifetime reached a window: it has endlessly many windows."""

    vs: int
    ve: int
    windows: int

    message = (
        "window: an event with lifetime [{vs}, {ve}) is in {windows} windows; "
        "end lifetimes before a window, with .clip(...) or .set_duration(...)"
    )


@error_class
class TimeAxisError(UsageError):
    """A lifetime operator would move the start of an event off the time axis."""

    operator: str
    vs: int
    duration_us: int

    message = (
        "{operator}: an event that starts at {vs} cannot be moved by "
        "{duration_us} us: that leaves the 64 bits of a time"
    )


@error_class
class EndlessChopError(UsageError):
    """An event with a (nearly) endless lifetime would be split into endlessly many pieces."""

    vs: int
    ve: int
    pieces_max: int

    message = (
        "chop: an event with lifetime [{vs}, {ve}) would be cut into more than "
        "{pieces_max} pieces; end lifetimes before a chop, with .clip(...) or "
        ".set_duration(...)"
    )


@error_class
class SumOverflowError(UsageError):
    """A sum of integers or decimals exceeds the range of its type."""

    column: str
    room: str = "int64"
    output: str = "sum"

    def __str__(self) -> str:
        more = "float64" if "decimal" in self.room else "float64 or decimal"
        # Otherwise it is a computed column, which the user cannot name
        is_column = not self.column.startswith(f"{self.output}_input")
        # An output with @ is not a user's name, so it is not shown
        place = "" if "@" in self.output else f"{self.output}: "
        of, cast = (
            (f" of column {self.column!r}", "the column") if is_column else ("", "its values")
        )
        return f"{place}the sum{of} does not fit into {self.room}; cast {cast} to {more} first"


@error_class
class TooManyGroupsError(UsageError):
    """More groups are open at once in one vertex than their ids have bits for."""

    what: str
    groups_max: int

    message = (
        "{what}: one vertex has {groups_max} groups or more in a window; "
        "run with more --parallelism, or take shorter windows"
    )


@error_class
class TooManyValuesError(UsageError):
    """More different values are stored at once in one vertex than their ids have bits for."""

    what: str
    values_max: int

    message = (
        "{what}: one vertex would keep more than {values_max} at once; "
        "run with more --parallelism, or take shorter windows"
    )


@error_class
class ChannelOrderError(IntegrityError):
    """A channel is not in normal form: all events with ``vs < t``, then ``CTI(t)``."""

    channel: int
    seq: int
    time: int
    previous_time: int

    message = (
        "input channel {channel}: the item at seq {seq} has time {time}, "
        "which may not follow an item of time {previous_time}"
    )


def _utc(time_us: int) -> str:
    """Format a time as a date if it is in the calendar's range; else as a number."""
    if not _CALENDAR_US <= time_us < _CALENDAR_END_US:
        return ""
    return f" ({_EPOCH + timedelta(microseconds=time_us):%Y-%m-%d %H:%M:%S.%f} UTC)"


@error_class
class LateRowError(UsageError):
    """A row is later than the delay of its source allows, and ``late`` is "error"."""

    row: int
    vs: int
    frontier: int

    def __str__(self) -> str:
        return (
            f"row {self.row} (counted from 0) is late: its time {self.vs}{_utc(self.vs)} "
            f"is before {self.frontier}{_utc(self.frontier)}, the earliest time that "
            'delay= still allows; set a longer delay=, or late="drop" or "adjust"'
        )


@error_class
class OvertakenError(OperatingError):
    """Another instance of this vertex has written the next journal entry; this one must stop."""

    journal: str
    number: int

    message = "{journal}: another instance has written entry {number} or a later one"


@error_class
class CorruptJournalError(IntegrityError):
    """A journal entry of a vertex is damaged or missing."""

    name: str
    reason: str

    message = "journal entry {name}: {reason}; restore it, or start the job again"


@error_class
class ReplayDifferenceError(IntegrityError):
    """A vertex that read its inputs again reached another state than before."""

    vertex: str
    inputs: tuple[int, ...]

    message = (
        "{vertex}: its inputs before {inputs} were read again to rebuild its state, and "
        "differ from the first time; a source has changed, or an input is not "
        "deterministic"
    )
