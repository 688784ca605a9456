"""Streams of another job as a source: every item as it was written, CTIs included.

A path names the output of a job (what ``to_parquet`` or ``to_rstream`` wrote), one stream of it
(``.../part-0-*``), or the folder of one channel. A unit is a segment; each stream is a partition of
its own, in the order of the sink's vertices, because a stream is sorted and two of them are not.

Only complete streams are read: an output says so by ``_SUCCESS``, which names its files; any stream
ends with ``CTI(INF_TIME)``. So the same units give the same rows whenever they are read. Streams
that grow are found here, and read by :mod:`rvertex.sources.logs.written`.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rstream.errors import CorruptSegmentError, StoreError
from rstream.format.segment_file import SegmentFile
from rstream.items.batch import (
    CTI,
    EVENT,
    KIND,
    VE,
    VS,
    int64_column,
    kinds,
    lifetimes,
)
from rstream.items.edges import is_end
from rstream.store.blobs import open_store
from rstream.store.fences import valid_segments
from rstream.store.part_files import place_of, split_part
from rstream.store.segment_names import NAME, SegmentIndex, parse_segment_name, segment_name
from rstream.types import INF_TIME, SeqRange
from rvertex.errors import (
    CorruptSourceError,
    SourceNotFoundError,
    SourceRowError,
    SourceSchemaError,
    SourceVanishedError,
    UnfinishedStreamError,
)
from rvertex.sources.files import first_line, open_random
from rvertex.sources.formats.rows.line_rows import Origin
from rvertex.sources.spec import Unit
from rvertex.sources.versions import local_path, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from rstream.store.protocol import BlobStore
    from rvertex.sources.spec import SourceSpec

#: Of an output: who writes it, and that it is complete (:mod:`jobmanager.storage.output_claim`).
CLAIM, SUCCESS = "_JOB", "_SUCCESS"
#: Of a claim: the names of the streams, and their payload columns (Arrow IPC, base64).
CLAIM_STREAMS, CLAIM_SCHEMA = "streams", "schema"
_GONE = "No such file; `jobmanager resume` of the job that wrote it computes it again"
_JOB_FILE, _OUTPUT = "job.json", "output"
_FILE = re.compile(rf"(.*?)({NAME})")


def stream_units(path: str) -> tuple[Unit, ...]:
    """The segments of every stream at ``path``, stream after stream, each item in one of them.

    Raises:
        SourceNotFoundError: there is no stream.
        UnfinishedStreamError: it is not complete, or its beginning was collected.
        CorruptSourceError: its end cannot be read.
        SourceVanishedError: a file that a finished answer names is not there.
    """
    local = local_path(path)
    if local is not None and os.path.isfile(local):
        raise SourceNotFoundError(path, "it is a file; name the output folder of a job")
    try:
        streams = _streams(path)
    except (OSError, StoreError) as error:
        raise SourceNotFoundError(path, first_line(error)) from error
    units = [unit for k, files in enumerate(streams) for unit in _units(path, k, files)]
    if not units:
        raise SourceNotFoundError(path, "no stream of a job is there")
    return tuple(units)


def stream_schema(path: str) -> pa.Schema:
    """The payload columns.

    Raises:
        SourceNotFoundError, UnfinishedStreamError, CorruptSourceError: as :func:`stream_units`.
    """
    file = _opened(stream_units(path)[0].path, None)
    try:
        return file.payload.remove_metadata()
    finally:
        file.close()


def item_units(spec: SourceSpec) -> tuple[Unit, ...]:
    """All items are one unit."""
    assert spec.items is not None
    return (Unit("", rows=spec.items.num_rows),)


class ItemUnits:
    """Reads the items of one source partition."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """All of them."""
        del unit
        assert self._spec.items is not None
        yield self._spec.items

    def origin(self, unit: Unit, row: int) -> Origin:
        """Items are counted from 1."""
        del unit
        return Origin(row + 1)

    def close(self) -> None:
        """Nothing is held."""


class RStreamUnits:
    """Reads the segments of one source; a row is an item."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """The items of the unit as ``_kind, _vs, _ve, payload``."""
        names = self._spec.columns.names
        file = _opened(unit.path, names)
        try:
            _check_columns(unit.path, file.payload, self._spec.columns)
            is_whole = len(names) == len(file.payload)  # digests are over all columns
            seq, row = unit.first_seq, 0
            while seq < file.info.seqs.hi:
                try:
                    items = file.read_group(seq, verify=is_whole)
                except CorruptSegmentError as error:
                    raise CorruptSourceError(unit.path, None, error.reason) from error
                batch = items.batch.select([KIND, VS, VE, *names])
                refuse_edges(unit.path, batch)
                self._check_lengths(unit, batch, row)
                yield batch
                seq, row = items.next_seq, row + batch.num_rows
        finally:
            file.close()

    def origin(self, unit: Unit, row: int) -> Origin:
        """Items are counted from 1; there are no lines."""
        del unit
        return Origin(row + 1)

    def close(self) -> None:
        """Nothing is held between units."""

    def _check_lengths(self, unit: Unit, batch: pa.RecordBatch, row: int) -> None:
        longest_us = self._spec.max_duration_us
        if longest_us is None:
            return
        too_long = lifetimes(int64_column(batch, VS), int64_column(batch, VE)) > longest_us
        too_long &= kinds(batch) == EVENT
        if too_long.any():
            at = int(np.argmax(too_long))
            value = f"[{batch.column(VS)[at].as_py()}, {batch.column(VE)[at].as_py()})"
            reason = f"has a lifetime longer than {longest_us} us, the declared max_duration"
            raise SourceRowError(unit.path, row + at + 1, None, None, value, reason)


def refuse_edges(path: str, batch: pa.RecordBatch) -> None:
    """Refuse the output of a job whose rows come when they begin: readers expect whole rows.

    Raises:
        SourceSchemaError: a row ends later than it came.
    """
    ends = is_end(int64_column(batch, VS), int64_column(batch, VE))
    if ends.any():
        reason = (
            "the job delivers changes, so its output has start and "
            "end edges; read it with ss.read_table, or write the query with to_parquet() as well"
        )
        raise SourceSchemaError(path, VE, reason)


def _streams(path: str) -> list[list[str]]:
    """The files of each stream, as places for :func:`open_random`."""
    store = open_store(path)
    if split_part(path)[1]:
        return [[place_of(store, name) for name in _segments(store.list())]]
    if store.exists(SUCCESS):
        files = document(store, path, SUCCESS).get("files", [])
        found: dict[str, list[str]] = {}
        for name in files:
            match = _FILE.fullmatch(name)
            if match is not None:
                found.setdefault(match[1], []).append(place_of(store, name))
        return list(found.values())
    if store.exists(CLAIM):
        raise UnfinishedStreamError(path, _owner(store, path))
    refuse_job_folder(store, path)
    return [[place_of(store, name) for name in _segments(store.list())]]


def refuse_job_folder(store: BlobStore, path: str) -> None:
    """Say where the answer is to who gave the folder of the job."""
    if store.exists(_JOB_FILE):
        place = f"{path.rstrip('/')}/{_OUTPUT}"
        raise SourceNotFoundError(path, f"this is the folder of a job; its answer is {place}")


def _segments(names: Sequence[str]) -> list[str]:
    """The segments that count, whole: a finished job leaves no others that are needed."""
    return [segment_name(file) for seqs, file in valid_segments(names).items() if seqs == file]


def document(store: BlobStore, path: str, name: str) -> dict[str, Any]:
    """What a job has noted of its output, such as its claim; empty if it is of another form."""
    try:
        found = json.loads(store.get(name))
    except ValueError as error:
        raise CorruptSourceError(f"{path}/{name}", None, "it cannot be read as JSON") from error
    return found if isinstance(found, dict) else {}


def _owner(store: BlobStore, path: str) -> str:
    job = document(store, path, CLAIM).get("job", "")
    return f"the job {job} has not finished: wait for it, or continue it (jobmanager resume)"


def _units(path: str, stream: int, files: Sequence[str]) -> list[Unit]:
    """The units of one stream, dense from 0 to its end."""
    by_seqs = {_seqs_of(file): file for file in files}
    end = 0
    units: list[Unit] = []
    for seqs in SegmentIndex(by_seqs).chain():
        if seqs.lo > end:
            what = f"its items [{end}, {seqs.lo}) are missing"
            hint = "; the job that wrote it must keep them (retain='all', retention='all')"
            hint = hint if not units else ""
            raise UnfinishedStreamError(path, what + hint)
        file = by_seqs[seqs]
        version = version_of(file)
        if version is None:
            raise SourceVanishedError(file, _GONE)
        units.append(Unit(file, None, seqs.hi - end, version=version, first_seq=end, stream=stream))
        end = seqs.hi
    if units and not _ends(units[-1]):
        raise UnfinishedStreamError(path, "its writer has not finished: read it afterwards")
    return units


def _ends(unit: Unit) -> bool:
    """Whether the last item of a unit is the end of a stream."""
    file = _opened(unit.path, [])
    try:
        items = file.read_group(file.info.seqs.hi - 1, verify=False).batch
    except CorruptSegmentError as error:
        raise CorruptSourceError(unit.path, None, error.reason) from error
    finally:
        file.close()
    return int(kinds(items)[-1]) == CTI and int(int64_column(items, VS)[-1]) == INF_TIME


def _seqs_of(file: str) -> SeqRange:
    match = _FILE.fullmatch(file)
    assert match is not None, file
    seqs = parse_segment_name(match[2])
    assert seqs is not None, file
    return seqs


def _opened(path: str, columns: Sequence[str] | None) -> SegmentFile:
    source = open_random(path)
    try:
        return SegmentFile(source, path, _seqs_of(path), columns=columns)
    except CorruptSegmentError as error:
        source.close()
        raise CorruptSourceError(path, None, error.reason) from error


def _check_columns(path: str, found: pa.Schema, wanted: pa.Schema) -> None:
    there = dict.fromkeys(found.names)
    for field in wanted:
        if field.name not in there:
            raise SourceSchemaError(
                path, field.name, f"not in the file, which has {', '.join(there)}"
            )
        kind = found.field(field.name).type
        if kind != field.type:
            raise SourceSchemaError(
                path, field.name, f"it is {kind} here, but {field.type} in the plan"
            )
