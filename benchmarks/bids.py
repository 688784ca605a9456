"""Seeded bids and the intervals they are joined with, as Parquet in the temporary folder.

Every block of rows has its own generator, seeded by its number. So the data does not depend on the
requested number of rows, and blocks can be made in any order. 100 bids per millisecond; 1,000
auctions, equally likely; prices are uniform in 1..10,000, so ``price <= 1000`` keeps one row in
ten.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 20_260_101
FORMAT = 1
ROW_GROUP_ROWS = 131_072
FILE_ROW_GROUPS = 20
ROWS_PER_MS = 100
AUCTIONS = 1_000
FIRST_ID = 1_000
START_US = 1_767_225_600_000_000
#: One interval per 200 bids: 100,000 for 20 million. Lengths of 1 to 3 s give every bid about one
#: match.
BIDS_PER_INTERVAL = 200
LENGTH_US = (1_000_000, 3_000_000)
TIME = pa.timestamp("us")


def bids_folder(rows: int) -> Path:
    """Return the folder with ``bids/`` and ``intervals.parquet``; make it if it does not exist."""
    name = f"bids-{SEED}-{FORMAT}-{rows}"
    folder = Path(tempfile.gettempdir()) / f"streamscope-{os.getuid()}" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=name, dir=folder.parent))
        _write_bids(scratch / "bids", rows)
        _write(scratch / "intervals.parquet", [intervals(rows)])
        try:
            scratch.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(scratch)
    return folder


def bids(block: int, rows: int) -> pa.Table:
    """Return the first ``rows`` rows of a block of ROW_GROUP_ROWS bids."""
    random = np.random.default_rng([SEED, block])
    row = block * ROW_GROUP_ROWS + np.arange(ROW_GROUP_ROWS)
    columns = {
        "id": pa.array(FIRST_ID + row),
        "auction": pa.array(FIRST_ID + random.integers(0, AUCTIONS, ROW_GROUP_ROWS)),
        "bidder": pa.array(FIRST_ID + random.integers(0, 100_000, ROW_GROUP_ROWS)),
        "price": pa.array(random.integers(1, 10_001, ROW_GROUP_ROWS)),
        "time": pa.array(START_US + row // ROWS_PER_MS * 1_000).cast(TIME),
    }
    return pa.table(columns).slice(0, rows)


def intervals(rows: int) -> pa.Table:
    """Return interval events over the time that ``rows`` bids span, sorted by start."""
    random = np.random.default_rng([SEED, 2**32])
    n = max(1, rows // BIDS_PER_INTERVAL)
    start = START_US + np.sort(random.integers(0, rows * 1_000 // ROWS_PER_MS + 1, n))
    columns = {
        "auction": pa.array(FIRST_ID + random.integers(0, AUCTIONS, n)),
        "campaign": pa.array(np.arange(n)),
        "start": pa.array(start).cast(TIME),
        "stop": pa.array(start + random.integers(*LENGTH_US, n)).cast(TIME),
    }
    return pa.table(columns)


def _write_bids(folder: Path, rows: int) -> None:
    folder.mkdir()
    blocks = [
        (block, min(ROW_GROUP_ROWS, rows - block * ROW_GROUP_ROWS))
        for block in range(-(-rows // ROW_GROUP_ROWS))
    ]
    for number, at in enumerate(range(0, len(blocks), FILE_ROW_GROUPS)):
        part = [bids(block, n) for block, n in blocks[at : at + FILE_ROW_GROUPS]]
        _write(folder / f"{number:03}.parquet", part)


def _write(path: Path, tables: list[pa.Table]) -> None:
    options = {"compression": "lz4", "use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(path, tables[0].schema, **options) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
