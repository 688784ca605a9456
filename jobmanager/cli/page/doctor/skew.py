"""Finds stages in which one vertex gets most of the rows, and keys with most of the rows."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.cli.page.doctor.case import Status

#: A vertex is skewed from this multiple of its stage's median on, if the stage has at least this
#: many events.
SKEW_MIN, SKEWED_EVENTS_MIN = 3.0, 10_000
#: A key is hot from this share of a stage's output on.
HOT_SHARE_MIN = 0.3


def skewed_vertices(status: Status) -> Iterator[tuple[str, str, str]]:
    """Yield vertices with many more events than their siblings: name, finding, advice."""
    for rows in _stages(status):
        most = max(rows, key=lambda row: row["events_in"])
        others = [row["events_in"] for row in rows if row is not most]
        if not others or most["events_in"] < SKEWED_EVENTS_MIN:
            continue
        median = statistics.median(others)
        if most["events_in"] >= SKEW_MIN * max(median, 1):
            what = (
                f"{most['vertex']} got {most['events_in']:,} events and the other vertices of its "
                f"stage {median:,.0f} each: a few keys have most of the rows"
            )
            advice = (
                "divide its keys with jobmanager rescale ROOT --split-hot; one hot key needs a "
                "further column or a filter, and a source needs more partitions or files"
            )
            yield most["vertex"], what, advice


def hot_keys(status: Status) -> Iterator[tuple[str, str, str]]:
    """Yield stages that send most rows to one key: name, finding, advice."""
    for rows in _stages(status):
        sent = sum(row["events_out"] for row in rows)
        # a status of an older release has no hot keys
        hot = [row for row in rows if row.get("hot_share")]
        if not hot:
            continue
        most = max(hot, key=_hot_rows)
        share = sum(_hot_rows(r) for r in hot if r["hot_key"] == most["hot_key"]) / max(sent, 1)
        if share >= HOT_SHARE_MIN and sent >= SKEWED_EVENTS_MIN:
            what = f"{share:.0%} of the rows that {most['stage']} sends on have {most['hot_key']}"
            advice = (
                "these rows are processed by one vertex: filter the key, or add a column to it; "
                "sums, counts and other aggregates that merge are combined before they are sent"
            )
            yield most["stage"], what, advice


def _hot_rows(row: Status) -> float:
    """Return the estimated number of rows with the vertex's most frequent key."""
    return float(row["hot_share"] * row["events_out"])


def _stages(status: Status) -> Iterator[list[Status]]:
    stages: dict[str, list[Status]] = {}
    for row in status.get("vertices", ()):
        stages.setdefault(row["stage"], []).append(row)
    yield from stages.values()
