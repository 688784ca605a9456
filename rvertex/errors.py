"""The errors of vertices, of their inputs and of the hosts they run on."""

from __future__ import annotations

from datetime import datetime, timedelta

from rstream.errors import IntegrityError, OperatingError, UsageError

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - shown as UTC
#: Times that are shown as such: from 1971 to the end of the calendar.
_CALENDAR_US, _CALENDAR_END_US = 31_536_000_000_000, 253_402_300_800_000_000


class OutputLostError(OperatingError):
    """Items that a vertex wrote and that were durable are gone: it has to write them again."""

    def __init__(self, stream: str, seq: int, reason: str) -> None:
        super().__init__(stream, seq, reason)
        self.stream, self.seq, self.reason = stream, seq, reason

    def __str__(self) -> str:
        return f"stream {self.stream} lacks what it had from seq {self.seq} on: {self.reason}"


class CorruptCheckpointError(IntegrityError):
    """A checkpoint does not hold what was written."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"checkpoint {self.name} is corrupt: {self.reason}"


class SnapshotSchemaError(UsageError):
    """A checkpoint was made by another plan."""

    def __init__(self, name: str, found: str, expected: str) -> None:
        super().__init__(name, found, expected)
        self.name, self.found, self.expected = name, found, expected

    def __str__(self) -> str:
        return (
            f"checkpoint {self.name} belongs to another plan (its vertex has state schema "
            f"{self.found}, this one {self.expected}); resume with the query it was made by"
        )


class CheckpointFormatError(UsageError):
    """A checkpoint was written by a version that keeps state otherwise."""

    def __init__(self, name: str, found: str, expected: str) -> None:
        super().__init__(name, found, expected)
        self.name, self.found, self.expected = name, found, expected

    def __str__(self) -> str:
        return (
            f"checkpoint {self.name} was written by another version (its format is {self.found}, "
            f"this version has {self.expected}); resume with the version that wrote it, or run the "
            "query anew with another root"
        )


class InvalidMessageError(IntegrityError):
    """A control message that does not follow the protocol."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"control message refused: {self.reason}"


class LimitExceededError(OperatingError):
    """A named wait took longer than its limit."""

    def __init__(self, limit: str, limit_s: float, what: str) -> None:
        super().__init__(limit, limit_s, what)
        self.limit, self.limit_s, self.what = limit, limit_s, what

    def __str__(self) -> str:
        return f"{self.what} (limit {self.limit} = {self.limit_s:g} s)"


class SourceNotFoundError(UsageError):
    """The path of a source names no file that could be read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"source {self.path}: {self.reason}"


class UnfinishedStreamError(UsageError):
    """A stream that is to be a source is not complete (yet)."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"source {self.path}: {self.reason}"


class SourceSchemaError(UsageError):
    """A file lacks a column, or holds it in a type that does not fit."""

    def __init__(self, path: str, column: str, reason: str) -> None:
        super().__init__(path, column, reason)
        self.path, self.column, self.reason = path, column, reason

    def __str__(self) -> str:
        return f"source {self.path}: column {self.column!r}: {self.reason}"


class SourceVanishedError(OperatingError):
    """A file that was discovered is gone or cannot be read any more; putting it back helps."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return (
            f"source {self.path}: the file cannot be read any more: {self.reason} (every worker "
            "has to see it under this path)"
        )


class CorruptSourceError(IntegrityError):
    """A file, or one row group of it (counted from 0), cannot be decoded."""

    def __init__(self, path: str, row_group: int | None, reason: str) -> None:
        super().__init__(path, row_group, reason)
        self.path, self.row_group, self.reason = path, row_group, reason

    def __str__(self) -> str:
        where = "" if self.row_group is None else f", row group {self.row_group}"
        return f"source {self.path}{where}: corrupt: {self.reason}"


class SourceChangedError(IntegrityError):
    """A file is no longer the one that was discovered, so rows of two would be mixed."""

    def __init__(self, path: str, row_group: int | None, expected: str, found: str) -> None:
        super().__init__(path, row_group, expected, found)
        self.path, self.row_group, self.expected, self.found = path, row_group, expected, found

    def __str__(self) -> str:
        where = "" if self.row_group is None else f", row group {self.row_group}"
        return (
            f"source {self.path}{where}: changed since the job was planned: "
            f"{self.expected} then, {self.found} now; put the file back as it was, with its time "
            "(cp -p), or run the query anew with another root"
        )


class SourceOrderChangedError(IntegrityError):
    """A row is late although all times were looked at when the job was planned."""

    def __init__(self, path: str, row: int, vs: int) -> None:
        super().__init__(path, row, vs)
        self.path, self.row, self.vs = path, row, vs

    def __str__(self) -> str:
        return (
            f"source {self.path}: changed since the job was planned: row {self.row} of a "
            f"partition (from 0) starts at {self.vs}{_utc(self.vs)}, which no row there did then; "
            "run the query anew with another root"
        )


class SourceRowError(IntegrityError):
    """One row of a file cannot become an event. Rows and lines are counted from 1."""

    def __init__(
        self, path: str, row: int, line: int | None, column: str | None, value: str, reason: str
    ) -> None:
        super().__init__(path, row, line, column, value, reason)
        self.path, self.row, self.line = path, row, line
        self.column, self.value, self.reason = column, value, reason

    def __str__(self) -> str:
        line = "" if self.line is None else f" (line {self.line})"
        column = "" if self.column is None else f", column {self.column!r}"
        return (
            f"source {self.path}: data row {self.row}{line}, counted from 1{column}: "
            f"{self.reason}: {self.value}"
        )


class UnknownColumnError(UsageError):
    """An operator names a column that its input does not have."""

    def __init__(self, operator: str, column: str, known: tuple[str, ...]) -> None:
        super().__init__(operator, column, known)
        self.operator, self.column, self.known = operator, column, known

    def __str__(self) -> str:
        return (
            f"{self.operator}: there is no column {self.column!r}; "
            f"the columns are {', '.join(self.known) or '(none)'}"
        )


class OperatorTypeError(UsageError):
    """An operator was given a column or an expression of a type it cannot work on."""

    def __init__(self, operator: str, reason: str) -> None:
        super().__init__(operator, reason)
        self.operator, self.reason = operator, reason

    def __str__(self) -> str:
        return f"{self.operator}: {self.reason}"


class InvalidWindowError(UsageError):
    """A window whose size or step makes no sense."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"window: {self.reason}"


class UnboundedLifetimeError(UsageError):
    """An event that lives (nearly) for ever reached a window: it would be in endless windows."""

    def __init__(self, vs: int, ve: int, windows: int) -> None:
        super().__init__(vs, ve, windows)
        self.vs, self.ve, self.windows = vs, ve, windows

    def __str__(self) -> str:
        return (
            f"window: an event with lifetime [{self.vs}, {self.ve}) is in {self.windows} windows; "
            "end lifetimes before a window, with .clip(...) or .set_duration(...)"
        )


class TimeAxisError(UsageError):
    """A lifetime operator would move the start of an event off the time axis."""

    def __init__(self, operator: str, vs: int, duration_us: int) -> None:
        super().__init__(operator, vs, duration_us)
        self.operator, self.vs, self.duration_us = operator, vs, duration_us

    def __str__(self) -> str:
        return (
            f"{self.operator}: an event that starts at {self.vs} cannot be moved by "
            f"{self.duration_us} us: that leaves the 64 bits of a time"
        )


class EndlessChopError(UsageError):
    """An event that lives (nearly) for ever would be chopped into endless pieces."""

    def __init__(self, vs: int, ve: int, pieces_max: int) -> None:
        super().__init__(vs, ve, pieces_max)
        self.vs, self.ve, self.pieces_max = vs, ve, pieces_max

    def __str__(self) -> str:
        return (
            f"chop: an event with lifetime [{self.vs}, {self.ve}) would be cut into more than "
            f"{self.pieces_max} pieces; end lifetimes before a chop, with .clip(...) or "
            ".set_duration(...)"
        )


class SumOverflowError(UsageError):
    """A sum of integers or decimals has no room in its type."""

    def __init__(self, column: str, room: str = "int64", output: str = "sum") -> None:
        super().__init__(column, room, output)
        self.column, self.room, self.output = column, room, output

    def __str__(self) -> str:
        more = "float64" if "decimal" in self.room else "float64 or decimal"
        return (
            f"{self.output}: the sum of column {self.column!r} does not fit into {self.room}; "
            f"cast the column to {more} first"
        )


class TooManyGroupsError(UsageError):
    """More groups are open at once in one vertex than their numbers have bits for."""

    def __init__(self, what: str, groups_max: int) -> None:
        super().__init__(what, groups_max)
        self.what, self.groups_max = what, groups_max

    def __str__(self) -> str:
        return (
            f"{self.what}: one vertex has {self.groups_max} groups or more in a window; "
            "run with more --parallelism, or take shorter windows"
        )


class TooManyValuesError(UsageError):
    """More different values are kept at once in one vertex than their numbers have bits for."""

    def __init__(self, what: str, values_max: int) -> None:
        super().__init__(what, values_max)
        self.what, self.values_max = what, values_max

    def __str__(self) -> str:
        return (
            f"{self.what}: one vertex would keep more than {self.values_max} at once; "
            "run with more --parallelism, or take shorter windows"
        )


class ChannelOrderError(IntegrityError):
    """A channel is not in normal form: all events with ``vs < t``, then ``CTI(t)``."""

    def __init__(self, channel: int, seq: int, time: int, previous_time: int) -> None:
        super().__init__(channel, seq, time, previous_time)
        self.channel, self.seq = channel, seq
        self.time, self.previous_time = time, previous_time

    def __str__(self) -> str:
        return (
            f"input channel {self.channel}: the item at seq {self.seq} has time {self.time}, "
            f"which may not follow an item of time {self.previous_time}"
        )


def _utc(time_us: int) -> str:
    """The time as people read it, where the calendar has it and it is no small number."""
    if not _CALENDAR_US <= time_us < _CALENDAR_END_US:
        return ""
    return f" ({_EPOCH + timedelta(microseconds=time_us):%Y-%m-%d %H:%M:%S.%f} UTC)"


class LateRowError(UsageError):
    """A row is later than the delay of its source allows, and the policy is to stop."""

    def __init__(self, row: int, vs: int, frontier: int) -> None:
        super().__init__(row, vs, frontier)
        self.row, self.vs, self.frontier = row, vs, frontier

    def __str__(self) -> str:
        return (
            f"row {self.row} is late: its time is {self.vs}{_utc(self.vs)}, but by the delay of "
            f"the source no time before {self.frontier}{_utc(self.frontier)} may follow; allow a "
            "longer delay, or drop or adjust late rows (rows are counted from 0)"
        )


class OvertakenError(OperatingError):
    """Another instance of this vertex has written down what comes next; this one must not go on."""

    def __init__(self, journal: str, number: int) -> None:
        self.journal = journal
        self.number = number
        super().__init__(journal, number)

    def __str__(self) -> str:
        return f"{self.journal}: another instance has written entry {self.number} or a later one"


class CorruptJournalError(IntegrityError):
    """An entry that a vertex wrote down before it went on is damaged or gone."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(name, reason)

    def __str__(self) -> str:
        return f"journal entry {self.name}: {self.reason}; restore it, or start the job anew"


class ReplayDifferenceError(IntegrityError):
    """A vertex that read its inputs again came to another place than before."""

    def __init__(self, vertex: str, inputs: tuple[int, ...]) -> None:
        super().__init__(vertex, inputs)
        self.vertex, self.inputs = vertex, inputs

    def __str__(self) -> str:
        return (
            f"{self.vertex}: the inputs before {self.inputs}, read again to rebuild its state, are "
            "not those it had read before; a source has changed, or an input is not deterministic"
        )
