"""Ids per second through ``deduplicate``, and whether any id is dropped wrongly.

One percent of the ids repeat an id of the last thousand. An id is remembered for two million
microseconds, and each microsecond has one id. Every id must be kept exactly once.

    python benchmarks/bench_deduplicate.py [--ids 100000000]

The last line is one JSON object; the rate is per second of processor time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent))
from rstream.items.batch import event_schema
from rvertex.events.run import Run
from rvertex.operators.ordered.deduplicate import Deduplicate

BATCH, WITHIN, BACK_MAX, REPEATED = 500_000, 2_000_000, 1000, 0.01
PAYLOAD = pa.schema([("id", pa.int64())])


def main() -> None:
    """Measure and print; exit with 1 if an id is missing or occurs twice."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ids", type=int, default=100_000_000)
    count = parser.parse_args().ids
    operator = Deduplicate(("id",), WITHIN).open([PAYLOAD])
    draw = np.random.default_rng(0)
    sent, kept = np.zeros(count, np.bool_), np.zeros(count, np.int8)
    busy_s = 0.0
    for lo in range(0, count, BATCH):
        times = np.arange(lo, min(lo + BATCH, count))
        back = draw.integers(1, BACK_MAX, len(times)) * (draw.random(len(times)) < REPEATED)
        ids = np.maximum(times - back, 0)
        columns = [pa.array(times), pa.array(times + 1), pa.array(ids)]
        rows = pa.RecordBatch.from_arrays(columns, schema=event_schema(PAYLOAD))
        begun_s = time.process_time()
        out = operator.process([Run(rows, np.array([times[-1] + 1]))])
        busy_s += time.process_time() - begun_s
        sent[ids] = True
        np.add.at(kept, out.events.column("id").to_numpy(), 1)
    found = {
        "ids": count,
        "ids_per_s": round(count / busy_s),
        "repeats": count - int(sent.sum()),
        "dropped_falsely": int((sent & (kept == 0)).sum()),
        "kept_twice": int((kept > 1).sum()),
    }
    print(json.dumps(found))
    if found["dropped_falsely"] or found["kept_twice"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
