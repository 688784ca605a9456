"""A registry on three real servers, of which one is killed; two jobs deliver through it.

Not covered: a power loss of several servers.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import nats
import pyarrow.parquet as pq
import pytest

import streamscope as ss
from rstream.clock import SystemClock
from rvertex.registry.errors import RegistryLostError
from rvertex.registry.nats_log import NatsLog
from rvertex.registry.open_shard import RegistryLimits
from rvertex.registry.registry import IdRegistry
from rvertex.registry.shard import Verdict
from tests.support.gate import SourceGate
from tests.support.nats_servers import nats_servers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.nats_servers import NatsServers

pytestmark = pytest.mark.slow
KEEP_US = 10**15
WAIT_S = 120.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    with nats_servers(tmp_path_factory.mktemp("nats")) as found:
        yield found


def opened(servers: NatsServers, name: str, shards: int = 1) -> tuple[NatsLog, IdRegistry]:
    log = NatsLog(servers.urls, name)
    limits = RegistryLimits(keep_us=KEEP_US, tries=20)
    return log, IdRegistry(log, SystemClock(), name, limits, shards=shards)


def test_the_first_claim_wins_even_if_a_server_is_killed(servers: NatsServers) -> None:
    logs, (east, west) = zip(*(opened(servers, "killed", 4) for _ in range(2)), strict=True)
    ids = [str(n).encode() for n in range(3000)]
    won: Counter[bytes] = Counter()

    def claim(registry: IdRegistry, token: str, of: list[bytes]) -> None:
        for lo in range(0, len(of), 100):
            some = of[lo : lo + 100]
            for id_, verdict in zip(
                some, registry.claim(token, some, [5] * 100, lo + 100), strict=True
            ):
                won[id_] += verdict is Verdict.OURS

    with ThreadPoolExecutor(3) as pool:
        calls = [
            pool.submit(claim, east, "east", ids),
            pool.submit(claim, west, "west", ids[::-1]),
        ]
        servers.kill(0)
        servers.start(0)
        for call in calls:
            call.result(WAIT_S)
    assert won == Counter(ids)
    east.delivered("east", 3000)
    east.flush()
    assert set(west.undelivered().values()) <= {"west"}
    for log in logs:
        log.close()


def test_a_new_site_reads_the_claims_of_others(servers: NatsServers) -> None:
    log, first = opened(servers, "newcomer")
    assert first.claim("a", [b"x", b"y"], [5, 5], 9) == [Verdict.OURS] * 2
    other_log, second = opened(servers, "newcomer")
    found = second.claim("b", [b"x", b"z"], [5, 5], 9)
    assert found == [Verdict.TAKEN, Verdict.OURS]
    second.release("a", 0)
    assert first.claim("c", [b"y"], [5], 9) == [Verdict.OURS]
    assert first.change_shards(3) > 0
    log.close()
    other_log.close()


def test_deleted_streams_are_named(servers: NatsServers) -> None:
    log, running = opened(servers, "emptied")
    assert running.claim("a", [b"x"], [5], 1) == [Verdict.OURS]
    asyncio.run(delete_streams(servers, "emptied-0", "emptied-map"))
    with pytest.raises(RegistryLostError, match="the log of shard 0 starts again at entry 1"):
        running.claim("a", [b"y"], [5], 2)
    other_log, successor = opened(servers, "emptied")
    with pytest.raises(
        RegistryLostError, match="its streams are empty, although a has claimed ids in it"
    ):
        successor.resume("a", 1, has_claimed=True)
    log.close()
    other_log.close()


async def delete_streams(servers: NatsServers, *names: str) -> None:
    client = await nats.connect(servers.urls)
    for name in names:
        await client.jetstream().delete_stream(name)
    await client.close()


def test_two_jobs_deliver_each_row_once(
    servers: NatsServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both jobs start at the same time, and either may claim a row that both read."""
    gate, running = SourceGate(), [threading.Event() for _ in range(2)]
    gate.stand(monkeypatch)
    gate.close_at_time(-1)
    registry = ss.sinks.registry(servers.urls, "jobs", keep="3650d", shards=2)
    # The last 100 ids are of one site only, so both sites deliver rows, whichever is faster.
    ids = {"east": [*range(5000), *range(5000, 5100)], "west": [*range(5000), *range(5100, 5200)]}

    def query(site: str) -> Any:
        times = [ss.event(n * 1000, id=k, at_us=n * 1000) for n, k in enumerate(ids[site])]
        rows = ss.Stream.from_items({"id": "int64", "at_us": "int64"}, times, partitions=2)
        stamped = rows.select("id", at=ss.col("at_us").cast("timestamp[us]"))
        to = ss.sinks.parquet(str(tmp_path / site), roll="50ms", roll_rows=100)
        return stamped.deliver(ss.sinks.once(to, id="id", at="at", registry=registry))

    def note(is_running: threading.Event, status: dict[str, Any]) -> None:
        if status["state"] == "running":
            is_running.set()

    jobs = [
        ss.run(
            query(site),
            root=str(tmp_path / f"job-{site}"),
            executor="local",
            on_status=partial(note, is_running),
        )
        for site, is_running in zip(ids, running, strict=True)
    ]
    assert all(is_running.wait(WAIT_S) for is_running in running)
    gate.open()
    for job in jobs:
        job.wait(WAIT_S)
    found = [pq.read_table(tmp_path / site)["id"].to_pylist() for site in ids]
    assert Counter(found[0] + found[1]) == Counter(range(5200))
    assert all(set(rows) >= set(ids[site][5000:]) for site, rows in zip(ids, found, strict=True))
    assert ss.sinks.open_registry(registry).undelivered() == {}
