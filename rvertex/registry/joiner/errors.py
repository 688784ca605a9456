"""Errors of a joiner."""

from __future__ import annotations

from rstream.errors import OperatingError, UsageError, error_class

ADVICE_ON_OLD = (
    "a longer keep= of the registry would have its id; if another site has emitted such rows, "
    'on_old="skip" drops them'
)


@error_class
class JoinerInputError(UsageError):
    """The columns of the inputs do not fit the join."""

    log: str
    reason: str

    message = "{log}: {reason}"


@error_class
class JoinerLimitError(UsageError):
    """Limits of a joiner contradict each other."""

    rule: str

    message = "JoinerLimits: {rule} does not hold"


@error_class
class JoinerRowError(UsageError):
    """A foreign row cannot be claimed, and the joiner does not skip such rows."""

    log: str
    seq: int
    reason: str
    advice: str

    message = "{log}, row {seq}: {reason}; {advice}"


@error_class
class PrimaryRowsLostError(OperatingError):
    """Primary rows of a step that must be repeated are no longer in their log."""

    log: str
    rows: int

    message = (
        "{log}: {rows} rows that a killed joiner had read were deleted; restore the log, "
        "or set a longer retention"
    )
