"""A job reports its positions to the logs that it reads, so their retention keeps what it needs.

Not covered: whether a resume needs more than the reported rows (tests/sim, test_live_log).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from jobmanager import JobConfig
from jobmanager.driver import input_positions
from jobmanager.driver.input_positions import REMIND_EVERY_S, InputPositions
from jobmanager.manager.manager import JobManager
from jobmanager.state.topology import Topology
from jobmanager.state.tracker import CheckpointRef
from planner import Stream
from planner.physical.lower import lower
from rstream import Appender, ManualClock, MemoryBlobs, StoreError
from rstream.intake.readers import needed_seq

if TYPE_CHECKING:
    from pathlib import Path

    from rstream import BlobStore

ENDED = ("finished", "cancelled", "stopped", "failed")


class Scene:
    """A job that reads a log from row 3, even if its store fails."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, follow: bool) -> None:
        uri = str(folder / "log")
        with Appender(uri, pa.schema([("t", pa.int64())])) as log:
            log.append([{"t": t} for t in range(9)])
        query = Stream.from_rstream(uri, vs="t", delay="1s", follow=follow).to_parquet()
        plan = lower(query, root=str(folder / "job"), parallelism=1)
        self.manager = JobManager(Topology(plan.vertices), JobConfig())
        (self.source,) = (v for v in plan.vertices if v.source is not None)
        self.clock, self.store, self.is_away = ManualClock(10**9), MemoryBlobs(), False
        monkeypatch.setattr(input_positions, "_store", self.opened)
        self.positions = InputPositions(plan, "job", self.clock)

    def opened(self, _: object) -> BlobStore:
        if self.is_away:
            raise StoreError("log", "away")
        return self.store

    def keep(self, *reads: int) -> None:
        """Keep these checkpoints; each includes the rows below one of these positions."""
        shape = self.manager.topology.vertices[self.source.id]
        refs = [
            CheckpointRef(f"c{seq}", seqs, (0,) * len(shape.outputs), seqs)
            for seq in reads
            for seqs in [(seq, *(0,) * (shape.input_count - 1))]
        ]
        self.manager.tracker.restore(self.source.id, refs)
        self.positions.note(self.manager)

    @property
    def needed(self) -> int | None:
        return needed_seq(self.store, 0)


def test_the_oldest_checkpoint_decides_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch, follow=True)
    scene.positions.tell()
    assert scene.needed is None, "nobody has looked yet"
    for reads, needed in (((0,), 0), ((0, 4, 7), 0), ((4, 7), 4), ((7,), 7)):
        scene.keep(*reads)
        scene.positions.tell()
        assert scene.needed == needed


def test_a_bounded_source_needs_all_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch, follow=False)
    scene.keep(5)
    scene.positions.tell()
    assert scene.needed == 0


def test_a_position_is_reported_again_if_it_is_new_old_or_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch, follow=True)
    scene.keep(4)
    scene.is_away = True
    scene.positions.tell()
    scene.is_away = False
    scene.positions.tell()
    assert scene.needed == 4
    first_us = scene.clock.now_us()
    scene.clock.advance(int(REMIND_EVERY_S * 1e6) - 1)
    scene.positions.tell()
    assert needed_seq(scene.store, first_us + 1) is None
    scene.clock.advance(1)
    scene.positions.tell()
    assert needed_seq(scene.store, first_us + 1) == 4


@pytest.mark.parametrize("state", ENDED)
def test_a_resumable_job_keeps_the_rows_it_needs(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its end a job also reports its last positions, which it had not reported before."""
    scene = Scene(tmp_path, monkeypatch, follow=True)
    scene.keep(2)
    scene.positions.tell()
    scene.keep(4)
    scene.positions.stop(state)
    assert scene.needed == (None if state in ("finished", "cancelled") else 4)
