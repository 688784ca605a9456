"""Which row of a batch a function of an expression failed on, in words for the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.batch import VS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: What may be seen of a value.
_SHOWN_CHARACTERS = 60


def failure(
    error: Exception, values: Sequence[Any], evaluate: Callable[[list[Any]], Any], batch: Any
) -> str:
    """What went wrong, for which values, on which event, and what to do about it.

    ``values`` are the arguments that ``evaluate`` raised on; those that are no scalars have a value
    per row of ``batch``.
    """
    reason = str(error).splitlines()[0]
    columns = [v for v in values if not isinstance(v, pa.Scalar)]
    if not columns or len({len(v) for v in columns}) > 1:
        return reason
    row = _first_failing(values, evaluate, len(columns[0]))
    if row is None:
        return reason
    told = ", ".join(repr(v[row].as_py())[:_SHOWN_CHARACTERS] for v in columns)
    return (
        f"{reason}, for {told}{_event(batch, row, len(columns[0]))}; leave such events out with a "
        "filter before it, or mend their values"
    )


def _first_failing(
    values: Sequence[Any], evaluate: Callable[[list[Any]], Any], rows: int
) -> int | None:
    """By halves: whatever fails on a part fails on a row of it."""
    low, count = 0, rows
    while count > 1:
        half = count // 2
        if _fails(values, evaluate, low, half):
            count = half
        else:
            low, count = low + half, count - half
    return low if count and _fails(values, evaluate, low, 1) else None


def _fails(
    values: Sequence[Any], evaluate: Callable[[list[Any]], Any], low: int, count: int
) -> bool:
    try:
        evaluate([v if isinstance(v, pa.Scalar) else v.slice(low, count) for v in values])
    except (pa.ArrowException, OverflowError):
        return True
    return False


def _event(batch: Any, row: int, rows: int) -> str:
    """The start of the event, unless the values are not those of events."""
    if batch.num_rows != rows:
        return ""
    try:
        return f", in the event with _vs={batch.column(VS)[row].as_py()}"
    except KeyError:
        return ""
