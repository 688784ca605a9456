"""A process dies at every store call while it completes the output of a finished job.

Laws: no item is lost; once the output is marked as complete, a reader of its files or of the side
outputs gets each row once, and the files that the mark names exist; a process that completes it
again succeeds.

Not covered: a writer that keeps running (tests/rstream/log/test_compaction.py).
"""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

import pytest

from jobmanager.storage import output_claim
from jobmanager.storage.output_claim import answer_files, complete_output, is_complete
from planner import Stream, agg, tumbling
from planner.physical.lower import lower
from rstream import open_store
from rstream.items.batch import Items
from rstream.log import overlap
from rstream.log.durable import DurableLog
from rstream.store.part_files import PartFiles, split_part
from rstream.store.segment_names import parse_segment_name
from tests.support.content import SCHEMA, items
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths
from tests.support.jobs import write_events

if TYPE_CHECKING:
    from pathlib import Path

    from planner.physical.plan import PhysicalPlan
    from rstream import BlobStore

#: Cuts of two writers that did not know each other; each stream has some of all seqs.
CUTS = ((0, 6), (4, 9), (5, 7))
END = 9


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet", rows=50)


def finished(events: Path, root: Path) -> PhysicalPlan:
    """A plan whose streams were written by two instances of each vertex."""
    rows = Stream.from_parquet(str(events), vs="t", delay="1s")
    query = rows.group_by("key").window(tumbling("2s")).agg(n=agg.count()).to_parquet()
    plan = lower(query, root=str(root), parallelism=2)
    for uri in uris(plan):
        log = DurableLog(open_store(uri), "s", schema=SCHEMA)
        for lo, hi in CUTS:
            log.write(Items(lo, items(lo, hi)))
    return plan


def uris(plan: PhysicalPlan) -> list[str]:
    """Return the streams of the output and of the side outputs."""
    sides = [uri for pairs in plan.side_streams().values() for _, uri in pairs]
    assert len(sides) > 0
    assert len(plan.sink_streams()) > 1
    return [*(uri for _, uri in plan.sink_streams()), *sides]


def complete(plan: PhysicalPlan, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finish a job on stores whose calls ``life`` counts."""

    def opened(uri: str) -> BlobStore:
        folder, name = split_part(uri)
        store = CrashingBlobs(open_store(folder, fsync=False), life)
        return PartFiles(store, name) if name else store

    with monkeypatch.context() as patch:
        for module in (output_claim, overlap):
            patch.setattr(module, "open_store", opened)
        complete_output(plan, {"job": "j", "events_out": 1, "output_digest": "d", "state": "?"})


def check_laws(plan: PhysicalPlan) -> None:
    for uri in uris(plan):
        seqs = sorted(s for name in open_store(uri).list() if (s := parse_segment_name(name)))
        assert {seq for s in seqs for seq in range(s.lo, s.hi)} == set(range(END))
        if is_complete(plan.output):
            assert sum(s.hi - s.lo for s in seqs) == END, "each row once"
    if is_complete(plan.output):
        there = open_store(plan.output).list()
        assert set(answer_files(plan.output)) == {n for n in there if n.endswith(".parquet")}


def test_a_process_dies_at_every_call(
    events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, before, undisturbed = tmp_path / "job", tmp_path / "before", Life()
    plan = finished(events, root)
    root.rename(before)
    shutil.copytree(before, root)
    complete(plan, undisturbed, monkeypatch)
    assert is_complete(plan.output)
    check_laws(plan)
    for at, how in deaths(undisturbed.calls, is_atomic=True):
        shutil.rmtree(root)
        shutil.copytree(before, root)
        life = Life(at, how)
        with contextlib.suppress(DiedError):
            complete(plan, life, monkeypatch)
        assert life.is_dead
        try:
            check_laws(plan)
            complete(plan, Life(), monkeypatch)
            assert is_complete(plan.output)
            check_laws(plan)
        except AssertionError as error:
            error.add_note(f"{how} call {at}, {life.calls[-1]}")
            raise
