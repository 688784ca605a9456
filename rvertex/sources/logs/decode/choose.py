"""Chooses the decoder for the values of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rvertex.sources.logs.decode.arrow_stream import ArrowDecoder
from rvertex.sources.logs.decode.avro import AvroDecoder
from rvertex.sources.logs.decode.avro_schema import parse_avro_schema
from rvertex.sources.logs.decode.changes import (
    DELETED,
    DebeziumDecoder,
    UpsertDecoder,
    envelope,
    wrapped,
)
from rvertex.sources.logs.decode.json_objects import JsonDecoder
from rvertex.sources.logs.decode.messages import METADATA, MessageDecoder, by_value
from rvertex.sources.logs.decode.raw import RawDecoder
from rvertex.sources.logs.decode.registry import SchemaRegistry
from rvertex.sources.spec import Topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rvertex.sources.logs.decode.decoded import Decoder
    from rvertex.sources.spec import SourceSpec

REGISTRY_URL = "schema.registry.url"
REGISTRY_USER_INFO = "schema.registry.basic.auth.user.info"


def message_decoder(spec: SourceSpec, config: Mapping[str, str]) -> MessageDecoder:
    """Return the decoder of a source's messages.

    ``config``: with environment references resolved.
    """
    kind, schema = spec.kind, value_columns(spec.columns)
    assert isinstance(kind, Topic), kind
    key, encoding = kind.key, kind.encoding
    if not key:
        return MessageDecoder(spec, by_value(_decoder(encoding, schema, kind, config)))
    if encoding == "debezium-json":
        events = JsonDecoder(wrapped(envelope(schema)))
        return MessageDecoder(spec, DebeziumDecoder(schema, key, events).decode)
    if encoding == "debezium-avro":
        in_avro = _decoder("avro", envelope(schema), kind, config)
        return MessageDecoder(spec, DebeziumDecoder(schema, key, in_avro).decode)
    values = pa.schema([f for f in schema if f.name != DELETED])
    rows = _decoder(encoding, values, kind, config)
    return MessageDecoder(spec, UpsertDecoder(schema, key, rows).decode)


def value_columns(columns: pa.Schema) -> pa.Schema:
    """Return the columns that come from the values of messages."""
    return pa.schema([f for f in columns if f.name not in METADATA.names])


def _decoder(encoding: str, schema: pa.Schema, kind: Topic, config: Mapping[str, str]) -> Decoder:
    match encoding:
        case "json":
            return JsonDecoder(schema)
        case "arrow":
            return ArrowDecoder(schema)
        case "bytes":
            return RawDecoder(schema)
        case "avro":
            if kind.avro_schema:
                return AvroDecoder(schema, parse_avro_schema(kind.avro_schema))
            user_info = config.get(REGISTRY_USER_INFO, "")
            return AvroDecoder(schema, SchemaRegistry(config[REGISTRY_URL], user_info))
    raise AssertionError(encoding)
