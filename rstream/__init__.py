"""A durable, sequence-numbered log of events and CTIs."""

from rstream.background import Background, InlineBackground, ThreadBackground
from rstream.batch import Items, item_schema
from rstream.blobs import BlobStore, FsspecBlobs, MemoryBlobs, open_store
from rstream.clock import Clock, ManualClock, SystemClock
from rstream.digest import StreamDigest
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
from rstream.limits import StreamLimits
from rstream.reader import StreamReader, open_reader, read_events
from rstream.stream import RStream
from rstream.types import INF_TIME, MIN_TIME, SeqRange, SequenceNumber, StreamId, Timestamp

__all__ = [
    "INF_TIME",
    "MIN_TIME",
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
    "open_reader",
    "open_store",
    "read_events",
]
