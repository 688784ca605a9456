"""Events and watermarks (CTIs) that are written in the query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.api.sources import SchemaLike, checked_partitions, nullable
from planner.durations import Time, time_us
from planner.errors import InvalidPlanError, UnknownColumnError
from planner.expressions.types import schema_of
from planner.logical.nodes import Source
from rstream.items.batch import CTI, EVENT, KIND, VE, VS, item_schema, kinds
from rstream.items.exact import exact_rows
from rstream.types import INF_TIME, MIN_TIME
from rvertex.sources.spec import PlanItems, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Event:
    """An event of ``from_items``, valid in ``[vs_us, ve_us)``."""

    vs_us: int
    ve_us: int
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Cti:
    """A watermark (CTI) of ``from_items``."""

    time_us: int


def event(vs: Time, ve: Time | None = None, **payload: object) -> Event:
    """Make an event ``[vs, ve)`` with these columns; without ``ve`` a point event."""
    start = time_us(vs, what="vs")
    end = start + 1 if ve is None else time_us(ve, what="ve")
    if start >= end:
        raise InvalidPlanError(f"event({vs!r}, {ve!r}): an event needs vs < ve")
    return Event(start, end, payload)


def cti(time: Time) -> Cti:
    """Make a watermark (CTI): no event after it in the stream starts before ``time``."""
    return Cti(time_us(time, what="cti"))


def items_source(schema: SchemaLike, items: Iterable[Event | Cti], *, partitions: int) -> Source:
    """Return a source node over the items that are written in the query."""
    given = schema_of(schema)
    payload = nullable(given)
    batch = _items_batch(payload, list(items))
    is_event = pa.array(kinds(batch) == EVENT)
    for f in given:
        if not f.nullable and batch.column(f.name).filter(is_event).null_count:
            raise InvalidPlanError(f"from_items: null in column {f.name!r}, which is not nullable")
    spec = SourceSpec(PlanItems(batch), "", payload, pa.schema([]), vs=None)
    return Source(spec, checked_partitions(partitions), "items")


def _items_batch(payload: pa.Schema, items: list[Event | Cti]) -> pa.RecordBatch:
    rows: list[dict[str, object]] = []
    reached_us: int = MIN_TIME
    for index, item in enumerate(items):
        if isinstance(item, Cti):
            reached_us = max(reached_us, item.time_us)
            rows.append({KIND: CTI, VS: item.time_us, VE: item.time_us})
        elif isinstance(item, Event):
            _check_payload(payload, item)
            if item.vs_us < reached_us:
                raise InvalidPlanError(
                    f"items[{index}]: the event starts at {item.vs_us}, before the CTI of "
                    f"{reached_us} that precedes it: after a CTI no earlier event may "
                    "follow"
                )
            rows.append({KIND: EVENT, VS: item.vs_us, VE: item.ve_us, **item.payload})
        else:
            raise InvalidPlanError(f"items must be event(...) or cti(...), not {item!r}")
    try:
        return exact_rows(rows, item_schema(payload))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidPlanError(f"the items do not fit their schema: {error}") from None


def _check_payload(payload: pa.Schema, item: Event) -> None:
    for name in item.payload:
        if name not in payload.names:
            raise UnknownColumnError(name, tuple(payload.names), "event(...)")
    if item.vs_us >= INF_TIME:
        raise InvalidPlanError("an event cannot start at the end of time")
