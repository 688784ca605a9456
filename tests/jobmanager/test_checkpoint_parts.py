"""Whole jobs whose checkpoints consist of parts: which are deleted, kept or damaged.

Not covered: damage that keeps a 128-bit checksum.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager import JobConfig
from rvertex.checkpoint.codec import _open
from rvertex.checkpoint.header import Part
from tests.support.jobs import ROWS, WAIT_S, outcome, two_exchanges, with_limits, write_events
from tests.support.trouble import run_and_cancel

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.trouble import Gate

PACE = 40.0
LIMITS = {
    "checkpoint_interval_s": 0.05,
    "checkpoint_inline_bytes_max": 200,
    "step_rows_max": 200,
}
#: All checkpoints are kept, as for time travel.
CONFIG = with_limits(JobConfig(tick_s=0.02, retain_us=-1), **LIMITS)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


@pytest.fixture(scope="module")
def expected(events: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = str(tmp_path_factory.mktemp("expected") / "job")
    return jobmanager.run(
        two_exchanges(events).recover_with("checkpoint"), root=root, executor="local"
    ).wait(WAIT_S)


def cancelled(events: Path, root: Path, config: JobConfig, gate: Gate) -> None:
    """A job cancelled when it had read half of its input."""
    query = two_exchanges(events).recover_with("checkpoint")
    options: dict[str, Any] = {"root": str(root), "paced": PACE / 2, "config": config}
    run_and_cancel(query, gate, ROWS // 2, **options)


def named_parts(checkpoint: Path) -> set[str]:
    """Return the parts that a manifest names."""
    header, _ = _open(checkpoint.read_bytes(), checkpoint.name)
    return {
        Path(piece.path).name
        for state in header.states
        for _, pieces in state.tables.values()
        for piece in pieces
        if isinstance(piece, Part)
    }


def damage_part(vertex: Path, newest: Path) -> None:
    """Flip a byte of a part that only the newest checkpoint names."""
    older = [p for p in vertex.glob("*.ckpt") if p != newest]
    own = named_parts(newest) - {part for p in older for part in named_parts(p)}
    if own:
        part = vertex / "parts" / min(own)
        data = bytearray(part.read_bytes())
        data[len(data) // 2] ^= 1
        part.write_bytes(data)
    else:
        newest.unlink()


def remove_part(vertex: Path, newest: Path) -> None:
    """All parts that only the newest checkpoint names, or its manifest."""
    older = [p for p in vertex.glob("*.ckpt") if p != newest]
    own = named_parts(newest) - {part for p in older for part in named_parts(p)}
    for name in own:
        (vertex / "parts" / name).unlink()
    if not own:
        newest.write_bytes(newest.read_bytes()[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("harm", [damage_part, remove_part])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    events: Path,
    expected: dict[str, Any],
    gate: Gate,
    tmp_path: Path,
    harm: Callable[[Path, Path], None],
) -> None:
    root = tmp_path / "job"
    cancelled(events, root, CONFIG, gate)
    harmed = 0
    for vertex in sorted((root / "checkpoints").iterdir()):
        checkpoints = sorted(vertex.glob("*.ckpt"))
        if len(checkpoints) > 1:
            harm(vertex, checkpoints[-1])
            harmed += 1
    assert harmed >= 1
    status = jobmanager.resume(str(root), config=CONFIG).wait(WAIT_S)
    assert outcome(status) == outcome(expected)


def test_no_file_is_left_that_no_checkpoint_names(
    events: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    root = tmp_path / "job"
    config = with_limits(JobConfig(tick_s=0.02), **LIMITS)
    job = jobmanager.run(
        two_exchanges(events).recover_with("checkpoint"),
        root=str(root),
        executor="local",
        paced=PACE,
        config=config,
    )
    assert outcome(job.wait(WAIT_S)) == outcome(expected)
    stored = 0
    for vertex in (root / "checkpoints").iterdir():
        checkpoints = sorted(vertex.glob("*.ckpt"))
        named = {part for path in checkpoints for part in named_parts(path)}
        there = {path.name for path in vertex.glob("parts/*")}
        assert named <= there
        last = checkpoints[-1].name.removesuffix(".ckpt") if checkpoints else ""
        unannounced = {name for name in there - named if name[:15] > last}
        assert there - named <= unannounced, "of the one that the end of the job cut short"
        stored += len(there)
    assert stored
