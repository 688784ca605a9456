"""Bytewax: a worker process for each partition, with a Python call per event.

Runs in Bytewax's environment. At least once: offsets and state go to a recovery store every
``SNAPSHOT_S`` (its default), and rows after the last snapshot are delivered again after a failure.
Windows: ``fold_window`` with an event clock. The package has no join by time, so the join is a
``stateful_batch``, which keeps both sides of a key and deletes rows that are too old to match.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import orjson
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main
from ending import at_end

WORKERS = 2
SNAPSHOT_S = 10
#: Most messages per poll; Bytewax's documentation says that fewer reduce latency.
BATCH = {"latency": 1_000, "throughput": 10_000}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WINDOW = timedelta(milliseconds=10)
SIDE_LIFE_US = 1_000_000
#: Allowance for events that arrive before sides with an earlier time, us.
SLACK_US = 5_000_000
SCARCE_BELOW = 100
#: librdkafka waits this long for brokers. Its default of 500 ms only delays fetches without
#: messages.
CONSUMER = {"fetch.wait.max.ms": "5", "log_level": "0"}
PRODUCER = {"linger.ms": "0", "enable.idempotence": "true", "log_level": "0"}

Row = dict[str, Any]


def rows(flow: Dataflow, order: dict[str, Any], topic: str, step: str) -> Any:
    source = KafkaSource(
        [order["servers"]], [topic], add_config=CONSUMER, batch_size=BATCH[order["aim"]]
    )
    messages = op.input(f"{step}_in", flow, source)
    return op.map(f"{step}_parse", messages, lambda message: orjson.loads(message.value))


def filtered(flow: Dataflow, order: dict[str, Any]) -> Any:
    kept = op.filter(
        "even", rows(flow, order, order["topic"], "events"), lambda r: r["amount"] % 2 == 0
    )
    return op.map("row", kept, lambda r: {k: r[k] for k in ("at", "key", "amount")})


def scarce(flow: Dataflow, order: dict[str, Any]) -> Any:
    kept = op.filter(
        "few", rows(flow, order, order["topic"], "events"), lambda r: r["amount"] < SCARCE_BELOW
    )
    return op.map("row", kept, lambda r: {k: r[k] for k in ("at", "key", "amount")})


def windowed(flow: Dataflow, order: dict[str, Any]) -> Any:
    events = rows(flow, order, order["topic"], "events")
    keyed = op.map("key", events, lambda r: (str(r["key"]), (r["at"], r["amount"])))
    # Wall time that windows wait; an event that takes longer is late and dropped.
    wait = timedelta(milliseconds=order["wait_ms"])
    clock = win.EventClock(lambda v: EPOCH + timedelta(microseconds=v[0]), wait)
    windower = win.TumblingWindower(length=WINDOW, align_to=EPOCH)
    # The window's end is computed from its events, so no second stream has to be joined.
    out = win.fold_window(
        "window",
        keyed,
        clock,
        windower,
        lambda: (0, 0, 0),
        lambda a, v: (v[0] // 10_000 * 10_000 + 10_000, a[1] + 1, a[2] + v[1]),
        lambda a, b: (max(a[0], b[0]), a[1] + b[1], a[2] + b[2]),
    )
    return op.map(
        "row",
        out.down,
        lambda kv: {
            "window_end": kv[1][1][0],
            "key": int(kv[0]),
            "n": kv[1][1][1],
            "total": kv[1][1][2],
        },
    )


class Join(StatefulBatchLogic[Row, Row, Any]):
    """Stores events and sides of one key; emits each pair when the later of both arrives."""

    def __init__(self, state: Any) -> None:
        self.events, self.sides = state or ([], [])

    def on_batch(self, values: list[Any]) -> tuple[list[Row], bool]:
        out: list[Row] = []
        for is_side, row in values:
            at = row["at"]
            if is_side:
                self.sides.append(row)
                until = at + SIDE_LIFE_US
                out += [_pair(event, row) for event in self.events if at <= event["at"] < until]
            else:
                self.events.append(row)
                since = at - SIDE_LIFE_US
                out += [_pair(row, side) for side in self.sides if since < side["at"] <= at]
        newest = values[-1][1]["at"]
        self.events = [r for r in self.events if r["at"] > newest - SLACK_US]
        self.sides = [r for r in self.sides if r["at"] > newest - SIDE_LIFE_US - SLACK_US]
        return out, False

    def snapshot(self) -> Any:
        return list(self.events), list(self.sides)


def _pair(event: Row, side: Row) -> Row:
    return {
        "at": event["at"],
        "key": event["key"],
        "amount": event["amount"],
        "side": side["amount"],
    }


def joined(flow: Dataflow, order: dict[str, Any]) -> Any:
    events = rows(flow, order, order["topic"], "events")
    sides = rows(flow, order, "sides", "sides")
    both = op.merge(
        "both",
        op.map("of_event", events, lambda r: (str(r["key"]), (False, r))),
        op.map("of_side", sides, lambda r: (str(r["key"]), (True, r))),
    )
    pairs = op.stateful_batch("join", both, Join)
    return op.map("row", pairs, lambda kv: kv[1])


def totals(flow: Dataflow, order: dict[str, Any]) -> Any:
    events = rows(flow, order, order["topic"], "events")
    keyed = op.map("key", events, lambda r: (str(r["key"]), r["amount"]))

    def add(state: tuple[int, int] | None, amount: int) -> tuple[Any, tuple[int, int]]:
        n, total = state or (0, 0)
        return ((n + 1, total + amount),) * 2

    out = op.stateful_map("total", keyed, add)
    return op.map("row", out, lambda kv: {"key": int(kv[0]), "n": kv[1][0], "total": kv[1][1]})


QUERIES = {
    "filter": filtered,
    "scarce": scarce,
    "window": windowed,
    "join": joined,
    "total": totals,
}


def flow_of(order: dict[str, Any]) -> Dataflow:
    flow = Dataflow("flow")
    out = QUERIES[order["query"]](flow, order)
    messages = op.map("message", out, lambda r: KafkaSinkMessage(None, orjson.dumps(r)))
    op.output("out", messages, KafkaSink([order["servers"]], order["out"], add_config=PRODUCER))
    return flow


def main(order: dict[str, Any]) -> None:
    """Start the workers, and stop them when the input ends."""
    store = Path(order["folder"]) / "recovery"
    store.mkdir()
    init_db_dir(store, WORKERS)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(WORKERS)]
    command = [sys.executable, __file__, json.dumps(order), json.dumps(addresses)]
    workers = [
        subprocess.Popen([*command, str(k)], stdin=subprocess.DEVNULL) for k in range(WORKERS)
    ]
    at_end().wait()
    for worker in workers:
        worker.kill()
        worker.wait()


def work(order: dict[str, Any], addresses: list[str], number: int) -> None:
    """Run one worker."""
    cli_main(
        flow_of(order),
        process_id=number,
        addresses=addresses,
        epoch_interval=timedelta(seconds=SNAPSHOT_S),
        recovery_config=RecoveryConfig(str(Path(order["folder"]) / "recovery")),
    )


def free_ports(count: int) -> list[int]:
    import socket

    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(server.getsockname()[1]) for server in taken]
    for server in taken:
        server.close()
    return ports


if __name__ == "__main__":
    if len(sys.argv) > 2:
        work(json.loads(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]))
    else:
        main(json.loads(sys.argv[1]))
