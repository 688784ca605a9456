"""Finds the rows of a batch on which a function of an expression fails, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from planner.errors import EvaluationError
from planner.expressions.rows import Rows
from rstream.items.batch import VS
from rstream.items.text_failures import alone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The most characters of a value in a message.
_SHOWN_CHARACTERS = 60
#: Errors of converting Arrow values that Python cannot represent, such as the year 10000.
_UNSHOWN = (pa.ArrowException, ArithmeticError, LookupError, ValueError)


#: Functions that fail, each with a function that gives null for the same values.
_TRIES = {"cast": "try_cast", "parse_time": "try_parse_time"}
#: The functions that fail for the same reason on all values.
_ONE_REASON = ("parse_time",)


def failure(
    error: Exception,
    values: Sequence[Any],
    evaluate: Callable[[list[Any]], Any],
    batch: Any,
) -> str:
    """Return the message of a failure: the error, the values, the event, and the remedy.

    ``values`` are the arguments on which ``evaluate`` raised; arrays have a value per row of
    ``batch``.
    """
    columns = [v for v in values if not isinstance(v, pa.Scalar)]
    if not columns or len({len(v) for v in columns}) > 1:
        return _reason(error)
    row, alone_error = _first_failing(values, evaluate, len(columns[0]))
    if alone_error is None:
        return _reason(error)
    where = _event(batch, row, len(columns[0]))
    return _explained(alone_error, _values_text(values, row), where)


def hint_for(call: Any) -> str:
    """Return advice for a call that failed."""
    return "; try_cast gives null instead" if call.function == "cast" else ""


def _explained(error: Exception, values_text: str, where: str) -> str:
    return (
        f"{_reason(error)}, for {values_text}{where}; leave such events out with a filter before "
        "it, or mend their values"
    )


def _values_text(values: Sequence[Any], row: int) -> str:
    return ", ".join(_shown(v[row]) for v in values if not isinstance(v, pa.Scalar))


def failing_rows(
    tree: Any, batch: pa.RecordBatch, function_of: Callable[[Any], Any]
) -> dict[int, str]:
    """Return the rows on which a resolved tree fails, and why; ``function_of``: finds functions."""
    failing = FailingRows(np.arange(batch.num_rows), {}, function_of)
    rows = Rows(batch, frozenset())
    rows.failing = failing
    tree.value(rows)
    return failing.found


class FailingRows:
    """The rows for which an expression fails.

    Where a function fails, its failing rows are collected and have null, and the others are
    evaluated. Operands are computed for the rows that need them, as always.

    ``places``: int64[n], the positions of the rows in the batch. ``found``: the messages by
    position. ``function_of``: returns the function that a call names.
    """

    def __init__(
        self, places: np.ndarray, found: dict[int, str], function_of: Callable[[Any], Any]
    ) -> None:
        self._places = places
        self.found = found
        self._function_of = function_of

    def subset(self, mask: pa.BooleanArray) -> FailingRows:
        """Return the rows for which ``mask`` is true; they are collected here."""
        places = self._places[mask.to_numpy(zero_copy_only=False)]
        return FailingRows(places, self.found, self._function_of)

    def failed(self, call: Any, values: Sequence[Any], error: Exception) -> Any:
        """Collect the rows for which a call fails; return its values for the others.

        Raises:
            EvaluationError: the call fails for all data.
        """
        count = len(self._places)
        if {len(v) for v in values if not isinstance(v, pa.Scalar)} != {count}:
            if isinstance(error, EvaluationError):
                raise error
            raise EvaluationError(str(call), _reason(error)) from None

        def evaluated(places: pa.Array) -> Any:
            part = [v if isinstance(v, pa.Scalar) else v.take(places) for v in values]
            return self._function_of(call).evaluate(part, call)

        is_bad = self._failing(call, values, evaluated)
        known: dict[str, str] = {}
        for row in np.flatnonzero(is_bad).tolist():
            text = _values_text(values, row)
            if text not in known:
                known[text] = self._message(call, text, row, error, evaluated)
            self.found.setdefault(int(self._places[row]), known[text])
        good = np.flatnonzero(~is_bad)
        if not len(good):
            return pa.nulls(count, call.type)
        made = evaluated(pa.array(good))
        return made.take(pa.array(np.cumsum(~is_bad) - 1, mask=is_bad))

    def _failing(
        self, call: Any, values: Sequence[Any], evaluated: Callable[[pa.Array], Any]
    ) -> np.ndarray:
        """Return the rows for which a call fails, bool[n]."""
        if call.function in _TRIES:
            tries = replace(call, function=_TRIES[call.function])
            is_null = self._function_of(tries).evaluate(values, tries).is_null()
            is_bad: np.ndarray = is_null.to_numpy(zero_copy_only=False).copy()
            is_bad &= values[0].is_valid().to_numpy(zero_copy_only=False)
            return is_bad

        def convert(places: pa.Array) -> None:
            try:
                evaluated(places)
            except EvaluationError as error:
                # raised by a user's function
                raise pa.ArrowInvalid(str(error)) from None

        rows = np.arange(len(self._places))
        is_bad = np.zeros(len(rows), np.bool_)
        # A user's function that is called row by row: bisection would only add calls.
        is_by_row = "code" in dict(call.options) and not call.option("vectorised")
        for part in np.split(rows, len(rows)) if is_by_row else [rows]:
            is_bad[alone(part, pa.array(rows), convert)] = True
        return is_bad

    def _message(
        self,
        call: Any,
        values_text: str,
        row: int,
        error: Exception,
        evaluated: Callable[[pa.Array], Any],
    ) -> str:
        if call.function not in _ONE_REASON:
            try:
                evaluated(pa.array([row]))
            except EvaluationError as own:
                return str(own)
            except (pa.ArrowException, OverflowError) as own:
                error = own
        return str(EvaluationError(str(call), _explained(error, values_text, "") + hint_for(call)))


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
    """Return the first failing row and its error, by bisection: half of a failing part fails."""
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
