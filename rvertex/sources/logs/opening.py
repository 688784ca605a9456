"""Which log a source reads: the partitions it has when a job is planned, and its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rvertex.sources.discover import discover
from rvertex.sources.logs.appended import LOOK_EVERY_S as LOOK_AT_ROWS_S
from rvertex.sources.logs.appended import AppendedRows, appended_units
from rvertex.sources.logs.folder import FolderLog, folder_units
from rvertex.sources.logs.kafka.positions import topic_units
from rvertex.sources.logs.kafka.reader import KafkaLog
from rvertex.sources.logs.polled import PolledLog, PolledPartition
from rvertex.sources.logs.written import LOOK_EVERY_S as LOOK_AT_STREAMS_S
from rvertex.sources.logs.written import WrittenItems, written_units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.clock import Clock
    from rstream.log.background import Background
    from rvertex.sources.logs.polled import RowReader
    from rvertex.sources.logs.protocol import LogReader
    from rvertex.sources.spec import SourcePartition, SourceSpec, Unit


def discover_units(spec: SourceSpec) -> tuple[Unit, ...]:
    """The units of a source; of a live log its partitions, each from where it is to be read.

    Raises:
        LogNotFoundError, LogUnreachableError: of a log that could not be asked.
        StreamEngineError: what :func:`rvertex.sources.discover.discover` raises.
    """
    if spec.log is None:
        return discover(spec)
    if spec.format == "kafka":
        return topic_units(spec)
    if spec.format == "rstream":
        return written_units(spec)
    return appended_units(spec) if spec.format == "log" else folder_units(spec)


def open_log(
    source: SourcePartition,
    positions: Sequence[int],
    clock: Clock,
    wake: Callable[[], None],
    background: Background,
) -> LogReader:
    """A reader of the partitions of a source vertex, each from its position on.

    ``wake`` is called, from any thread, when there may be something new.
    """
    if source.spec.format == "kafka":
        return KafkaLog(source, positions, clock, wake)
    if source.spec.format in ("log", "rstream"):
        pairs = zip(source.units, positions, strict=True)
        return PolledLog([_polled(source.spec, *pair, clock, wake, background) for pair in pairs])
    return FolderLog(source, positions, clock, wake, background)


def _polled(
    spec: SourceSpec,
    unit: Unit,
    position: int,
    clock: Clock,
    wake: Callable[[], None],
    background: Background,
) -> PolledPartition:
    def open_rows(first: int) -> RowReader:
        is_log = spec.format == "log"
        return AppendedRows(spec, first) if is_log else WrittenItems(spec, unit, first)

    look_every_s = LOOK_AT_ROWS_S if spec.format == "log" else LOOK_AT_STREAMS_S
    return PolledPartition(position, open_rows, look_every_s, clock, wake, background)
