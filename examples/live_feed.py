"""Replays the year 2013: flights into four partitions at their departure, and weather reports.

Rows go to Kafka topics at SERVERS, within SECONDS. Partition 3 has no rows half of the time.
Run it with ``python examples/live_feed.py SERVERS SECONDS``.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from flights import inputs, left_at, micros
from live_query import FLIGHTS, WEATHER

PARTITIONS = 4
#: Partition 3 gets flights in every second of this many equal parts of the year, the first one
#: included.
PHASES = 8
STEP_S = 0.05
FLUSH_WAIT_S = 30.0


def main(servers: str, seconds: float) -> None:
    """Produce the year within ``seconds``, at an even rate of event time."""
    folder = inputs()
    flights, weather = (pq.read_table(folder / f"{name}.parquet") for name in (FLIGHTS, WEATHER))
    left = left_at(flights)
    hours = micros(weather["time_hour"])
    flight_rows, weather_rows = flight_values(flights), weather_values(weather)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "enable.idempotence": True})
    begin, end = int(min(left[0], hours[0])), int(max(left[-1], hours[-1])) + 1
    started = time.monotonic()
    flight_at = weather_at = 0
    share, phase = 0.0, -1
    while share < 1:  # ends after ``seconds``
        elapsed = time.monotonic() - started
        share = min(1.0, elapsed / seconds)
        now = begin + int((end - begin) * share)
        if int(share * PHASES) != phase:
            phase = int(share * PHASES)
            print(json.dumps({"phase": phase}), flush=True)
        open_partitions = PARTITIONS - phase % 2
        weather_until = int(np.searchsorted(hours, now, side="right"))
        for row in range(weather_at, weather_until):
            send(producer, WEATHER, weather_rows[row], 0)
        flight_until = int(np.searchsorted(left, now, side="right"))
        for row in range(flight_at, flight_until):
            send(producer, FLIGHTS, flight_rows[row], row % open_partitions)
        weather_at, flight_at = weather_until, flight_until
        producer.poll(0)
        time.sleep(max(0.0, STEP_S - (time.monotonic() - started - elapsed)))
    if producer.flush(FLUSH_WAIT_S):
        raise SystemExit("the broker did not take all messages")
    print(json.dumps({"flights": len(flight_rows), "weather": len(weather_rows)}))


def send(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    """Produce one message; if the producer's queue is full, wait for room."""
    while True:  # ends when the broker takes messages again
        try:
            producer.produce(topic, value, partition=partition)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def flight_values(flights: pa.Table) -> list[bytes]:
    """Return each flight as a JSON object."""
    scheduled = micros(flights["time_hour"]) + flights["minute"].to_numpy() * 60_000_000
    rows = zip(
        flights["origin"].to_pylist(),
        iso(scheduled),
        flights["dep_delay"].to_pylist(),
        strict=True,
    )
    return [
        json.dumps({"origin": origin, "scheduled": at, "dep_delay": delay}).encode()
        for origin, at, delay in rows
    ]


def weather_values(weather: pa.Table) -> list[bytes]:
    """Return each report as a JSON object."""
    rows = zip(
        weather["origin"].to_pylist(),
        iso(micros(weather["time_hour"])),
        weather["visib"].to_pylist(),
        strict=True,
    )
    return [
        json.dumps({"origin": origin, "time_hour": at, "visib": visib}).encode()
        for origin, at, visib in rows
    ]


def iso(times: np.ndarray) -> list[str]:
    """Return microseconds as ISO-8601 in UTC."""
    return [f"{text}Z" for text in np.datetime_as_string(times.astype("datetime64[us]"), unit="s")]


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
