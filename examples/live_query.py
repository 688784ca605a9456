"""Live flights of 2013: reads two topics, and delivers the windows of the demo exactly once.

``python examples/live.py`` starts a broker and the producers, and runs this query; ``jobmanager run
examples/live_query.py`` runs it on your broker at ``LIVE_SERVERS``.
"""

from __future__ import annotations

import os

import pyarrow as pa
from flights import windows

import streamscope as ss

FLIGHTS, WEATHER, DELAYS = "flights", "weather", "delays"
#: Flights arrive in the order of their departure: up to 22 hours after their scheduled time. When a
#: silent partition resumes, it is behind the others by the delay of the producer and the broker:
#: two weeks of the replayed year are 1.5 s.
FLIGHTS_DELAY, WEATHER_DELAY = "336h", "1h"
FLIGHT = pa.schema(
    [
        pa.field("origin", pa.string()),
        pa.field("scheduled", pa.timestamp("us", "UTC")),
        pa.field("dep_delay", pa.int64()),
    ]
)
WEATHER_REPORT = pa.schema(
    [
        pa.field("origin", pa.string()),
        pa.field("time_hour", pa.timestamp("us", "UTC")),
        pa.field("visib", pa.float64()),
    ]
)


def query() -> ss.Query:
    """Return the live query, which delivers into the topic ``delays``."""
    servers = os.environ.get("LIVE_SERVERS", "127.0.0.1:9092")
    flights = ss.Stream.from_kafka(
        FLIGHTS, servers=servers, schema=FLIGHT, vs="scheduled", delay=FLIGHTS_DELAY
    )
    weather = ss.Stream.from_kafka(
        WEATHER,
        servers=servers,
        schema=WEATHER_REPORT,
        vs="time_hour",
        ve="+1h",
        delay=WEATHER_DELAY,
    )
    return windows(flights, weather).to_kafka(DELAYS, servers=servers, key=["origin"])
