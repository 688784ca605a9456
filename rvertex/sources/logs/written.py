"""Reads the output streams of another job while that job writes them; each is one partition.

Items include their CTIs (watermarks), so this job's event time follows the other job's, and
``CTI(INF_TIME)`` is the end. Durable items never change, even if the other job fails: it computes
equal items again.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream import open_reader
from rstream.errors import (
    CorruptSegmentError,
    SequenceDiscardedError,
    SequenceLostError,
    StoreError,
)
from rstream.items.batch import KIND, VE, VS, int64_column, payload_schema
from rstream.store.blobs import open_store
from rstream.store.part_files import part_uri, split_part
from rstream.types import INF_TIME
from rvertex.errors import CorruptSourceError, SourceNotFoundError, SourceVanishedError
from rvertex.sources.files import first_line
from rvertex.sources.formats.rstream import (
    CLAIM,
    CLAIM_SCHEMA,
    CLAIM_STREAMS,
    newest_claim,
    refuse_edges,
    refuse_job_folder,
)
from rvertex.sources.logs.errors import AddedStreamsError, LostInputError
from rvertex.sources.logs.protocol import LogRows
from rvertex.sources.spec import Unit

if TYPE_CHECKING:
    from rvertex.sources.spec import SourceSpec

#: Least seconds before the next read after a read without items, since each read lists the folder.
LOOK_EVERY_S = 0.1
#: Number of such reads in succession for one check whether the output has more streams.
READS_PER_CHECK = 10


@dataclass(frozen=True, slots=True)
class GrowingStreams:
    """The streams of an output that may still grow: their URIs, and the payload columns."""

    places: tuple[str, ...]
    columns: pa.Schema


def growing_streams(path: str) -> GrowingStreams:
    """Return the streams that a job writes, or has written, to ``path``: an output or one stream.

    Raises:
        SourceNotFoundError: no job has written there yet.
        CorruptSourceError: the job's description of its output cannot be read.
    """
    store = open_store(path)
    try:
        if not split_part(path)[1] and store.exists(CLAIM):
            return _claimed(path, newest_claim(store, path))
        refuse_job_folder(store, path)
        schema = open_reader(store).read_schema()
    except (OSError, StoreError) as error:
        raise SourceNotFoundError(path, first_line(error)) from error
    if schema is None:
        raise SourceNotFoundError(path, "there is no stream of a job yet; start that job first")
    return GrowingStreams((path,), payload_schema(schema).remove_metadata())


def _claimed(path: str, claim: dict[str, Any]) -> GrowingStreams:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(claim[CLAIM_SCHEMA])))
        places = tuple(part_uri(path, name) for name in claim[CLAIM_STREAMS])
    except MemoryError:
        raise
    except (KeyError, ValueError, pa.ArrowException) as error:
        reason = "it does not list its streams; run that job again from the start"
        raise CorruptSourceError(f"{path}/{CLAIM}", None, reason) from error
    return GrowingStreams(places, schema)


def written_units(spec: SourceSpec) -> tuple[Unit, ...]:
    """Return the streams of an output, each from the first item that retention has kept."""
    places = growing_streams(spec.path).places
    return tuple(
        Unit(place, stream=k, first_seq=open_reader(place).next_seq, streams=len(places))
        for k, place in enumerate(places)
    )


class WrittenItems:
    """A RowReader (:mod:`rvertex.sources.logs.polled`); each row is an item."""

    def __init__(self, spec: SourceSpec, unit: Unit, position: int) -> None:
        self._spec, self._unit = spec, unit
        self._items = open_reader(unit.path, position, columns=spec.columns.names)
        self._idle_reads = self._generation = 0

    def read_next(self, rows_max: int) -> LogRows | None:
        """Implement RowReader."""
        path = self._unit.path
        try:
            items = self._items.read_next(rows_max)
        except SequenceDiscardedError as error:
            reason = "the job that wrote them no longer keeps them"
            lost = (self._spec.path, self._unit.stream, error.seq, error.first_seq, reason)
            raise LostInputError(*lost) from error
        except CorruptSegmentError as error:
            raise CorruptSourceError(path, None, error.reason) from error
        except (SequenceLostError, StoreError) as error:
            raise SourceVanishedError(path, first_line(error)) from error
        if items is None:
            if self._idle_reads % READS_PER_CHECK == 0:
                self._check_streams()
            self._idle_reads += 1
            return None
        self._idle_reads = 0
        former, self._generation = self._generation, self._items.generation
        # Time must not pass in these streams while an added stream has earlier rows.
        if self._generation != former or int64_column(items.batch, VS)[-1] == INF_TIME:
            self._check_streams()
        positions = np.arange(items.first_seq, items.next_seq, dtype=np.int64)
        batch = items.batch.select([KIND, VS, VE, *self._spec.columns.names])
        refuse_edges(path, batch)
        return LogRows(positions, batch, items.next_seq)

    def _check_streams(self) -> None:
        """Check that the output has no additional streams.

        Called after some of the reads without new items, after a change, and at the end.
        """
        path, then = self._spec.path, self._unit.streams
        if then and not split_part(path)[1]:
            try:
                now = len(growing_streams(path).places)
            except SourceNotFoundError as error:  # it was there, so the store has failed
                raise SourceVanishedError(path, error.reason) from error
            if now > then:
                raise AddedStreamsError(path, now, then)

    def close(self) -> None:
        """Implement RowReader."""
        self._items.close()
