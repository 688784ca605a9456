"""Errors of deliveries."""

from __future__ import annotations

from rstream.errors import IntegrityError, OperatingError, error_class


@error_class
class DeliveryFencedError(OperatingError):
    """Another writer has taken over this delivery."""

    destination: str
    epoch: int

    message = "{destination}: a writer with an epoch after {epoch} has taken over this delivery"


@error_class
class DeliveryUnknownError(OperatingError):
    """It is not known whether a commit took place; opening the destination again tells."""

    destination: str
    reason: str

    message = "{destination}: no answer to a commit ({reason})"


@error_class
class DeliveryDivergedError(IntegrityError):
    """What is to be delivered is not what was delivered before."""

    destination: str
    seq: int

    message = (
        "{destination}: the stream below item {seq} is not what was delivered; deliver into a new "
        "place, or go back to the code and libraries that made the delivered rows"
    )
