"""Bytewax's side of ``bench_keyed_process``; runs in Bytewax's own environment.

``python keyed_bytewax.py FORM EVENTS KEYS WAIT_S BATCH_ROWS``. Forms: ``stateful_map``; and, with
an object per key, ``stateful`` and ``stateful_batch``, both also ``_timed``, by ``notify_at``.
Bytewax's notifications follow the wall clock, not event time: WAIT_S is the time from the first
event of a key to its timer. A key is discarded after its timer. The last line is JSON: events per
second of processor time and of wall time, and the number of timers that fired.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from datetime import UTC, datetime, timedelta

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic, StatefulLogic
from bytewax.testing import TestingSink, TestingSource, cluster_main

form, events, keys = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
wait, batch_rows = timedelta(seconds=float(sys.argv[4])), int(sys.argv[5])
now = datetime.now
fired = 0


class Dropped(list):
    """A list that drops its items."""

    def __iadd__(self, items):
        return self


def step(state, x):
    n, total = state or (0, 0.0)
    state = (n + 1, total + x)
    return state, state


class Totals:
    """Emits a row per event."""

    def __init__(self, state):
        self.n, self.total = state or (0, 0.0)

    def on_item(self, x):
        self.n += 1
        self.total += x
        return [(self.n, self.total)], False

    def on_batch(self, values):
        rows = []
        for x in values:
            self.n += 1
            self.total += x
            rows.append((self.n, self.total))
        return rows, False

    def snapshot(self):
        return self.n, self.total


class Timed:
    """Emits a row when the timer of a key fires."""

    def __init__(self, state):
        self.n, self.total, self.at = state or (0, 0.0, None)

    def on_item(self, x):
        self.n += 1
        self.total += x
        if self.at is None:
            self.at = now(UTC) + wait
        return (), False

    def on_batch(self, values):
        for x in values:
            self.n += 1
            self.total += x
        if self.at is None:
            self.at = now(UTC) + wait
        return (), False

    def notify_at(self):
        return self.at

    def on_notify(self):
        global fired
        fired += 1
        return [(self.n, self.total)], True

    def snapshot(self):
        return self.n, self.total, self.at


def logic(kind, base):
    return type(kind.__name__, (kind, base), {"__slots__": ()})


STEPS = {
    "stateful_map": lambda s: op.stateful_map("step", s, step),
    "stateful": lambda s: op.stateful("step", s, logic(Totals, StatefulLogic)),
    "stateful_batch": lambda s: op.stateful_batch("step", s, logic(Totals, StatefulBatchLogic)),
    "stateful_timed": lambda s: op.stateful("step", s, logic(Timed, StatefulLogic)),
    "stateful_batch_timed": lambda s: op.stateful_batch(
        "step", s, logic(Timed, StatefulBatchLogic)
    ),
}


def main():
    chance = random.Random(1)
    rows = [(str(chance.randrange(keys)), chance.random()) for _ in range(events)]
    flow = Dataflow("flow")
    stream = op.input("in", flow, TestingSource(rows, batch_rows))
    op.output("out", STEPS[form](stream), TestingSink(Dropped()))
    gc.collect()
    gc.freeze()  # keep the events out of garbage collection
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    cluster_main(flow, [], 0, worker_count_per_proc=1)
    took_cpu_s, took_s = time.process_time() - started_cpu_s, time.perf_counter() - started_s
    rates = {"events_per_s": int(events / took_cpu_s), "wall_events_per_s": int(events / took_s)}
    print(json.dumps({**rates, "timers": fired}))


main()
