"""Parts of expressions that are the same for all rows: what fails in them fails before a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from planner.errors import EvaluationError, InvalidPlanError
from rstream.batch import VS

if TYPE_CHECKING:
    from planner.nodes import Call

ONE_ROW = pa.RecordBatch.from_arrays([pa.array([0])], names=[VS])


def check_constant(call: Call) -> None:
    """Refuses a resolved call of literals that cannot be evaluated.

    Raises:
        InvalidPlanError: it fails, whatever the data.
    """
    from planner.nodes import calls_user

    if not call.args or call.columns() or calls_user(call):
        return
    try:
        call.value(ONE_ROW)
    except EvaluationError as error:
        raise InvalidPlanError(str(error)) from None
