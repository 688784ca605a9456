"""How many posts a second the intake takes, in one row and in a thousand, and what files they make.

    python benchmarks/bench_intake.py [--seconds 4] [--connections 32]

Producers are threads of one process beside the server; each posts with a number, waits for the
answer and posts the next. So the figures have the cost of the clients in them, on the same cores.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa

from rstream import Appender

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("room", pa.string()), ("n", pa.int64())])
CONFIG = """
root = "logs"
[streams.rooms.columns]
time = "timestamp"
room = "string"
n = "int64"
"""
NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
FILES_POSTS = 10_000


def ndjson(rows: int) -> bytes:
    return b"\n".join(
        b'{"time":"2026-03-01T10:00:01Z","room":"attic","n":%d}' % n for n in range(rows)
    )


def batch(rows: int) -> pa.RecordBatch:
    times = pa.array([1_772_359_201_000_000] * rows, SCHEMA.field("time").type)
    columns = [times, pa.array(["attic"] * rows), pa.array(range(rows))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def arrow(rows: int) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch(rows))
    return bytes(sink.getvalue().to_pybytes())


def rate(push: Callable[[int, int], None], producers: int, seconds: float) -> tuple[int, float]:
    """Acknowledged pushes and their rate; ``push(producer, number)``."""
    counts = [0] * producers
    end_s = time.perf_counter() + seconds

    def run(producer: int) -> None:
        while time.perf_counter() < end_s:
            push(producer, counts[producer])
            counts[producer] += 1

    threads = [threading.Thread(target=run, args=(k,)) for k in range(producers)]
    begin_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts), sum(counts) / (time.perf_counter() - begin_s)


class Posts:
    """A connection per producer."""

    def __init__(self, url: str, body: bytes, kind: str, producers: int, run: str) -> None:
        self.body, self.kind, self.run = body, kind, run
        self.lines = [http.client.HTTPConnection(urlsplit(url).netloc) for _ in range(producers)]

    def __call__(self, producer: int, number: int) -> None:
        headers = {"Content-Type": self.kind, "Producer-Id": f"{self.run}-{producer}"}
        line = self.lines[producer]
        line.request(
            "POST", "/streams/rooms", self.body, headers | {"Sequence-Number": str(number)}
        )
        answer = line.getresponse()
        answer.read()
        assert answer.status == 200, answer.status


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def files(folder: Path) -> tuple[int, int]:
    """Segments, and all files."""
    names = [name for _, _, found in os.walk(folder) for name in found]
    return sum(name.endswith(".parquet") for name in names), len(names)


def over_http(folder: Path, seconds: float, connections: int) -> None:
    (folder / "intake.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "jobmanager", "intake", str(folder / "intake.toml"), "--json"]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["listening"]
        for rows, kind, body in (
            (1, NDJSON, ndjson(1)),
            (1000, NDJSON, ndjson(1000)),
            (1000, ARROW, arrow(1000)),
        ):
            for producers in (1, connections):
                name = f"{rows}-{kind[-6:]}-{producers}"
                posts = Posts(url, body, kind, producers, name)
                before_s = cpu_s(server.pid)
                count, per_s = rate(posts, producers, seconds)
                cpu_ms = (cpu_s(server.pid) - before_s) / count * 1e3
                print(
                    f"http, {kind}, {producers} connections, {rows} rows: {per_s:,.0f} posts/s, "
                    f"{cpu_ms:.2f} ms of the server's processor time a post",
                    flush=True,
                )
        server.terminate()


def in_process(folder: Path, seconds: float, connections: int) -> None:
    for rows in (1, 1000):
        given = batch(rows)
        for producers in (1, connections):
            uri = str(folder / f"appender-{rows}-{producers}")
            with Appender(uri, SCHEMA) as appender:

                def push(
                    producer: int, number: int, appender: Appender = appender, given: object = given
                ) -> None:
                    appender.append(given, producer=str(producer), number=number)

                before_s = time.process_time()
                count, per_s = rate(push, producers, seconds)
            cpu_ms = (time.process_time() - before_s) / count * 1e3
            print(
                f"appender, {producers} threads, {rows} rows: {per_s:,.0f} appends/s, "
                f"{cpu_ms:.2f} ms of processor time an append",
                flush=True,
            )


def count_files(folder: Path, connections: int) -> None:
    """Of ten thousand appends of one row, by producers that wait for each answer."""
    given = batch(1)
    for producers in (1, connections):
        uri = folder / f"files-{producers}"
        with Appender(str(uri), SCHEMA) as appender:

            def run(producer: int, appender: Appender = appender, many: int = producers) -> None:
                for number in range(FILES_POSTS // many):
                    appender.append(given, producer=str(producer), number=number)

            threads = [threading.Thread(target=run, args=(k,)) for k in range(producers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        segments, everything = files(uri)
        print(
            f"files of {FILES_POSTS:,} appends of one row, {producers} threads: {segments} "
            f"segments, {everything} files"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--connections", type=int, default=32)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_process(folder, given.seconds, given.connections)
        over_http(folder, given.seconds, given.connections)
        count_files(folder, given.connections)


if __name__ == "__main__":
    main()
