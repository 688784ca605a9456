"""The errors of the intake server, beside those of the logs behind it, and their statuses."""

from __future__ import annotations

from typing import Any

from rstream.errors import (
    AppenderBusyError,
    AppenderClosedError,
    AppenderFencedError,
    OperatingError,
    ProducerFencedError,
    ProducerGapError,
    StreamEngineError,
    TooManyProducersError,
    UnknownProducerError,
    UsageError,
    error_class,
)


@error_class
class PostError(UsageError):
    """A post that cannot be understood; nothing of it was taken."""

    reason: str

    message = "{reason}; nothing was taken"


@error_class
class BadRowError(UsageError):
    """A row that does not fit the stream's columns; nothing of its post was taken."""

    #: Of the body, counted from 1.
    line: int
    column: str
    reason: str

    def __str__(self) -> str:
        column = f", column {self.column}" if self.column else ""
        return f"line {self.line}{column}: {self.reason}; nothing of the post was taken"


@error_class
class BodyTooLargeError(UsageError):
    """A post with more bytes than one may have."""

    bytes_max: int

    message = "a post has at most {bytes_max} bytes: send it in several; nothing was taken"


@error_class
class UnknownStreamError(UsageError):
    """No such stream is served."""

    name: str

    message = "there is no stream {name}; GET /streams and list_flights list them"


@error_class
class NoProducerError(UsageError):
    """Somebody asks where a producer stands that the log does not know."""

    producer: str

    message = "producer {producer} is not known"


@error_class
class NoTokenError(UsageError):
    """A request without a token, or with a wrong one."""

    message = "the request needs Authorization: Bearer TOKEN"


@error_class
class MediaTypeError(UsageError):
    """A post of a kind that is not read."""

    found: str
    read: str

    message = "Content-Type {found} is not read; it is {read}"


@error_class
class ContentEncodingError(UsageError):
    """A post that is compressed in a way that is not read."""

    found: str

    message = "Content-Encoding {found} is not read; it is gzip, or none; nothing was taken"


@error_class
class OverloadedError(OperatingError):
    """More is under way than the server's limits allow."""

    what: str
    most: int

    message = "{what}: at most {most} at one time; nothing was taken, post again later"


@error_class
class IntakeConfigError(UsageError):
    """The intake's file or options say something that cannot be."""

    place: str
    reason: str

    message = "{place}: {reason}"


#: The status of HTTP for an error: the first that fits. Flight's errors follow from it.
STATUS: tuple[tuple[type[StreamEngineError], int], ...] = (
    (NoTokenError, 401),
    (UnknownStreamError, 404),
    (NoProducerError, 404),
    (MediaTypeError, 415),
    (ContentEncodingError, 415),
    (BodyTooLargeError, 413),
    (ProducerGapError, 409),
    (ProducerFencedError, 409),
    (UnknownProducerError, 409),
    (OverloadedError, 429),
    (TooManyProducersError, 429),
    (AppenderBusyError, 503),
    (AppenderClosedError, 503),
    (AppenderFencedError, 503),
    (OperatingError, 503),
    (UsageError, 400),
    (StreamEngineError, 500),
)
#: Statuses after which the same request may be sent again.
AGAIN = (429, 503)


def status_of(error: StreamEngineError) -> int:
    """The status of HTTP for an error."""
    return next(status for kind, status in STATUS if isinstance(error, kind))


def as_document(error: StreamEngineError) -> dict[str, Any]:
    """What a producer is told of an error, as JSON: the sentence, the kind, and its fields."""
    kind = type(error).__name__.removesuffix("Error")
    return {"error": str(error), "kind": kind, **vars(error)}
