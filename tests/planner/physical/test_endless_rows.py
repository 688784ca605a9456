"""A plan over sources without an end names the steps that may wait for ends for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner import Stream, agg, tumbling
from planner.physical.lower import lower

if TYPE_CHECKING:
    from pathlib import Path

    from planner import Query

WAITS = "rows come when they end"


@pytest.fixture
def readings(tmp_path: Path) -> Stream:
    """A folder that grows."""
    folder = tmp_path / "readings"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"at": 1, "k": "a", "x": 1}\n')
    return Stream.from_json(str(folder), vs="at", delay="0s", follow=True)


def _notes(query: Query) -> list[str]:
    return [note for note in lower(query, root="r").notes if WAITS in note]


def test_steps_that_wait_are_named(readings: Stream) -> None:
    totals = readings.group_by("k").agg(n=agg.count())
    (note,) = _notes(totals.to_parquet())
    assert note.startswith("aggregate running by k")
    (note,) = _notes(readings.upserts("k").to_parquet())
    assert note.startswith("clip on k")
    lasting = readings.for_ever()
    (note,) = _notes(lasting.join(lasting.select("k", y="x"), on="k", how="left").to_parquet())
    assert note.startswith("temporal left join on k")


def test_ways_out_are_ways_out(readings: Stream) -> None:
    totals = readings.group_by("k").agg(n=agg.count())
    assert not _notes(totals.to_postgres("env:D", "t", mode="upsert", key="k"))
    assert not _notes(totals.to_kafka("t", servers="s", key="k", upsert=True))
    windows = readings.group_by("k").window(tumbling("1s")).agg(n=agg.count())
    assert not _notes(windows.to_parquet())
    joined = readings.join(readings.upserts("k").select("k", y="x"), on="k")
    assert not _notes(joined.to_parquet())


def test_sources_with_an_end_bring_all_ends(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"at": 1, "k": "a"}\n')
    totals = Stream.from_json(str(tmp_path), vs="at").group_by("k").agg(n=agg.count())
    assert not _notes(totals.to_parquet())
