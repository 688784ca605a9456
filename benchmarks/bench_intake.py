"""How many posts per second the intake accepts, with one row and with many, and its files.

    python benchmarks/bench_intake.py [--seconds 4] [--connections 32] [--only flight]

``--only flight`` compares Arrow over HTTP with Flight: batches of 1, 100 and 10,000 rows, by
producers that wait for each answer, and by one that sends more while answers are pending.

Producers are threads of one process beside the server; each posts with a number, waits for the
answer and posts the next. So the figures include the cost of the clients, which use the same cores.
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
import pyarrow.flight as flight

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
    """Return acknowledged pushes and their rate; it calls ``push(producer, number)``."""
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
    """HTTP posts over one connection per producer."""

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


class Puts:
    """Flight puts with one call per producer."""

    def __init__(self, url: str, rows: int, producers: int, run: str) -> None:
        self.batch, self.run = batch(rows), run
        self.clients = [flight.connect(url) for _ in range(producers)]
        place = flight.FlightDescriptor.for_path("rooms")
        self.calls = [client.do_put(place, SCHEMA) for client in self.clients]

    def send(self, producer: int, number: int) -> None:
        told = json.dumps({"producer": f"{self.run}-{producer}", "number": number}).encode()
        self.calls[producer][0].write_with_metadata(self.batch, told)

    def answer(self, producer: int) -> None:
        told = json.loads(self.calls[producer][1].read().to_pybytes())
        assert "error" not in told, told

    def __call__(self, producer: int, number: int) -> None:
        self.send(producer, number)
        self.answer(producer)

    def close(self) -> None:
        for (writer, _), client in zip(self.calls, self.clients, strict=True):
            writer.close()
            client.close()


def ahead(puts: Puts, seconds: float) -> tuple[int, float]:
    """Return acknowledged puts and their rate, with one producer whose thread reads the answers."""
    end_s = begin_s = time.perf_counter()
    end_s += seconds
    sent, more = 0, threading.Semaphore(0)
    is_over = threading.Event()

    def take() -> None:
        taken = 0
        while more.acquire() and not (is_over.is_set() and taken == sent):
            puts.answer(0)
            taken += 1

    thread = threading.Thread(target=take)
    thread.start()
    while time.perf_counter() < end_s:
        puts.send(0, sent)
        sent += 1
        more.release()
    is_over.set()
    more.release()
    thread.join()
    return sent, sent / (time.perf_counter() - begin_s)


def cpu_s(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def files(folder: Path) -> tuple[int, int]:
    """Return the number of segments, and of all files."""
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


def over_both(folder: Path, seconds: float, connections: int) -> None:
    """Measure Arrow batches over HTTP and then over Flight."""
    (folder / "intake.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "jobmanager", "intake", str(folder / "intake.toml"), "--json"]
    command += ["--port", "0", "--flight-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())

        def show(what: str, rows: int, run: Callable[[], tuple[int, float]]) -> None:
            before_s = cpu_s(server.pid)
            count, per_s = run()
            cpu_us = (cpu_s(server.pid) - before_s) / (count * rows) * 1e6
            print(
                f"{what}, {rows} rows: {per_s:,.0f} batches/s, {per_s * rows:,.0f} rows/s, "
                f"{cpu_us:,.2f} us of the server's processor time a row",
                flush=True,
            )

        for rows in (1, 100, 10_000):
            for producers in (1, connections):
                name = f"h{rows}-{producers}"
                posts = Posts(told["listening"], arrow(rows), ARROW, producers, name)
                show(f"http, {producers} producers", rows, lambda: rate(posts, producers, seconds))  # noqa: B023
                puts = Puts(told["flight"], rows, producers, f"f{rows}-{producers}")
                show(f"flight, {producers} producers", rows, lambda: rate(puts, producers, seconds))  # noqa: B023
                puts.close()
            puts = Puts(told["flight"], rows, 1, f"a{rows}")
            show("flight, 1 producer that goes on", rows, lambda: ahead(puts, seconds))  # noqa: B023
            puts.close()
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
    """Count the files after 10,000 appends of one row, by producers that wait for each answer."""
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
    parser.add_argument("--only", choices=["flight"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        over_both(folder, given.seconds, given.connections)
        if given.only:
            return
        in_process(folder, given.seconds, given.connections)
        over_http(folder, given.seconds, given.connections)
        count_files(folder, given.connections)


if __name__ == "__main__":
    main()
