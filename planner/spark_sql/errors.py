"""What the batch twin cannot do, each with the words to go on with."""

from __future__ import annotations

from planner.errors import InvalidPlanError
from rstream.errors import OperatingError


class UnsupportedInBatchError(InvalidPlanError):
    """The stream can compute it, but Spark SQL has no exact counterpart."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what)
        self.args = (what, why)
        self.what, self.why = what, why

    def __str__(self) -> str:
        return f"{self.what} cannot be run as a batch: {self.why}"


class BatchFailedError(OperatingError):
    """Spark ended the batch with an error that is not about the data."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the Spark batch failed: {self.reason}"


class BatchDataError(InvalidPlanError):
    """A value that the query cannot handle, found by the batch."""

    def __str__(self) -> str:
        return f"{self.reason} (found by the Spark batch)"
