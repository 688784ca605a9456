"""Finds the row of a batch on which a function of an expression failed, for the error message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.items.batch import VS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The most characters of a value in a message.
_SHOWN_CHARACTERS = 60
#: Errors of converting Arrow values that Python cannot represent, such as the year 10000.
_UNSHOWN = (pa.ArrowException, ArithmeticError, LookupError, ValueError)


def failure(
    error: Exception, values: Sequence[Any], evaluate: Callable[[list[Any]], Any], batch: Any
) -> str:
    """Return the message: the error, the values, the event, and the remedy.

    ``values`` are the arguments on which ``evaluate`` raised; arrays have a value per row of
    ``batch``.
    """
    reason = _reason(error)
    columns = [v for v in values if not isinstance(v, pa.Scalar)]
    if not columns or len({len(v) for v in columns}) > 1:
        return reason
    row, alone = _first_failing(values, evaluate, len(columns[0]))
    if alone is None:
        return reason
    values_text = ", ".join(_shown(v[row]) for v in columns)
    where = _event(batch, row, len(columns[0]))
    return (
        f"{_reason(alone)}, for {values_text}{where}; leave such events out with a filter before "
        "it, or mend their values"
    )


def _shown(value: pa.Scalar) -> str:
    """Return a value as Python shows it; a time without a counterpart as the number of its unit."""
    try:
        return repr(value.as_py())[:_SHOWN_CHARACTERS]
    except _UNSHOWN:
        pass
    try:
        return str(value.cast(pa.int64()))
    except pa.ArrowException:
        return "?"


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0]


def _first_failing(
    values: Sequence[Any], evaluate: Callable[[list[Any]], Any], rows: int
) -> tuple[int, Exception | None]:
    """Find a row and its error by bisection: if a part fails, one of its rows fails."""
    low, count = 0, rows
    while count > 1:
        half = count // 2
        if _error(values, evaluate, low, half) is not None:
            count = half
        else:
            low, count = low + half, count - half
    return low, _error(values, evaluate, low, 1) if count else None


def _error(
    values: Sequence[Any], evaluate: Callable[[list[Any]], Any], low: int, count: int
) -> Exception | None:
    try:
        evaluate([v if isinstance(v, pa.Scalar) else v.slice(low, count) for v in values])
    except (pa.ArrowException, OverflowError) as error:
        return error
    return None


def _event(batch: Any, row: int, rows: int) -> str:
    """Return the start of the event, unless the values do not belong to events."""
    if batch.num_rows != rows:
        return ""
    try:
        return f", in the event with _vs={batch.column(VS)[row].as_py()}"
    except KeyError:
        return ""
