"""A durable, sequence-numbered log of events and CTIs (watermarks)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.lazy import lazy

if TYPE_CHECKING:
    from rstream.clock import Clock, ManualClock, SystemClock
    from rstream.errors import (
        BackPressureError,
        CorruptSegmentError,
        IntegrityError,
        InvalidBatchError,
        OperatingError,
        SequenceConflictError,
        SequenceDiscardedError,
        SequenceGapError,
        SequenceLostError,
        SequenceNotReadyError,
        StoreError,
        StreamEngineError,
        UnauthorizedError,
        UsageError,
    )
    from rstream.intake.appender import Appender
    from rstream.intake.producers import Ack, ProducerPosition
    from rstream.intake.reader import AppendLogReader, open_log
    from rstream.items.batch import Items, item_schema
    from rstream.items.digest import StreamDigest
    from rstream.limits import AppendLimits, StreamLimits
    from rstream.log.background import Background, InlineBackground, ThreadBackground
    from rstream.log.reader import StreamReader, open_reader, read_events
    from rstream.log.stream import RStream
    from rstream.store.blobs import FsspecBlobs, open_store
    from rstream.store.memory_blobs import MemoryBlobs
    from rstream.store.protocol import BlobStore
    from rstream.types import INF_TIME, MIN_TIME, SeqRange, SequenceNumber, StreamId, Timestamp

__all__ = [
    "INF_TIME",
    "MIN_TIME",
    "Ack",
    "AppendLimits",
    "AppendLogReader",
    "Appender",
    "BackPressureError",
    "Background",
    "BlobStore",
    "Clock",
    "CorruptSegmentError",
    "FsspecBlobs",
    "InlineBackground",
    "IntegrityError",
    "InvalidBatchError",
    "Items",
    "ManualClock",
    "MemoryBlobs",
    "OperatingError",
    "ProducerPosition",
    "RStream",
    "SeqRange",
    "SequenceConflictError",
    "SequenceDiscardedError",
    "SequenceGapError",
    "SequenceLostError",
    "SequenceNotReadyError",
    "SequenceNumber",
    "StoreError",
    "StreamDigest",
    "StreamEngineError",
    "StreamId",
    "StreamLimits",
    "StreamReader",
    "SystemClock",
    "ThreadBackground",
    "Timestamp",
    "UnauthorizedError",
    "UsageError",
    "item_schema",
    "open_log",
    "open_reader",
    "open_store",
    "read_events",
]
#: The module that defines each public name; it is imported when one of its names is first used.
_HOMES = {
    "rstream.clock": ("Clock", "ManualClock", "SystemClock"),
    "rstream.errors": (
        "BackPressureError",
        "CorruptSegmentError",
        "IntegrityError",
        "InvalidBatchError",
        "OperatingError",
        "SequenceConflictError",
        "SequenceDiscardedError",
        "SequenceGapError",
        "SequenceLostError",
        "SequenceNotReadyError",
        "StoreError",
        "StreamEngineError",
        "UnauthorizedError",
        "UsageError",
    ),
    "rstream.intake.appender": ("Appender",),
    "rstream.intake.producers": ("Ack", "ProducerPosition"),
    "rstream.intake.reader": ("AppendLogReader", "open_log"),
    "rstream.items.batch": ("Items", "item_schema"),
    "rstream.items.digest": ("StreamDigest",),
    "rstream.limits": ("AppendLimits", "StreamLimits"),
    "rstream.log.background": ("Background", "InlineBackground", "ThreadBackground"),
    "rstream.log.reader": ("StreamReader", "open_reader", "read_events"),
    "rstream.log.stream": ("RStream",),
    "rstream.store.blobs": ("FsspecBlobs", "open_store"),
    "rstream.store.memory_blobs": ("MemoryBlobs",),
    "rstream.store.protocol": ("BlobStore",),
    "rstream.types": (
        "INF_TIME",
        "MIN_TIME",
        "SeqRange",
        "SequenceNumber",
        "StreamId",
        "Timestamp",
    ),
}
__getattr__, __dir__ = lazy(__name__, _HOMES)
