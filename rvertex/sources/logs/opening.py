"""Opens the log of a live source: its partitions during planning, and its reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rvertex.sources.discover import discover
from rvertex.sources.logs.appended import (
    LOOK_EVERY_S as LOOK_AT_ROWS_S,
    AppendedRows,
    appended_units,
)
from rvertex.sources.logs.folder import FolderLog, folder_units
from rvertex.sources.logs.kafka.positions import topic_units
from rvertex.sources.logs.kafka.reader import KafkaLog
from rvertex.sources.logs.polled import PolledLog, PolledPartition
from rvertex.sources.logs.written import (
    LOOK_EVERY_S as LOOK_AT_STREAMS_S,
    WrittenItems,
    written_units,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rstream.clock import Clock
    from rstream.log.background import Background
    from rvertex.sources.logs.polled import RowReader
    from rvertex.sources.logs.protocol import LogReader
    from rvertex.sources.spec import SourcePartition, SourceSpec, Unit


Open = Callable[
    ["SourcePartition", "Sequence[int]", "Clock", Callable[[], None], "Background"], "LogReader"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSource:
    """How live sources of one format are read."""

    #: Returns the log's partitions during planning, each from its first position.
    units: Callable[[SourceSpec], tuple[Unit, ...]]
    #: Opens a reader of the partitions of a source vertex; see :func:`open_log`.
    open: Open


def polled(open_rows: Callable[[SourceSpec, Unit, int], RowReader], look_every_s: float) -> Open:
    """Make a reader that polls partitions again ``look_every_s`` after a read without rows.

    ``open_rows(spec, unit, position)`` opens one partition at a position, in the background.
    """

    def open_log(
        source: SourcePartition,
        positions: Sequence[int],
        clock: Clock,
        wake: Callable[[], None],
        background: Background,
    ) -> LogReader:
        partitions = [
            PolledPartition(
                position,
                partial(open_rows, source.spec, unit),
                look_every_s,
                clock,
                wake,
                background,
            )
            for unit, position in zip(source.units, positions, strict=True)
        ]
        return PolledLog(partitions)

    return open_log


#: By format. Every other format is read from growing folders.
LIVE_SOURCES = {
    "kafka": LiveSource(
        units=topic_units,
        open=lambda source, at, clock, wake, background: KafkaLog(source, at, clock, wake),
    ),
    "log": LiveSource(
        units=appended_units,
        open=polled(lambda spec, unit, at: AppendedRows(spec, at), LOOK_AT_ROWS_S),
    ),
    "rstream": LiveSource(units=written_units, open=polled(WrittenItems, LOOK_AT_STREAMS_S)),
}
_FOLDER = LiveSource(units=folder_units, open=FolderLog)


def discover_units(spec: SourceSpec) -> tuple[Unit, ...]:
    """Return the units of a source; for a live log its partitions, from their first positions.

    Raises:
        LogNotFoundError, LogUnreachableError: the log could not be reached.
        StreamEngineError: as :func:`rvertex.sources.discover.discover`.
    """
    return (
        discover(spec) if spec.live is None else LIVE_SOURCES.get(spec.format, _FOLDER).units(spec)
    )


def open_log(
    source: SourcePartition,
    positions: Sequence[int],
    clock: Clock,
    wake: Callable[[], None],
    background: Background,
) -> LogReader:
    """Open a reader of the partitions of a source vertex, each from its position on.

    ``wake`` is called, from any thread, when there may be new rows.
    """
    live = LIVE_SOURCES.get(source.spec.format, _FOLDER)
    return live.open(source, positions, clock, wake, background)
