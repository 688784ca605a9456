"""How many ids per second a registry accepts: single ones, batches, with shards, and ranges.

Three NATS servers run on this machine, with every entry synced. One process claims new ids, then
another one claims the same ids, like a site that is behind. "Create" is JetStream's own conditional
create, one key per id. A range is one claim for all rows of a range of sequence numbers.

    python benchmarks/bench_registry.py [--ids 20000]

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import nats

sys.path.insert(0, str(Path(__file__).parent.parent))
from rstream.clock import SystemClock
from rvertex.registry.nats_log import NatsLog
from rvertex.registry.open_shard import RegistryLimits
from rvertex.registry.registry import IdRegistry
from rvertex.registry.shard import Verdict
from tests.support.nats_servers import NatsServers, nats_servers

RANGE_ROWS = 4096
KEEP_US = 10**15


def main() -> None:
    """Measure everything and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", type=int, default=20_000)
    count = parser.parse_args().ids
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, nats_servers(Path(folder)) as servers:
        found["create, one by one"] = create(servers, min(count, 1000), in_flight=1)
        found["create, 256 in flight"] = create(servers, min(count, 10_000), in_flight=256)
        found["one by one"] = claims(servers, "one", min(count, 1000), batch=1, shards=1)
        for shards in (1, 4, 16):
            found[f"batches of 5,000, {shards} shards"] = claims(
                servers, f"many-{shards}", 10 * count, batch=5000, shards=shards
            )
        ranges = claims(servers, "ranges", min(count, 1000), batch=1, shards=1)
        found[f"ranges of {RANGE_ROWS:,}"] = {k: v * RANGE_ROWS for k, v in ranges.items()}
    for name, numbers in found.items():
        shown = ", ".join(f"{k} {v:,.0f}/s" for k, v in numbers.items())
        print(f"{name}: {shown}")
    print(json.dumps({"ids": count, "found": found}))


def claims(
    servers: NatsServers, name: str, count: int, *, batch: int, shards: int
) -> dict[str, float]:
    """Return the rows per second that the first site claims, and that the second then looks up."""
    ids = [str(n).encode() for n in range(count)]
    rates = {}
    for token, expected in (("claimed", Verdict.OURS), ("looked up", Verdict.TAKEN)):
        log = NatsLog(servers.urls, name)
        limits = RegistryLimits(keep_us=KEEP_US)
        pool = ThreadPoolExecutor(shards)
        registry = IdRegistry(log, SystemClock(), name, limits, shards=shards, pool=pool)
        registry.claim("begin", [b"begin"], [0], 1)
        begun = perf_counter()
        for lo in range(0, count, batch):
            some = ids[lo : lo + batch]
            assert set(registry.claim(token, some, [0] * len(some), lo + batch)) == {expected}
        rates[token] = count / (perf_counter() - begun)
        pool.shutdown()
        log.close()
    return rates


def create(servers: NatsServers, count: int, *, in_flight: int) -> dict[str, float]:
    """Return the keys per second that JetStream creates if they are absent."""

    async def run() -> float:
        client = await nats.connect(servers.urls)
        js = client.jetstream(timeout=30)
        bucket = await js.create_key_value(bucket=f"keys-{in_flight}", replicas=3)
        begun = perf_counter()
        for lo in range(0, count, in_flight):
            calls = (bucket.create(str(n), b"token") for n in range(lo, min(count, lo + in_flight)))
            await asyncio.gather(*calls)
        rate = count / (perf_counter() - begun)
        await client.close()
        return rate

    return {"created": asyncio.run(run())}


if __name__ == "__main__":
    main()
