"""The public names and their modules, which are imported when a name is first used."""

from rstream.clock import Clock as Clock, ManualClock as ManualClock, SystemClock as SystemClock
from rstream.errors import (
    BackPressureError as BackPressureError,
    CorruptSegmentError as CorruptSegmentError,
    IntegrityError as IntegrityError,
    InvalidBatchError as InvalidBatchError,
    OperatingError as OperatingError,
    SequenceConflictError as SequenceConflictError,
    SequenceDiscardedError as SequenceDiscardedError,
    SequenceGapError as SequenceGapError,
    SequenceLostError as SequenceLostError,
    SequenceNotReadyError as SequenceNotReadyError,
    StoreError as StoreError,
    StreamEngineError as StreamEngineError,
    UnauthorizedError as UnauthorizedError,
    UsageError as UsageError,
)
from rstream.intake.appender import Appender as Appender
from rstream.intake.producers import Ack as Ack, ProducerPosition as ProducerPosition
from rstream.intake.reader import AppendLogReader as AppendLogReader, open_log as open_log
from rstream.items.batch import Items as Items, item_schema as item_schema
from rstream.items.digest import StreamDigest as StreamDigest
from rstream.limits import AppendLimits as AppendLimits, StreamLimits as StreamLimits
from rstream.log.background import (
    Background as Background,
    InlineBackground as InlineBackground,
    ThreadBackground as ThreadBackground,
)
from rstream.log.reader import (
    StreamReader as StreamReader,
    open_reader as open_reader,
    read_events as read_events,
)
from rstream.log.stream import RStream as RStream
from rstream.store.blobs import FsspecBlobs as FsspecBlobs, open_store as open_store
from rstream.store.memory_blobs import MemoryBlobs as MemoryBlobs
from rstream.store.protocol import BlobStore as BlobStore
from rstream.types import (
    INF_TIME as INF_TIME,
    MIN_TIME as MIN_TIME,
    SeqRange as SeqRange,
    SequenceNumber as SequenceNumber,
    StreamId as StreamId,
    Timestamp as Timestamp,
)
