"""SQL over topics with changes of a table, and into topics that receive changes."""

from __future__ import annotations

from planner import Query
from rvertex.sinks.spec import KafkaSink
from tests.planner.sql.tables.test_declarations import SERVERS, TIMED, topic


def test_changes_are_written_to_a_topic() -> None:
    made = "CREATE TABLE c (k STRING, n BIGINT{}) WITH ('connector' = 'kafka', 'topic' = 'c', {});"
    query = (
        "INSERT INTO c SELECT CAST(price AS STRING) AS k, COUNT(*) AS n FROM bids GROUP BY price"
    )
    for key, option, expected in (
        (", PRIMARY KEY (k) NOT ENFORCED", "'format' = 'debezium-json'", ("debezium-json", False)),
        ("", "'format' = 'json', changes = TRUE", ("json", True)),
    ):
        target = made.format(key, f"{option}, {SERVERS}")
        found = topic(TIMED, query=f"{target} {query}")
        assert isinstance(found, Query)
        (sink,) = found.deliveries
        assert isinstance(sink, KafkaSink)
        assert (sink.format, sink.changes, sink.upsert) == (*expected, False)
        assert found.takes_changes
