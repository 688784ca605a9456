"""Flink SQL between two topics: a local cluster inside of one JVM, parallelism 2.

Runs in Flink's environment, with the connector that one package on PyPI contains (Apache's own
4.0.1 for Flink 2.0). Exactly once: a transaction for each checkpoint, so a row can be read once the
checkpoint after it is complete. Each partition has its own watermark.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.pop("PYTHONPATH", None)

from ending import at_end
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

JARS = Path(sys.prefix).parent / "flink-kafka" / "pyflink" / "lib"
NEEDED = ("flink-connector-kafka.jar", "flink-connector-base.jar", "kafka-clients.jar")
CHECKPOINT = {"latency": "50 ms", "throughput": "1 s"}
SETTINGS = {
    "execution.buffer-timeout.interval": "1 ms",
    "pipeline.auto-watermark-interval": "1 ms",
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "8",
    "rest.port": "0",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.min-pause": "0 ms",
    "pipeline.jars": ";".join(f"file://{JARS / name}" for name in NEEDED),
}
PAIR = """e.`key` = s.`key` AND e.ts BETWEEN s.ts AND s.ts + INTERVAL '1' SECOND
    AND e.`at` >= s.`at` AND e.`at` < s.`at` + 1000000"""
KEPT = "SELECT `at`, `key`, amount FROM events WHERE "
#: The columns of the output, and its query.
QUERIES = {
    "filter": ("`at` BIGINT, `key` BIGINT, amount BIGINT", KEPT + "MOD(amount, 2) = 0"),
    "scarce": ("`at` BIGINT, `key` BIGINT, amount BIGINT", KEPT + "amount < 100"),
    "window": (
        "window_end BIGINT, `key` BIGINT, n BIGINT, total BIGINT",
        """SELECT MAX(`at` / 10000) * 10000 + 10000, `key`, COUNT(*), SUM(amount)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '0.010' SECOND))
        GROUP BY window_start, window_end, `key`""",
    ),
    "join": (
        "`at` BIGINT, `key` BIGINT, amount BIGINT, side BIGINT",
        f"""SELECT e.`at`, e.`key`, e.amount, s.amount
        FROM events AS e JOIN sides AS s ON {PAIR}""",
    ),
    "total": (
        "`key` BIGINT, n BIGINT, total BIGINT, PRIMARY KEY (`key`) NOT ENFORCED",
        "SELECT `key`, COUNT(*), SUM(amount) FROM events GROUP BY `key`",
    ),
}


def source(order: dict[str, str], name: str, topic: str) -> str:
    """Declare a table over a topic, with its time attribute."""
    return f"""CREATE TABLE {name} (
        `at` BIGINT, `key` BIGINT, amount BIGINT, ts AS TO_TIMESTAMP_LTZ(`at` / 1000, 3),
        WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
    ) WITH (
        'connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
        'properties.bootstrap.servers' = '{order["servers"]}',
        'properties.group.id' = 'flink-{order["out"]}', 'properties.fetch.max.wait.ms' = '5',
        'scan.startup.mode' = 'earliest-offset'
    )"""


def sink(order: dict[str, str], columns: str) -> str:
    """Declare the output topic; with a primary key, it has the newest row of each key."""
    keyed = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
    kind = keyed if "PRIMARY KEY" in columns else "'connector' = 'kafka', 'format' = 'json'"
    return f"""CREATE TABLE answer ({columns}) WITH (
        {kind}, 'topic' = '{order["out"]}',
        'properties.bootstrap.servers' = '{order["servers"]}',
        'properties.transaction.timeout.ms' = '60000', 'properties.linger.ms' = '0',
        'sink.delivery-guarantee' = 'exactly-once',
        'sink.transactional-id-prefix' = 'flink-{order["out"]}'
    )"""


def main(order: dict[str, str]) -> None:
    """Run the query until the input ends; then the process is killed."""
    ended = at_end()
    configuration = Configuration()
    for name, value in SETTINGS.items():
        configuration.set_string(name, value)
    configuration.set_string("execution.checkpointing.interval", CHECKPOINT[order["aim"]])
    configuration.set_string("execution.checkpointing.dir", f"file://{order['folder']}/kept")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    tables = StreamTableEnvironment.create(env)
    columns, query = QUERIES[order["query"]]
    tables.execute_sql(source(order, "events", order["topic"]))
    if order["query"] == "join":
        tables.execute_sql(source(order, "sides", "sides"))
    tables.execute_sql(sink(order, columns))
    tables.execute_sql(f"INSERT INTO answer {query}")
    ended.wait()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
