"""How the size of state is written. Cannot catch: numbers that a host reports wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from jobmanager.state.state_size import state_lines

MIB = 1 << 20


def row(stage: str, **fields: Any) -> dict[str, Any]:
    return {"stage": stage, "state": "running", "memory_bytes": 0, **fields}


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([row("s01")], []),
        ([row("s01", memory_bytes=5 * MIB)], ["s01: state 5 MiB, all in memory"]),
        ([row("s01", memory_bytes=5 * MIB, state="finished")], []),
        (
            [
                row("s01", memory_bytes=MIB, scratch_bytes=MIB, scratch_files=1, state_keys=10**6),
                row("s02", memory_bytes=3 * MIB, state_keys=12),
                row("s01", memory_bytes=MIB, scratch_bytes=1021 * MIB, scratch_files=2),
            ],
            [
                "s01: state 1 GiB in 3 runs, 1M keys, of which 2 MiB in memory",
                "s02: state 3 MiB, 12 keys, all in memory",
            ],
        ),
    ],
)
def test_a_stage_has_a_line(rows: list[dict[str, Any]], lines: list[str]) -> None:
    assert [*state_lines({"vertices": rows})] == lines
