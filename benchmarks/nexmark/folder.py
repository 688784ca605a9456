"""The events as Parquet in the temporary folder: the same files for every system.

``person/``, ``auction/`` and ``bid/`` hold one file per ``FILE_EVENTS`` arrivals, in order of
arrival; ``side/`` the table of q13; ``last/`` one event of each kind far in the future, for systems
that close a window only when a later event comes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nexmark import shape
from nexmark.chance import SEED
from nexmark.generator import KINDS, TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = 4
#: One row group of bids.
BLOCK_EVENTS = 140_000
FILE_EVENTS = 5 * BLOCK_EVENTS
SIDE_ROWS = 10_000
#: Event number of the events in ``last/``: 11 days after the first.
LAST_EVENT = 10_000_000_000
_FUTURE_US = shape.START_US + 400 * 86_400_000_000


def events_folder(events: int) -> Path:
    """Return the folder of the first ``events`` events; make it if it does not exist."""
    name = f"nexmark-{SEED}-{FORMAT}-{events}"
    folder = Path(tempfile.gettempdir()) / f"streamscope-{os.getuid()}" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=name, dir=folder.parent))
        files = [(lo, min(lo + FILE_EVENTS, events)) for lo in range(0, events, FILE_EVENTS)]
        write(scratch, files)
        try:
            scratch.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(scratch)
    return folder


def write(folder: Path, files: Sequence[tuple[int, int]]) -> None:
    """Write a file of each kind per range of arrivals below ``folder``, and the other files."""
    for kind, make in KINDS.items():
        (folder / kind).mkdir(parents=True)
        (folder / "last" / kind).mkdir(parents=True)
        for number, (first, end) in enumerate(files):
            blocks = [
                make(lo, min(lo + BLOCK_EVENTS, end)) for lo in range(first, end, BLOCK_EVENTS)
            ]
            _write(folder / kind / f"{number:04}.parquet", pa.Table.from_batches(blocks))
        last = pa.Table.from_batches([make(LAST_EVENT, LAST_EVENT + shape.PERIOD_EVENTS)])
        _write(folder / "last" / kind / "last.parquet", last.slice(0, 1))
    (folder / "side").mkdir()
    _write(folder / "side" / "side.parquet", side())


def side() -> pa.Table:
    """Return the side input of q13: a value per key, valid at all times."""
    key = np.arange(SIDE_ROWS)
    first, last = np.zeros(SIDE_ROWS, np.int64), np.full(SIDE_ROWS, _FUTURE_US)
    value = pa.array([f"value-{k}" for k in key.tolist()])
    times = {"since": pa.array(first).cast(TIME), "until": pa.array(last).cast(TIME)}
    return pa.table({"key": key, "value": value, **times})


def _write(path: Path, table: pa.Table) -> None:
    rows = BLOCK_EVENTS * shape.BIDS_PER_PERIOD // shape.PERIOD_EVENTS
    pq.write_table(table, path, compression="lz4", store_schema=False, row_group_size=rows)
