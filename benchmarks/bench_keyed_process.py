"""Plain Python per event: a keyed process, beside the same work in Bytewax, on one core.

Both keep a count and a sum per key and emit a row per event, or, if ``timed``, a row per key every
five seconds by a timer, with 100,000 and with 1.5 million keys; ours with snapshots every half
million events, Bytewax without. Only the operator runs, without streams and hosts. Times are
processor time, not wall time. Bytewax runs from its own environment, which ``make bench-peers``
installs (:mod:`peers.keyed_bytewax`); its timers follow the wall clock, so their delay is set to
the time that Bytewax takes for five seconds of events. The faster of batches of 1,000 and 10,000
rows counts; a timed run counts only if timers fired. The last line is one JSON object: events per
second of each, and how many times each of Bytewax's forms ours is.

``--scale 0.2`` uses a fifth of the events; ``--ours`` skips Bytewax.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from planner import KeyedContext, KeyedProcess, Timer
from planner.api.stream import Stream
from rstream.items.batch import event_schema
from rvertex.events.run import Run

PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.float64())])
STEP_ROWS, SNAPSHOT_STEPS, EVENTS_PER_US = 65_536, 8, 20
TIMER_US = 5_000_000
BYTEWAX = Path(__file__).parent.parent / ".venvs" / "bytewax" / "bin" / "python"
PEER = Path(__file__).parent / "peers" / "keyed_bytewax.py"
BATCH_ROWS = (1_000, 10_000)
FORMS = {
    "totals": ("stateful_map", "stateful", "stateful_batch"),
    "timed": ("stateful_timed", "stateful_batch_timed"),
}


class Totals(KeyedProcess):
    """Emits a row per event: the number of events of the key, and their sum."""

    output = {"n": "int64", "total": "float64"}  # noqa: RUF012  as docs/USERCODE.md shows it
    n: int = 0
    total: float = 0.0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        """Count the event and add its value."""
        self.n += 1
        self.total += event.x
        ctx.emit(self.n, self.total)


class Timed(KeyedProcess):
    """Emits a row per key every five seconds, by a timer."""

    output = {"n": "int64", "total": "float64"}  # noqa: RUF012
    n: int = 0
    total: float = 0.0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        """Count the event and add its value; the first event sets the timer."""
        self.n += 1
        self.total += event.x
        if self.n == 1:
            ctx.set_timer(event.vs + TIMER_US)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        """Emit the totals and start again from zero."""
        ctx.emit(self.n, self.total)
        self.n, self.total = 0, 0.0


def ours(process: type[KeyedProcess], events: int, keys: int) -> dict[str, int]:
    """Return events per second, and the longest pause of the process for a snapshot, ms."""
    rng = np.random.default_rng(1)
    vs = np.arange(events, dtype=np.int64) * EVENTS_PER_US
    columns = [vs, vs + 1, rng.integers(0, keys, events), rng.random(events)]
    rows = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=event_schema(PAYLOAD))
    stream = Stream.from_items({"k": "int64", "x": "float64"}, []).group_by("k").process(process)
    operator = stream.plan.spec.open([PAYLOAD])  # type: ignore[union-attr]
    stalls_s, put_out = [0.0], 0
    started = time.process_time()
    for step, lo in enumerate(range(0, events, STEP_ROWS), 1):
        piece = rows.slice(lo, STEP_ROWS)
        out = operator.process([Run(piece, np.array([int(vs[lo + piece.num_rows - 1])]))])
        put_out += out.events.num_rows
        if step % SNAPSHOT_STEPS == 0:
            before = time.process_time()
            operator.snapshot()
            stalls_s.append(time.process_time() - before)
    rate = int(events / (time.process_time() - started))
    stall_ms = int(max(stalls_s) * 1000)
    return {"events_per_s": rate, "snapshot_ms_max": stall_ms, "rows": put_out}


def bytewax(form: str, events: int, keys: int, wait_s: float) -> dict[str, int]:
    """Return the best result of one form of Bytewax."""
    found = []
    for batch_rows in BATCH_ROWS:
        arguments = [form, str(events), str(keys), str(wait_s), str(batch_rows)]
        done = subprocess.run(
            [str(BYTEWAX), str(PEER), *arguments],
            capture_output=True, text=True, timeout=1800, check=True,
        )  # fmt: skip
        found.append(json.loads(done.stdout.split("\n")[-2]))
    is_timed = form.endswith("_timed")
    return max(found, key=lambda row: (row["timers"] > 0 or not is_timed, row["events_per_s"]))


def peers(kind: str, events: int, keys: int, walls: dict[str, int]) -> dict[str, dict[str, int]]:
    """Return the results of all forms of one kind."""
    found = {}
    for form in FORMS[kind]:
        plain = walls.get(form.removesuffix("_timed"))
        wait_s = 0.0 if plain is None else TIMER_US / EVENTS_PER_US / plain
        found[form] = bytewax(form, events, keys, wait_s)
        walls[form] = found[form]["wall_events_per_s"]
    return found


def main() -> None:
    """Measure each system in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--ours", action="store_true")
    options = parser.parse_args()
    result: dict[str, Any] = {}
    for keys, full in ((100_000, 1_000_000), (1_500_000, 3_000_000)):
        events, walls = int(full * options.scale), dict[str, int]()
        for process in (Totals, Timed):
            kind = process.__name__.lower()
            row: dict[str, Any] = {"ours": ours(process, events, keys)}
            if BYTEWAX.exists() and not options.ours:
                row |= peers(kind, events, keys, walls)
            rate = row["ours"]["events_per_s"]
            ratios = {f: round(rate / row[f]["events_per_s"], 1) for f in row if f != "ours"}
            result[f"{kind}_{keys}_keys"] = row | {"times": ratios}
            print(f"{kind}_{keys}_keys", row, ratios)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
