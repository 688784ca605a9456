"""Kafka to Kafka, exactly once: latency and throughput beside the floor and beside other engines.

Latency: one generator process sends events when they are due, at rising rates. Latency is the time
from an event's due time (for a window: from its end) until a consumer of committed messages has the
result. The floor is a loop without an engine, which consumes and produces with as many
transactions. Throughput: each system reads a backlog; so does a program that only consumes and
parses. Each system runs with the best guarantee it has, which the report names, and every answer is
compared with the right one. Peers come from ``make bench-peers``; the report names one that is not
installed. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from live.latency import MOST_RATE, swept  # noqa: E402
from live.systems import SYSTEMS, System  # noqa: E402
from live.throughput import backlog, drained, parsed_alone  # noqa: E402

from tests.support.brokers import Broker  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

QUERIES = ("filter", "window", "join")
FORMATS = ("json", "avro", "arrow")
#: Share of the rows per format: writing Avro is slow, and the rates need fewer rows than with JSON.
SHARES = {"json": 1.0, "avro": 0.4, "arrow": 4.0}
NOT_INSTALLED = "not installed: make bench-peers"
SPARK = "Spark's connector for Kafka is in no package of PyPI; its jars come from Maven alone"


def main() -> None:
    """Measure everything; print tables, then JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--queries", nargs="*", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--systems", nargs="*", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--formats", nargs="*", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--seconds", type=float, default=2.5, help="of load at each rate")
    parser.add_argument("--most", type=int, default=MOST_RATE, help="offered last; 0: nothing")
    parser.add_argument("--rows", type=int, default=600_000, help="of the backlog of JSON")
    parser.add_argument("--wait-ms", type=int, default=50, help="of windows that drop late rows")
    parser.add_argument("--executor", choices=["spark", "local"], default="spark")
    parser.add_argument("--out", type=Path, help="where the JSON goes besides")
    args = parser.parse_args()
    started_s = time.time()
    systems = [SYSTEMS[name] for name in args.systems]
    result = {
        "load_before": round(os.getloadavg()[0], 1),
        "guarantees": {system.name: system.guarantee for system in systems} | {"spark": SPARK},
        "latency": {query: latencies(query, systems, args) for query in args.queries},
        "throughput": {form: throughputs(form, systems, args) for form in args.formats},
    }
    result |= {"load_after": round(os.getloadavg()[0], 1), "took_s": int(time.time() - started_s)}
    text = json.dumps(result)
    if args.out is not None:
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(text)


def latencies(
    query: str, systems: Sequence[System], args: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Measure every system that supports the query."""
    print(f"\n{query}: p50 / p99 ms, processor us an event", flush=True)
    found = {}
    for system in systems:
        if query not in system.queries:
            continue
        if system.is_installed:
            with tempfile.TemporaryDirectory(prefix="streamscope-live-") as folder:
                found[system.name] = swept(
                    system,
                    query,
                    args.rates,
                    args.seconds,
                    Path(folder),
                    args.executor,
                    args.most,
                    args.wait_ms,
                )
        else:
            found[system.name] = {"problem": NOT_INSTALLED}
        print(latency_line(system.name, found[system.name]), flush=True)
    return found


def latency_line(name: str, found: dict[str, Any]) -> str:
    """Return one row of the table."""
    if "problem" in found:
        return f"  {name:8} {found['problem']}\n{found.get('told', '')}".rstrip()
    cells = [
        f"{rate:>7,}/s {one['p50_ms']:.1f} / {one['p99_ms']:.1f}, {one['cpu_us_per_event']:.0f} us"
        if one["kept_up"] and one["p50_ms"] is not None
        else f"{rate:>7,}/s did not keep up"
        for rate, one in found["rates"].items()
    ]
    wrong = "" if found["right"] else f"  WRONG: {found['missing']} missing, {found['wrong']} wrong"
    end = f"sustains {found['sustained_per_s']:,}/s, {found['peak_bytes'] / 1e6:.0f} MB{wrong}"
    return f"  {name:8} " + "; ".join([*cells, end])


def throughputs(
    form: str, systems: Sequence[System], args: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Measure consume-and-parse alone before and after ours, then peers, which get only JSON."""
    print(f"\nbacklog of {form}: events/s, processor us an event", flush=True)
    found = {}
    with tempfile.TemporaryDirectory(prefix="streamscope-live-") as name:
        folder = Path(name)
        (folder / "broker").mkdir()
        broker = Broker(folder / "broker", waits=True)
        broker.start()
        try:
            filled = backlog(broker, form, int(args.rows * SHARES[form]))
            found["alone"] = parsed_alone(broker, filled[0], form)
            for system in systems:
                if system.name == "floor" or (form != "json" and system.name != "ours"):
                    continue
                found[system.name] = {"problem": NOT_INSTALLED}
                if system.is_installed:
                    (folder / system.name).mkdir()
                    found[system.name] = drained(
                        system, broker, filled, form, folder / system.name, args.executor
                    )
                if system.name == "ours":
                    found["alone, again"] = parsed_alone(broker, filled[0], form)
        finally:
            broker.stop()
    for name, one in found.items():
        print(throughput_line(name, one, found), flush=True)
    return found


def throughput_line(name: str, one: dict[str, Any], found: dict[str, Any]) -> str:
    """Return one row of the table, with the share of the rate of consuming and parsing alone."""
    if "problem" in one:
        return f"  {name:12} {one['problem']}\n{one.get('told', '')}".rstrip()
    alone = [found[key]["per_s"] for key in ("alone", "alone, again") if key in found]
    share = one["per_s"] / (sum(alone) / len(alone)) if one["per_s"] else 0
    wrong = "" if one.get("right", True) else "  WRONG"
    return (
        f"  {name:12} {one['per_s'] or 0:>10,}/s  {share:5.0%} of alone  "
        f"{one['cpu_us_per_event']} us{wrong}"
    )


if __name__ == "__main__":
    main()
