"""Options, settings and lengths of other engines that would change rows: applied or an error.

Not covered: an option whose meaning another engine changes later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner import Query, SqlError, Stream, sinks, sql
from planner.logical.nodes import Source
from planner.logical.traversal import topological

if TYPE_CHECKING:
    from rvertex.sources.spec import SourceSpec

TOPIC = """CREATE STREAM s (id INT, a INT, ts BIGINT)
  WITH (KAFKA_TOPIC='s', servers='h:1', delay='1s', TIMESTAMP='ts'{});"""
TABLE = """CREATE TABLE s (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector'='kafka', 'topic'='s', 'properties.bootstrap.servers'='h:1');"""
SINK = """CREATE TABLE s (a INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector='kafka',
  topic='s', servers='h:1'); CREATE SINK o FROM s
  WITH (connector='kafka', topic='t', servers='h:1', {});"""
#: Text -> its dialect, and words of the error.
REFUSED = {
    TOPIC.format("") + "CREATE STREAM b WITH (TIMESTAMP='a') AS SELECT * FROM s;": (
        "ksqldb",
        "write WITH (TIMESTAMP = 'a') in the declaration of the source",
    ),
    TOPIC.format(", WRAP_SINGLE_VALUE=false") + "SELECT a FROM s": ("ksqldb", "as in {"),
    "SET 'auto.offset.reset'='latest';" + TOPIC.format("") + "SELECT a FROM s": (
        "ksqldb",
        "write start = 'latest'",
    ),
    SINK.format("snapshot = false"): ("postgres", "write start ="),
    "CREATE TABLE s (a CHAR(3)) WITH (path = 'x.csv'); SELECT a FROM s": (
        "postgres",
        "write VARCHAR",
    ),
    "CREATE TABLE s (a VARCHAR(3)[]) WITH (path = 'x.csv'); SELECT a FROM s": (
        "postgres",
        "write VARCHAR",
    ),
    "SELECT CAST(ARRAY['abcd'] AS VARCHAR(3)[]) AS a": ("postgres", "the type without a length"),
}
ACCEPTED = {
    TOPIC.format(", WRAP_SINGLE_VALUE=true") + "SELECT a FROM s": "ksqldb",
    "SET 'auto.offset.reset'='earliest';" + TOPIC.format("") + "SELECT a FROM s": "ksqldb",
    "SET 'table.exec.state.ttl' = '0';" + TABLE + "SELECT a FROM s": "flink",
    TABLE + "SELECT /*+ BROADCAST(s) */ a FROM s": "flink",
    SINK.format("snapshot = true, sink_decouple = true"): "postgres",
}


@pytest.mark.parametrize("text", REFUSED)
def test_options_that_would_change_rows_are_rejected(text: str) -> None:
    dialect, said = REFUSED[text]
    with pytest.raises(SqlError) as raised:
        sql(text, {}, dialect=dialect)
    assert said in str(raised.value)


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_value_without_effect_is_accepted(text: str) -> None:
    assert isinstance(sql(text, {}, dialect=ACCEPTED[text]), Stream | Query)


def test_the_key_of_a_sink_is_parsed_in_its_dialect() -> None:
    made = sql(SINK.format("type='upsert', primary_key='a'"), {}, dialect="postgres")
    assert isinstance(made, Query)
    assert made.deliveries == (sinks.kafka("t", servers="h:1", key="a", upsert=True),)


def test_the_idle_timeout_of_a_session_applies_to_its_live_sources() -> None:
    own = TABLE.replace("'topic'='s'", "'topic'='s', 'idle_after'='4 s'")
    for table, value, expected in (
        (TABLE, "30 s", ("follow", 30_000_000)),
        (TABLE, "0 ms", ("wait", 2_000_000)),
        (own, "30 s", ("follow", 4_000_000)),
    ):
        text = f"SET 'table.exec.source.idle-timeout' = '{value}'; {table} SELECT a FROM s"
        log = _source(text).live
        assert log is not None
        assert (log.idle, log.idle_after_us) == expected


def test_a_grace_period_becomes_the_delay_of_a_topic_without_one() -> None:
    query = "SELECT a, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 9 MINUTES) "
    query += "GROUP BY a EMIT FINAL"
    assert _source(TOPIC.format("") + query, "ksqldb").delay_us == 1_000_000
    assert _source(TOPIC.format("").replace("delay='1s', ", "") + query, "ksqldb").delay_us == (
        9 * 60_000_000
    )


def test_a_ksqldb_key_is_the_key_of_the_message() -> None:
    for kind, key in (("STREAM", "KEY"), ("TABLE", "PRIMARY KEY")):
        text = TOPIC.replace("STREAM", kind).replace("id INT", f"id {{}} {key}")
        query = "SELECT * FROM s"
        made = sql(text.format("VARCHAR", "") + query, dialect="ksqldb")
        assert isinstance(made, Stream)
        assert made.schema.names == ["id", "a", "ts"]
        assert "id = kafka_key.cast(string)" in "".join(
            node.describe() for node in topological(made.plan)
        )
        for written, message in (
            (("INT", ""), r"write id VARCHAR KEY and CAST\(id AS INT\)"),
            (("VARCHAR", ", KEY_FORMAT='JSON'"), "write KEY_FORMAT = 'KAFKA'"),
        ):
            with pytest.raises(SqlError, match=message):
                sql(text.format(*written) + query, dialect="ksqldb")
    two = TOPIC.replace("id INT, a INT", "id VARCHAR KEY, a VARCHAR KEY").format("")
    with pytest.raises(SqlError, match=r"except for one column, .* has id and a, too"):
        sql(two + "SELECT * FROM s", dialect="ksqldb")


def test_a_ksqldb_key_and_grace_period_apply_to_sources_only() -> None:
    target = "CREATE {} o (id VARCHAR {}, n BIGINT) WITH (KAFKA_TOPIC='o', servers='h:1');"
    query = """INSERT INTO o SELECT CAST(a AS VARCHAR) AS id, COUNT(*) AS n FROM s
        WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 9 MINUTES) GROUP BY a EMIT FINAL"""
    topic = TOPIC.format("").replace("delay='1s', ", "")
    for kind, key, is_table in (("STREAM", "KEY", False), ("TABLE", "PRIMARY KEY", True)):
        made = sql(topic + target.format(kind, key) + query, dialect="ksqldb")
        assert isinstance(made, Query)
        keys = "id" if is_table else ()
        expected = sinks.kafka("o", servers="h:1", key=keys, upsert=is_table)
        assert made.deliveries == (expected,)


def test_a_grace_period_in_a_comment_or_text_is_ignored() -> None:
    topic = TOPIC.format("").replace("delay='1s', ", "")
    for query in (
        "SELECT a FROM s -- GRACE PERIOD 9 DAYS",
        "SELECT a, 'GRACE PERIOD 9 DAYS' AS b FROM s",
    ):
        with pytest.raises(SqlError, match="delay"):
            sql(topic + query, dialect="ksqldb")


def test_a_custom_type_of_ksqldb_is_replaced_only_as_a_type() -> None:
    made = sql(
        """CREATE TYPE address AS STRUCT<city VARCHAR, n DECIMAL(5, 2)>;
        CREATE TYPE IF NOT EXISTS person AS STRUCT<address address, homes ARRAY<address>>;
        CREATE STREAM s (address address, p person, m MAP<VARCHAR, address>, ts BIGINT)
          WITH (KAFKA_TOPIC='s', servers='h:1', delay='1s', TIMESTAMP='ts');
        CREATE STREAM b AS SELECT p->address AS address, p->homes AS person, m FROM s;
        SELECT address, person, m FROM b""",
        dialect="ksqldb",
    )
    assert isinstance(made, Stream)
    address = "struct<city: string, n: decimal128(5, 2)>"
    assert [str(made.schema.field(name).type) for name in made.schema.names] == [
        address,
        f"list<item: {address}>",
        f"map<string, {address}>",
    ]


def _source(text: str, dialect: str = "flink") -> SourceSpec:
    made = sql(text, dialect=dialect)
    assert isinstance(made, Stream)
    (source,) = (node for node in topological(made.plan) if isinstance(node, Source))
    return source.spec
