"""Ours: the default executor, hosts in Spark's Python workers, durable Parquet output."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import jobmanager
from nexmark.queries import QUERIES
from nexmark.streams import Streams

if TYPE_CHECKING:
    from pathlib import Path

MASTER = "local[2]"


class System:
    """Uses one Spark session for all queries."""

    NAMES = tuple(QUERIES)
    VARIANTS: tuple[dict[str, object], ...] = ({},)

    def __init__(self, folder: Path) -> None:
        self._streams = Streams(folder)

    def run(self, name: str, out: Path, variant: dict[str, object]) -> float:
        """Run a query; the time runs from the first vertex's start to the job's end."""
        assert not variant, variant
        with tempfile.TemporaryDirectory(prefix="nexmark-ours-") as root:
            query = QUERIES[name](self._streams).to_parquet(
                str(out), start="alive_from", end="alive_until"
            )
            job = jobmanager.run(query, root=f"{root}/job", master=MASTER)
            return float(job.wait()["elapsed_s"])
