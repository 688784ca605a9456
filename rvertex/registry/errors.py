"""Errors of a registry of ids."""

from __future__ import annotations

from rstream.errors import OperatingError, UsageError, error_class


@error_class
class RegistryAwayError(OperatingError):
    """The registry did not answer: its majority or the network failed. A retry may succeed."""

    registry: str
    reason: str

    message = "registry {registry}: {reason}"


@error_class
class RegistryTimeError(UsageError):
    """An id's time is so far in the future that its shard is not decided yet."""

    registry: str
    ahead_s: float
    ahead_max_s: float

    message = (
        "registry {registry}: an id is {ahead_s:,.0f} s ahead of the clock, and at most "
        "{ahead_max_s:,.0f} s are allowed; set max_ahead= at the source, or set the clock"
    )


@error_class
class RegistryChangeError(UsageError):
    """The number of shards cannot be changed in this way."""

    registry: str
    reason: str

    message = "registry {registry}: {reason}"


@error_class
class RegistryLostError(UsageError):
    """Entries of a registry are gone, so ids that were claimed could be claimed again."""

    registry: str
    reason: str

    message = (
        "registry {registry}: {reason}, so rows that were delivered could be delivered again. "
        "Restore its streams from a backup. Or accept repeated rows: stop all sites, delete its "
        "streams, call sinks.open_registry(...).create(), and start the sites"
    )


@error_class
class RegistryUseError(UsageError):
    """The registry was opened for other rows, or with another ``keep``."""

    registry: str
    what: str
    theirs: str
    ours: str

    message = (
        "registry {registry}: the first site opened it with {what} {theirs!r}, and this one has "
        "{ours!r}. Sites of one query pass the same; give another query another registry. To "
        "change it: stop all sites, call sinks.open_registry(...).reset_use(), and start the sites"
    )


@error_class
class RegistryClientError(UsageError):
    """The client library is not installed."""

    registry: str

    message = "registry {registry}: NATS servers are reached with nats-py: pip install nats-py"
