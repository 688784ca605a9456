"""Plain Python per event: a keyed process, beside Bytewax's ``stateful_map``, on one core.

Both keep a count and a sum per key and put out a row per event; ours also with a timer per key, and
with snapshots every half million events. Only the operator runs, no streams, no hosts. Processor
time is counted, not the clock's. Bytewax runs from its own environment, where ``make bench-peers``
has put it. The last line is one JSON object: events per second of each.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from planner import KeyedContext, KeyedProcess, Timer
from planner.query import Stream
from rstream.batch import event_schema
from rvertex.run import Run

PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.float64())])
STEP_ROWS, SNAPSHOT_STEPS, EVENTS_PER_US = 65_536, 8, 20
BYTEWAX = Path(__file__).parent.parent / ".venvs" / "bytewax" / "bin" / "python"
FLOW = """
import sys, time
import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSource, TestingSink, cluster_main
import random
count, keys = int(sys.argv[1]), int(sys.argv[2])
chance = random.Random(1)
rows = [(str(chance.randrange(keys)), chance.random()) for _ in range(count)]
class Out(list):
    def append(self, item): pass
    def extend(self, items): pass
def step(state, x):
    n, total = state or (0, 0.0)
    state = (n + 1, total + x)
    return state, state
flow = Dataflow("flow")
s = op.input("in", flow, TestingSource(rows, 1000))
s = op.stateful_map("step", s, step)
op.output("out", s, TestingSink(Out()))
started = time.process_time()
cluster_main(flow, [], 0, worker_count_per_proc=1)
print(count / (time.process_time() - started))
"""


class Totals(KeyedProcess):
    """A row per event: how many, and their sum."""

    output = {"n": "int64", "total": "float64"}  # noqa: RUF012  as docs/USERCODE.md shows it
    n: int = 0
    total: float = 0.0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        """Count and add."""
        self.n += 1
        self.total += event.x
        ctx.emit(self.n, self.total)


class Timed(KeyedProcess):
    """A row per key and five seconds, by a timer."""

    output = {"n": "int64", "total": "float64"}  # noqa: RUF012
    n: int = 0
    total: float = 0.0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        """Count and add; the first sets the timer."""
        self.n += 1
        self.total += event.x
        if self.n == 1:
            ctx.set_timer(event.vs + 5_000_000)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        """Tell, and begin anew."""
        ctx.emit(self.n, self.total)
        self.n, self.total = 0, 0.0


def ours(process: type[KeyedProcess], events: int, keys: int) -> dict[str, int]:
    """Events per second, and the longest that a snapshot held the process up, ms."""
    rng = np.random.default_rng(1)
    vs = np.arange(events, dtype=np.int64) * EVENTS_PER_US
    columns = [vs, vs + 1, rng.integers(0, keys, events), rng.random(events)]
    rows = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=event_schema(PAYLOAD))
    stream = Stream.from_items({"k": "int64", "x": "float64"}, []).group_by("k").process(process)
    operator = stream.plan.spec.open([PAYLOAD])  # type: ignore[union-attr]
    stalls_s = [0.0]
    started = time.process_time()
    for step, lo in enumerate(range(0, events, STEP_ROWS), 1):
        piece = rows.slice(lo, STEP_ROWS)
        operator.process([Run(piece, np.array([int(vs[lo + piece.num_rows - 1])]))])
        if step % SNAPSHOT_STEPS == 0:
            before = time.process_time()
            operator.snapshot()
            stalls_s.append(time.process_time() - before)
    rate = int(events / (time.process_time() - started))
    return {"events_per_s": rate, "snapshot_ms_max": int(max(stalls_s) * 1000)}


def bytewax(events: int, keys: int) -> int | None:
    """Events per second; None where it is not installed."""
    if not BYTEWAX.exists():
        return None
    done = subprocess.run(
        [str(BYTEWAX), "-c", FLOW, str(events), str(keys)],
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    return int(float(done.stdout.split()[-1]))


def main() -> None:
    """Each in turn."""
    result: dict[str, Any] = {}
    for keys, events in ((100_000, 1_000_000), (1_500_000, 3_000_000)):
        for process in (Totals, Timed):
            result[f"{process.__name__.lower()}_{keys}_keys"] = ours(process, events, keys)
    peer = bytewax(200_000, 100_000)
    if peer is not None:
        result["bytewax_100000_keys"] = {"events_per_s": peer}
    for name, row in result.items():
        print(name, row)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
