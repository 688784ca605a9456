"""The query of the soak run: windows of a second by 100 keys, delivered exactly once.

``jobmanager run benchmarks/soak/windows.py`` runs it on the broker at ``SOAK_SERVERS``.
"""

from __future__ import annotations

import os

import pyarrow as pa

import streamscope as ss

#: A partition that resumes after silence may be behind the others by this; it is longer than the
#: broker is ever frozen.
DELAY = "8s"
EVENT = pa.schema(
    [pa.field("at", pa.int64()), pa.field("key", pa.int64()), pa.field("amount", pa.int64())]
)


def query() -> ss.Query:
    """Return the query from the topic ``events`` to the topic ``windows``."""
    servers = os.environ["SOAK_SERVERS"]
    events = ss.Stream.from_kafka(
        "events", servers=servers, schema=EVENT, vs="at", delay=DELAY, idle_after="1s"
    )
    windows = (
        events.group_by("key")
        .window(ss.tumbling("1s"))
        .agg(n=ss.agg.count(), total=ss.agg.sum("amount"))
    )
    return windows.to_kafka("windows", servers=servers)
