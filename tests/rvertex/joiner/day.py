"""A day of two sites that join clicks to searches: real joiners in a simulated world of one seed.

A click arrives up to 26 hours after its search; a few clicks have no search. Each site has its own
copy of both logs, in its own order: most rows arrive within a minute, some hours later. A claim
takes a second of each tick of a minute, and the other site may run meanwhile. Each site dies twice,
at a random call of the registry, its journal or its output. West cannot reach the registry for an
hour. A server of the registry dies, so no site reaches it for a tick. Appends and answers get lost,
and appends arrive late. The clocks differ by up to a minute.

Laws: an id is joined at most once, with its own search; every click whose search exists is joined;
every click without a search is marked once; less than 5 % of the joins are wasted.

    python -m tests.rvertex.joiner.day --searches 5000000

Not covered: two threads in one site; a store that loses acknowledged writes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.intake.writer import Append, LogWriter
from rstream.items.batch import Items
from rstream.store.memory_blobs import MemoryBlobs
from rvertex.checkpoint.journal import Journal
from rvertex.registry.errors import RegistryAwayError
from rvertex.registry.joiner.joiner import IdJoiner
from rvertex.registry.joiner.limits import JoinerLimits
from rvertex.registry.joiner.rows import JoinSpec, LogInput
from rvertex.registry.open_shard import RegistryLimits
from rvertex.registry.registry import IdRegistry

if TYPE_CHECKING:
    from collections.abc import Sequence

S, HOUR = 1_000_000, 3_600_000_000
DAY_US, DELAY_MAX_US = 24 * HOUR, 26 * HOUR
#: Simulated times start far from 1970, where a clock that is behind would be negative.
START_US = 1_700_000_000 * S
UNJOINABLE_US, RETRY_US = 6 * HOUR, 12 * HOUR
WITHOUT_SEARCH = 0.001
SITES = ("east", "west")
SEARCH = pa.schema([("q", pa.int64()), ("searched", pa.int64()), ("text", pa.int64())])
CLICK = pa.schema([("click", pa.int64()), ("q", pa.int64()), ("clicked", pa.int64())])
SPEC = JoinSpec("q", "click", "searched", "clicked", UNJOINABLE_US, RETRY_US, 60 * HOUR)
REGISTRY = RegistryLimits(keep_us=4 * 24 * HOUR, tries=2)


class DiedError(Exception):
    """Raised when the process of a site is killed."""


@dataclass(eq=False)
class Shared:
    """The registry's logs, as a majority of its servers has them."""

    logs: dict[int, list[bytes]] = field(default_factory=dict)
    trimmed: Counter[int] = field(default_factory=Counter)
    map: tuple[int, bytes] | None = None
    late: list[tuple[int, bytes]] = field(default_factory=list)

    def append(self, shard: int, data: bytes) -> int:
        log = self.logs.setdefault(shard, [])
        log.append(data)
        return self.trimmed[shard] + len(log)

    def read(self, shard: int, next_seq: int) -> list[tuple[int, bytes]]:
        first = self.trimmed[shard] + 1
        lo = max(next_seq - first, 0)
        return [(first + n, data) for n, data in enumerate(self.logs.get(shard, [])[lo:], lo)]


class Events:
    """Searches and clicks, and their arrival times at each site: arrays sorted by arrival."""

    def __init__(self, seed: int, searches: int, clicks: int) -> None:
        draw = np.random.default_rng(seed)
        hours = np.arange(60) * HOUR + DAY_US  # the log of searches continues
        day = np.sort(draw.integers(0, DAY_US, searches))
        self.searched = START_US + np.concatenate([day, hours])
        self.q = draw.integers(0, searches, clicks)
        kind = draw.random(clicks)
        delay = np.where(
            kind < 0.8,
            draw.exponential(120 * S, clicks),
            np.where(kind < 0.99, draw.exponential(HOUR, clicks), draw.random(clicks) * 26 * HOUR),
        )
        self.clicked = self.searched[self.q] + np.minimum(delay, DELAY_MAX_US).astype(np.int64)
        self.without = draw.random(clicks) < WITHOUT_SEARCH
        self.q[self.without] += len(self.searched)
        self.searches = {site: self._arrivals(draw, self.searched) for site in SITES}
        self.clicks = {site: self._arrivals(draw, self.clicked) for site in SITES}

    def _arrivals(self, draw: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers in the order of arrival, and the times of arrival."""
        count = len(times)
        kind = draw.random(count)
        late = draw.random(count)
        delay = 1 + late * 60 * S
        delay = np.where(kind < 0.02, late * HOUR, delay)
        delay = np.where(kind < 0.001, late * 15 * HOUR, delay)  # some beyond UNJOINABLE_US
        arrived = times + delay.astype(np.int64)
        order = np.argsort(arrived, kind="stable")
        return order, arrived[order]


class ArrayReader:
    """The rows of a site that have arrived."""

    def __init__(self, world: World, site: str, name: str, seq: int) -> None:
        self._world, self._site, self._name, self._seq = world, site, name, seq

    @property
    def next_seq(self) -> int:
        return self._seq

    def read_next(self, max_items: int = 1 << 16) -> Items | None:
        events = self._world.events
        order, arrived = getattr(events, self._name)[self._site]
        end = int(arrived.searchsorted(self._world.now_us))
        hi = min(end, self._seq + max_items)
        if hi <= self._seq:
            return None
        rows, first = order[self._seq : hi], self._seq
        times = arrived[first:hi]
        self._seq = hi
        if self._name == "searches":
            columns, names = [rows, events.searched[rows], rows * 7 + 1], SEARCH.names
        else:
            columns, names = [rows, events.q[rows], events.clicked[rows]], CLICK.names
        head = [np.zeros(len(rows), np.int8), times, times + 1]
        arrays = [pa.array(column) for column in (*head, *columns)]
        return Items(first, pa.record_batch(arrays, ["_kind", "_vs", "_ve", *names]))

    def wait(self, timeout_s: float) -> bool:
        return False

    def close(self) -> None:
        pass


class World:
    """Everything of one run."""

    def __init__(
        self, seed: int, searches: int, clicks: int, *, outage_h: float = 0.0, tick_s: int = 60
    ) -> None:
        self.tick_us = tick_s * S
        self.random = random.Random(seed)
        self.events = Events(seed, searches, clicks)
        self.now_us = START_US
        self.shared = Shared()
        self.met: Counter[str] = Counter()
        self.server_away_us = START_US + self.random.randrange(DAY_US)
        self.sites = [Site(self, name) for name in SITES]
        if outage_h:
            west = self.sites[1]
            west.deaths = [(START_US + HOUR, int(outage_h * HOUR))]
            west.cut_us = START_US
        last_us = max(int(self.events.clicked.max()), int(self.events.searched.max()))
        self.end_us = last_us + UNJOINABLE_US + RETRY_US + 16 * HOUR + int(outage_h * HOUR)
        self.running: list[Site] = []

    def run(self) -> list[str]:
        """Simulate the days. Return the broken laws."""
        while self.now_us < self.end_us:
            # After the last event only waiting rows remain, so larger ticks lose nothing.
            is_busy = self.now_us < START_US + DAY_US + DELAY_MAX_US
            self.now_us += self.tick_us if is_busy else 10 * self.tick_us
            if self.shared.late and self.random.random() < 0.1:
                self.met["late copy"] += 1
                self.shared.append(*self.shared.late.pop())
            for site in self.random.sample(self.sites, 2):
                while self.step_of(site):
                    pass
        return self.broken()

    def step_of(self, site: Site) -> bool:
        if site in self.running:
            return False
        self.running.append(site)
        try:
            return site.step()
        finally:
            self.running.remove(site)

    def call(self, site: Site) -> None:
        """Called before and after each call of a site: the site may die."""
        if site.deaths and self.now_us >= site.deaths[0][0]:
            site.dies_in -= 1
            if site.dies_in <= 0:
                site.dies_in = self.random.randrange(1, 40)
                site.away_until_us = self.now_us + site.deaths.pop(0)[1]
                self.met["died"] += 1
                raise DiedError

    def broken(self) -> list[str]:
        events, found = self.events, []
        clicks = len(events.q)
        joined, marked = np.zeros(clicks, np.int64), np.zeros(clicks, np.int64)
        for site in self.sites:
            rows = site.output_rows()
            click = rows.column("click").to_numpy()
            unjoinable = rows.column("unjoinable").to_numpy(zero_copy_only=False)
            np.add.at(joined, click[~unjoinable], 1)
            np.add.at(marked, click[unjoinable], 1)
            text = rows.column("text").to_numpy(zero_copy_only=False)
            if not (text[~unjoinable] == events.q[click[~unjoinable]] * 7 + 1).all():
                found.append("joined with another search")
        without = events.without
        self.met["joined"], self.met["marked"] = int(joined.sum()), int(marked.sum())
        self.met["marked and joined"] = int(((joined > 0) & (marked > 0)).sum())
        laws = {
            "joined twice": joined > 1,
            "not joined": (joined == 0) & ~without,
            "joined without a search": (joined > 0) & without,
            "marked twice": marked > 1,
            "not marked": (marked == 0) & without,
        }
        found += [f"{law}: {int(bad.sum())}" for law, bad in laws.items() if bad.any()]
        self.met["wasted"] = sum(site.counts["wasted"] for site in self.sites)
        if self.met["wasted"] > 0.05 * clicks:
            found.append(f"wasted: {self.met['wasted']}")
        waiting = sum(site.joiner.status()["waiting"] for site in self.sites if site.joiner)
        if waiting:
            found.append(f"still waiting: {waiting}")
        return found


class SiteLog:
    """The registry as seen by one site; see :class:`ClaimLog`."""

    def __init__(self, world: World, site: Site) -> None:
        self._world, self._site = world, site

    def _reach(self) -> None:
        world = self._world
        world.call(self._site)
        if 0 <= world.now_us - self._site.cut_us < HOUR:
            world.met["cut off"] += 1
            raise RegistryAwayError("r", "cut off")
        if 0 <= world.now_us - world.server_away_us < world.tick_us:
            world.met["server away"] += 1
            raise RegistryAwayError("r", "no leader")

    def append(self, shard: int, data: bytes) -> int:
        world, shared = self._world, self._world.shared
        self._reach()
        if world.random.random() < S / world.tick_us:
            for other in world.sites:
                world.step_of(other)
        dice = world.random.random()
        if dice < 0.01:
            world.met["lost"] += 1
            raise RegistryAwayError("r", "lost")
        if dice < 0.02:
            shared.late.append((shard, data))
            raise RegistryAwayError("r", "late")
        seq = shared.append(shard, data)
        world.call(self._site)
        if dice < 0.03:
            world.met["lost answer"] += 1
            raise RegistryAwayError("r", "no answer")
        return seq

    def read(self, shard: int, next_seq: int, until_seq: int | None) -> list[tuple[int, bytes]]:
        self._reach()
        return self._world.shared.read(shard, next_seq)

    def trim(self, shard: int, below_seq: int) -> None:
        shared = self._world.shared
        gone = below_seq - 1 - shared.trimmed[shard]
        if gone > 0:
            del shared.logs[shard][:gone]
            shared.trimmed[shard] += gone

    def read_map(self) -> tuple[int, bytes] | None:
        self._reach()
        return self._world.shared.map

    def write_map(self, data: bytes, version: int | None) -> bool:
        self._reach()
        shared = self._world.shared
        if (shared.map[0] if shared.map else None) != version:
            return False
        shared.map = (version or 0) + 1, data
        return True


class MortalBlobs(MemoryBlobs):
    """The disk of a site; the process may die before and after each write."""

    site: Site

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        self.site.world.call(self.site)
        is_new = super().put_new(path, data)
        self.site.world.call(self.site)
        return is_new


class SiteOutput:
    """The output log of a process, which has only one thread."""

    def __init__(self, store: MemoryBlobs, schema: pa.Schema) -> None:
        self._writer, self._commits = LogWriter(store, schema), 0

    def open_producer(self, producer: str) -> Any:
        return self._commit(Append(None, producer, None))

    def append(self, rows: pa.RecordBatch, *, producer: str, epoch: int, number: int) -> Any:
        return self._commit(Append(rows, producer, epoch, number))

    def close(self) -> None:
        pass

    def _commit(self, append: Append) -> Any:
        self._commits += 1
        (found,) = self._writer.commit([append], is_cut=self._commits % 32 == 0)
        assert not isinstance(found, Exception), found
        while self._writer.write_segment():
            pass
        return found


class SiteClock:
    """The world's time plus the error of this clock."""

    def __init__(self, world: World) -> None:
        self._world, self._wrong_us = world, world.random.randrange(-30 * S, 30 * S)

    def now_us(self) -> int:
        return self._world.now_us + self._wrong_us

    def monotonic_s(self) -> float:
        return self._world.now_us / S


class Site:
    """The joiner of a site; after a death it restarts from its disk."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.blobs: dict[str, dict[str, bytes]] = {"journal": {}, "output": {}}
        draw = world.random
        times = sorted(START_US + draw.randrange(DAY_US) for _ in range(2))
        #: When the process dies, and how long it is away.
        self.deaths = [(at, draw.randrange(5 * 60 * S, 2 * HOUR)) for at in times]
        self.dies_in = draw.randrange(1, 40)
        self.away_until_us = 0
        self.cut_us = START_US + draw.randrange(DAY_US) if name == "west" else 0
        self.clock = SiteClock(world)
        self.joiner: IdJoiner | None = None
        self.counts: Counter[str] = Counter()
        self.busy_s = 0.0

    def store(self, name: str) -> MortalBlobs:
        store = MortalBlobs(self.blobs[name])
        store.site = self
        return store

    def step(self) -> bool:
        """Do one step of the joiner. Return False if it waits or is down."""
        if self.world.now_us < self.away_until_us:
            return False
        begun_s = time.process_time()
        try:
            if self.joiner is None:
                self.joiner = self.opened()
            return self.joiner.step()
        except RegistryAwayError:
            return False
        except DiedError:
            if self.joiner is not None:
                self.counts += self.joiner.counts
            self.joiner = None
            return False
        finally:
            self.busy_s += time.process_time() - begun_s

    def opened(self) -> IdJoiner:
        searches = LogInput("searches", SEARCH, "searched", self._opener("searches"))
        clicks = LogInput("clicks", CLICK, "clicked", self._opener("clicks"))
        registry = IdRegistry(SiteLog(self.world, self), self.clock, "r", REGISTRY, shards=2)
        fields = [*CLICK, SEARCH.field(1), SEARCH.field(2), pa.field("unjoinable", pa.bool_())]
        output = SiteOutput(self.store("output"), pa.schema(fields))
        limits = JoinerLimits(cache_bytes=8 << 20, steps_per_record=64, retry_first_s=60)
        return IdJoiner(
            SPEC,
            searches,
            clicks,
            output,
            Journal(self.store("journal"), "steps"),
            registry,
            self.clock,
            limits,
            new_token=self.name,
        )

    def _opener(self, name: str) -> Any:
        return lambda seq: ArrayReader(self.world, self.name, name, seq or 0)

    def output_rows(self) -> pa.Table:
        """All rows of the output, read with the log's reader."""
        from rstream.intake.reader import open_log

        if self.joiner is not None:
            self.counts += self.joiner.counts
        reader, parts = open_log(MemoryBlobs(self.blobs["output"])), []
        while (items := reader.read_next(1 << 16)) is not None:
            parts.append(items.batch)
        return pa.Table.from_batches(parts)


def report(world: World, broken: Sequence[str], wall_s: float) -> dict[str, Any]:
    """The results of a run."""
    stores = [site.joiner.status() for site in world.sites if site.joiner]
    hits, disk = (sum(s[name] for s in stores) for name in ("memory_hits", "disk_hits"))
    return {
        "searches": len(world.events.searched),
        "clicks": len(world.events.q),
        "simulated_h": (world.now_us - START_US) / HOUR,
        "wall_s": round(wall_s, 1),
        "busy_s": {site.name: round(site.busy_s, 1) for site in world.sites},
        "wasted_share": world.met["wasted"] / len(world.events.q),
        "memory_share_of_hits": round(hits / max(hits + disk, 1), 3),
        "met": dict(world.met),
        "by_site": {site.name: dict(site.counts) for site in world.sites},
        "broken": list(broken),
    }


def main() -> None:
    """Simulate and print JSON; exit code 1 if a law is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--searches", type=int, default=5_000_000)
    parser.add_argument("--clicks", type=int, help="by default as many as searches")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--outage-hours", type=float, default=0.0, help="of west, after an hour")
    args = parser.parse_args()
    clicks = args.clicks or args.searches
    world = World(args.seed, args.searches, clicks, outage_h=args.outage_hours)
    begun_s = time.perf_counter()
    broken = world.run()
    print(json.dumps(report(world, broken, time.perf_counter() - begun_s)))
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
