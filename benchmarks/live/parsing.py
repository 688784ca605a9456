"""Consume and parse only: an upper bound for every engine with this client and these decoders.

A process for each partition takes messages from the client, parses many of them at once, as our
sources do, and drops the columns. ``python -m live.parsing SERVERS TOPIC FORMAT PARTITION`` prints,
once it is at the partition's end, one JSON object: the rows, the wall times of the first and the
last messages in seconds, and the processor seconds in between.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.json as pj
from confluent_kafka import KafkaError

from live.events import AVRO, EVENT
from live.reading import consumer_of

if TYPE_CHECKING:
    from collections.abc import Callable

_CONSUME_MAX = 10_000
_CONSUME_S = 0.05


def json_rows(values: list[bytes]) -> int:
    """Parse JSON lines, and only the columns that a query would need."""
    text = pa.BufferReader(b"\n".join(values))
    options = pj.ParseOptions(explicit_schema=EVENT, unexpected_field_behavior="ignore")
    return int(pj.read_json(text, pj.ReadOptions(block_size=1 << 22), options).num_rows)


def arrow_rows(values: list[bytes]) -> int:
    """Parse Arrow IPC streams."""
    return sum(pa.ipc.open_stream(value).read_all().num_rows for value in values)


def avro_rows() -> Callable[[list[bytes]], int]:
    """Parse Avro records of one schema, as a block."""
    from rvertex.sources.logs.decode.avro_blocks import AvroBlocks  # it takes a second

    blocks = AvroBlocks(AVRO, EVENT)
    return lambda values: blocks.read(values).num_rows


def main(servers: str, topic: str, form: str, partition: int) -> None:
    """Read one partition to its end."""
    parse = avro_rows() if form == "avro" else {"json": json_rows, "arrow": arrow_rows}[form]
    consumer = consumer_of(
        servers,
        topic,
        [partition],
        **{"enable.partition.eof": True, "queued.min.messages": 500_000},
    )
    rows, began_s, used_s, at_end = 0, 0.0, 0.0, False
    while not at_end:  # ends with the partition
        messages = consumer.consume(_CONSUME_MAX, _CONSUME_S)
        values = [message.value() for message in messages if message.error() is None]
        at_end = any(
            message.error() is not None and message.error().code() == KafkaError._PARTITION_EOF
            for message in messages[-2:]
        )
        if values and not began_s:
            began_s, used_s = time.time(), time.process_time()
        if values:
            rows += parse(values)
    ended_s = time.time()
    print(
        json.dumps(
            {
                "rows": rows,
                "began_s": began_s,
                "ended_s": ended_s,
                "cpu_s": time.process_time() - used_s,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
