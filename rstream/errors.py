"""The root of the error tree, and the errors of streams.

The three families say who must act: :class:`UsageError` the caller, :class:`OperatingError` the
operator of the machine (a retry may help), :class:`IntegrityError` us (data or determinism is
broken, the job stops). An error declares its fields, in the order of its arguments, and a message
with the fields' names in braces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar, dataclass_transform


class StreamEngineError(Exception):
    """Root of every error this project raises on purpose."""

    #: The text, formatted with the fields. An error without one shows its arguments.
    message: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.message.format(**vars(self)) if self.message else super().__str__()

    def __post_init__(self) -> None:
        """Pickling passes ``args`` to the constructor, also if the fields were given by name."""
        self.args = tuple(vars(self).values())


class UsageError(StreamEngineError):
    """The caller asked for something wrong; retrying cannot help."""


class OperatingError(StreamEngineError):
    """The world is wrong (disk, network, process); retrying may help."""


class IntegrityError(StreamEngineError):
    """Data or determinism is broken; the job must stop."""


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
    """A read below the low-water mark."""

    stream: str
    seq: int
    first_seq: int

    message = (
        "stream {stream}: seq {seq} was garbage collected; the first seq still kept is {first_seq}"
    )


@error_class
class OutputCollectedError(UsageError):
    """A read of an output below what its retention keeps."""

    stream: str
    seq: int
    first_seq: int

    message = (
        "output {stream}: seq {seq} is gone, its retention keeps it from seq {first_seq} on; begin "
        "there (subscribe(start=...), deliver --from {first_seq})"
    )


@error_class
class SequenceNotReadyError(UsageError):
    """A registration past the end of what has been written."""

    stream: str
    seq: int
    next_seq: int

    message = "stream {stream}: seq {seq} is past the end; the next seq to be written is {next_seq}"


@error_class
class SequenceLostError(OperatingError):
    """An item that was written is neither in memory nor durable: it must be recomputed."""

    stream: str
    seq: int

    message = "stream {stream}: seq {seq} was lost with its host, recompute it"


@error_class
class SequenceConflictError(IntegrityError):
    """Two writers gave one sequence number different content (seen in verify mode)."""

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
    """A segment file does not hold what its name and checksum promise."""

    path: str
    reason: str

    def __str__(self) -> str:
        words = (repr(word)[1:-1] for word in self.reason.split())  # Arrow quotes bytes it met
        return f"segment {self.path} is corrupt: {' '.join(words)}"


@error_class
class SegmentFormatError(UsageError):
    """A segment was written by a later version; it is not damaged."""

    path: str
    found: int
    newest: int

    message = (
        "segment {path} has format version {found}, this version reads up to "
        "{newest}; use the version that wrote it"
    )


@error_class
class InvalidBatchError(UsageError):
    """A batch is not a batch of items of this stream."""

    stream: str
    reason: str

    message = "stream {stream}: not a batch of its items: {reason}"


@error_class
class BackPressureError(OperatingError):
    """A writer waited longer than its limit for room in the volatile tail."""

    stream: str
    waited_s: float

    message = "stream {stream}: the tail stayed full for {waited_s:g} s"


@error_class
class StoreError(OperatingError):
    """The blob store failed after all retries."""

    path: str
    reason: str

    message = "store: {path}: {reason}"


@error_class
class TlsError(UsageError):
    """The folder with the keys for encrypted lines cannot be used."""

    folder: str
    reason: str

    message = (
        "STREAMSCOPE_TLS={folder}: {reason}; it names a folder with cert.pem and "
        "key.pem of this host and ca.pem, on every host, or is not set"
    )


@error_class
class PlainLineError(UsageError):
    """Of the two ends of a line only one encrypts."""

    address: str
    is_encrypted: bool

    def __str__(self) -> str:
        here, there = ("not set", "encrypts") if self.is_encrypted else ("set", "does not encrypt")
        return (
            f"{self.address} {there}, but STREAMSCOPE_TLS is {here} here; set it on every host of "
            "the job, or on none"
        )


class UnauthorizedError(UsageError):
    """A call without the job's secret."""

    message = "the call did not carry this job's secret"


@error_class
class MissingSecretError(UsageError):
    """This process cannot read a secret that a query names."""

    what: str
    reference: str
    reason: str

    message = (
        "{what} is {reference}, but {reason}: provide it where the job is planned, on its hosts "
        "and where its deliveries run"
    )


@error_class
class SecretInPathError(UsageError):
    """A path holds a password, a signature or a token."""

    path: str
    secret: str = "a password"
    instead: str = "write env:NAME in its place, as in ftp://USER:env:NAME@HOST/PATH"

    message = "{path} holds {secret}, which every status would show: {instead}"


@error_class
class RowError(UsageError):
    """Rows that were handed in do not fit the declared columns; none of them was taken."""

    #: Counted from 0.
    row: int
    column: str
    reason: str

    def __str__(self) -> str:
        column = f", column {self.column}" if self.column else ""
        return f"row {self.row}{column}: {self.reason}; no row was taken"


@error_class
class LogSchemaError(UsageError):
    """A log is declared with other columns than it has."""

    log: str
    declared: str
    given: str

    message = (
        "{log} has the columns {declared}, not {given}; a log keeps its columns: write "
        "another one for others"
    )


@error_class
class NoLogError(UsageError):
    """There is no log of appended rows at this place."""

    log: str

    message = (
        "{log} holds no log of appended rows; rstream.Appender(uri, schema) or "
        "`jobmanager intake` makes one"
    )


@error_class
class CorruptLogError(IntegrityError):
    """A file of a log does not hold what was written."""

    path: str
    reason: str

    message = "{path}: {reason}; put the file back from a copy"


@error_class
class ProducerGapError(UsageError):
    """A producer left out a number."""

    log: str
    producer: str
    number: int
    next_number: int

    message = (
        "{log}: producer {producer} gave number {number}, but its next number is {next_number}: "
        "repeat what is missing first"
    )


@error_class
class UnknownProducerError(UsageError):
    """A producer whose numbers are not known begins in their middle."""

    log: str
    producer: str
    number: int

    message = (
        "{log}: producer {producer} gave number {number}, but is not known: a new producer begins "
        "with number 0, and one that was silent for too long needs another id"
    )


@error_class
class ProducerFencedError(UsageError):
    """A producer that another one with its id has replaced."""

    log: str
    producer: str
    epoch: int
    newest_epoch: int

    message = (
        "{log}: producer {producer} has epoch {epoch}, but epoch {newest_epoch} has taken its "
        "place; stop this one"
    )


@error_class
class TooManyProducersError(OperatingError):
    """A new producer, where as many are known as may be."""

    log: str
    producers_max: int

    message = (
        "{log}: {producers_max} producers are known, and no more are taken: give ids that last "
        "(not one per request), or raise producers_max"
    )


@error_class
class AppenderFencedError(OperatingError):
    """Another appender has opened the log; what this one appends is refused."""

    log: str
    epoch: int

    message = (
        "{log}: another appender has taken the place of this one (epoch {epoch}); nothing more "
        "is taken here"
    )


@error_class
class AppenderBusyError(OperatingError):
    """Too much waits to become durable."""

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

    message = "{log}: the appender is closed; nothing was taken"


@error_class
class InvalidMessageError(IntegrityError):
    """A control message that does not follow the protocol."""

    reason: str

    message = "control message refused: {reason}"
