"""Folders read as logs of files; tests/jobmanager/test_continued.py runs several days."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner import Stream
from planner.logical.growing_files import with_growing_files
from planner.logical.nodes.recover import recovery_choice

if TYPE_CHECKING:
    from pathlib import Path


def test_stages_use_checkpoints_unless_the_query_chooses_otherwise(tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text("t,x\n2026-03-01T00:00:00,2\n")
    query = Stream.from_csv(str(tmp_path), vs="t", delay="1m").to_parquet()
    assert query.recovery is None
    assert with_growing_files(query).recovery == recovery_choice("checkpoint", None)
    chosen = replace(query, recovery=recovery_choice("strong", None))
    assert with_growing_files(chosen).recovery == chosen.recovery
