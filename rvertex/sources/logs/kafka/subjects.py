"""Reads the columns of a topic from a schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rvertex.sources.logs.decode.avro_schema import UnreadableAvroError, arrow_columns
from rvertex.sources.logs.decode.choose import REGISTRY_URL, REGISTRY_USER_INFO
from rvertex.sources.logs.decode.registry import SchemaRegistry
from rvertex.sources.logs.errors import LogNotFoundError
from rvertex.sources.logs.kafka.options import resolved

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


def registered_columns(topic: str, config: Mapping[str, str]) -> pa.Schema:
    """Return the columns of the newest schema of the topic's values (subject TOPIC-value).

    Raises:
        LogNotFoundError, LogUnreachableError: naming the registry.
        MissingVariableError: the environment lacks a value.
    """
    given = resolved({k: v for k, v in config.items() if k in (REGISTRY_URL, REGISTRY_USER_INFO)})
    registry = SchemaRegistry(given[REGISTRY_URL], given.get(REGISTRY_USER_INFO, ""))
    subject = f"{topic}-value"
    try:
        return arrow_columns(registry.latest(subject))
    except UnreadableAvroError as error:
        reason = (
            f"{subject}: no column can hold this Avro type: {error}; give the columns to read as "
            "schema={name: type, ...}"
        )
        raise LogNotFoundError(given[REGISTRY_URL], reason) from None
