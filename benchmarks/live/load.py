"""The generator: one process that sends events when they are due, without waiting for results.

``python -m live.load SERVERS`` reads one JSON object per line, ``{"number", "rate", "seconds"}``
and other fields of :class:`live.events.Step`, prints when that step starts, in microseconds, sends
it, and prints the number of rows, the greatest delay and its processor time. It ends when its
standard input is closed.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import numpy as np
from confluent_kafka import Producer

from live.events import PARTITIONS, SIDE_TOPIC, TOPIC, Step, value_of

#: Messages that the broker has not accepted within this time after a step are dropped: the rate was
#: too high, s.
FLUSH_WAIT_S = 0.5
#: Values are made before the first one is due; making one takes about this long, s.
_MAKING_S = 4e-6
_LEAD_S, _LEAD_S_MIN = 0.3, 0.05
_TICK_S = 0.001
#: A step ends this long after its planned end, and reports the number of sent messages, s.
_LATE_S_MAX = 0.2
_METADATA_S = 10.0


def main(servers: str) -> None:
    """Send steps until the input ends."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 1,
            "queue.buffering.max.messages": 2_000_000,
            "log_level": 0,
        }
    )
    for topic in (TOPIC, SIDE_TOPIC):  # otherwise the first messages may be sent out of order
        producer.list_topics(topic, _METADATA_S)
    for line in sys.stdin:
        planned, due_us, messages = made(json.loads(line))
        print(planned.started_us, flush=True)
        print(json.dumps(sent(producer, planned, due_us, messages)), flush=True)


def made(order: dict[str, int]) -> tuple[Step, np.ndarray, list[dict[str, object]]]:
    """Return a step that starts soon, with its messages made before the first is due."""
    rows = int(order["rate"] * order["seconds"])
    lead_s = _LEAD_S + rows * _MAKING_S
    while True:  # ends when the lead is enough: it doubles
        # Windows of 10 ms begin with the step.
        started_us = round(round(time.time() + lead_s, 2) * 1_000_000)
        others = {k: order[k] for k in ("sides_per_s", "keys", "by_key") if k in order}
        planned = Step(order["number"], started_us, order["rate"], rows, **others)
        due_us, messages = messages_of(planned)
        if time.time() < started_us / 1e6 - _LEAD_S_MIN:
            return planned, due_us, messages
        lead_s *= 2


def sent(
    producer: Producer, planned: Step, due_us: np.ndarray, messages: list[dict[str, object]]
) -> dict[str, object]:
    """Send the rows of a step on time; return its rate, delay and processor time."""
    starts_s = planned.started_us / 1e6
    used_s = time.process_time()
    until_s = starts_s + planned.rows / planned.rate + _LATE_S_MAX
    done, behind_s = 0, 0.0
    while done < len(messages) and (now_s := time.time()) < until_s:
        ready = int(np.searchsorted(due_us, now_s * 1e6, side="right"))
        if ready > done:
            behind_s = max(behind_s, now_s - due_us[done] / 1e6)
            batches: dict[tuple[object, object], list[dict[str, object]]] = {}
            for m in messages[done:ready]:
                batches.setdefault((m["topic"], m["partition"]), []).append(m)
            # the partitioner of the client is not used
            for (topic, partition), batch in batches.items():
                producer.produce_batch(topic, batch, partition=partition)
            done = ready
        producer.poll(0)
        time.sleep(_TICK_S)
    used_s = time.process_time() - used_s
    left = producer.flush(FLUSH_WAIT_S)
    producer.purge()
    events = sum(message["topic"] is TOPIC for message in messages[:done])
    step = replace(planned, rows=max(1, events))
    behind_ms = round(behind_s * 1000, 1)
    return {"step": step.told(), "behind_ms": behind_ms, "cpu_s": used_s, "left": left}


def messages_of(step: Step) -> tuple[np.ndarray, list[dict[str, object]]]:
    """Return the due time of each message, and the messages, in that order."""
    made = []
    for topic, columns in ((TOPIC, step.events()), (SIDE_TOPIC, step.sides())):
        rows = zip(*(column.tolist() for column in columns), strict=True)
        made += [
            (row[0], {"topic": topic, "partition": partition, "value": value_of(*row)})
            for i, row in enumerate(rows)
            for partition in [(row[1] if step.by_key else i) % PARTITIONS]
        ]
    if step.sides_per_s:
        made.sort(key=lambda pair: (pair[0], pair[1]["topic"] is TOPIC))
    return np.array([due for due, _ in made]), [message for _, message in made]


if __name__ == "__main__":
    main(sys.argv[1])
