"""Recovery: under a steady open-loop load workers are killed; a subscriber measures the pause.

Ours runs on Spark ``local[8]``, one vertex per worker, once per recovery strategy and number of
simultaneous kills; then Spark Structured Streaming and, if it is installed, Flink with the same
events. The last line is one JSON object ``{strategy: {kills: {...}}}``. Every answer is compared
with the expected one, and ours also with the digest of a run without kills.
"""

from __future__ import annotations

import argparse
import inspect
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from open_loop import Load
from processes import end_in_order
from recovery.measures import measure
from recovery.ours import Setting, recovery_run, undisturbed

import jobmanager
from jobmanager.options import RunOptions

if TYPE_CHECKING:
    from recovery.measures import Run

PICTURE = Path(__file__).parent / "results" / "recovery.png"
PEER_KILLS = (1, 2)


@dataclass(frozen=True)
class Strategy:
    """A recovery strategy: the options of ``run``, and the number of hosts it needs."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    hosts: int = 4
    #: Numbers of workers that are killed at the same moment, one run each.
    kills: tuple[int, ...] = (1, 2)
    #: Whether all instances of one vertex are killed, so that it has no replica left.
    is_whole_vertex: bool = False
    #: Whether the query sets the recovery of each of its stages.
    is_mixed: bool = False

    def why_not(self) -> str:
        """Return why it cannot run; empty if it can."""
        parameters = inspect.signature(jobmanager.run).parameters
        known = {*parameters, *RunOptions.__annotations__}
        lacks = [name for name in self.options if name not in known]
        return f"jobmanager.run has no option {', '.join(lacks)}" if lacks else ""


REPLICATION = {"recovery": "replication", "replicas": 2}
STRATEGIES = (
    Strategy("checkpoint"),
    Strategy("checkpoint_with_spares", hosts=6),
    Strategy("replay", {"recovery": "replay"}),
    Strategy("replication", REPLICATION),
    Strategy("mixed", hosts=6, is_mixed=True),
    Strategy("replication_both_lost", REPLICATION, kills=(2,), is_whole_vertex=True),
)


def main() -> None:
    """Run everything and print the result."""
    args = _arguments()
    end_in_order()
    seconds = args.kill_at + args.after
    load = Load(args.rate, seconds, args.keys, args.window_ms * 1_000)
    folder = Path(tempfile.mkdtemp(prefix="streamscope-recovery-"))
    result: dict[str, dict[int, dict[str, Any]]] = {}
    runs: dict[str, dict[int, Run]] = {}
    try:
        for strategy in STRATEGIES:
            if args.only and strategy.name not in args.only:
                continue
            if reason := strategy.why_not():
                print(f"{strategy.name}: skipped, {reason}", flush=True)
                continue
            runs[strategy.name] = _ours(args, strategy, load, folder, result)
        if not args.no_spark:
            runs["Spark Structured Streaming"] = _spark(args, result)
        if not args.no_flink:
            runs |= _flink(args, result)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.picture:
        from recovery.plot import draw

        draw(
            {k: v for k, v in runs.items() if v},
            f"{args.rate:,} events/s, windows of {args.window_ms} ms",
            Path(args.picture),
        )
    print(table(result))
    print(json.dumps(result))


#: Column of the table, and the number it shows.
COLUMNS: dict[str, str | tuple[str, ...]] = {
    "pause, ms": "gap_ms",
    "usual pause, ms": "normal_gap_ms",
    "latency is back, ms": "recovered_ms",
    "p50 / p99 / max, ms": ("p50_ms", "p99_ms", "max_ms"),
    "usual p50 / p99, ms": ("normal_p50_ms", "normal_p99_ms"),
    "later than 1 s": "late_share",
    "items again": "recomputed_items",
    "bytes again": "reread_bytes",
    "CPU s per million": "cpu_s_per_million",
    "MB written per million": "written_bytes_per_million",
    "rows again": "repeated_rows",
    "equal": "equal",
}


def table(result: dict[str, dict[int, dict[str, Any]]]) -> str:
    """Return the result as Markdown."""
    lines = [
        "| strategy | killed | " + " | ".join(COLUMNS) + " |",
        "|---" * (2 + len(COLUMNS)) + "|",
    ]
    for strategy, rows in result.items():
        for kills, row in rows.items():
            cells = [_cell(names, row) for names in COLUMNS.values()]
            lines.append(f"| {strategy} | {kills} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(names: str | tuple[str, ...], row: dict[str, Any]) -> str:
    found = [row.get(name) for name in ([names] if isinstance(names, str) else names)]
    return " / ".join(_number(value, names) for value in found)


def _number(value: Any, names: str | tuple[str, ...]) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if names == "written_bytes_per_million":
        return f"{value / 1e6:.1f}"
    if names == "late_share":
        return f"{value:.1%}"
    return f"{value:,.1f}" if names == "cpu_s_per_million" else f"{value:,.0f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=50_000, help="events per second")
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--window-ms", type=int, default=20)
    parser.add_argument("--kill-at", type=float, default=4.5, help="seconds from the start")
    parser.add_argument("--after", type=float, default=7.0, help="seconds from the kill")
    parser.add_argument("--checkpoint-interval", type=float, default=1.0)
    parser.add_argument("--executor", choices=["spark", "local"], default="spark")
    parser.add_argument("--master", default="local[8]")
    parser.add_argument("--only", nargs="*", help="only these strategies")
    parser.add_argument("--no-spark", action="store_true", help="without Structured Streaming")
    parser.add_argument("--no-flink", action="store_true", help="without Flink")
    parser.add_argument("--picture", default=str(PICTURE), help="where to draw; empty: nowhere")
    parser.add_argument("--quick", action="store_true", help="a smoke test of half a minute")
    args = parser.parse_args()
    if args.quick:
        args.rate, args.kill_at, args.after = 5_000, 3.0, 3.0
        args.no_spark = args.no_flink = True
        args.only = args.only or ["checkpoint", "replication"]
    return args


def _ours(
    args: argparse.Namespace,
    strategy: Strategy,
    load: Load,
    folder: Path,
    result: dict[str, dict[int, dict[str, Any]]],
) -> dict[int, Run]:
    events = folder / "events.parquet"
    if not events.exists():
        load.write(events)
    setting = Setting(args.executor, args.master, args.checkpoint_interval, strategy.hosts)
    if not (folder / "whole").exists():
        undisturbed(events, load, folder, setting)
    digest = jobmanager.resume(str(folder / "whole")).status()["output_digest"]
    runs: dict[int, Run] = {}
    for kills in strategy.kills:
        run = recovery_run(
            events,
            load,
            folder,
            setting,
            strategy.options,
            kills=kills,
            kill_at_s=args.kill_at,
            is_whole_vertex=strategy.is_whole_vertex,
            is_mixed=strategy.is_mixed,
        )
        runs[kills] = run
        result.setdefault(strategy.name, {})[kills] = row = measure(run, digest)
        print(f"{strategy.name}, {kills} killed: {json.dumps(row)}", flush=True)
    return runs


#: The other systems need longer to warm up, and Spark to recover, s.
PEER_BEFORE_S = 4.0
PEER_AFTER_S = 6.0


def _spark(
    args: argparse.Namespace, result: dict[str, dict[int, dict[str, Any]]]
) -> dict[int, Run]:
    from recovery.spark import spark_run

    kill_at_s, load = _peer_load(args)
    runs: dict[int, Run] = {}
    rows = result.setdefault("spark_structured_streaming", {})
    for kills in PEER_KILLS:
        run = spark_run(load, kills=kills, kill_at_s=kill_at_s)
        rows[kills] = _measured(run, kills, runs)
        print(f"Spark Structured Streaming, {kills} killed: {json.dumps(rows[kills])}", flush=True)
    return runs


def _flink(
    args: argparse.Namespace, result: dict[str, dict[int, dict[str, Any]]]
) -> dict[str, dict[int, Run]]:
    """Add Flink's results: its committed files (exactly once), and its printed rows."""
    from recovery.flink import flink_run, is_installed, repeats

    if not is_installed():
        print("Flink: skipped, it is not installed (make bench-peers)", flush=True)
        return {}
    kill_at_s, load = _peer_load(args)
    committed: dict[int, Run] = {}
    printed: dict[int, Run] = {}
    for kills in PEER_KILLS:
        try:
            seen = flink_run(
                load,
                kills=kills,
                kill_at_s=kill_at_s,
                checkpoint_interval_s=args.checkpoint_interval,
            )
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as failure:
            print(f"flink, {kills} killed: {failure}", flush=True)
            result.setdefault("flink", {})[kills] = {"equal": False, "incomplete": str(failure)}
            continue
        for name, run, runs in (
            ("flink", seen.committed, committed),
            ("flink_printed", seen.printed, printed),
        ):
            row = _measured(run, kills, runs) | repeats(run)
            result.setdefault(name, {})[kills] = row
            print(f"{name}, {kills} killed: {json.dumps(row)}", flush=True)
    return {"Flink, committed files": committed, "Flink, as printed": printed}


def _peer_load(args: argparse.Namespace) -> tuple[float, Load]:
    """Return the time of the kill, and the load, which is longer than ours on both sides."""
    kill_at_s = args.kill_at + PEER_BEFORE_S
    seconds = kill_at_s + args.after + PEER_AFTER_S
    return kill_at_s, Load(args.rate, seconds, args.keys, args.window_ms * 1_000)


def _measured(run: Run, kills: int, runs: dict[int, Run]) -> dict[str, Any]:
    """Return the measures of a run; draw it if its output is complete."""
    try:
        row = measure(run, None)
    except ValueError as incomplete:
        return {"equal": False, "incomplete": str(incomplete)}
    runs[kills] = run
    return row


if __name__ == "__main__":
    main()
