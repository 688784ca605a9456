"""Checks the hints of users, and adds them to their source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.api import names as naming
from planner.durations import Duration, format_us, positive_duration_us
from planner.errors import InvalidPlanError
from planner.logical.hint_types import Hints
from planner.logical.nodes import LogicalNode, Source
from rstream.items.batch import VE, VS, int64_column, lifetimes, only_events

if TYPE_CHECKING:
    from collections.abc import Mapping


def hinted(
    plan: LogicalNode,
    *,
    rate: float | None,
    keys: Mapping[str, int],
    max_duration: Duration | None,
) -> Source:
    """Return the source with these hints; see :meth:`planner.Stream.hint`."""
    if not isinstance(plan, Source):
        raise InvalidPlanError(
            "hint(...) describes a source; call it directly on Stream.from_parquet(...) "
            "or another source"
        )
    if rate is not None and not (isinstance(rate, int | float) and 0 < rate < float("inf")):
        raise InvalidPlanError(
            f"hint(rate={rate!r}): must be a positive number of events per second"
        )
    for name, count in keys.items():
        naming.require(plan.schema, name, "hint")
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InvalidPlanError(
                f"hint(keys={{{name!r}: {count!r}}}): must be a number of values"
            )
    known = plan.hints
    hints = Hints(
        known.rate_per_s if rate is None else float(rate),
        tuple(sorted({**dict(known.keys), **keys}.items())),
    )
    plan = replace(plan, hints=hints)
    if max_duration is None:
        return plan
    longest_us = positive_duration_us(max_duration, what="max_duration")
    _check_items(plan, longest_us)
    return replace(plan, spec=replace(plan.spec, max_duration_us=longest_us))


def _check_items(plan: Source, longest_us: int) -> None:
    """Raise if an item in the query lives longer than the hint promises."""
    if plan.spec.items is None:
        return
    events = only_events(plan.spec.items)
    vs, ve = int64_column(events, VS), int64_column(events, VE)
    longest = int(lifetimes(vs, ve).max(initial=0))
    if longest > longest_us:
        raise InvalidPlanError(
            f"hint(max_duration={format_us(longest_us)}): an event lasts "
            f"{format_us(longest)}, longer than this"
        )
