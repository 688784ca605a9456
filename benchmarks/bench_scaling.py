"""Cost per event as something grows: data, keys, overlapping windows, vertices, state.

Every point is a real job in a separate process (``LocalExecutor``, two hosts, durable output).
First a small job of the same shape runs, which costs only starting and ending, then the job of the
point. The cost per event is the difference of both, in processor time and wall time. Points
take turns, in alternating order; medians. A curve *bends* if its most expensive point costs more
than :data:`BEND` times the cheapest. The last line is one JSON object ``{curve: [[x, ns_per_event,
peak_bytes], ...]}``.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling.curves import CURVES, SMALL_ROWS, Curve
from scaling.plot import Point

import jobmanager
from jobmanager import JobConfig

if TYPE_CHECKING:
    from planner import Query

PICTURE = Path(__file__).parent / "results" / "scaling.svg"
HOSTS = 2
REPEATS = 3
#: Points with more events are run once.
LARGE_ROWS = 10_000_000
#: A curve is flat if its most expensive point costs at most this many times the cheapest.
BEND = 2.0
POINT_WAIT_S = 900
#: A point that needs more than this share of the free memory is skipped.
MEMORY_SHARE = 0.5


@dataclass(frozen=True)
class Measure:
    """One run of one point, in seconds."""

    cpu_s: float
    wall_s: float
    fixed_cpu_s: float
    fixed_wall_s: float
    peak_bytes: int


def main() -> None:
    """Run the curves, or the one point that the parent process requests."""
    args = _arguments()
    if args.one:
        print(json.dumps(vars_of(run_point(args.one[0], int(args.one[1]), args.rows))))
        return
    found: dict[str, list[Point]] = {}
    for name in args.curves:
        curve = CURVES[name]
        points = args.points or [*curve.points, *(curve.full if args.full else ())]
        found[name] = _curve(name, curve, points, args)
    print(table(found))
    if args.picture:
        from scaling.plot import draw

        draw(found, {name: CURVES[name].what for name in found}, Path(args.picture))
    rows = {
        name: [[p.x, round(p.ns, 1), p.peak_bytes] for p in points]
        for name, points in found.items()
    }
    print(json.dumps(rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curves", nargs="*", choices=list(CURVES), default=list(CURVES))
    parser.add_argument("--points", nargs="*", type=int, help="instead of those of the curve")
    parser.add_argument("--rows", type=int, help="of the main input, where it is not what grows")
    parser.add_argument("--repeat", type=int, default=REPEATS)
    parser.add_argument("--full", action="store_true", help="to 100 M events, 4 GB of state")
    parser.add_argument("--picture", default=str(PICTURE), help="where to draw; empty: nowhere")
    parser.add_argument("--one", nargs=2, metavar=("CURVE", "X"), help="one point, in this process")
    return parser.parse_args()


def _curve(name: str, curve: Curve, points: list[int], args: argparse.Namespace) -> list[Point]:
    """Measure all points ``--repeat`` times, in alternating order."""
    runs: dict[int, list[Measure]] = {}
    for turn in range(args.repeat):
        for x in points if turn % 2 == 0 else reversed(points):
            events = _events(curve, x, args.rows)
            if (turn and events > LARGE_ROWS) or not _has_room(name, x):
                continue
            runs.setdefault(x, []).append(_child(name, x, args.rows))
    return [_median(x, measures, curve, args.rows) for x, measures in sorted(runs.items())]


def _events(curve: Curve, x: int, rows: int | None) -> int:
    return (rows or curve.rows(x)) + curve.more(x)


def _has_room(name: str, x: int) -> bool:
    """Return whether a state of ``x`` MB fits into memory; print once if it does not."""
    if name != "state":
        return True
    free = free_bytes()
    if x * 1_000_000 <= MEMORY_SHARE * free:
        return True
    print(f"state of {x} MB: left out, {free / 1e6:,.0f} MB are free", flush=True)
    return False


def free_bytes() -> int:
    """Return the memory that a new process may have, as Linux estimates it."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _child(name: str, x: int, rows: int | None) -> Measure:
    command = [sys.executable, __file__, "--one", name, str(x)]
    command += ["--rows", str(rows)] if rows else []
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=POINT_WAIT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name} {x}: {done.stderr[-2_000:]}")
    line = done.stdout.splitlines()[-1]
    print(f"{name} {x:,}: {line}", flush=True)
    return Measure(**json.loads(line))


def _median(x: int, runs: list[Measure], curve: Curve, rows: int | None) -> Point:
    share = _events(curve, x, rows) * curve.per(x)

    def ns(whole: str, fixed: str) -> float:
        costs = [getattr(run, whole) - getattr(run, fixed) for run in runs]
        return float(statistics.median(costs)) / share * 1e9

    return Point(
        x=x,
        ns=ns("cpu_s", "fixed_cpu_s"),
        wall_ns=ns("wall_s", "fixed_wall_s"),
        fixed_s=statistics.median(run.fixed_cpu_s for run in runs),
        peak_bytes=int(statistics.median(run.peak_bytes for run in runs)),
    )


# ---- one point


def run_point(name: str, x: int, rows: int | None) -> Measure:
    """Run the small job and the job of the point in this process."""
    curve = CURVES[name]
    large = curve.make(x, rows or curve.rows(x))  # writes its files
    small = curve.make(x, SMALL_ROWS)
    run_job(small, curve.parallelism(x))  # loads code that all jobs share
    fixed_cpu_s, fixed_wall_s = run_job(small, curve.parallelism(x))
    cpu_s, wall_s = run_job(large, curve.parallelism(x))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Measure(cpu_s, wall_s, fixed_cpu_s, fixed_wall_s, peak)


def run_job(query: Query, parallelism: int) -> tuple[float, float]:
    """Return processor seconds and wall seconds, from planning to the end."""
    config = replace(JobConfig(), parallelism=parallelism)
    with tempfile.TemporaryDirectory(prefix="streamscope-scaling-") as folder:
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        job = jobmanager.run(
            query, root=f"{folder}/job", executor="local", hosts=HOSTS, config=config
        )
        job.wait(POINT_WAIT_S)
        return time.process_time() - cpu_s, time.perf_counter() - wall_s


def vars_of(measure: Measure) -> dict[str, Any]:
    """Return the measure in a form for JSON."""
    return {name: getattr(measure, name) for name in Measure.__dataclass_fields__}


# ---- what comes out


def bend(points: list[Point]) -> float:
    """Return the highest cost of a point divided by the lowest."""
    costs = [max(point.ns, 0.1) for point in points]
    return max(costs) / min(costs)


def table(found: dict[str, list[Point]]) -> str:
    """Return every curve as Markdown: cost and peak memory per point, and whether it bends."""
    lines = []
    for name, points in found.items():
        verdict = "flat" if bend(points) <= BEND else "bends"
        lines += ["", f"**{name}** ({CURVES[name].what}): {verdict}, {bend(points):.1f} times"]
        lines += ["", "| | " + " | ".join(f"{point.x:,}" for point in points) + " |"]
        lines += ["|---" * (1 + len(points)) + "|"]
        for title, cell in (
            ("ns of processors per event", lambda p: f"{p.ns:,.0f}"),
            ("ns of the clock per event", lambda p: f"{p.wall_ns:,.0f}"),
            ("s of processors, small job", lambda p: f"{p.fixed_s:.2f}"),
            ("peak MB", lambda p: f"{p.peak_bytes / 1e6:,.0f}"),
        ):
            lines.append(f"| {title} | " + " | ".join(map(cell, points)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
