"""Errors of deliveries."""

from __future__ import annotations

from rstream.errors import IntegrityError, OperatingError, UsageError, error_class


@error_class
class InvalidSinkError(UsageError):
    """The rows of this query cannot be delivered with this spec; change one of them."""

    sink: str
    reason: str

    message = "{sink}: {reason}"


@error_class
class DestinationError(OperatingError):
    """The destination cannot be reached or rejected a write, of which no row is visible."""

    destination: str
    reason: str

    message = "{destination}: {reason}"


@error_class
class DeliveryFencedError(OperatingError):
    """Another writer has taken over this delivery."""

    destination: str
    epoch: int

    message = "{destination}: a writer with an epoch after {epoch} has taken over this delivery"


@error_class
class DeliveryUnknownError(OperatingError):
    """The result of a commit is unknown; opening the destination again finds it out."""

    destination: str
    reason: str

    message = "{destination}: no answer to a commit ({reason})"


@error_class
class OutputChangedError(OperatingError):
    """The job was changed, but a separate process still delivers with the former plan."""

    columns: str

    message = (
        "the job was changed, and its output has new columns ({columns}); the delivery continues "
        "once it has read the changed plan"
    )


@error_class
class DeliveryForgottenError(UsageError):
    """The destination has lost the position of a delivery that had started."""

    destination: str

    message = (
        "{destination}: rows were delivered there, but the position of this delivery is "
        "lost (Kafka deletes positions of groups that are inactive for a week). If the "
        "rows are lost too, deliver them under another name. Otherwise start after them: "
        "jobmanager deliver ROOT --name NEW --from SEQ"
    )


@error_class
class DeliveryBegunError(UsageError):
    """A start position was requested, but the delivery already has another one."""

    destination: str
    seq: int

    message = (
        "{destination}: this delivery began at item {seq}; continue it without --from, or "
        "start another one with --name"
    )


@error_class
class DeliveryDivergedError(IntegrityError):
    """The rows to deliver differ from the rows that were delivered before at the same seqs."""

    destination: str
    seq: int

    message = (
        "{destination}: the items of the stream before {seq} differ from the delivered "
        "ones; deliver to a new destination, or use the versions of code and libraries "
        "that computed the delivered rows"
    )


@error_class
class DestinationSchemaError(UsageError):
    """The destination's columns do not match the rows to deliver."""

    destination: str
    reason: str

    message = "{destination}: {reason}"


@error_class
class DestinationRefusedError(UsageError):
    """The destination rejects the delivery for a reason that a retry does not fix."""

    destination: str
    reason: str
    advice: str

    message = "{destination}: {reason}; {advice}"


@error_class
class DestinationGoneError(UsageError):
    """The destination has lost the delivered rows, but not the delivery's position."""

    destination: str
    next_seq: int

    message = (
        "{destination}: it is gone, but the items before {next_seq} were delivered to it. "
        "Restore it from a copy, or deliver all rows again under another name: jobmanager "
        "deliver ROOT --to ... --name NEW"
    )


@error_class
class RowsRefusedError(UsageError):
    """The destination rejects a value of these rows."""

    destination: str
    first_seq: int
    next_seq: int
    reason: str
    advice: str = "correct the rows in the query"

    message = (
        "{destination}: rejected a row of the items [{first_seq}, {next_seq}): {reason}; {advice}"
    )


@error_class
class TooManyRefusedError(UsageError):
    """The destination rejects more rows than the dead letters may contain."""

    destination: str
    rows: int
    reason: str

    message = (
        "{destination}: {rows} rows are in the dead letters and the destination refuses more "
        "(refused_rows_max); the last reason: {reason}. Correct the query or the destination"
    )
