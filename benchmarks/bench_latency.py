"""Latency from an event's due time until the output with the event is visible, by rate.

Queries: a filter; an exchange and short windows by key; a temporal join through an exchange. Ours
runs on Spark ``local[8]`` and is read by a subscription. The output of Spark Structured Streaming
is read from its sink's log (default trigger) or from memory (real-time trigger). The output of
Flink, if it is installed, is read from its print sink. The last line is one JSON object ``{system:
{query: {rate: {p50_ms, p99_ms, p999_ms, ...}}}}``. For windows the object also has
``beyond_p50_ms`` and ``beyond_p99_ms``, counted from the window's end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latency.load import QUERIES, WINDOW_US, Inputs
from latency.ours import query as query_of, run_ours
from open_loop import beyond_windows, quantiles_ms

import jobmanager

if TYPE_CHECKING:
    import numpy as np

RATES = (1_000, 10_000, 100_000, 500_000)
#: Window lengths other than WINDOW_US are measured at one rate only.
WINDOWS_MS = (1, 2, 5)
WINDOWS_RATE = 10_000
#: As many as this machine has cores: with twice as many, half of the channels more cross processes.
HOSTS = 2
#: Events of the first moments do not count.
WARM_US = 1_500_000
#: A system whose last events are twice as late as usual, and this much more, did not keep up.
LAST_US = 500_000
BEHIND_MS = 200
Result = dict[str, dict[str, dict[int, dict[str, Any]]]]


def main() -> None:
    """Run everything and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, nargs="*", default=list(RATES))
    parser.add_argument("--queries", nargs="*", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--executor", choices=["spark", "local"], default="spark")
    parser.add_argument("--no-ours", action="store_true", help="only the others")
    parser.add_argument(
        "--windows-ms", type=int, nargs="*", default=list(WINDOWS_MS), help="further lengths"
    )
    parser.add_argument("--no-flink", action="store_true", help="without Flink")
    parser.add_argument("--no-spark", action="store_true", help="without Structured Streaming")
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    args = parser.parse_args()
    if args.quick:
        args.rates, args.seconds, args.windows_ms = [2_000], 2.5, []
        args.no_spark = args.no_flink = True
    result: Result = {}
    if not args.no_ours:
        _ours(args, result)
    if not args.no_spark:
        from latency.spark import run_spark

        for query in args.queries:
            rows = run_spark(query, args.rates, args.seconds)
            for rate in args.rates:
                _report(result, "spark_structured_streaming", query, rate, rows.get(rate))
        _real_time(args, result)
    if not args.no_flink:
        _flink(args, result)
    print(table(result))
    print(json.dumps(result))


def table(result: Result) -> str:
    """Return p50 / p99 / p99.9 in ms as Markdown, one line per system and query."""
    rates = sorted(
        {rate for queries in result.values() for rows in queries.values() for rate in rows}
    )
    lines = ["| system | query | " + " | ".join(f"{rate:,}/s" for rate in rates) + " |"]
    lines.append("|---" * (2 + len(rates)) + "|")
    for system, queries in result.items():
        for query, rows in queries.items():
            cells = [_cell(rows.get(rate)) for rate in rates]
            lines.append(f"| {system} | {query} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None or row["p50_ms"] is None:
        return "did not keep up"
    text = " / ".join(f"{row[name]:,.1f}" for name in ("p50_ms", "p99_ms", "p999_ms"))
    return text if row["kept_up"] else f"{text} (growing)"


def _ours(args: argparse.Namespace, result: Result) -> None:
    place: dict[str, Any] = {"executor": args.executor, "hosts": HOSTS}
    if args.executor == "spark":
        place["master"] = "local[8]"
    for name, all_inputs in _loads(args).items():
        for number, inputs in enumerate(all_inputs):
            folder = Path(tempfile.mkdtemp(prefix="streamscope-latency-"))
            try:
                inputs.write(folder)
                if number == 0:  # warms up, and is not measured
                    jobmanager.run(
                        query_of(inputs, folder), root=str(folder / "warm"), **place
                    ).wait()
                measured = run_ours(inputs, folder, place)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            _report(result, "ours", name, inputs.rate, measured, inputs.window_us)


def _loads(args: argparse.Namespace) -> dict[str, list[Inputs]]:
    """Return the measured systems, by their names in the result."""
    loads = {
        query: [Inputs(query, rate, args.seconds) for rate in args.rates] for query in args.queries
    }
    for length_ms in args.windows_ms if "window" in args.queries else ():
        inputs = Inputs("window", WINDOWS_RATE, args.seconds, length_ms * 1_000)
        loads[f"window of {length_ms} ms"] = [inputs]
    return loads


def _real_time(args: argparse.Namespace, result: Result) -> None:
    from latency.spark_real_time import QUERIES as TAKEN, run_real_time

    for query in [query for query in args.queries if query in TAKEN]:
        rows = run_real_time(query, args.rates, args.seconds)
        for rate in args.rates:
            _report(result, "spark_real_time", TAKEN[query], rate, rows.get(rate))


def _flink(args: argparse.Namespace, result: Result) -> None:
    from latency.flink import FLINK, run_flink

    if not FLINK.exists():
        print("Flink: skipped, it is not installed; make bench-peers does it", flush=True)
        return
    for name, all_inputs in _loads(args).items():
        rows = run_flink(all_inputs)
        for inputs in all_inputs:
            found = rows.get(inputs.rate)
            _report(result, "flink_sql", name, inputs.rate, found, inputs.window_us)


def _report(
    result: Result,
    system: str,
    query: str,
    rate: int,
    measured: tuple[np.ndarray, np.ndarray] | None,
    window_us: int = WINDOW_US,
) -> None:
    """Add one measurement to the result."""
    row: dict[str, Any] = dict.fromkeys(("p50_ms", "p99_ms", "p999_ms", "max_ms"))
    row["kept_up"] = False
    if measured is not None:
        latency, due = measured
        warm, last = latency[due >= WARM_US], latency[due >= due.max() - LAST_US]
        quantiles = quantiles_ms(warm, 0.5, 0.99, 0.999, 1)
        row = dict(zip(row, quantiles, strict=False))
        row["kept_up"] = quantiles_ms(last, 0.5)[0] < 2 * row["p50_ms"] + BEHIND_MS
        if query.startswith("window"):
            beyond = beyond_windows(latency, due, window_us)[due >= WARM_US]
            row["beyond_p50_ms"], row["beyond_p99_ms"] = quantiles_ms(beyond, 0.5, 0.99)
    result.setdefault(system, {}).setdefault(query, {})[rate] = row
    print(f"{system}, {query}, {rate:,} events/s: {json.dumps(row)}", flush=True)


if __name__ == "__main__":
    main()
