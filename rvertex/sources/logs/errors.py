"""Errors of live logs."""

from __future__ import annotations

from rstream.errors import IntegrityError, OperatingError, UsageError, error_class


@error_class
class AddedStreamsError(IntegrityError):
    """The output of another job has more streams than when this job started to read it."""

    path: str
    now: int
    then: int

    message = (
        "{path} has {now} partitions, and this job reads {then}: the job that writes it was "
        "rescaled. Run this query again in another root"
    )


@error_class
class LostInputError(IntegrityError):
    """A log has deleted rows that the job has not read yet."""

    log: str
    partition: int
    wanted: int
    first: int
    reason: str
    #: What the user can do. Some logs can be read after the deleted rows.
    remedy: str = "start a new job"

    message = (
        "{log}, partition {partition}: the rows from position {wanted} on are gone ({reason}; the "
        "log begins at {first}); {remedy}"
    )


@error_class
class FileTakenError(IntegrityError):
    """A file of a growing folder was changed or deleted after it was read."""

    path: str
    change: str

    message = (
        "source {path}: {change}; its rows are in the job's state and answer already. Put "
        "the file back as it was, with its time (cp -p), and resume; or resume with "
        "--accept-changed-inputs, which keeps the rows that were read"
    )


@error_class
class NeededInputError(IntegrityError):
    """A log has deleted rows that the job must read again, so it cannot skip them."""

    log: str
    partition: int
    wanted: int
    first: int
    need: str

    message = (
        "{log}, partition {partition}: the rows from position {wanted} on are gone (the "
        "log begins at {first}), and {need}; so they cannot be skipped: start a new job. "
        "Keep rows in the log for longer than a job may be stopped, or recover the source "
        'with "checkpoint"'
    )


@error_class
class LogNotFoundError(UsageError):
    """The log or a partition of it does not exist."""

    log: str
    reason: str

    message = "{log}: {reason}"


@error_class
class LogUnreachableError(OperatingError):
    """The server of a log did not answer."""

    log: str
    reason: str

    message = "{log}: {reason}; check the address and that the log's server runs"


@error_class
class RegistryRefusedError(LogUnreachableError):
    """A schema registry rejects the credentials. A running job retries until they are accepted."""

    message = "{log}: {reason}"


@error_class
class LogRowError(IntegrityError):
    """A row of a log could not be decoded, and the source's ``on_error`` is "fail"."""

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
    """A log was deleted and created again, so its positions refer to other rows than before."""

    log: str
    reason: str

    message = (
        "{log} was deleted and created again since the job was planned ({reason}), so it "
        "has other rows: start a new job for it, with another root"
    )


@error_class
class LogRefusedError(UsageError):
    """The server of a log rejects the request, such as for lack of permission."""

    log: str
    reason: str

    message = "{log}: the server rejected the request: {reason}"


@error_class
class ClientMissingError(UsageError):
    """The package that reads a kind of log is not installed."""

    log: str

    message = "{log}: Kafka is read with confluent-kafka: pip install confluent-kafka"


@error_class
class InvalidPositionsError(UsageError):
    """The start or end that a source declares is not a position of its log."""

    log: str
    reason: str

    message = "{log}: {reason}"


@error_class
class DecoderMissingError(UsageError):
    """A package that decodes messages is not installed."""

    reason: str

    message = "Avro is decoded with polars and fastavro ({reason}): pip install polars fastavro"
