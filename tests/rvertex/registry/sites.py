"""Sites that deliver the same rows through one registry, in a simulated world of one seed.

Each site gets the rows in its own order and at its own pace, dies and restarts, and sometimes
cannot reach the registry. Appends or their answers are lost, or appends arrive long after the
caller has given up. Clocks differ. Meanwhile the number of shards grows, and old entries are
deleted.

Laws: an id leaves at most one site; an id that no site delivers was too old at every site; an id is
too old only if it is older than the registry's retention.

Not covered: a store that loses acknowledged entries.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.clock import ManualClock
from rvertex.registry.errors import RegistryAwayError, RegistryChangeError
from rvertex.registry.once import OnceDestination
from rvertex.registry.open_shard import RegistryLimits
from rvertex.registry.registry import IdRegistry
from rvertex.registry.shard import Verdict
from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress
from rvertex.sinks.spec import ConsoleSink, DeliveryPlace, OnceSink, RegistrySpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KEEP_US, MARGIN_US, SKEW_US = 1000, 60, 20
LIMITS = RegistryLimits(
    keep_us=KEEP_US, margin_us=MARGIN_US, skew_us=SKEW_US, entry_ids_max=5, tries=2
)
IDS, LAST_US = 160, 4000
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))])
SPEC = OnceSink(ConsoleSink(), "id", "at", RegistrySpec(("nats://none",), "r", KEEP_US), "skip")


class DiedError(Exception):
    """Raised when the process of a site is killed."""


@dataclass(eq=False)
class Store:
    """The replicated logs, as a majority of the servers has them."""

    logs: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    next_seqs: Counter[int] = field(default_factory=Counter)
    map: tuple[int, bytes] | None = None
    #: Appends still pending although their callers have given up.
    under_way: list[tuple[int, bytes]] = field(default_factory=list)

    def append(self, shard: int, data: bytes) -> int:
        self.next_seqs[shard] += 1
        seq = self.next_seqs[shard]
        self.logs.setdefault(shard, []).append((seq, data))
        return seq


class MemoryLog:
    """The store without faults, except when it is unreachable."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = Store() if store is None else store
        self.appends = 0
        #: Appends wait for it, so that others gather.
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Event()
        self.is_away = False

    def append(self, shard: int, data: bytes) -> int:
        self.arrived.set()
        assert self.gate.wait(120)
        self.appends += 1
        if self.is_away:
            raise RegistryAwayError("r", "away")
        return self.store.append(shard, data)

    def read(self, shard: int, next_seq: int, until_seq: int | None) -> list[tuple[int, bytes]]:
        return [entry for entry in self.store.logs.get(shard, []) if entry[0] >= next_seq]

    def trim(self, shard: int, below_seq: int) -> None:
        kept = [entry for entry in self.store.logs.get(shard, []) if entry[0] >= below_seq]
        self.store.logs[shard] = kept

    def read_map(self) -> tuple[int, bytes] | None:
        return self.store.map

    def write_map(self, data: bytes, version: int | None) -> bool:
        if (self.store.map[0] if self.store.map else None) != version:
            return False
        self.store.map = (version or 0) + 1, data
        return True


class World:
    """Everything of one run; time passes with every call."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.time_us = 0.0
        self.store = Store()
        self.met: Counter[str] = Counter()
        times = sorted(self.random.randrange(LAST_US) for _ in range(IDS))
        self.rows = list(enumerate(times))
        self.sites = [Site(self, name) for name in ("east", "west")]
        self.running: list[Site] = []
        self.operator = Site(self, "operator")
        self.shards = 1

    def run(self) -> list[str]:
        """Let all sites finish. Return the broken laws."""
        steps = 0
        while any(not site.is_done for site in self.sites):
            steps += 1
            assert steps < 200_000, "the sites do not finish"
            self.pass_time()
            self.step_of(self.random.choice(self.sites))
        return self.broken()

    def undelivered(self) -> list[int]:
        """Ids that count as undelivered after all sites have reported their outputs."""
        clock = ManualClock(int(self.time_us))
        registry = IdRegistry(MemoryLog(self.store), clock, "r", LIMITS)
        for site in self.sites:
            registry.resume(site.token, site.next_seq)
        return [int(id_) for id_ in registry.undelivered()]

    def broken(self) -> list[str]:
        outputs = Counter(id_ for site in self.sites for id_ in site.committed)
        twice = sorted(id_ for id_, count in outputs.items() if count > 1)
        missing = [
            id_
            for id_, _ in self.rows
            if not outputs[id_] and any(id_ not in site.old for site in self.sites)
        ]
        newest = max(time_us for _, time_us in self.rows)
        young = [
            id_
            for id_, time_us in self.rows
            if time_us > newest - KEEP_US and any(id_ in site.old for site in self.sites)
        ]
        self.met["delivered"] += len(outputs)
        found = [("twice", twice), ("missing", missing), ("too young to refuse", young)]
        found.append(("noted as undelivered", self.undelivered()))
        return [f"{law}: {ids}" for law, ids in found if ids]

    def pass_time(self) -> None:
        """Let a moment pass, in which others may act."""
        self.time_us += self.random.expovariate(1.0)
        dice = self.random.random()
        if self.store.under_way and dice < 0.05:
            self.met["late copy"] += 1
            self.store.append(*self.store.under_way.pop(0))
        elif dice > 0.995 and self.operator not in self.running:
            self.running.append(self.operator)
            self.grow()
            self.running.remove(self.operator)

    def grow(self) -> None:
        try:
            self.operator.registry.change_shards(self.shards + 1)
        except (RegistryAwayError, RegistryChangeError):
            return
        self.shards += 1
        self.met["grown"] += 1

    def step_of(self, site: Site) -> None:
        if site in self.running or site.is_done:
            return
        self.running.append(site)
        site.step()
        self.running.remove(site)

    def call(self, site: Site) -> None:
        """Called before each call of a site: time passes, others run, the site may die."""
        self.pass_time()
        for other in self.sites:
            if self.random.random() < 0.2:
                self.step_of(other)
        if site is not self.operator and self.random.random() < 0.01:
            self.met["died"] += 1
            raise DiedError
        if self.time_us < site.cut_until_us:
            raise RegistryAwayError("r", "cut off")
        if self.random.random() < 0.005:
            self.met["cut off"] += 1
            site.cut_until_us = self.time_us + self.random.expovariate(1 / 60)


class SiteLog:
    """The store as seen by one site."""

    def __init__(self, world: World, site: Site) -> None:
        self._world, self._site = world, site

    def append(self, shard: int, data: bytes) -> int:
        world, store = self._world, self._world.store
        world.call(self._site)
        dice = world.random.random()
        if dice < 0.05:
            raise RegistryAwayError("r", "lost")
        if dice < 0.1:
            store.under_way.append((shard, data))
            raise RegistryAwayError("r", "late")
        seq = store.append(shard, data)
        world.call(self._site)
        if dice < 0.2:
            world.met["lost answer"] += 1
            raise RegistryAwayError("r", "no answer")
        return seq

    def read(self, shard: int, next_seq: int, until_seq: int | None) -> list[tuple[int, bytes]]:
        self._world.call(self._site)
        log = self._world.store.logs.get(shard, [])
        return [entry for entry in log if entry[0] >= next_seq][: self._world.random.randint(1, 9)]

    def trim(self, shard: int, below_seq: int) -> None:
        self._world.call(self._site)
        log = self._world.store.logs.get(shard, [])
        self._world.met["trimmed"] += sum(seq < below_seq for seq, _ in log)
        self._world.store.logs[shard] = [entry for entry in log if entry[0] >= below_seq]

    def read_map(self) -> tuple[int, bytes] | None:
        self._world.call(self._site)
        return self._world.store.map

    def write_map(self, data: bytes, version: int | None) -> bool:
        world, store = self._world, self._world.store
        world.call(self._site)
        for _ in range(world.random.choice([0, 0, 80])):  # it takes long to arrive
            world.pass_time()
            world.step_of(world.random.choice(world.sites))
        if (store.map[0] if store.map else None) != version:
            return False
        store.map = (version or 0) + 1, data
        return True


class SiteClock:
    """The world's time plus the error of this clock."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._wrong_us = world.random.uniform(-SKEW_US / 2, SKEW_US / 2)

    def now_us(self) -> int:
        return int(self._world.time_us + self._wrong_us)

    def monotonic_s(self) -> float:
        return self._world.time_us / 1e6


class Site:
    """A delivery at one site: rows in the order of arrival, and its committed rows."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name
        draw = world.random
        #: One of the sites may be absent at first, for longer than ids are kept.
        away_us = draw.choice([0, 0, 300, 1500]) if name == "west" else 0
        arrivals = [
            (max(time_us + draw.choice([0, 2, 20, 700]) * draw.random(), away_us), id_, time_us)
            for id_, time_us in world.rows
        ]
        self.arrivals = sorted(arrivals)
        self.committed: list[int] = []
        self.next_seq = 0
        self.old: set[int] = set()
        self.cut_until_us = 0.0
        self._away_until_us = 0.0
        self._clock = SiteClock(world)
        self._epoch = 0
        self._begin()

    @property
    def is_done(self) -> bool:
        return self.next_seq == len(self.arrivals)

    def _begin(self) -> None:
        """Start a new process, which knows only what the destination stores."""
        log = SiteLog(self._world, self)
        self.registry = NotedRegistry(log, self._clock, "r", LIMITS)
        self.registry.site = self
        place = DeliveryPlace(self._name, "d", 0, 1, SCHEMA)
        self.token = place.stream
        self._delivery = OnceDestination(SPEC, place, Output(self), self.registry)
        self._is_open = False

    def step(self) -> None:
        """Deliver some of the arrived rows, as a delivery does."""
        if self._world.time_us < self._away_until_us:
            return
        due = sum(arrival[0] <= self._world.time_us for arrival in self.arrivals)
        next_seq = min(due, self.next_seq + self._world.random.randint(1, 8))
        if next_seq == self.next_seq:
            return
        rows = self.arrivals[self.next_seq : next_seq]
        columns = [[row[1] for row in rows], [row[2] for row in rows]]
        arrays = [pa.array(column, f.type) for column, f in zip(columns, SCHEMA, strict=True)]
        table = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        seqs = np.arange(self.next_seq, next_seq)
        try:
            if not self._is_open:
                self._delivery.open(1)
                self._is_open = True
            self._delivery.write(DeliveredRows(self.next_seq, next_seq, seqs, table))
            self._world.call(self)
            self._delivery.commit(DeliveryProgress(next_seq, b""))
        except RegistryAwayError:
            self._is_open = False
        except DiedError:
            self._begin()
            if self._world.random.random() < 0.1:  # for longer than ids are kept
                self._world.met["away"] += 1
                self._away_until_us = self._world.time_us + 1.5 * KEEP_US


class NotedRegistry(IdRegistry):
    """Records which ids were rejected as too old."""

    site: Site

    def claim(
        self, token: str, ids: Sequence[bytes], times_us: Sequence[int], next_seq: int
    ) -> list[Verdict]:
        verdicts = super().claim(token, ids, times_us, next_seq)
        for id_, verdict in zip(ids, verdicts, strict=True):
            if verdict is Verdict.OLD:
                self.site.old.add(int(id_))
        return verdicts


class Output:
    """A site's destination, with its rows."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._rows: list[int] = []

    def open(self, epoch: int) -> DeliveryProgress | None:
        self._rows = []
        return DeliveryProgress(self._site.next_seq, b"") if self._site.next_seq else None

    def write(self, rows: DeliveredRows) -> None:
        self._rows += rows.table.column("id").to_pylist()

    def commit(self, progress: DeliveryProgress) -> None:
        self._site.committed += self._rows
        self._site.next_seq, self._rows = progress.next_seq, []

    def close(self) -> None:
        self._rows = []


def broken_in(seeds: Iterable[int]) -> list[str]:
    """The laws broken by the first of these runs that breaks any."""
    for seed in seeds:
        broken = World(seed).run()
        if broken:
            return [f"seed {seed}", *broken]
    return []
