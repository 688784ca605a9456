"""What the page costs the job that it shows: without viewers, with 50, and with exports.

A job reads a folder that grows at a fixed rate. Phases of a few seconds alternate in random order:
no server, a server, a server with viewers of the list and the job, a server that sends metrics and
spans (OTLP) and lineage events. The last line is JSON: per kind of phase, the median processor time
of the job per million rows, and its ratio to that without a server; the same for the server.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import ExitStack
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from processes import Usage, tree, usage_of

# Few files and listings: each check lists all files, so a job costs more in later phases.
FILE_ROWS, FILE_EVERY_S, WAIT_S = 20_000, 1.0, 60.0
JOB = """
import sys
import streamscope as ss
rows = ss.Stream.from_json(sys.argv[1], vs="t", delay="1s", follow=True, poll_every="1s")
counts = rows.group_by("key").window(ss.tumbling("1s")).agg(n=ss.agg.count(), x=ss.agg.sum("x"))
ss.run(counts.to_parquet(), root=sys.argv[2], executor="local").wait()
"""
KINDS = {"none": (), "server": (), "viewers": (), "exports": ("--otlp", "--lineage")}


class Feeder(threading.Thread):
    """Writes a file of rows at a fixed rate, until ``over`` is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self.files, self.over = folder, 0, threading.Event()

    def run(self) -> None:
        """Write files at the fixed rate; a delayed file does not make the next one come sooner."""
        while not self.over.is_set():
            at = range(self.files * FILE_ROWS, (self.files + 1) * FILE_ROWS)
            lines = "".join(f'{{"t": {k * 50}, "key": {k % 97}, "x": {k % 13}}}\n' for k in at)
            part = self._folder / f".{self.files}"
            part.write_text(lines)
            part.rename(self._folder / f"{self.files:06}.json")
            self.files += 1
            self.over.wait(FILE_EVERY_S)


class Sink(BaseHTTPRequestHandler):
    """Accepts each POST request."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def view(host: str, port: int, over: threading.Event) -> None:
    """Read each event and then the job, like the browser of a viewer."""
    events = HTTPConnection(host, port, timeout=WAIT_S)
    events.request("GET", "/api/events")
    answer, asked = events.getresponse(), HTTPConnection(host, port, timeout=WAIT_S)
    while not over.is_set():
        if answer.readline().startswith(b"data: "):
            try:
                asked.request("GET", "/api/jobs/job")
                asked.getresponse().read()
            except ConnectionError:  # the server closes a connection without requests
                asked.close()
    events.close()
    asked.close()


def phase(kind: str, jobs: Path, sink: str, viewers: int, measure: Any) -> tuple[Any, Usage]:
    """Run ``measure`` beside this kind of server; return its result and the server's usage."""
    if kind == "none":
        return measure(), Usage()
    targets = {"--otlp": sink, "--lineage": f"{sink}/api/v1/lineage"}
    options = [part for option in KINDS[kind] for part in (option, targets[option])]
    command = [sys.executable, "-m", "jobmanager", "serve", str(jobs), "--port", "0", "--json"]
    server = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    over = threading.Event()
    assert server.stdout is not None
    place = urlsplit(json.loads(server.stdout.readline())["listening"])
    arguments = (place.hostname, place.port, over)
    count = viewers if kind == "viewers" else 0
    threads = [threading.Thread(target=view, args=arguments) for _ in range(count)]
    for thread in threads:
        thread.start()
    before = usage_of(tree(server.pid))
    found = measure()
    used = usage_of(tree(server.pid)) - before
    over.set()
    for thread in threads:
        thread.join()
    server.send_signal(signal.SIGTERM)
    server.wait(WAIT_S)
    return found, used


def main() -> None:
    """Run the phases and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=8.0, help="of a phase")
    parser.add_argument("--viewers", type=int, default=50)
    args = parser.parse_args()
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory()))
        (folder / "in").mkdir()
        feeder = Feeder(folder / "in")
        root = folder / "jobs/job"
        job = subprocess.Popen([sys.executable, "-c", JOB, str(folder / "in"), str(root)])
        cleanup.callback(job.wait)
        cleanup.callback(job.kill)
        sink = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
        threading.Thread(target=sink.serve_forever, daemon=True).start()
        cleanup.callback(sink.shutdown)
        feeder.start()
        cleanup.callback(feeder.over.set)
        until_s = time.monotonic() + WAIT_S
        while not (root / "status.json").exists() and time.monotonic() < until_s:
            time.sleep(0.1)

        def measure() -> tuple[float, int, int]:
            time.sleep(1.0)  # the start of a server is no part of a phase
            before, files, read = usage_of(tree(job.pid)), feeder.files, _read(root)
            time.sleep(args.seconds)
            used = usage_of(tree(job.pid)) - before
            return used.cpu_s, FILE_ROWS * (feeder.files - files), _read(root) - read

        measure()
        url = f"http://127.0.0.1:{sink.server_address[1]}"
        found = defaultdict(list)
        for _ in range(args.rounds):
            for kind in random.sample(list(KINDS), len(KINDS)):
                (cpu_s, fed, read), used = phase(kind, root.parent, url, args.viewers, measure)
                found[kind].append((1e6 * cpu_s / fed, read / fed, used.cpu_s / cpu_s))
                print(kind, *(f"{number:.4f}" for number in found[kind][-1]), flush=True)
    medians = {
        kind: [statistics.median(column) for column in zip(*rows, strict=True)]
        for kind, rows in found.items()
    }
    alone = medians["none"][0]
    shown = {
        kind: {
            "job_cpu_s_per_m_rows": round(cpu, 4),
            "job_cpu_ratio": round(cpu / alone, 4),
            "rows_read_ratio": round(read, 4),
            "server_cpu_share_of_job": round(server, 4),
        }
        for kind, (cpu, read, server) in medians.items()
    }
    print(json.dumps({"load": os.getloadavg()[0], "rounds": args.rounds, **shown}))


def _read(root: Path) -> int:
    return int(json.loads((root / "status.json").read_text())["events_in"])


if __name__ == "__main__":
    main()
