"""Splits the busiest range of keys of a stage, or joins the two idlest neighbours. Pure.

The load of a range is the share of the stage's input rows whose key is in it. Each vertex that
sends rows by key reports slots that stand for equal shares of its recent rows
(:mod:`rvertex.keys.hot_keys`). So the measurement is bounded, and it needs only a status.

Invariants: (1) the new ranges cover all slots, each slot once; (2) the same plan and status give
the same ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jobmanager.driver.running.changes.scaling.widths import (
    RescaleError,
    check_plan,
    scalable,
    stage_named,
)
from planner.cost.parallelism import PARALLELISM_MAX
from planner.physical.layout import Stages
from planner.physical.slot_ranges import ranges_of
from rvertex.checkpoint.ranges.slots import NOT_BY_KEY, NotByKeyError
from rvertex.keys.hot_keys import NAMED_ROWS_MIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.physical.plan import PhysicalPlan
    from planner.physical.slot_ranges import Layout

#: Selects the busiest range of all stages, or the two idlest neighbours.
ANY = ""
#: A split must take at least this share of its load from a range.
GAIN_MIN = 0.1


@dataclass(frozen=True, slots=True)
class Load:
    """Sorted slots of the rows that a stage gets, and the number of rows that each represents."""

    slots: np.ndarray
    rows: np.ndarray

    @property
    def total(self) -> float:
        """The number of rows."""
        return float(self.rows.sum())

    def share(self, lo: int, hi: int) -> float:
        """Return the share of the rows with these slots ``[lo, hi)``; 0 without any row."""
        at = np.searchsorted(self.slots, [lo, hi])
        return float(self.rows[at[0] : at[1]].sum()) / max(self.total, 1e-9)


@dataclass(frozen=True, slots=True)
class RangeChange:
    """A change of one range. ``bounds``: per stage, the first slot of each range but the first."""

    what: str
    bounds: dict[str, tuple[int, ...]]
    #: After the change: each range ``[lo, hi)``, and its share of the stage's rows if measured.
    ranges: tuple[tuple[int, int, float | None], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the change in JSON types."""
        shares = [None if share is None else round(share, 4) for *_, share in self.ranges]
        ranges = [
            {"lo": lo, "hi": hi, "share": share}
            for (lo, hi, _), share in zip(self.ranges, shares, strict=True)
        ]
        bounds = {stage: list(slots) for stage, slots in self.bounds.items()}
        return {"what": self.what, "bounds": bounds, "ranges": ranges}


def split_range(plan: PhysicalPlan, status: Mapping[str, Any], where: str = ANY) -> RangeChange:
    """Split a range at the slot that halves its load.

    ``where``: a stage, whose range with most rows is split; or :data:`ANY`; or a vertex, whose
    range is split in the middle if no row for it was measured.

    Raises:
        RescaleError: there is no such stage, no load is known, or one key has all of it.
        NotByKeyError: the state of the stage cannot be divided by key.
    """
    stages, found = Stages(plan), None
    names, vertex = _candidates(plan, stages, where)
    for name in names:
        load, layout = load_of(stages, status, name), stages.layout(name)
        for k, (lo, hi) in enumerate(layout.ranges):
            rows = load.share(lo, hi) * load.total
            if vertex in (None, layout.owners[k]) and (found is None or rows > found[0]):
                found = rows, name, k, load
    if found is None:
        raise RescaleError(f"vertex {where} owns no keys")
    rows, name, k, load = found
    if not rows and vertex is None:
        raise _unknown(names, "--split")
    stages.check(name)
    layout = stages.layout(name)
    if len(layout.owners) >= PARALLELISM_MAX:
        raise RescaleError(f"stage {name} has {PARALLELISM_MAX} ranges already, the maximum")
    lo, hi = layout.ranges[k]
    owner = f"{name}.{layout.owners[k]}"
    at = (lo + hi) // 2 if not rows else cut_of(load, lo, hi, owner)
    if not lo < at < hi:
        raise RescaleError(f"{owner} owns a single hash of keys, which cannot be split")
    bounds = tuple(sorted((*layout.bounds, at)))
    shares = f"{load.share(lo, at):.0%} and {load.share(at, hi):.0%}"
    what = f"{owner} gets {load.share(lo, hi):.0%} of the rows of {name}; split into {shares}"
    if not load.total:
        what = f"{owner} is split in the middle of its range, because no load of {name} is measured"
    return _changed(stages, name, load, what, bounds)


def merge_ranges(plan: PhysicalPlan, status: Mapping[str, Any], where: str = ANY) -> RangeChange:
    """Join the two neighbouring ranges that have the fewest rows together.

    ``where``: a stage; a vertex, whose range is joined with the neighbour that has fewer rows; or
    :data:`ANY`.

    Raises:
        RescaleError: there is no such stage, no load is known, or only one range.
        NotByKeyError: the state of the stage cannot be divided by key.
    """
    stages, best = Stages(plan), None
    names, vertex = _candidates(plan, stages, where)
    names = [name for name in names if len(stages.layout(name).owners) > 1]
    if not names:
        raise RescaleError("no stage has two ranges of keys that could be joined")
    measured = {name: load_of(stages, status, name) for name in names}
    if vertex is None:
        measured = {name: load for name, load in measured.items() if load.total}
    for name, load in measured.items():
        for k, pair in enumerate(_pairs(stages.layout(name), vertex)):
            rows = -1.0 if pair is None else load.share(*pair) * load.total
            if pair is not None and (best is None or rows < best[0]):
                best = rows, name, k, load
    if best is None:
        unknown = _unknown(names, "--merge")
        raise unknown if vertex is None else RescaleError(f"{where} owns no keys")
    _, name, k, load = best
    stages.check(name)
    layout = stages.layout(name)
    bounds = layout.bounds[:k] + layout.bounds[k + 1 :]
    one, other = (f"{name}.{layout.owners[at]}" for at in (k, k + 1))
    share = load.share(*ranges_of(bounds)[k])
    what = f"{one} and {other} get {share:.0%} of the rows of {name}; joined"
    if not load.total:
        what = f"{one} and {other} are joined; no load of {name} is measured"
    return _changed(stages, name, load, what, bounds)


def cut_of(load: Load, lo: int, hi: int, owner: str) -> int:
    """Return the slot at which to split the range such that the larger part is minimal.

    Raises:
        RescaleError: one key has nearly all rows, so a split would not help.
    """
    inside = slice(*np.searchsorted(load.slots, [lo, hi]))
    slots, first = np.unique(load.slots[inside], return_index=True)
    before = np.concatenate([[0.0], np.cumsum(load.rows[inside])])
    parts = before[first] / before[-1]  # the share of the rows before each slot
    larger = np.maximum(parts, 1 - parts)
    larger[slots <= lo] = 1.0
    best = int(np.argmin(larger))
    if larger[best] > 1 - GAIN_MIN:
        heaviest = float(np.diff(before[[*first.tolist(), len(before) - 1]]).max() / before[-1])
        raise RescaleError(
            f"{owner} cannot be split: one key has {heaviest:.0%} of its rows, and a key has one "
            "vertex; add a column to the key, or filter it"
        )
    return int(slots[best])


def load_of(stages: Stages, status: Mapping[str, Any], name: str) -> Load:
    """Return the load of a stage, including the other stages of its group."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in status.get("vertices", ()):
        rows.setdefault(row["stage"], []).append(row)
    slots, counts = [np.empty(0, np.int64)], [np.empty(0)]
    for member in stages.members(name):
        for edge in stages.stages[member].inputs:
            for row in rows.get(edge.upstream, ()) if edge.routing == "hash" else ():
                sent = {tuple(keys): at for keys, at in row.get("sent_slots", ())}
                if at := sent.get(edge.keys):
                    slots.append(np.array(at, np.int64))
                    counts.append(np.full(len(at), row["events_out"] / len(at)))
    every, weights = np.concatenate(slots), np.concatenate(counts)
    order = np.argsort(every, kind="stable")
    return Load(every[order], weights[order])


def _candidates(plan: PhysicalPlan, stages: Stages, where: str) -> tuple[list[str], int | None]:
    """Return a stage per group that can be changed, and the number of the vertex; None: any."""
    check_plan(plan)
    if where == ANY:
        if not stages.keys:
            raise RescaleError("no stage has rows by key")
        if not (found := scalable(stages)):
            stages.check(next(iter(stages.keys)))  # raises the reason
        return found, None
    stage, dot, number = where.rpartition(".")
    vertex = int(number) if dot and number.isdecimal() and where not in stages.stages else None
    stage = stage_named(plan, where if vertex is None else stage)
    if stage not in stages.keys:
        raise NotByKeyError(stage, NOT_BY_KEY)
    return [stages.members(stage)[0]], vertex


def _pairs(layout: Layout, vertex: int | None) -> Iterator[tuple[int, int] | None]:
    """Yield each pair of neighbouring ranges as one range; None: the vertex owns neither."""
    ranges, owners = layout.ranges, layout.owners
    for k in range(len(ranges) - 1):
        belongs = vertex is None or vertex in owners[k : k + 2]
        yield (ranges[k][0], ranges[k + 1][1]) if belongs else None


def _changed(
    stages: Stages, name: str, load: Load, what: str, bounds: Sequence[int]
) -> RangeChange:
    is_known = load.total > 0
    ranges = tuple(
        (lo, hi, load.share(lo, hi) if is_known else None) for lo, hi in ranges_of(bounds)
    )
    return RangeChange(what, dict.fromkeys(stages.members(name), tuple(bounds)), ranges)


def _unknown(names: Sequence[str], option: str) -> RescaleError:
    return RescaleError(
        f"the load of {', '.join(names)} is not measured: the job does not run, or each vertex has "
        f"sent fewer than {NAMED_ROWS_MIN} rows by key since the start, the last savepoint or the "
        f"last change. Try again after more rows, or name a vertex, which needs no measurement: "
        f"{option} {names[0]}.0"
    )
