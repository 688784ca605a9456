"""Table declarations of Flink SQL are the streams and queries that Python builds.

Not covered: connectors in a running job, which have their own tests.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from planner import Query, SqlError, Stream, col, sinks, sql
from planner.logical.nodes import Source
from planner.logical.traversal import topological
from rvertex.sources.spec import Topic

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = "price DOUBLE, ts TIMESTAMP(3), note STRING"
MARK = "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"


@pytest.fixture(scope="module")
def bids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bids")
    table = {
        "ts": ["2026-01-01T00:00:01", "2026-01-01T00:00:02"],
        "price": [1, 2],
        "note": ["a", "b"],
        "more": [3, 4],
    }
    pacsv.write_csv(pa.table(table), folder / "bids.csv")
    return folder


def read(bids: Path, **options: object) -> Stream:
    schema = {"price": "float64", "ts": pa.timestamp("us"), "note": "string"}
    given = {"vs": "ts", "delay": "5s", "schema": schema, **options}
    return Stream.from_csv(str(bids / "bids.csv"), **given)  # type: ignore[arg-type]


def compiled(text: str, bids: Path) -> Query | Stream:
    return sql(text, variables={"data": str(bids)})


def table(columns: str, options: str = "", word: str = "TABLE") -> str:
    more = f", {options}" if options else ""
    return (
        f"CREATE {word} bids ({columns}) WITH ('connector' = 'filesystem', "
        f"'path' = '${{data}}/bids.csv', 'format' = 'csv'{more});\n"
    )


@pytest.mark.parametrize("word", ["TABLE", "SOURCE", "TEMPORARY TABLE"])
def test_a_table_has_the_declared_columns(bids: Path, word: str) -> None:
    found = compiled(table(f"{COLUMNS}, {MARK}", word=word) + "SELECT * FROM bids", bids)
    assert found == read(bids).select("price", "ts", "note")


def test_flink_names_of_options(bids: Path) -> None:
    said = "'csv.field-delimiter' = ',', 'csv.null-literal' = '-', 'scan.parallelism' = 3"
    found = compiled(table(f"{COLUMNS}, {MARK}", said) + "SELECT * FROM bids", bids)
    expected = read(bids, delimiter=",", null_values=("-",), partitions=3)
    assert found == expected.select("price", "ts", "note")


def test_a_watermark_without_delay(bids: Path) -> None:
    found = compiled(table(f"{COLUMNS}, WATERMARK FOR ts AS ts") + "SELECT price FROM bids", bids)
    assert found == read(bids, delay="0s").select("price", "ts", "note").select("price")


def test_a_delay_of_zero_as_an_option(bids: Path) -> None:
    found = compiled(table(COLUMNS, "vs = ts, delay = '0s'") + "SELECT price FROM bids", bids)
    assert found == read(bids, delay="0s").select("price", "ts", "note").select("price")


def test_computed_columns_of_a_table_are_expressions(bids: Path) -> None:
    columns = (
        f"{COLUMNS}, twice AS price * 2, later AS ts + INTERVAL '1' HOUR, WATERMARK FOR later "
        "AS later - INTERVAL '1' MINUTE, PRIMARY KEY (note) NOT ENFORCED"
    )
    found = compiled(table(columns) + "SELECT twice, later FROM bids", bids)
    hour = sql("SELECT v + INTERVAL '1' HOUR AS v FROM t", {"t": read(bids).select(v=col("ts"))})
    assert isinstance(hour, Stream)
    later = hour.plan.columns[0][1]  # type: ignore[attr-defined]
    assert isinstance(found, Stream)
    spec = next(n for n in _nodes(found) if type(n).__name__ == "Source").spec  # type: ignore[attr-defined]
    assert str(spec.vs) == str(later).replace("v", "ts")
    assert spec.delay_us == 60_000_000
    assert found.schema.names == ["twice", "later"]


def _nodes(stream: Stream) -> list[object]:
    found, todo = [], [stream.plan]
    while todo:  # ends: plans are finite
        found.append(todo[0])
        todo += todo.pop(0).inputs
    return found  # type: ignore[return-value]


def test_views_and_sinks(bids: Path) -> None:
    text = (
        table(f"{COLUMNS}, {MARK}")
        + "CREATE TEMPORARY VIEW dear (what, cost) AS SELECT note, price FROM bids WHERE price > 1;"
        "CREATE SINK answer WITH ('connector' = 'filesystem', 'path' = '/tmp/answer');"
        "INSERT INTO answer SELECT cost FROM dear"
    )
    dear = read(bids).select("price", "ts", "note").filter(col("price") > 1).select("note", "price")
    renamed = dear.rename({"note": "what", "price": "cost"}).select("cost")
    assert compiled(text, bids) == renamed.to_parquet("/tmp/answer")


def test_columns_of_a_target_are_matched_by_position(bids: Path) -> None:
    text = (
        table(f"{COLUMNS}, {MARK}")
        + "CREATE TABLE answer (cost DOUBLE, what STRING) WITH ('path' = '/tmp/answer');"
    )
    whole = read(bids).select("price", "ts", "note").select("price", "note")
    expected = whole.select(col("price").alias("cost"), col("note").alias("what"))
    found = compiled(text + "INSERT INTO answer SELECT price, note FROM bids", bids)
    assert found == expected.to_parquet("/tmp/answer")
    by_name = compiled(text + "INSERT INTO answer (what, cost) SELECT note, price FROM bids", bids)
    assert isinstance(by_name, Query)
    assert by_name.schema.names == ["cost", "what"]


def test_unnamed_columns_get_the_names_of_the_target(bids: Path) -> None:
    sink = "CREATE SINK answer (what STRING, cost DOUBLE) WITH ('path' = '/tmp/answer');"
    text = table(f"{COLUMNS}, {MARK}") + sink

    def inserted(query: str, columns: str = "") -> Query | Stream:
        return compiled(f"{text} INSERT INTO answer{columns} {query}", bids)

    named = "SELECT upper(note) AS what, price * 2 AS cost FROM bids"
    expected = inserted(named)
    assert inserted("SELECT upper(note), price * 2 FROM bids") == expected
    turned = inserted("SELECT price * 2, upper(note) FROM bids", "(cost, what)")
    assert isinstance(turned, Query)
    assert turned.schema == expected.schema  # type: ignore[union-attr]
    both = inserted(f"{named} UNION ALL SELECT note, price + 1 FROM bids")
    assert (
        inserted(
            "SELECT upper(note), price * 2 FROM bids UNION ALL SELECT note, price + 1 FROM bids"
        )
        == both
    )
    grouped = "GROUP BY 1, TUMBLE('5 seconds') HAVING max(price) > 1"
    found = inserted(f"SELECT upper(note), max(price) FROM bids {grouped}")
    assert found == inserted(f"SELECT upper(note) AS what, max(price) AS cost FROM bids {grouped}")
    view = "WITH b AS (SELECT note AS cost, price AS p FROM bids)"
    taken = f"{view} SELECT upper(cost), p + 1 FROM b WHERE cost <> ''"
    assert isinstance(inserted(taken), Query)
    with pytest.raises(SqlError, match="give this column a name with AS"):
        inserted("SELECT *, upper(note) FROM bids")


SERVERS = "'properties.bootstrap.servers' = 'h:9092'"
TOPIC = (
    "CREATE TABLE bids ({}) WITH ('connector' = 'kafka', 'topic' = 'bids', 'format' = 'json', "
    + SERVERS
    + "{});\n"
)
PRICED = {"price": "float64", "ts": "timestamp"}


def topic(columns: str, options: str = "", query: str = "SELECT * FROM bids") -> Query | Stream:
    return sql(TOPIC.format(columns, f", {options}" if options else "") + query)


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ("", {}),
        ("'scan.startup.mode' = 'latest-offset'", {"start": "latest"}),
        (
            "'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '1700000000000'",
            {"start": 1_700_000_000_000_000},
        ),
        (
            "'scan.startup.mode' = 'specific-offsets', "
            "'scan.startup.specific-offsets' = 'partition:0,offset:42;partition:1,offset:7'",
            {"start": {0: 42, 1: 7}},
        ),
        ("'scan.bounded.mode' = 'latest-offset'", {"until": "latest"}),
        ("'scan.bounded.mode' = 'unbounded', 'skew' = '1 minute'", {"skew": "1m"}),
        (
            "'properties.group.id' = 'g', 'scan.watermark.idle-timeout' = '9 s', 'idle' = 'clock'",
            {"config": {"group.id": "g"}, "idle_after": "9s", "idle": "clock"},
        ),
        ("'json.ignore-parse-errors' = 'true', on_lost = 'skip'", {"on_bad_row": "skip"}),
        ("start = '2026-01-01T00:00:00Z'", {"start": "2026-01-01T00:00:00Z"}),
    ],
)
def test_topics_are_read_with_flink_options(options: str, given: dict[str, Any]) -> None:
    found = topic(f"price DOUBLE, ts TIMESTAMP(3), {MARK}", options)
    if "on_lost" in options:
        given = {**given, "on_lost": "skip"}
    expected = Stream.from_kafka(
        "bids", servers="h:9092", schema=PRICED, vs="ts", delay="5s", **given
    )
    assert found == expected.select("price", "ts")


AVRO = {
    "type": "record",
    "name": "Bid",
    "fields": [
        {"name": "price", "type": "int"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "note", "type": "string"},
    ],
}


def test_columns_beside_an_avro_schema_have_the_declared_types() -> None:
    """Columns had the types of the Avro schema, regardless of the declared types."""
    options = f"format = 'avro', 'avro.schema' = '{json.dumps(AVRO)}'"

    def avro(columns: str) -> Any:
        made = TOPIC.replace("'format' = 'json', ", "").format(columns, f", {options}")
        return sql(made + "SELECT * FROM bids")

    found = avro(f"price BIGINT, ts TIMESTAMP(3), {MARK}")
    assert found.schema == pa.schema([("price", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    with pytest.raises(SqlError, match=r"column 'note' is VARCHAR by avro\.schema: declare it so"):
        avro(f"note BIGINT, ts TIMESTAMP(3), {MARK}")
    with pytest.raises(SqlError, match=r"avro\.schema has no field 'cost'"):
        avro(f"cost BIGINT, ts TIMESTAMP(3), {MARK}")


def test_record_metadata_as_columns() -> None:
    columns = (
        "price DOUBLE, at TIMESTAMP(3) METADATA FROM 'timestamp', `offset` BIGINT METADATA, "
        "WATERMARK FOR at AS at - INTERVAL '5' SECOND"
    )
    found = topic(columns)
    read = Stream.from_kafka(
        "bids",
        servers="h:9092",
        schema={"price": "float64"},
        vs="timestamp",
        delay="5s",
        metadata=("timestamp", "offset"),
    )
    named = read.with_columns(at=col("kafka_timestamp")).with_columns(offset=col("kafka_offset"))
    assert found == named.drop("kafka_offset", "kafka_timestamp").select("price", "at", "offset")


@pytest.mark.parametrize(
    ("declared", "spec"),
    [
        (
            f"(cost DOUBLE) WITH (connector = 'kafka', topic = 'o', {SERVERS}, "
            "'sink.delivery-guarantee' = 'exactly-once', 'properties.linger.ms' = '3')",
            sinks.kafka("o", servers="h:9092", config={"linger.ms": "3"}),
        ),
        (
            f"WITH (connector = 'kafka', topic = 'o', {SERVERS}, 'key.fields' = 'price')",
            sinks.kafka("o", servers="h:9092", key="price"),
        ),
        (
            "(cost DOUBLE, PRIMARY KEY (cost) NOT ENFORCED) WITH ('connector' = 'jdbc', 'url' = "
            "'jdbc:postgresql://h:5432/db', 'table-name' = 't', username = 'u', password = 'a/b')",
            sinks.postgres("postgresql://u:a%2Fb@h:5432/db", "t", mode="upsert", key="cost"),
        ),
        (
            "WITH (connector = 'postgres', dsn = 'env:DSN', table = 't')",
            sinks.postgres("env:DSN", "t"),
        ),
        ("WITH ('connector' = 'print')", sinks.console()),
    ],
)
def test_targets_become_deliveries(declared: str, spec: object, bids: Path) -> None:
    text = table(f"{COLUMNS}, {MARK}") + f"CREATE SINK o {declared};"
    found = compiled(text + "INSERT INTO o SELECT price FROM bids", bids)
    assert isinstance(found, Query)
    assert found.deliveries == (spec,)


def test_a_growing_folder(bids: Path) -> None:
    said = "'source.monitor-interval' = '3 s', 'idle' = 'wait'"
    found = compiled(table(f"{COLUMNS}, {MARK}", said) + "SELECT * FROM bids", bids)
    expected = read(bids, follow=True, poll_every="3s", idle="wait")
    assert found == expected.select("price", "ts", "note")


KEYED = f"price DOUBLE, ts TIMESTAMP(3) COMMENT 'when', note STRING{{}}, {MARK}"
UPSERT = "'changelog.mode' = 'upsert'"


@pytest.mark.parametrize(
    "columns",
    [
        KEYED.format(" PRIMARY KEY NOT ENFORCED"),
        KEYED.format("") + ", PRIMARY KEY (note) NOT ENFORCED",
        KEYED.format("") + ", CONSTRAINT named PRIMARY KEY (note) NOT ENFORCED",
    ],
)
def test_rows_are_versions_of_their_primary_key(columns: str, bids: Path) -> None:
    whole = read(bids).select("price", "ts", "note")
    found = compiled(table(columns, UPSERT) + "SELECT * FROM bids", bids)
    assert found == whole.upserts("note")
    said = f"{UPSERT}, deleted = price < 0 OR note = 'gone'"
    found = compiled(table(columns, said) + "SELECT * FROM bids", bids)
    assert found == whole.upserts("note", deleted=(col("price") < 0) | (col("note") == "gone"))
    assert compiled(table(columns) + "SELECT * FROM bids", bids) == whole


def test_not_null_columns(bids: Path) -> None:
    for column in (" NOT NULL", " NOT NULL COMMENT 'x'", " PRIMARY KEY NOT ENFORCED NOT NULL"):
        found = compiled(table(KEYED.format(column)) + "SELECT * FROM bids", bids)
        assert isinstance(found, Stream)
        (source,) = (n for n in topological(found.plan) if isinstance(n, Source))
        assert source.spec.checks.not_null == ("note",)
    whole = read(bids).select("price", "ts", "note")
    assert compiled(table(KEYED.format(" NULL")) + "SELECT * FROM bids", bids) == whole
    found = topic(TIMED.replace("DOUBLE", "DOUBLE NOT NULL"))
    assert isinstance(found, Stream)
    (source,) = (n for n in topological(found.plan) if isinstance(n, Source))
    assert source.spec.checks.not_null == ("price",)
    with pytest.raises(SqlError, match="metadata of the broker cannot be NOT NULL"):
        topic(f"{TIMED}, part INT METADATA FROM 'partition' NOT NULL")


def test_computed_columns_are_not_filters(bids: Path) -> None:
    """``NOT NULL`` after an expression is about the new column, not about the columns it reads."""
    for end in (" NOT NULL", " NOT NULL COMMENT 'x'", " COMMENT 'x' NOT NULL"):
        for made in ("price", "price + 1", "(price)", "COALESCE(price, 0)"):
            with pytest.raises(SqlError, match="write WHERE z IS NOT NULL"):
                compiled(table(f"{COLUMNS}, z AS {made}{end}, {MARK}") + "SELECT z FROM bids", bids)
    for made in ("price IS NOT NULL", "(note NOT NULL)", "NOT (price > 1)"):
        found = compiled(table(f"{COLUMNS}, z AS {made}, {MARK}") + "SELECT z FROM bids", bids)
        assert isinstance(found, Stream)
        assert found.schema.field("z").type == "bool"


def test_rows_of_a_table_with_null_as_end_never_end(bids: Path) -> None:
    whole = read(bids).select("price", "ts", "note")
    found = compiled(table(f"{COLUMNS}, {MARK}", "ve = NULL") + "SELECT * FROM bids", bids)
    assert found == whole.for_ever()
    found = topic(TIMED, "ve = NULL")
    expected = Stream.from_kafka("bids", servers="h:9092", schema=PRICED, vs="ts", delay="5s")
    assert found == expected.select("price", "ts").for_ever()
    keyed = topic(f"{TIMED}, PRIMARY KEY (price) NOT ENFORCED", UPSERT)
    assert isinstance(keyed, Stream)
    assert keyed.schema.names == ["price", "ts"]
    (source,) = {n for n in topological(keyed.plan) if isinstance(n, Source)}
    assert isinstance(source.spec.kind, Topic)
    assert source.spec.kind.key == ("price",)


def test_a_topic_with_debezium_events() -> None:
    def debezium(columns: str) -> Query | Stream:
        text = TOPIC.replace("'format' = 'json'", "'format' = 'debezium-json'")
        return sql(text.format(columns, "") + "SELECT * FROM bids")

    made = debezium("id BIGINT NOT NULL, name STRING NOT NULL, PRIMARY KEY (id) NOT ENFORCED")
    assert isinstance(made, Stream)
    assert made.schema.names == ["id", "name"]
    (source,) = {n for n in topological(made.plan) if isinstance(n, Source)}
    assert (source.spec.vs, source.spec.late) == ("kafka_timestamp", "adjust")
    assert source.spec.checks.not_null == ("id",)
    with pytest.raises(SqlError, match="need PRIMARY KEY"):
        debezium("id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts")
    with pytest.raises(SqlError, match="a column cannot be the time of a change"):
        debezium("id BIGINT PRIMARY KEY NOT ENFORCED, ts TIMESTAMP, WATERMARK FOR ts AS ts")


TIMED = f"price DOUBLE, ts TIMESTAMP(3), {MARK}"
TARGET = "CREATE SINK o (a BIGINT) WITH (path = '/tmp/o');"
S = "CREATE STREAM s AS SELECT price FROM bids;"
POSTGRES = (
    "CREATE SINK o WITH (connector = 'postgres', dsn = 'postgresql://h/db', \"table\" = 't', {}); "
    "INSERT INTO o SELECT price FROM bids"
)
REFUSED = {
    "CREATE TABLE t WITH ('connector' = 'kafak', 'path' = 'x'); SELECT 1 AS a FROM t": (
        "no connector 'kafak'; there are: filesystem, kafka, postgres, console"
    ),
    "CREATE TABLE t WITH ('pathh' = 'x'); SELECT 1 AS a FROM t": "did you mean 'path'?",
    table(COLUMNS) + "SELECT * FROM bids": (
        "name the time column: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND; for a file "
        "whose rows have no time, such as a lookup table, write static = TRUE"
    ),
    table(f"{COLUMNS}, {MARK}", "'vs' = ts") + "SELECT * FROM bids": "sets the time column",
    table(f"{COLUMNS}, {MARK}", "'delay' = '1s'")
    + "SELECT * FROM bids": "sets how late rows may be",
    table(f"{COLUMNS}, WATERMARK FOR tss AS tss") + "SELECT * FROM bids": "no such column",
    table(f"{COLUMNS}, WATERMARK FOR ts AS ts * 2") + "SELECT * FROM bids": "write WATERMARK FOR",
    table(f"nothing INT, {MARK}") + "SELECT * FROM bids": "there is no such column",
    table(f"nothing INT, {COLUMNS}, {MARK}") + "SELECT * FROM bids": "no column 'nothing'",
    table(f"o BIGINT METADATA, {COLUMNS}, {MARK}") + "SELECT * FROM bids": "no METADATA columns",
    table(f"ts TIMESTAMP(9), {MARK}") + "SELECT * FROM bids": "times have microseconds here",
    table(f"{COLUMNS}, {MARK}", "'start' = a") + "SELECT * FROM bids": "target of INSERT INTO",
    "CREATE SINK o WITH (path = 'x'); SELECT * FROM o": "CREATE SINK o cannot be read",
    table(f"{COLUMNS}, {MARK}", word="SOURCE") + "INSERT INTO bids SELECT 1 AS a FROM bids": (
        "CREATE SOURCE bids cannot be written"
    ),
    table(f"{COLUMNS}, {MARK}") + TARGET + "INSERT INTO o SELECT price FROM bids": (
        "column 'a' is BIGINT, and 'price' is DOUBLE; write CAST(price AS ...)"
    ),
    table(f"{COLUMNS}, {MARK}") + TARGET + "INSERT INTO o SELECT price, note FROM bids": (
        "the SELECT has 2 columns, the target 1: a"
    ),
    TOPIC.format(TIMED, ", 'scan.startup.mode' = 'group-offsets'") + "SELECT price FROM bids": (
        "a job keeps its own positions"
    ),
    TOPIC.format(TIMED, ", 'sink.parallelism' = 3") + "SELECT price FROM bids": (
        "did you mean 'scan.parallelism'?"
    ),
    "CREATE SINK o WITH (connector = 'console', topic = 'x'); SELECT 1 AS a FROM o": (
        "no such option"
    ),
    table(f"{COLUMNS}, {MARK}", UPSERT) + "SELECT * FROM bids": "'upsert' needs PRIMARY KEY (id)",
    table(f"{COLUMNS}, {MARK}", "'changelog.mode' = 'retract'") + "SELECT * FROM bids": (
        "rows cannot be retracted here: 'upsert' with deleted = op = 'd'"
    ),
    table(f"{COLUMNS}, {MARK}", "'changelog.mode' = 'all'") + "SELECT * FROM bids": (
        "changelog.mode is 'append' or 'upsert'"
    ),
    table(f"{COLUMNS}, {MARK}", "deleted = price > 1") + "SELECT * FROM bids": (
        "deleted needs 'changelog.mode' = 'upsert', too"
    ),
    table(KEYED.format(" PRIMARY KEY NOT ENFORCED"), f"{UPSERT}, ve = NULL")
    + "SELECT * FROM bids": "a row of an upsert lasts until the next row of its key: leave ve out",
    table(KEYED.format(" PRIMARY KEY NOT ENFORCED"), f"{UPSERT}, deleted = 'price'")
    + "SELECT * FROM bids": "deleted is a condition, as op = 'd', and no DOUBLE",
    table(KEYED.format(" PRIMARY KEY NOT ENFORCED") + ", PRIMARY KEY (price) NOT ENFORCED")
    + "SELECT * FROM bids": "a table has one PRIMARY KEY",
    table(f"{COLUMNS}, {MARK}")
    + "CREATE SINK o (a DOUBLE NOT NULL) WITH (path = '/tmp/o');"
    + "INSERT INTO o SELECT price FROM bids": "write WHERE a IS NOT NULL in the query",
    table(f"{COLUMNS}", f"static = TRUE, {UPSERT}") + "SELECT * FROM bids": (
        "rows of a static table have no times: no changelog.mode"
    ),
    table(f"{COLUMNS}, {MARK}")
    + "CREATE SINK o (a DOUBLE PRIMARY KEY NOT ENFORCED) WITH (path = '/tmp/o');"
    + "INSERT INTO o SELECT price FROM bids": "a folder keeps every version of a row",
    "CREATE TABLE t WITH (connector = 'upsert-kafka'); SELECT 1 AS a FROM t": (
        "connector = 'kafka' with a PRIMARY KEY and 'changelog.mode' = 'upsert'"
    ),
    POSTGRES.format("password = 'x'"): "password needs the option username = '...', too",
    "CREATE VIEW v (a, b) AS SELECT price FROM bids; SELECT * FROM v": "2 names for 1 columns",
    "CREATE FUNCTION f AS 'x'; SELECT 1": "and leave CREATE FUNCTION out",
}


@pytest.mark.parametrize("text", REFUSED)
def test_invalid_declarations_are_rejected(text: str, bids: Path) -> None:
    streams = {} if "bids (" in text else {"bids": read(bids)}
    with pytest.raises(SqlError) as raised:
        sql(text, streams, variables={"data": str(bids)})
    assert REFUSED[text] in str(raised.value)


@pytest.mark.parametrize("written", ["3", "'3'", "' 3 '"])
def test_numbers_may_be_quoted(bids: Path, written: str) -> None:
    text = table(f"{COLUMNS}, {MARK}", f"'scan.parallelism' = {written}") + "SELECT * FROM bids"
    assert compiled(text, bids) == read(bids, partitions=3).select("price", "ts", "note")


@pytest.mark.parametrize("written", ["'x'", "''", "'0'", "'1.5'", "'-1'", "'99999999999999999999'"])
def test_invalid_numbers_are_rejected(bids: Path, written: str) -> None:
    text = table(f"{COLUMNS}, {MARK}", f"'scan.parallelism' = {written}") + "SELECT * FROM bids"
    with pytest.raises(SqlError, match="must be a whole number from 1 to"):
        compiled(text, bids)
