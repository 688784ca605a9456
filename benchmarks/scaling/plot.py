"""The picture of the scaling benchmark: a panel per curve, cost left and memory right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")  # no display is needed

import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

COLUMNS = 2


@dataclass(frozen=True)
class Point:
    """The median of the runs of a point."""

    x: int
    ns: float
    wall_ns: float
    fixed_s: float
    peak_bytes: int


def draw(curves: Mapping[str, Sequence[Point]], what: Mapping[str, str], path: Path) -> None:
    """Draw ``curves``; ``what`` says for each curve what grows."""
    rows = -(-len(curves) // COLUMNS)
    figure, grid = plt.subplots(rows, COLUMNS, figsize=(10, 2.9 * rows), squeeze=False)
    for axes in grid.flat[len(curves) :]:
        axes.set_visible(False)
    for axes, (name, points) in zip(grid.flat, curves.items(), strict=False):
        x = [point.x for point in points]
        axes.plot(x, [p.ns for p in points], "o-", color="tab:blue", label="processors")
        axes.plot(x, [p.wall_ns for p in points], "o:", color="tab:blue", lw=0.8, label="clock")
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_title(name, loc="left", fontsize=10)
        axes.set_xlabel(what[name], fontsize=8)
        axes.set_ylabel("ns per event", color="tab:blue")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="upper left")
        memory = axes.twinx()
        memory.plot(x, [p.peak_bytes / 1e6 for p in points], "s--", color="tab:red", lw=0.8)
        memory.set_ylim(bottom=0)
        memory.set_ylabel("peak MB", color="tab:red")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
