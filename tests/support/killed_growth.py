"""A job over a topic whose driver dies after storing a grown plan, before its vertices start.

Run with: the servers, the topic, the root.
"""

from __future__ import annotations

import os
import signal
import sys

import jobmanager
from jobmanager.driver.driver import Driver
from planner import Stream, agg, tumbling
from tests.support.feed import DELAY_US, SCHEMA, WINDOW_US
from tests.support.jobs import with_limits

QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5, verify=True)


def _die(driver: Driver, added: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(servers: str, topic: str, root: str) -> None:
    Driver.add_partitions = _die  # type: ignore[method-assign, assignment]
    stream = Stream.from_kafka(
        topic,
        servers=servers,
        schema=SCHEMA,
        vs="t",
        delay=DELAY_US,
        idle="wait",
        partitions=2,
    )
    query = stream.group_by("key").window(tumbling(WINDOW_US)).agg(n=agg.count()).to_parquet()
    job = jobmanager.run(query, root=root, executor="local", config=QUICK)
    job.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
