"""Positions of the stages of a plan in its picture: columns from sources to sinks. Pure."""

from __future__ import annotations

import statistics
from typing import Any

Stage = dict[str, Any]


def laid_out(stages: list[Stage]) -> list[Stage]:
    """Return the stages with ``column`` and ``row`` (from 0) and ``after``, their input stages.

    A stage is drawn right of its inputs, and in its column near the middle of these, which keeps
    most lines from crossing. In the given order, no stage reads a later stage.
    """
    column: dict[str, int] = {}
    row: dict[str, float] = {}
    after = {stage["stage"]: _after(stage) for stage in stages}
    for stage in stages:
        name = stage["stage"]
        column[name] = max((column[other] + 1 for other in after[name]), default=0)
    for number in range(max(column.values(), default=-1) + 1):
        here = [name for name in after if column[name] == number]
        wanted = {
            name: statistics.fmean(row[other] for other in after[name]) if after[name] else 0.0
            for name in here
        }
        in_order = sorted(here, key=lambda name: wanted[name])  # ties keep the order of the plan
        row |= {name: float(place) for place, name in enumerate(in_order)}
    return [
        {**stage, "column": column[stage["stage"]], "row": row[stage["stage"]]}
        | {"after": after[stage["stage"]]}
        for stage in stages
    ]


def _after(stage: Stage) -> list[str]:
    return sorted({edge["stage"] for edge in stage["inputs"]})
