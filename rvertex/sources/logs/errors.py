"""Errors of live logs."""

from __future__ import annotations

from rstream.errors import IntegrityError, OperatingError, UsageError, error_class


@error_class
class AddedStreamsError(IntegrityError):
    """The answer of another job has more partitions than when this job began to read it."""

    path: str
    now: int
    then: int

    message = (
        "{path} has {now} partitions, and this job reads {then}: the job that writes it was "
        "rescaled. Run this query again in another root"
    )


@error_class
class LostInputError(IntegrityError):
    """A log no longer has rows that the job has not read."""

    log: str
    partition: int
    wanted: int
    first: int
    reason: str
    #: What the user can do; some logs can be read on behind what is gone.
    remedy: str = "start anew"

    message = (
        "{log}, partition {partition}: the rows from position {wanted} on are gone ({reason}; the "
        "log begins at {first}); {remedy}"
    )


@error_class
class FileTakenError(IntegrityError):
    """A file of a growing folder was read, and is no longer what was read."""

    path: str
    change: str

    message = (
        "source {path}: {change}; its rows are in the job's state and answer already. Put the file "
        "back as it was, with its time (cp -p), and go on; or resume with --accept-changed-inputs, "
        "which goes on with what was read"
    )


@error_class
class NeededInputError(IntegrityError):
    """A log no longer has rows that were read before and must be read again; none can stand in."""

    log: str
    partition: int
    wanted: int
    first: int
    need: str

    message = (
        "{log}, partition {partition}: the rows from position {wanted} on are gone (the log begins "
        "at {first}), and {need}; so they cannot be skipped: start a new job. Let the log keep its "
        'rows for longer than a job may be away, or recover the source with "checkpoint"'
    )


@error_class
class LogNotFoundError(UsageError):
    """There is no such log, or no such partition of it."""

    log: str
    reason: str

    message = "{log}: {reason}"


@error_class
class LogUnreachableError(OperatingError):
    """A log could not be asked where it begins and ends."""

    log: str
    reason: str

    message = "{log}: {reason}; check the address and that the log's server runs"


@error_class
class RegistryRefusedError(LogUnreachableError):
    """A schema registry wants another user; a job that runs waits until it is let in."""

    message = "{log}: {reason}"


@error_class
class LogRowError(IntegrityError):
    """A row of a log could not be decoded, and the source says that this is an error."""

    log: str
    partition: int
    position: int
    reason: str
    value: str

    message = (
        "{log}, partition {partition}, position {position}: {reason}: {value} (set "
        'on_bad_row="dead_letter" to keep such rows in a side output, or on_bad_row="skip")'
    )


@error_class
class LogReplacedError(IntegrityError):
    """A log was deleted and created anew: its positions mean other rows than before."""

    log: str
    reason: str

    message = (
        "{log} was deleted and created anew since the job was planned ({reason}); its rows are not "
        "those the job has read: start a job of its own for it, with another root"
    )


@error_class
class LogRefusedError(UsageError):
    """The server of a log does not allow what the job asks for."""

    log: str
    reason: str

    message = "{log}: the server refuses: {reason}"


@error_class
class ClientMissingError(UsageError):
    """The package that reads a kind of log is not installed."""

    log: str

    message = "{log}: Kafka is read with confluent-kafka: pip install confluent-kafka"


@error_class
class InvalidPositionsError(UsageError):
    """Where a source is to begin or end is no place of its log."""

    log: str
    reason: str

    message = "{log}: {reason}"


@error_class
class DecoderMissingError(UsageError):
    """A package that decodes messages is not installed."""

    reason: str

    message = "Avro is decoded with polars and fastavro ({reason}): pip install polars fastavro"
