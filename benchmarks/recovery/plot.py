"""The picture of a recovery benchmark: latency around the failure, one panel per strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")  # no display is needed

import matplotlib.pyplot as plt

from recovery.measures import timeline

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from recovery.measures import Run

BEFORE_S, AFTER_S = 3.0, 7.0
COLOURS = {1: "tab:blue", 2: "tab:red"}


def draw(runs: Mapping[str, Mapping[int, Run]], title: str, path: Path) -> None:
    """Draw ``runs``, which are keyed by strategy, then by number of kills."""
    figure, grid = plt.subplots(
        len(runs), 1, figsize=(9, 1.2 + 2.0 * len(runs)), sharex=True, sharey=True, squeeze=False
    )
    for axes, (strategy, by_kills) in zip(grid[:, 0], runs.items(), strict=True):
        for kills, run in by_kills.items():
            line = timeline(run)
            colour, word = COLOURS[kills], "worker" if kills == 1 else "workers"
            axes.plot(line.at_s, line.median_ms, color=colour, label=f"{kills} {word}: median")
            axes.plot(line.at_s, line.worst_ms, color=colour, lw=0.8, ls=":", label="worst")
        axes.axvline(0, color="black", lw=0.8)
        axes.set_yscale("log")
        axes.set_title(strategy, loc="left", fontsize=10)
        axes.set_ylabel("latency, ms")
        axes.grid(alpha=0.3, which="major")
        axes.legend(fontsize=7, loc="upper right")
    grid[-1, 0].set_xlim(-BEFORE_S, AFTER_S)
    grid[-1, 0].set_xlabel("when the event was due, seconds from the kill")
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=65)
    plt.close(figure)
