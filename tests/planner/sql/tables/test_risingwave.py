"""RisingWave's sink options, and the query of a text that ends with a view.

Not covered: connectors in a running job.
"""

from __future__ import annotations

import pytest

from planner import Query, SqlError, Stream, sinks, sql

VIEW = """CREATE TABLE IF NOT EXISTS website_visits_stream (
    timestamp timestamp with time zone, user_id varchar, page_id varchar, action varchar,
    WATERMARK FOR timestamp AS timestamp - INTERVAL '5' SECOND
) WITH (
    connector='kafka', topic='test', properties.bootstrap.server='localhost:9092',
    scan.startup.mode='earliest'
) FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW visits_stream_mv AS
SELECT page_id, count(*) AS total_visits, count(DISTINCT user_id) AS unique_visitors,
    max(timestamp) AS last_visit_time
FROM website_visits_stream GROUP BY page_id;
"""
TABLE = (
    "connector='jdbc', jdbc.url='jdbc:postgresql://h:4566/dev?user=me&password=p', table.name='t'"
)
TOPIC = "connector='kafka', properties.bootstrap.server='h:9092', topic='t'"
DSN = "postgresql://h:4566/dev?user=me&password=p"


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        (
            f"({TABLE}, type='upsert', primary_key='page_id')",
            sinks.postgres(DSN, "t", mode="upsert", key=("page_id",)),
        ),
        (f"({TABLE}, type='append-only')", sinks.postgres(DSN, "t")),
        (
            f"({TOPIC}, primary_key='page_id') FORMAT UPSERT ENCODE JSON",
            sinks.kafka("t", servers="h:9092", key="page_id", upsert=True),
        ),
        (
            f"({TOPIC}, type='upsert', primary_key='page_id')",
            sinks.kafka("t", servers="h:9092", key="page_id", upsert=True),
        ),
        (
            f"({TOPIC}, primary_key='page_id') FORMAT DEBEZIUM ENCODE JSON",
            sinks.kafka("t", servers="h:9092", key="page_id", format="debezium-json"),
        ),
        (f"({TOPIC}, type='append-only')", sinks.kafka("t", servers="h:9092")),
    ],
)
def test_a_sink_from_a_view(options: str, spec: object) -> None:
    found = sql(f"{VIEW} CREATE SINK visits FROM visits_stream_mv WITH {options};")
    assert isinstance(found, Query)
    assert found.deliveries == (spec,)


def test_a_debezium_topic_is_a_table() -> None:
    written = """CREATE TABLE items (id BIGINT, price BIGINT, PRIMARY KEY (id)) WITH (
        connector='kafka', topic='items', properties.bootstrap.server='h:9092'{}
    ) {}; SELECT * FROM items"""
    risingwave = sql(written.format("", "FORMAT DEBEZIUM ENCODE JSON"))
    flink = sql(written.format(", 'format'='debezium-json'", ""))
    assert isinstance(risingwave, Stream)
    assert isinstance(flink, Stream)
    assert risingwave.plan == flink.plan


def test_an_option_with_two_spellings() -> None:
    options = "(type='upsert', mode='append', primary_key='page_id', "
    with pytest.raises(SqlError, match="type has the same meaning as mode"):
        sql(f"{VIEW} CREATE SINK s FROM visits_stream_mv WITH {options}{TABLE})")


def test_a_text_that_ends_with_a_view_says_how_to_read_it() -> None:
    with pytest.raises(SqlError) as raised:
        sql(VIEW)
    assert "add SELECT * FROM visits_stream_mv, or CREATE SINK name FROM" in str(raised.value)
