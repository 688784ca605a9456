"""Simulates a thousand executors on one machine, from measured costs per item.

The planner makes real plans of 100 to 10,000 vertices for the real job manager; a thousand
simulated hosts (``scaling/thousand_hosts.py``) send it the notices of real ones. The cost of a
notice, multiplied by its rate, is the share of a processor that the job manager needs. It also
shows how long a takeover, and the loss of a host or a rack, takes. The cost of channels for a host
is measured on one stream. The last line is one JSON object ``{plan: {...}}``; docs/SCALING.md
explains it.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scaling.thousand_hosts import Cluster, Cost

import planner.physical.lower
import planner.physical.plan
from jobmanager.state.messages import LOG_CODEC
from jobmanager.state.topology import Topology
from planner import Stream, agg, event, tumbling
from planner.explain.text import explain
from planner.physical.lower import lower
from rstream import RStream, open_store
from rstream.items.batch import item_schema
from rstream.limits import StreamLimits
from rstream.transport.flight import QUEUE_BYTES_MAX

if TYPE_CHECKING:
    from jobmanager.config import JobConfig
    from jobmanager.state.messages import Notice

HOSTS = 1_000
#: Hosts that fail together with a switch or a power supply.
RACK_HOSTS = 25
#: (branches, width): sources of ``width`` vertices, an exchange, equally many windows, and a final
#: union.
PLANS = {
    "100 vertices": (6, 8),
    "1,000 vertices": (60, 8),
    "10,000 vertices": (600, 8),
    "exchange of 100 x 100": (1, 100),
    "exchange of 300 x 300": (1, 300),
}
FULL = {"exchange of 1,000 x 1,000": (1, 1_000)}
QUICK = {"100 vertices": (6, 8), "exchange of 20 x 20": (1, 20)}
ROUNDS = 2
Result = dict[str, Any]


@dataclass(frozen=True)
class Rates:
    """The rates of notices to the job manager of a job of one shape, per second."""

    hosts: int
    vertices: int
    config: JobConfig

    def of(self, kind: str) -> float:
        """Return the rate of notices of a kind in normal operation."""
        host = self.config.host_limits(self.hosts)
        if kind == "Progress":
            return self.hosts / host.report_interval_s
        if kind == "CheckpointTaken":
            assert host.checkpoint_interval_s is not None
            return self.vertices / host.checkpoint_interval_s
        return 1 / self.config.tick_s if kind in ("Tick", "status") else 0.0


def main() -> None:
    """Measure everything and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--full", action="store_true", help="an exchange of 1,000 x 1,000 too")
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    args = parser.parse_args()
    plans = QUICK if args.quick else {**PLANS, **(FULL if args.full else {})}
    hosts = min(args.hosts, 20) if args.quick else args.hosts
    result: Result = {}
    for name, (branches, width) in plans.items():
        result[name] = of_plan(branches, width, hosts)
        print(f"{name}: {json.dumps(result[name])}", flush=True)
        gc.collect()
    result["channel"] = of_channels(1_000 if not args.quick else 20)
    print(f"channel: {json.dumps(result['channel'])}", flush=True)
    print(table(result))
    print(json.dumps(result))


# ---- plans


def query(branches: int, width: int) -> Stream:
    """Return the union of windowed sums, one per source of ``width`` partitions."""
    sums = []
    for branch in range(branches):
        items = [event(i, k=i, x=branch) for i in range(width)]
        source = Stream.from_items({"k": "int64", "x": "int64"}, items, partitions=width)
        sums.append(source.group_by("k").window(tumbling("1s")).agg(n=agg.sum("x")))
    return sums[0].union(*sums[1:]) if branches > 1 else sums[0]


def of_plan(branches: int, width: int, hosts: int) -> Result:
    """Return all measures of one plan.

    Times are seconds of one processor unless named otherwise.
    """
    _lift_limits()
    asked = query(branches, width).to_parquet("memory://thousand")
    started_s = time.process_time()
    plan = lower(asked, root="memory://thousand", parallelism=width)
    planned_s = time.process_time()
    explain(plan)
    explained_s = time.process_time()
    topology = Topology(plan.vertices)
    channels = sum(stream.reader is not None for stream in topology.streams.values())
    vertices = len(topology.vertices)
    del plan, asked
    cluster = Cluster(topology, hosts)
    cluster.start()
    start_s, began = cluster.spent_s, dict(cluster.costs)
    cluster.costs = {}
    for _ in range(ROUNDS):
        cluster.report()
        cluster.tick()
        cluster.checkpoint()
    quiet, log = cluster.costs, list(cluster.log)
    cluster.costs = {}
    one_s = cluster.lose(range(1), kind="one")
    rack_s = cluster.lose(range(1, 1 + min(RACK_HOSTS, hosts - 1)), kind="rack")
    successor = Cluster(topology, hosts)
    recall_s = successor.resume(log)
    rates = Rates(hosts, vertices, cluster.config)
    return {
        "vertices": vertices,
        "channels": channels,
        "plan_s": round(planned_s - started_s, 3),
        "explain_s": round(explained_s - planned_s, 3),
        "start_s": round(start_s, 3),
        "start_messages": sum(cost.instructions for cost in began.values()),
        "lose_one_s": round(one_s, 4),
        "lose_rack_s": round(rack_s, 4),
        **_of_the_log(log, recall_s, rates),
        **_in_quiet(quiet, rates),
    }


def _in_quiet(costs: dict[str, Cost], rates: Rates) -> Result:
    """Return the messages per second, and the share of a processor that replies need."""
    told = {kind: rates.of(kind) for kind in costs if rates.of(kind)}
    rows_per_s = rates.config.status_rows_per_s_max
    told["status"] = min(told["status"], rows_per_s / (rates.vertices + rates.hosts))
    shares = {kind: rate * costs[kind].us / 1e6 for kind, rate in told.items()}
    talk = [kind for kind in told if kind != "status"]
    answers = sum(rate * costs[k].instructions / costs[k].notices for k, rate in told.items())
    bytes_in = sum(rate * costs[k].bytes_in / costs[k].notices for k, rate in told.items())
    bytes_out = sum(rate * costs[k].bytes_out / costs[k].notices for k, rate in told.items())
    return {
        "us_per_notice": {kind: round(costs[kind].us, 1) for kind in told},
        "notices_per_s": round(sum(told[kind] for kind in talk)),
        "instructions_per_s": round(answers),
        "bytes_in_per_s": round(bytes_in),
        "bytes_out_per_s": round(bytes_out),
        "processors": {kind: round(share, 3) for kind, share in shares.items()},
        "processors_in_all": round(sum(shares.values()), 3),
    }


def _of_the_log(log: list[Notice], recall_s: float, rates: Rates) -> Result:
    """Return the growth of the log, and the time in which a takeover reads an hour of it."""
    kept = [n for n in log if type(n).__name__ == "CheckpointTaken"]
    size = sum(len(LOG_CODEC.encode(notice)) for notice in kept) / max(1, len(kept))
    per_s = rates.of("CheckpointTaken")
    return {
        "log_bytes_per_s": round(per_s * size),
        "recall_us_per_notice": round(recall_s / max(1, len(log)) * 1e6, 1),
        "recall_of_an_hour_s": round(recall_s / max(1, len(log)) * per_s * 3_600, 1),
    }


def _lift_limits() -> None:
    """Lift the planner's limits, which reject plans of this size (docs/SCALING.md)."""
    planner.physical.plan.VERTICES_MAX = planner.physical.plan.CHANNELS_MAX = 1 << 30
    planner.physical.lower.PARALLELISM_MAX = 1 << 30


# ---- channels


def of_channels(count: int) -> Result:
    """Return the cost of a step that writes one small batch to each of ``count`` channels.

    Batches are passed by reference, without the network: a lower bound for the cost of channels.
    """
    payload = pa.schema([("k", pa.int64()), ("x", pa.int64())])
    schema = item_schema(payload)
    streams = [
        RStream.open(open_store(f"memory://channels/{k}"), payload, stream_id=f"c{k}",
                     durability="volatile")
        for k in range(count)
    ]  # fmt: skip
    readers = [stream.register(0) for stream in streams]
    us_by_rows = {rows: _write_and_read(streams, readers, schema, rows) for rows in (1, 64, 4_096)}
    for stream in streams:
        stream.close(flush=False)
    return {
        "channels": count,
        "us_per_batch": {str(rows): us for rows, us in us_by_rows.items()},
        "receive_bytes_max": count * QUEUE_BYTES_MAX,
        "tail_bytes_max": count * StreamLimits().tail_bytes_max,
    }


def _write_and_read(
    streams: list[RStream], readers: list[Any], schema: pa.Schema, rows: int
) -> float:
    """Return the microseconds to write, read and collect one batch of so many rows."""
    at = np.arange(rows)
    columns = [pa.array(np.zeros(rows, np.int8)), pa.array(at), pa.array(at + 1)]
    batch = pa.RecordBatch.from_arrays([*columns, pa.array(at), pa.array(at)], schema=schema)
    started_s, rounds = time.process_time(), 3
    for _ in range(rounds):
        for stream, reader in zip(streams, readers, strict=True):
            stream.write(stream.next_seq, batch)
            items = reader.read_next()
            stream.garbage_collect(items.next_seq)
    return round((time.process_time() - started_s) / rounds / len(streams) * 1e6, 1)


# ---- the table

ROWS: dict[str, str | tuple[str, str]] = {
    "vertices": "vertices",
    "channels": "channels",
    "seconds to plan": "plan_s",
    "seconds to explain": "explain_s",
    "seconds of the job manager to start all": "start_s",
    "messages for that": "start_messages",
    "notices per second": "notices_per_s",
    "bytes of notices per second": "bytes_in_per_s",
    "microseconds per report": ("us_per_notice", "Progress"),
    "microseconds per checkpoint": ("us_per_notice", "CheckpointTaken"),
    "milliseconds per tick and status": "tick",
    "processors of the job manager": "processors_in_all",
    "seconds of it when a host is lost": "lose_one_s",
    "when a rack is lost": "lose_rack_s",
    "bytes of log per second": "log_bytes_per_s",
    "seconds to take over after an hour": "recall_of_an_hour_s",
}


def table(result: Result) -> str:
    """Return the plans as Markdown, one column each."""
    plans = {name: row for name, row in result.items() if "vertices" in row}
    lines = ["| | " + " | ".join(plans) + " |", "|---" * (1 + len(plans)) + "|"]
    for title, key in ROWS.items():
        cells = [_cell(row, key) for row in plans.values()]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: Result, key: str | tuple[str, str]) -> str:
    if key == "tick":
        value = sum(row["us_per_notice"][kind] for kind in ("Tick", "status")) / 1e3
    elif isinstance(key, tuple):
        value = row[key[0]][key[1]]
    else:
        value = row[key]
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"


if __name__ == "__main__":
    main()
