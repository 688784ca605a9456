"""The results of a run: numbers per query and system, as JSON, as a table and as a chart."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

OURS = "ours"


@dataclass
class Cell:
    """All repetitions of one query on one system."""

    events: int
    #: Seconds by variant (its text), in the order of the runs.
    elapsed_s: dict[str, list[float]] = field(default_factory=dict)
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    peak_bytes: int = 0
    python_bytes: int = 0
    correct: bool = True
    #: Why there is no rate.
    problem: str = ""

    def best(self) -> tuple[str, float]:
        """Return the variant with the least median time."""
        medians = {variant: median(times) for variant, times in self.elapsed_s.items()}
        variant = min(medians, key=lambda v: medians[v])
        return variant, medians[variant]

    @property
    def events_per_s(self) -> float | None:
        """Return events per second; None for a wrong or missing answer."""
        if self.problem or not self.elapsed_s:
            return None
        return self.events / max(self.best()[1], 1e-9)

    @property
    def cpu_us(self) -> float | None:
        """Return processor microseconds per event, of the variant with the least."""
        if self.problem or not self.cpu_s:
            return None
        return 1e6 * min(median(times) for times in self.cpu_s.values()) / self.events


@dataclass
class Report:
    """Cells by query and system."""

    systems: list[str]
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    startup_s: dict[str, float] = field(default_factory=dict)

    def cell(self, query: str, system: str, events: int) -> Cell:
        """Return the cell; create it if it is new."""
        return self.cells.setdefault(query, {}).setdefault(system, Cell(events))

    def as_json(self) -> dict[str, dict[str, dict[str, object]]]:
        """Return ``{query: {system: {events_per_s, peak_bytes, correct}}}`` with details."""
        return {
            query: {system: _cell_json(cell) for system, cell in row.items()}
            for query, row in self.cells.items()
        }

    def table(self) -> str:
        """Return million events per second, and how many times slower the others are.

        In parentheses are processor microseconds per event, and how many times more the others use.
        """
        others = [system for system in self.systems if system != OURS]
        heads = ["query", *self.systems, *(f"x {system}" for system in others), "peak GB"]
        lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        for query, row in self.cells.items():
            ours = row.get(OURS)
            shown = [query, *(_shown(row.get(system)) for system in self.systems)]
            shown += [_ratio(ours, row.get(system)) for system in others]
            shown.append(f"{ours.python_bytes / 1e9:.2f}" if ours else "")
            lines.append("| " + " | ".join(shown) + " |")
        return "\n".join(lines)


def chart(results: dict[str, dict[str, dict[str, object]]], path: Path) -> None:
    """Draw bars of events per second on a logarithmic axis, one group per query."""
    import matplotlib  # only for the chart

    matplotlib.use("svg")
    from matplotlib import pyplot

    systems = list(dict.fromkeys(system for row in results.values() for system in row))
    figure, axes = pyplot.subplots(figsize=(11, 4))
    width = 0.85 / len(systems)
    for k, system in enumerate(systems):
        heights = [_number(row.get(system, {}).get("events_per_s")) for row in results.values()]
        places = [i + k * width for i in range(len(results))]
        axes.bar(places, heights, width, label=system)
    axes.set_yscale("log")
    axes.set_ylabel("events per second")
    axes.set_xticks([i + 0.4 for i in range(len(results))], list(results))
    axes.legend(ncols=len(systems), loc="upper center", bbox_to_anchor=(0.5, 1.12), frameon=False)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)


def _cell_json(cell: Cell) -> dict[str, object]:
    rate = cell.events_per_s
    found: dict[str, object] = {
        "events_per_s": None if rate is None else round(rate),
        "peak_bytes": cell.peak_bytes,
        "correct": cell.correct and not cell.problem,
        "python_bytes": cell.python_bytes,
        "cpu_us": None if cell.cpu_us is None else round(cell.cpu_us, 3),
    }
    if rate is not None and len(cell.elapsed_s) > 1:
        found["variant"] = cell.best()[0]
    if cell.problem:
        found["problem"] = cell.problem
    return found


def _shown(cell: Cell | None) -> str:
    if cell is None or cell.events_per_s is None or cell.cpu_us is None:
        return "" if cell is None or not cell.problem else "-"
    return f"{cell.events_per_s / 1e6:.3g} ({cell.cpu_us:.2g})"


def _ratio(ours: Cell | None, other: Cell | None) -> str:
    if ours is None or other is None or not ours.events_per_s or not other.events_per_s:
        return ""
    assert ours.cpu_us is not None
    assert other.cpu_us is not None
    cpu = other.cpu_us / max(ours.cpu_us, 1e-9)
    return f"{ours.events_per_s / other.events_per_s:.2g} ({cpu:.2g})"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
