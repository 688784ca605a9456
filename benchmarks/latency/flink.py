"""Latency of Flink SQL: a local cluster that reads a socket and prints its results.

The sink prints results at once. Exactly-once output waits for a checkpoint, so it would be later by
half of the checkpoint interval. All rates of a query go through one process, one after the other;
start-up and the load for the warm-up do not count.
"""

from __future__ import annotations

import io
import os
import re
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv
from open_loop import START_US, now_us, window_latencies

from latency.load import Inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

FLINK = Path(__file__).parents[2] / ".venvs" / "flink" / "bin" / "python"
SCRIPT = Path(__file__).parent / "flink_stream.py"
READY_WAIT_S = 90.0
STOP_WAIT_S = 20.0
WAIT_S = 20.0
LEAD_US = 500_000
#: After the last event of a load, an event this much later closes its windows, us; before the next
#: load begins.
CLOSING_US = 100_000
WARM_RATE, WARM_SECONDS = 5_000, 4.0
#: Pause between two sends of lines, s.
TICK_S = 0.0005
_ROW = re.compile(rb"\+I\[(-?\d+), (\d+), (\d+)\]")
Latencies = dict[int, tuple[np.ndarray, np.ndarray]]


def run_flink(loads: Sequence[Inputs]) -> Latencies:
    """Return latencies (us) and due times after the start of the load, by rate.

    Rates with which it could not keep up are missing. ``loads``: of one query.
    """
    first = loads[0]
    stream = FlinkStream(first.query, first.window_us)
    found: Latencies = {}
    try:
        started_us = now_us()
        warm = Inputs(first.query, WARM_RATE, WARM_SECONDS, first.window_us)
        for inputs in (warm, *loads):
            offset_us = now_us() + LEAD_US - started_us
            offset_us += -offset_us % CLOSING_US  # align the windows with those of the load
            seen = stream.run(inputs, started_us, offset_us)
            if inputs is warm:
                continue
            if seen is None:
                break
            found[inputs.rate] = _latencies(inputs, seen, started_us, offset_us)
        return found
    finally:
        stream.close()


class FlinkStream:
    """A running query: its process, its input sockets, and its printed rows with their times."""

    def __init__(self, query: str, window_us: int) -> None:
        inputs = 2 if query == "join" else 1
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(inputs)]
        ports = [str(server.getsockname()[1]) for server in servers]
        command = [str(FLINK), str(SCRIPT), "--query", query, "--window-us", str(window_us)]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [*command, "--ports", *ports], stdout=subprocess.PIPE, stderr=self._errors
        )
        #: The text read from its output, and when it was read.
        self._chunks: list[tuple[int, bytes]] = []
        self._rows = 0
        #: Windows that only the next load closes: the window of the last closing event.
        self._left_open = False
        threading.Thread(target=self._listen, daemon=True, name="flink-output").start()
        self._lines: list[socket.socket] = []
        try:
            for server in servers:
                server.settimeout(READY_WAIT_S)
                line = server.accept()[0]
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._lines.append(line)
        except TimeoutError:
            self.close()
            raise RuntimeError(f"Flink did not start: {self._told()}") from None

    def run(
        self, inputs: Inputs, started_us: int, offset_us: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Send a load on time, ``offset_us`` later; return its rows and when each was printed.

        None if not all rows were printed within ``WAIT_S`` after the load.
        """
        at, before = len(self._chunks), self._rows
        tables = [inputs.load.table()]
        if (intervals := inputs.intervals()) is not None:
            tables.append(intervals)
        senders = [
            threading.Thread(
                target=_send,
                args=(line, table, inputs.load.times_us(), started_us + offset_us, offset_us),
            )
            for line, table in zip(self._lines, tables, strict=True)
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        closing_us = START_US + offset_us + int(inputs.seconds * 1e6) + CLOSING_US
        for line in self._lines:  # a separate key, and a value that no filter passes
            line.sendall(f"{closing_us},{closing_us},0,10000\n".encode() if line is not
                         self._lines[0] else f"{closing_us},0,10000\n".encode())  # fmt: skip
        deadline_s = time.monotonic() + WAIT_S
        wanted = before + inputs.answers() + self._left_open
        self._left_open = inputs.query == "window"
        while self._rows < wanted and time.monotonic() < deadline_s:
            time.sleep(0.05)
        if self._rows < wanted:
            return None
        return parsed(self._chunks[at:])

    def close(self) -> None:
        """End the process."""
        for line in self._lines:
            line.close()
        self._process.terminate()
        try:
            self._process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        while chunk := os.read(self._process.stdout.fileno(), 1 << 20):
            self._chunks.append((now_us(), chunk))
            self._rows += chunk.count(b"\n")

    def _told(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2_000:].decode(errors="replace")


def _send(
    line: socket.socket, table: pa.Table, due_us: np.ndarray, from_us: int, offset_us: int
) -> None:
    """Send each event when it is due; if the socket is full, later."""
    columns = {}
    for field in table.schema:
        column = table[field.name]
        if pa.types.is_timestamp(field.type):
            column = pa.array(column.cast(pa.int64()).to_numpy() + offset_us)
        columns[field.name] = column
    sink = io.BytesIO()
    pyarrow.csv.write_csv(pa.table(columns), sink, pyarrow.csv.WriteOptions(include_header=False))
    text = memoryview(sink.getvalue())
    ends = np.concatenate([[0], np.flatnonzero(np.frombuffer(text, np.uint8) == 10) + 1])
    sent = 0
    while sent < len(due_us):  # ends with the load: time passes
        ready = int(np.searchsorted(due_us, now_us() - from_us, side="right"))
        if ready > sent:
            line.sendall(text[ends[sent] : ends[ready]])
            sent = ready
        time.sleep(TICK_S)


def parsed(chunks: list[tuple[int, bytes]]) -> tuple[np.ndarray, np.ndarray]:
    """Return when each row was printed, and the rows, int64[n, 3].

    The chunk with the row's end counts.
    """
    text = b"".join(chunk for _, chunk in chunks)
    found = list(_ROW.finditer(text))
    rows = np.array([match.groups() for match in found]).astype(np.int64).reshape(-1, 3)
    ends = np.cumsum([len(chunk) for _, chunk in chunks])
    at = np.searchsorted(ends, [match.end() for match in found])
    return np.array([at_us for at_us, _ in chunks])[at], rows


def _latencies(
    inputs: Inputs, seen: tuple[np.ndarray, np.ndarray], started_us: int, offset_us: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the latencies of one load.

    Raises:
        ValueError: the answer has a wrong number of rows.
    """
    at_us, rows = seen
    due_us = rows[:, 0] - START_US - offset_us
    mine = (due_us >= 0) & (due_us < int(inputs.seconds * 1e6))
    if mine.sum() != (expected := inputs.answers()):
        raise ValueError(f"{inputs}: {mine.sum()} rows of Flink, not {expected}")
    at_us, due_us, key = at_us[mine], due_us[mine], rows[mine, 1]
    load_us = started_us + offset_us
    if inputs.query == "window":
        latency = window_latencies(inputs.load, load_us, at_us, START_US + due_us, key)
        return latency, inputs.load.times_us()
    return at_us - load_us - due_us, due_us
