"""The size of a stage's state: in one line, and over the last hours. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.quantities import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rvertex.vertex.spec import VertexSpec

_BYTES_MIN = 1 << 20
#: Most measured sizes that are kept per stage; least and greatest time between two of them, us.
POINTS_MAX, EVERY_US_MIN, EVERY_US_MAX = 64, 60 * 1_000_000, 1_800 * 1_000_000


class StateSizes:
    """Remembers the sizes of states that may grow forever, for up to 32 hours.

    A state with a limited time span, such as the rows of a window, is left out because it shrinks
    by itself.
    """

    def __init__(self) -> None:
        #: By stage: time (us UTC) and bytes.
        self._points: dict[str, list[tuple[int, int]]] = {}
        self._every_us, self._due_us = EVERY_US_MIN, 0

    def look(
        self, plan: Iterable[VertexSpec], rows: Iterable[dict[str, Any]], now_us: int
    ) -> dict[str, list[tuple[int, int]]]:
        """Return the points of all stages, with one for now if it is due.

        ``rows``: the vertices of the status.
        """
        if now_us >= self._due_us:
            self._due_us = now_us + self._every_us
            sizes = dict.fromkeys((v.stage for v in plan if v.recovery.horizon_us is None), 0)
            for row in rows:
                if row["stage"] in sizes:
                    sizes[row["stage"]] += row["state_bytes"]
            self._points = {
                stage: [*self._points.get(stage, ()), (now_us, size)]
                for stage, size in sizes.items()
            }
            self._thin()
        return self._points

    def _thin(self) -> None:
        """Drop every second point if there are too many, or the oldest if they are far apart."""
        if max(map(len, self._points.values()), default=0) <= POINTS_MAX:
            return
        step = 2 if self._every_us < EVERY_US_MAX else 1
        self._every_us = min(step * self._every_us, EVERY_US_MAX)
        self._points = {
            stage: points[::2] if step == 2 else points[-POINTS_MAX:]
            for stage, points in self._points.items()
        }


def state_lines(status: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each stage whose vertices have at least 1 MiB of state together."""
    stages: dict[str, list[dict[str, Any]]] = {}
    for row in status.get("vertices", ()):
        if row["state"] != "finished":
            stages.setdefault(row["stage"], []).append(row)
    for stage, rows in stages.items():
        text = state_text(rows)
        if text:
            yield f"{stage}: {text}"


def key_lines(status: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each stage in which some vertices own more keys than others."""
    for stage, shares in status.get("key_shares", {}).items():
        owners = [f"{vertex} {share:.0%}" for vertex, share in shares.items() if share]
        others = [vertex for vertex, share in shares.items() if not share]
        line = f"{stage}: keys in {', '.join(owners)}"
        yield line + (f"; no rows for {', '.join(others)}" if others else "")


def state_text(rows: Iterable[dict[str, Any]]) -> str:
    """Return the size of the state of these vertices together; empty for less than 1 MiB.

    Example: state 1.2 GB in 3 runs, 40 M keys, of which 200 MB in memory.
    """
    memory = scratch = runs = keys = 0
    for row in rows:  # a status of an older release has fewer entries
        memory += row.get("memory_bytes", 0)
        scratch += row.get("scratch_bytes", 0)
        runs += row.get("scratch_files", 0)
        keys += row.get("state_keys", 0)
    if memory + scratch < _BYTES_MIN:
        return ""
    text = f"state {format_bytes(memory + scratch)}"
    text += f" in {runs:,} run{'' if runs == 1 else 's'}" if runs else ""
    text += f", {format_count(keys)} keys" if keys else ""
    place = f", of which {format_bytes(memory)} in memory" if runs else ", all in memory"
    return text + place
