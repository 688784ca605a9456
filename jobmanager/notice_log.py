"""The job manager's notices as an rStream of its own: what a successor replays.

It becomes durable in the background; :meth:`NoticeLog.flush` waits until it is.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pyarrow as pa

from jobmanager.messages import LOG_CODEC
from jobmanager.root import NOTICES
from rstream import RStream
from rstream.batch import EVENT, only_events
from rstream.errors import StoreError

if TYPE_CHECKING:
    from jobmanager.config import JobConfig
    from jobmanager.messages import Notice
    from jobmanager.root import JobRoot
    from rstream.background import Background
    from rstream.clock import Clock

FLUSHES_MAX = 3
_NOTICE_PAYLOAD = pa.schema([pa.field("notice", pa.binary())])


class NoticeLog:
    """The job manager's notices, as an rStream of its own."""

    def __init__(
        self, root: JobRoot, clock: Clock, config: JobConfig, background: Background | None
    ) -> None:
        self._clock = clock
        self._flush_wait_s = config.notice_flush_wait_s
        self._stream = RStream.open(
            root.store.child(NOTICES),
            _NOTICE_PAYLOAD,
            stream_id=NOTICES,
            clock=clock,
            background=background,
        )

    def append(self, notice: Notice) -> None:
        """Add a notice; it becomes durable in the background."""
        now = self._clock.now_us()
        columns = [
            pa.array([EVENT], pa.int8()),
            pa.array([now], pa.int64()),
            pa.array([now + 1], pa.int64()),
            pa.array([LOG_CODEC.encode(notice)], pa.binary()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._stream.schema)
        try:
            self._stream.append(batch)
        except StoreError:  # told of an earlier flush, which is tried again with this
            self._stream.append(batch)

    def replay(self) -> list[Notice]:
        """All durable notices, in order."""
        reader = self._stream.register(0)
        notices: list[Notice] = []
        while (items := reader.read_next()) is not None:
            rows = only_events(items.batch).column("notice").to_pylist()
            notices.extend(LOG_CODEC.decode(data) for data in rows)
        reader.close()
        return notices

    def flush(self) -> None:
        """Make all notices so far durable.

        Raises:
            StoreError: the store failed FLUSHES_MAX times, each after its own retries.
        """
        for _ in range(FLUSHES_MAX - 1):
            with contextlib.suppress(StoreError):
                self._stream.flush(self._flush_wait_s)
                return
        self._stream.flush(self._flush_wait_s)

    def close(self, *, flush: bool = True) -> None:
        """Flush, unless told not to, and close."""
        self._stream.close(flush=flush)
