"""The errors of the intake server, beside those of the logs behind it."""

from __future__ import annotations

from rstream.errors import OperatingError, UsageError, error_class


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

    message = "there is no stream {name}; GET /streams lists them"


@error_class
class MediaTypeError(UsageError):
    """A post of a kind that is not read."""

    found: str
    read: str

    message = "Content-Type {found} is not read; it is {read}"


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
