"""Opens a destination by its spec; each client library is imported only where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rvertex.sinks.console import ConsolePrinter
from rvertex.sinks.errors import InvalidSinkError
from rvertex.sinks.function import FunctionDestination
from rvertex.sinks.spec import (
    ConsoleSink,
    FunctionSink,
    KafkaSink,
    OnceSink,
    ParquetSink,
    PostgresSink,
    name_of,
)

if TYPE_CHECKING:
    from rvertex.sinks.protocol import Destination
    from rvertex.sinks.spec import DeliveryPlace, SinkSpec


def destination(spec: SinkSpec, place: DeliveryPlace) -> Destination:
    """The destination of one partition, not yet opened.

    Each kind of spec has a case here: ``if isinstance(spec, KafkaSink)``, its import, its object.

    Raises:
        InvalidSinkError: nothing here delivers to such a destination.
    """
    if isinstance(spec, KafkaSink):
        if spec.mode == "headers":
            from rvertex.sinks.kafka.headers import KafkaHeaders

            return KafkaHeaders(spec, place)
        from rvertex.sinks.kafka.transactions import KafkaTransactions

        return KafkaTransactions(spec, place)
    if isinstance(spec, PostgresSink):
        from rvertex.sinks.postgres import PostgresDestination

        return PostgresDestination(spec, place)
    if isinstance(spec, ParquetSink):
        from rvertex.sinks.parquet import ParquetDestination

        return ParquetDestination(spec, place)
    if isinstance(spec, OnceSink):
        from rvertex.registry.once import OnceDestination, opened_registry

        inner = destination(spec.to, place)
        return OnceDestination(spec, place, inner, opened_registry(spec.registry))
    if isinstance(spec, FunctionSink):
        return FunctionDestination(spec.code.target, spec.label, place)
    if isinstance(spec, ConsoleSink):
        return FunctionDestination(ConsolePrinter(), spec.label, place)
    raise InvalidSinkError(name_of(spec), f"nothing delivers to a {type(spec).__name__}")
