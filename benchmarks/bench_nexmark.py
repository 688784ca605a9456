"""Nexmark side by side: ours, Spark Structured Streaming, DuckDB as a batch, and peers installed.

Every system runs in a process of its own, on the same Parquet files, and writes its answer to disk;
the answer of every run is compared with DuckDB's. Each repetition runs all queries, and each query
on all systems, in an order that changes. Start-up is not included in the times, but printed. The
last line is one JSON object ``{query: {system: {events_per_s, peak_bytes, correct}}}``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from nexmark import compare
from nexmark.folder import events_folder
from nexmark.measure import Worker, WorkerError
from nexmark.queries import QUERIES
from nexmark.report import Report, chart

EVENTS = 2_000_000
REPEAT = 3
VENVS = Path(__file__).parent.parent / ".venvs"
#: System -> its environment (None: this one), and the share of the events that it gets: systems
#: that work event by event would take hours for all of them.
SYSTEMS: dict[str, tuple[str | None, float]] = {
    "ours": (None, 1.0),
    "duckdb_batch": (None, 1.0),
    "spark_streaming": (None, 1.0),
    "flink_sql": ("flink", 0.5),
    "bytewax_flow": ("bytewax", 0.1),
    "pathway_flow": ("pathway", 0.05),
}


class Bench:
    """The workers, the expected answers, and the results of the runs."""

    def __init__(self, systems: list[str], events: int) -> None:
        self.report = Report(systems)
        self._events = {name: int(events * SYSTEMS[name][1]) for name in systems}
        self._folders = {name: events_folder(n) for name, n in self._events.items()}
        self._connections = {f: compare.connect(f) for f in set(self._folders.values())}
        self._expected: dict[tuple[str, Path], compare.Digest] = {}
        self._workers: dict[str, Worker] = {}
        #: Processor time of the last order.
        self._cpu_s = 0.0
        self._scratch = Path(tempfile.mkdtemp(prefix="streamscope-nexmark-"))

    def start(self, system: str) -> None:
        """Start a worker and warm it up with one query."""
        venv = SYSTEMS[system][0]
        python = sys.executable if venv is None else str(VENVS / venv / "bin" / "python")
        worker = Worker(system, python, self._folders[system])
        self.report.startup_s[system] = worker.startup_s
        self._workers[system] = worker
        print(f"{system}: ready after {worker.startup_s:.1f} s", flush=True)
        self._order(system, worker.names[0], worker.variants[0])

    def run(self, system: str, name: str, repetition: int) -> None:
        """Run a query once, in the next variant; record its time if the answer is right."""
        worker = self._workers.get(system)
        if worker is None or name not in worker.names:
            return
        cell = self.report.cell(name, system, self._events[system])
        if cell.problem:
            return
        variant = worker.variants[repetition % len(worker.variants)]
        said = " ".join(f"{key}={value}" for key, value in variant.items())
        try:
            elapsed_s = self._checked(system, name, variant)
        except WorkerError as error:
            cell.problem = f"{said} {error}".strip()
            print(f"{name} {system} {cell.problem[:600]}", flush=True)
            if worker.is_gone:
                self.start(system)
            return
        cell.elapsed_s.setdefault(said, []).append(elapsed_s)
        cell.cpu_s.setdefault(said, []).append(self._cpu_s)
        rate = cell.events / elapsed_s / 1e6
        line = f"{name} {system} {elapsed_s:.2f} s {rate:.2f} M/s, processors {self._cpu_s:.2f} s"
        print(line, said, flush=True)

    def close(self) -> None:
        """Stop all workers and remove their files."""
        for worker in self._workers.values():
            worker.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _checked(self, system: str, name: str, variant: dict[str, object]) -> float:
        out = self._scratch / "out"
        try:
            elapsed_s = self._order(system, name, variant)
            folder = self._folders[system]
            connection = self._connections[folder]
            expected = self._expected.get((name, folder))
            if expected is None:
                expected = compare.expected_digest(connection, name)
                self._expected[name, folder] = expected
            wrong = compare.mismatch(connection, name, compare.answer_in(out), expected)
        finally:
            shutil.rmtree(out, ignore_errors=True)
        if wrong is not None:
            self.report.cells[name][system].correct = False
            raise WorkerError(f"wrong answer: {wrong}")
        return elapsed_s

    def _order(self, system: str, name: str, variant: dict[str, object]) -> float:
        out = self._scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        outcome = self._workers[system].run(name, out, variant)
        cell = self.report.cells.get(name, {}).get(system)
        if cell is not None:
            cell.peak_bytes = max(cell.peak_bytes, outcome.peak_bytes)
            cell.python_bytes = max(cell.python_bytes, outcome.python_bytes)
        self._cpu_s = outcome.cpu_s
        return outcome.elapsed_s


def main() -> None:
    """Measure; print each run, the table, and the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--systems", default=",".join(installed()))
    parser.add_argument("--repeat", type=int, default=REPEAT)
    parser.add_argument("--chart", type=Path, help="write a chart (SVG) here")
    args = parser.parse_args()
    systems: list[str] = args.systems.split(",")
    bench = Bench(systems, args.events)
    try:
        for system in systems:
            bench.start(system)
        for repetition in range(args.repeat):
            for name in args.queries.split(","):
                first = repetition % len(systems)
                for system in [*systems[first:], *systems[:first]]:
                    bench.run(system, name, repetition)
    finally:
        bench.close()
    print("\n" + bench.report.table() + "\n")
    result = bench.report.as_json()
    if args.chart:
        chart(result, args.chart)
    print(json.dumps(result))


def installed() -> list[str]:
    """Return the systems whose environment is installed."""
    return [
        name
        for name, (venv, _) in SYSTEMS.items()
        if venv is None or (VENVS / venv / ".installed").exists()
    ]


if __name__ == "__main__":
    main()
