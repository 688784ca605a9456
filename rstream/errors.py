"""The root of the error tree, and the errors of streams.

The family of an error shows who must act: :class:`UsageError` the caller, :class:`OperatingError`
the operator of the machine (a retry may help), :class:`IntegrityError` the developers (data or
determinism is broken, the job stops). An error declares its fields in the order of its arguments,
and a message with the fields' names in braces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar, dataclass_transform


class StreamEngineError(Exception):
    """Root of every error this project raises on purpose."""

    #: Template of the text, formatted with the fields. Without it the text shows the arguments.
    message: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.message.format(**vars(self)) if self.message else super().__str__()

    def __post_init__(self) -> None:
        """Set ``args``, which pickling passes to the constructor, also for keyword arguments."""
        self.args = tuple(vars(self).values())


class UsageError(StreamEngineError):
    """The request is wrong; retrying cannot help."""


class OperatingError(StreamEngineError):
    """The environment failed (disk, network, process). A retry may help."""


class IntegrityError(StreamEngineError):
    """Data or determinism is broken. The job must stop."""


_Error = TypeVar("_Error", bound=StreamEngineError)


@dataclass_transform(eq_default=False)
def error_class(kind: type[_Error]) -> type[_Error]:
    """Make the annotations of an error its positional fields, which survive pickling."""
    return dataclass(eq=False, repr=False)(kind)


@error_class
class SequenceGapError(UsageError):
    """A write would leave a gap before its first sequence number."""

    stream: str
    seq: int
    next_seq: int

    message = (
        "stream {stream}: write at seq {seq} would leave a gap; the next seq to write is {next_seq}"
    )


@error_class
class SequenceDiscardedError(UsageError):
    """A read of items below the low-water mark, which were deleted."""

    stream: str
    seq: int
    first_seq: int

    message = (
        "stream {stream}: seq {seq} was garbage collected; the first seq still kept is {first_seq}"
    )


@error_class
class OutputCollectedError(UsageError):
    """A read of output items that its retention has deleted."""

    stream: str
    seq: int
    first_seq: int

    message = (
        "output {stream}: seq {seq} is deleted, its retention keeps it from seq {first_seq} on; "
        "start there (subscribe(start=...), deliver --from {first_seq})"
    )


@error_class
class OutputTakenBackError(UsageError):
    """A reader has read output rows that a rollback of the job then removed."""

    stream: str
    seq: int

    message = (
        "output {stream}: a rollback removed the rows from seq {seq} on, which were read before; "
        "discard them and read on: other rows follow from this seq"
    )


@error_class
class SequenceNotReadyError(UsageError):
    """A reader was opened past the end of the stream."""

    stream: str
    seq: int
    next_seq: int

    message = "stream {stream}: seq {seq} is past the end; the next seq to be written is {next_seq}"


@error_class
class SequenceLostError(OperatingError):
    """A written item is neither in memory nor durable, so it must be recomputed."""

    stream: str
    seq: int

    message = "stream {stream}: seq {seq} was lost with its worker, before it was stored in a file"


@error_class
class SequenceConflictError(IntegrityError):
    """Two writers wrote different items at one seq (detected in verify mode)."""

    stream: str
    seq: int
    kept: str
    given: str

    message = (
        "stream {stream}: seq {seq} was written twice with different content, "
        "first {kept}, then {given}; the vertex that writes it is not deterministic"
    )


@error_class
class CorruptSegmentError(IntegrityError):
    """A segment file does not match its name, its footer or its checksum."""

    path: str
    reason: str

    def __str__(self) -> str:
        words = (repr(word)[1:-1] for word in self.reason.split())  # Arrow quotes bytes it met
        return f"file {self.path} is corrupt: {' '.join(words)}"


@error_class
class SegmentFormatError(UsageError):
    """A segment was written by a later version. It is not damaged."""

    path: str
    found: int
    newest: int

    message = (
        "file {path} has format version {found}, this version reads up to "
        "{newest}; use the version that wrote it"
    )


@error_class
class InvalidBatchError(UsageError):
    """A batch does not have the schema or the order of this stream's items."""

    stream: str
    reason: str

    message = "stream {stream}: the batch does not fit: {reason}"


@error_class
class BackPressureError(OperatingError):
    """A writer waited longer than its limit for room in the volatile tail."""

    stream: str
    waited_s: float

    message = (
        "stream {stream}: its memory stayed full for {waited_s:g} s, because a reader is too slow"
    )


_NO_ROOM = ("No space left", "Disk quota", "File too large")
#: The end of the message about a store without room.
NO_ROOM_ADVICE = "; free space there or raise the limit, then `jobmanager resume` an ended job"


@error_class
class StoreError(OperatingError):
    """The blob store failed after all retries."""

    path: str
    reason: str

    message = "store: {path}: {reason}"

    def __str__(self) -> str:
        is_full = any(words in self.reason for words in _NO_ROOM)
        return super().__str__() + (NO_ROOM_ADVICE if is_full else "")


@error_class
class TlsError(UsageError):
    """The folder with the TLS keys cannot be used."""

    folder: str
    reason: str

    message = (
        "STREAMSCOPE_TLS={folder}: {reason}; on every host, set it to a folder with "
        "cert.pem and key.pem of that host and ca.pem, or unset it"
    )


@error_class
class PlainLineError(UsageError):
    """One end of a connection encrypts and the other end does not."""

    address: str
    is_encrypted: bool

    def __str__(self) -> str:
        here, there = ("not set", "encrypts") if self.is_encrypted else ("set", "does not encrypt")
        return (
            f"{self.address} {there}, but STREAMSCOPE_TLS is {here} here; set it on every host of "
            "the job, or on none"
        )


class UnauthorizedError(UsageError):
    """A call did not pass the job's secret."""

    message = (
        "the caller did not send the secret of this job; only processes of the job may call it"
    )


@error_class
class MissingSecretError(UsageError):
    """This process cannot read a secret that a query refers to."""

    what: str
    reference: str
    reason: str

    message = (
        "{what} is {reference}, but {reason}: provide it where the job is planned, on its hosts "
        "and where its deliveries run"
    )


@error_class
class SecretInPathError(UsageError):
    """A path contains a password, a signature or a token."""

    path: str
    secret: str = "a password"
    instead: str = "write env:NAME in its place, as in ftp://USER:env:NAME@HOST/PATH"

    message = "{path} holds {secret}, which every status would show: {instead}"


@error_class
class RowError(UsageError):
    """Appended rows do not match the declared columns; no row was appended."""

    #: Index of the row, from 0.
    row: int
    column: str
    reason: str

    def __str__(self) -> str:
        column = f", column {self.column}" if self.column else ""
        return f"row {self.row}{column}: {self.reason}; no row was stored"


@error_class
class LogSchemaError(UsageError):
    """A log is declared with other columns than it already has."""

    log: str
    declared: str
    given: str

    message = (
        "{log} has the columns {declared}, not {given}; the columns of a log cannot "
        "change: write to a new log"
    )


@error_class
class NoLogError(UsageError):
    """There is no log of appended rows in this folder."""

    log: str

    message = (
        "{log} has no log of appended rows; rstream.Appender(uri, schema) or "
        "`jobmanager intake` makes one"
    )


@error_class
class CorruptLogError(IntegrityError):
    """A file of a log is damaged."""

    path: str
    reason: str

    message = "{path}: {reason}; put the file back from a copy"


@error_class
class ProducerGapError(UsageError):
    """A producer skipped a number."""

    log: str
    producer: str
    number: int
    next_number: int

    message = (
        "{log}: producer {producer} sent number {number}, but its next number is "
        "{next_number}: send the missing numbers first"
    )


@error_class
class UnknownProducerError(UsageError):
    """An unknown producer starts with a number greater than 0."""

    log: str
    producer: str
    number: int

    message = (
        "{log}: producer {producer} sent number {number}, but the log does not know it: "
        "start with number 0; a producer that was silent for too long also needs a new id"
    )


@error_class
class ProducerFencedError(UsageError):
    """Another producer with the same id and a higher epoch has replaced this one."""

    log: str
    producer: str
    epoch: int
    newest_epoch: int

    message = (
        "{log}: producer {producer} has epoch {epoch}, but a newer instance of it has "
        "epoch {newest_epoch}; stop this one"
    )


@error_class
class TooManyProducersError(OperatingError):
    """The log already has the greatest number of producers that it may have."""

    log: str
    producers_max: int

    message = (
        "{log}: it has {producers_max} producers, its limit: reuse the ids of producers "
        "(not one per request), or raise producers_max"
    )


@error_class
class AppenderFencedError(OperatingError):
    """Another appender has opened the log, so this appender cannot append any more."""

    log: str
    epoch: int

    message = (
        "{log}: a newer appender has replaced this one (epoch {epoch}), which accepts no more rows"
    )


@error_class
class AppenderBusyError(OperatingError):
    """Too many appends or bytes wait to become durable."""

    log: str
    waiting_appends: int
    waiting_bytes: int

    message = (
        "{log}: {waiting_appends} appends with {waiting_bytes} bytes wait to become durable; "
        "append again later"
    )


@error_class
class AppenderClosedError(UsageError):
    """The appender was closed."""

    log: str

    message = "{log}: the appender is closed; no row was stored"


@error_class
class InvalidMessageError(IntegrityError):
    """A control message is malformed."""

    reason: str

    message = "invalid control message: {reason}"
