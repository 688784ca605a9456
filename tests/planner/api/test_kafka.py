"""A user's description of a topic becomes a source, or an error with an alternative."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import jobmanager
from planner import Stream, col
from planner.errors import InvalidPlanError, UnknownColumnError
from planner.logical.nodes import Source
from rvertex.sources.spec import Live, Topic

if TYPE_CHECKING:
    from rvertex.sources.spec import SourceSpec

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "item", "type": ["null", "string"]},
        {"name": "extra", "type": {"type": "map", "values": "long"}},
    ],
}


def source(**given: Any) -> SourceSpec:
    options = {"servers": "b:9092", "schema": {"t": "int64", "x": "double"}, "vs": "t"}
    stream = Stream.from_kafka("orders", **{**options, "delay": "1s", **given})
    assert isinstance(stream.plan, Source)
    return stream.plan.spec


def test_a_topic_is_a_live_source() -> None:
    spec = source(idle="clock", idle_after="5s", on_lost="skip", config={"client.id": "me"})
    assert spec.live == Live("clock", 5_000_000, "skip")
    config = (("bootstrap.servers", "b:9092"), ("client.id", "me"))
    assert spec.kind == Topic("json", config)
    assert spec.is_endless
    assert spec.columns == spec.schema == pa.schema([("t", pa.int64()), ("x", pa.float64())])


def test_positions_of_the_log_are_looked_up_at_run_time() -> None:
    spec = source(metadata=("key", "offset"))
    assert spec.schema.names == ["t", "x", "kafka_key", "kafka_offset"]
    spec = source(vs="timestamp")
    assert spec.vs == "kafka_timestamp"
    assert spec.columns.names == ["t", "x", "kafka_timestamp"]
    assert spec.schema.names == ["t", "x"]
    spec = source(vs="timestamp", schema={"timestamp": "int64"})
    assert (spec.vs, spec.columns.names) == ("timestamp", ["timestamp"])
    spec = source(vs=col("t") * 1_000, ve="+5s")
    assert spec.ve == 5_000_000


def test_start_and_end_positions_are_stored_for_planning() -> None:
    spec = source(start={1: 7, 0: 3}, until="2013-01-01")
    config = (("bootstrap.servers", "b:9092"),)
    until = 1_356_998_400_000_000
    assert spec.kind == Topic("json", config, start=((0, 3), (1, 7)), until=until)
    assert not spec.is_endless
    spec = source(start="latest", away_max="1m")
    assert spec.kind == Topic("json", config, start="latest", away_max_us=60_000_000)


def test_avro_needs_a_schema_or_a_registry() -> None:
    for schema in (AVRO, json.dumps(AVRO)):
        spec = source(format="avro", schema=schema, vs="at")
        at, extra = pa.timestamp("us", "UTC"), pa.map_(pa.string(), pa.int64())
        assert spec.schema == pa.schema([("at", at), ("item", pa.string()), ("extra", extra)])
    spec = source(format="avro", config={"schema.registry.url": "http://r:8081"})
    assert spec.schema.names == ["t", "x"]


def test_the_bytes_format_has_one_column() -> None:
    spec = source(format="bytes", schema=None, vs="timestamp")
    assert spec.schema == pa.schema([("value", pa.binary())])
    assert source(format="bytes", schema={"line": "string"}, vs="timestamp").schema.names == [
        "line"
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delay": None}, "set how far rows of a partition may be out of order"),
        ({"delay": "auto"}, "live sources need an explicit delay"),
        ({"servers": ""}, 'write it like "localhost:9092"'),
        ({"schema": None}, "set schema= to the columns to read from its messages"),
        ({"schema": {}}, "schema= needs a column"),
        ({"schema": {"kafka_key": "int64"}, "vs": "kafka_key"}, "'kafka_key' is reserved"),
        ({"format": "xml"}, 'one of "json", "avro", "arrow", "bytes"'),
        ({"format": "avro"}, "the registry that their headers refer to"),
        (
            {"format": "avro", "schema": '{"type": "int"}'},
            "a schema for rows|is not an Avro schema",
        ),
        ({"format": "bytes"}, "must have one column"),
        ({"metadata": ("topic",)}, "metadata='topic': choose one of"),
        ({"on_bad_row": "ignore"}, 'choose one of "fail", "skip", "dead_letter"'),
        ({"on_lost": "ignore"}, 'one of "fail", "skip"'),
        ({"idle": "never"}, "idle='never'"),
        ({"late": "keep"}, "late='keep'"),
        ({"start": {0: -1}}, "give an offset, from 0, for each partition"),
        ({"start": {}}, "give an offset"),
        ({"until": "earliest"}, "not a time"),
        ({"config": {"isolation.level": "read_uncommitted"}}, "reads committed records only"),
        ({"config": {"bootstrap.servers": "x"}}, "use servers= instead"),
        ({"config": {"stats_cb": print}}, "holds no functions"),
        ({"config": {"client.id": None}}, "text or a number"),
        ({"partitions": 0}, "partitions=0"),
    ],
)
def test_invalid_topics_are_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        source(**given)
    assert isinstance(caught.value, InvalidPlanError | ValueError), caught.value


def test_a_time_that_is_not_a_column() -> None:
    with pytest.raises(UnknownColumnError):
        source(vs="when")


def test_an_endless_topic_cannot_be_collected() -> None:
    stream = Stream.from_kafka("t", servers="b:1", schema={"t": "int64"}, vs="t", delay="1s")
    with pytest.raises(InvalidPlanError, match=r"topic t grows while it is read; set until="):
        jobmanager.collect(stream)
