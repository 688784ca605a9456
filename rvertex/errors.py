"""The errors of vertices, of their inputs and of the hosts they run on."""

from __future__ import annotations

from rstream.errors import IntegrityError, OperatingError, UsageError


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
