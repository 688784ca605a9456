"""The errors of the intake server, and HTTP statuses for these and for errors of the logs."""

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
    """The post cannot be parsed. None of its rows was appended."""

    reason: str

    message = "{reason}; no row was stored"


@error_class
class BadRowError(UsageError):
    """A row does not fit the stream's columns. No row of its post was appended."""

    #: The number of the line in the body, from 1.
    line: int
    column: str
    reason: str

    def __str__(self) -> str:
        column = f", column {self.column}" if self.column else ""
        return f"line {self.line}{column}: {self.reason}; no row of the post was stored"


@error_class
class BodyTooLargeError(UsageError):
    """The post has more bytes than ``body_bytes_max``."""

    bytes_max: int

    message = "the post is larger than {bytes_max} bytes: send smaller posts; no row was stored"


@error_class
class UnknownStreamError(UsageError):
    """The server has no stream of this name."""

    name: str

    message = "there is no stream {name}; GET /streams and list_flights list them"


@error_class
class NoProducerError(UsageError):
    """The log does not know the producer whose position a client has requested."""

    producer: str

    message = "producer {producer} is not known"


@error_class
class NoTokenError(UsageError):
    """A request has a wrong token, or none."""

    message = "the request needs Authorization: Bearer TOKEN"


@error_class
class MediaTypeError(UsageError):
    """The post has an unsupported media type."""

    found: str
    read: str

    message = "Content-Type {found} is not supported: send {read}"


@error_class
class ContentEncodingError(UsageError):
    """The post has an unsupported compression."""

    found: str

    message = "Content-Encoding {found} is not supported: send gzip, or none; no row was stored"


@error_class
class OverloadedError(OperatingError):
    """The unanswered posts or open calls exceed a limit of the server."""

    what: str
    most: int

    message = "{what}: at most {most} at one time; no row was stored, post again later"


@error_class
class IntakeConfigError(UsageError):
    """The intake's file or options have an invalid value."""

    place: str
    reason: str

    message = "{place}: {reason}"


#: The HTTP status per class of errors; the first match counts. Flight errors are derived from it.
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
#: Statuses after which a client may send the same request again.
AGAIN = (429, 503)


def status_of(error: StreamEngineError) -> int:
    """Return the HTTP status for an error."""
    return next(status for kind, status in STATUS if isinstance(error, kind))


def as_document(error: StreamEngineError) -> dict[str, Any]:
    """Return the JSON document that reports an error to a producer: message, kind, and fields."""
    kind = type(error).__name__.removesuffix("Error")
    return {"error": str(error), "kind": kind, **vars(error)}
