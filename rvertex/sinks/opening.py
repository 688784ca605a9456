"""Opens a destination by its spec; each client library is imported only where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rvertex.sinks.errors import InvalidSinkError
from rvertex.sinks.spec import PostgresSink, name_of

if TYPE_CHECKING:
    from rvertex.sinks.protocol import Destination
    from rvertex.sinks.spec import DeliveryPlace, SinkSpec


def destination(spec: SinkSpec, place: DeliveryPlace) -> Destination:
    """The destination of one partition, not yet opened.

    Each kind of spec has a case here: ``if isinstance(spec, KafkaSink)``, its import, its object.

    Raises:
        InvalidSinkError: nothing here delivers to such a destination.
    """
    if isinstance(spec, PostgresSink):
        from rvertex.sinks.postgres import PostgresDestination

        return PostgresDestination(spec, place)
    raise InvalidSinkError(name_of(spec), f"nothing delivers to a {type(spec).__name__}")
