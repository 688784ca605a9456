"""Errors of the batch twin; each message names an alternative."""

from __future__ import annotations

import re

from planner.errors import InvalidPlanError
from rstream.errors import OperatingError, error_class


@error_class
class UnsupportedInBatchError(InvalidPlanError):
    """The stream can compute it, but Spark SQL has no exact counterpart."""

    what: str
    why: str

    message = "{what} cannot be run as a batch: {why}"


@error_class
class BatchFailedError(OperatingError):
    """Spark ended the batch with an error that is not about the data."""

    reason: str

    message = "the Spark batch failed: {reason}"


class BatchDataError(InvalidPlanError):
    """A value that the query cannot handle, found by the batch."""

    message = "{reason} (found by the Spark batch)"


#: The mark around the message of an error that the batch's own SQL raises.
MARK = "~streamscope~"


def explained(message: str) -> BatchDataError | BatchFailedError:
    """Return an error with our message if the SQL raised it, else with Spark's first line."""
    match_ = re.search(f"{MARK}(.*?){MARK}", message, re.DOTALL)
    if match_ is not None:
        return BatchDataError(match_[1])
    return BatchFailedError(message.strip().splitlines()[0][:500] if message else "no message")


def not_in_batch(call: object, *_args: str) -> str:
    """Raise for a function that Spark lacks.

    Raises:
        UnsupportedInBatchError: always.
    """
    raise UnsupportedInBatchError(str(call), "Spark has no exact counterpart")
