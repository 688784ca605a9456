"""DuckDB, as a batch over all files at once: the practical limit. Two threads, Parquet output."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nexmark.compare import connect
from nexmark.reference import REFERENCE

if TYPE_CHECKING:
    from pathlib import Path

THREADS = 2


class System:
    """Uses one connection for all queries."""

    NAMES = tuple(REFERENCE)
    VARIANTS: tuple[dict[str, object], ...] = ({},)

    def __init__(self, folder: Path) -> None:
        self._connection = connect(folder)
        self._connection.execute(f"SET threads = {THREADS}")

    def run(self, name: str, out: Path, variant: dict[str, object]) -> float:
        """Run the whole statement."""
        assert not variant, variant
        out.mkdir(parents=True)
        started_s = time.perf_counter()
        self._connection.execute(
            f"COPY ({REFERENCE[name]}) TO '{out}/answer.parquet' (FORMAT parquet, COMPRESSION lz4)"
        )
        return time.perf_counter() - started_s
