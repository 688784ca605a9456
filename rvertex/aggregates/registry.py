"""The registry of aggregate functions, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rvertex.aggregates import (
    arrow_accumulators,
    descriptive,
    distinct,
    holistic,
    mergeable,
    sums,
)
from rvertex.aggregates.ranked import arg_values, listed, top_rows

if TYPE_CHECKING:
    from rvertex.aggregates.function import AggregateFunction

FUNCTIONS: dict[str, AggregateFunction] = {
    function.name: function
    for module in (
        *(sums, arrow_accumulators, arg_values, mergeable, distinct, holistic),
        *(descriptive, top_rows, listed),
    )
    for function in module.FUNCTIONS
}
