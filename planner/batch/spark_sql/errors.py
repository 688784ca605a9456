"""What the batch twin cannot do, each with the words to go on with."""

from __future__ import annotations

import re

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


#: Stands around the message of an error that the batch itself raises.
MARK = "~streamscope~"


def explained(message: str) -> BatchDataError | BatchFailedError:
    """Our own message where the SQL raised it; otherwise the first line of Spark's."""
    found = re.search(f"{MARK}(.*?){MARK}", message, re.DOTALL)
    if found is not None:
        return BatchDataError(found[1])
    return BatchFailedError(message.strip().splitlines()[0][:500] if message else "no message")
