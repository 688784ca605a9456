"""The size of a stage's state, in one line: bytes, files on scratch, keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.quantities import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BYTES_MIN = 1 << 20


def state_lines(status: dict[str, Any]) -> Iterator[str]:
    """A line for each stage whose vertices have at least 1 MiB of state together."""
    stages: dict[str, list[dict[str, Any]]] = {}
    for row in status.get("vertices", ()):
        if row["state"] != "finished":
            stages.setdefault(row["stage"], []).append(row)
    for stage, rows in stages.items():
        text = state_text(rows)
        if text:
            yield f"{stage}: {text}"


def state_text(rows: Iterable[dict[str, Any]]) -> str:
    """The state of vertices together; empty for less than 1 MiB.

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
