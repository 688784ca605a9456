"""The cost of a change by the number of live rows: one operator with open rows, on one core.

Each operator first takes ``alive`` rows of as many keys, then steps of ``STEP_ROWS`` changes of
random keys, as they come every 100 ms at 10,000 changes a second. Processor time per change, the
least of three runs, and its ratio to the smallest state. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import event_schema
from rstream.types import INF_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.events.run import Run
from rvertex.operators.edges.aggregate import EdgeAggregate
from rvertex.operators.edges.join import EdgeJoin
from rvertex.operators.edges.lifetimes.clip import EdgeClip

if TYPE_CHECKING:
    from rvertex.operators.edges.join import Columns
    from rvertex.operators.protocol import OperatorSpec

PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.int64())])
STEP_ROWS, STEPS, WARM_UP, LOAD_ROWS, ROUNDS = 1_000, 50, 5, 100_000, 3
SUMS = (AggregateSpec("count", None, "n"), AggregateSpec("sum", "x", "s"))
COLUMNS: Columns = (("left", "k", "k"), ("left", "x", "x"), ("right", "x", "y"))
OPERATORS: dict[str, tuple[OperatorSpec, int]] = {
    "running total": (EdgeAggregate(("k",), SUMS, endless=True), 1),
    "total of rows that end": (EdgeAggregate(("k",), SUMS), 1),
    "version of a key": (EdgeClip(("k",), ("k",)), 2),
    "left join with a table": (EdgeJoin(("k",), ("k",), COLUMNS, "left"), 2),
}


def run_of(times: np.ndarray, keys: np.ndarray, cti: int) -> Run:
    """Return rows that start at ``times``, and the CTI after them."""
    columns = [times, np.full(len(keys), INF_TIME), keys, keys % 7]
    events = pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=event_schema(PAYLOAD))
    return Run(events, np.array([cti], np.int64))


def cost_us(spec: OperatorSpec, ports: int, alive: int) -> float:
    """Return the processor microseconds per change."""
    operator, rng, now = spec.open([PAYLOAD] * ports), np.random.default_rng(1), 0
    for lo in range(0, alive, LOAD_ROWS):
        keys = np.arange(lo, min(lo + LOAD_ROWS, alive))
        operator.process([run_of(np.full(len(keys), now), keys, now + 1)] * ports)
        now += 1
    spent = 0.0
    for step in range(WARM_UP + STEPS):
        times = np.sort(rng.integers(now, now + 100, STEP_ROWS))
        changes = run_of(times, rng.integers(0, alive, STEP_ROWS), now + 100)
        nothing = run_of(times[:0], times[:0], now + 100)
        # The input that changes. A join reads changes on one side; a clip needs them on both.
        others = [changes if isinstance(spec, EdgeClip) else nothing] * (ports - 1)
        begun = time.process_time()
        operator.process([changes, *others])
        spent += (time.process_time() - begun) * (step >= WARM_UP)
        now += 100
    return spent / (STEPS * STEP_ROWS) * 1e6


def main() -> None:
    """Measure everything and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alive", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    result = {}
    for name, (spec, ports) in OPERATORS.items():
        costs = [min(cost_us(spec, ports, n) for _ in range(given.rounds)) for n in given.alive]
        result[name] = [round(cost, 2) for cost in costs]
        shown = ", ".join(f"{n:,}: {c:.2f} us" for n, c in zip(given.alive, costs, strict=True))
        print(f"{name:<24} {shown}; ratio {costs[-1] / costs[0]:.2f}", flush=True)
    print(json.dumps({"alive": given.alive, "us_per_change": result}))


if __name__ == "__main__":
    main()
