"""Reads the streams of another job: every item as it was written, CTIs included.

A path names the output of a job (of ``to_parquet`` or ``to_rstream``), one stream of it
(``.../part-0-*``), or the folder of one channel. A unit is a segment. Each stream is a separate
partition, in the order of the sink's vertices, because only the items of one stream are sorted.

Only complete streams are read. A complete output has ``_SUCCESS``, which names its files; any
complete stream ends with ``CTI(INF_TIME)``. So the same units always return the same rows. This
module also finds growing streams; :mod:`rvertex.sources.logs.written` reads them.
"""

from __future__ import annotations

import contextlib
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
from rvertex.sources.spec import PlanItems, Unit
from rvertex.sources.versions import local_path, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from rstream.store.protocol import BlobStore
    from rvertex.sources.spec import SourceSpec

#: Files of an output: its owner, and its completion (:mod:`jobmanager.storage.output_claim`).
CLAIM, SUCCESS = "_JOB", "_SUCCESS"
#: Claims of the output after a change of the job, named by generation; the newest counts.
CLAIMS = "_JOB-changed"
#: Most reads of a claim that is replaced meanwhile.
CLAIM_READS_MAX = 3
#: Keys of a claim: the names of the streams, and their payload columns (Arrow IPC, base64).
CLAIM_STREAMS, CLAIM_SCHEMA = "streams", "schema"
_GONE = "No such file; `jobmanager resume` of the job that wrote it computes it again"
_JOB_FILE, _OUTPUT = "job.json", "output"
_FILE = re.compile(rf"(.*?)({NAME})")


def stream_units(path: str) -> tuple[Unit, ...]:
    """Return the segments of every stream at ``path``, stream by stream, without overlaps.

    Raises:
        SourceNotFoundError: there is no stream.
        UnfinishedStreamError: it is not complete, or its beginning was deleted.
        CorruptSourceError: the broker did not return the end of a partition.
        SourceVanishedError: a file of a complete output is missing.
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
        raise SourceNotFoundError(path, "there is no stream of a job")
    return tuple(units)


def stream_schema(path: str) -> pa.Schema:
    """Return the payload columns.

    Raises:
        SourceNotFoundError, UnfinishedStreamError, CorruptSourceError: as :func:`stream_units`.
    """
    file = _opened(stream_units(path)[0].path, None)
    try:
        return file.payload.remove_metadata()
    finally:
        file.close()


def item_units(spec: SourceSpec) -> tuple[Unit, ...]:
    """Return a single unit that has all items."""
    assert isinstance(spec.kind, PlanItems), spec.kind
    return (Unit("", rows=spec.kind.rows.num_rows),)


class ItemUnits:
    """Reads the items of one source partition."""

    def __init__(self, spec: SourceSpec) -> None:
        assert isinstance(spec.kind, PlanItems), spec.kind
        self._rows = spec.kind.rows

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """Yield all items."""
        del unit
        yield self._rows

    def origin(self, unit: Unit, row: int) -> Origin:
        """Return the item's number, from 1."""
        del unit
        return Origin(row + 1)

    def close(self) -> None:
        """Do nothing: no file is open."""


class RStreamUnits:
    """Reads the segments of one source; each row is an item."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """Yield the items of the unit as ``_kind, _vs, _ve, payload``."""
        names = self._spec.columns.names
        file = _opened(unit.path, names)
        try:
            _check_columns(unit.path, file.payload, self._spec.columns)
            is_whole = len(names) == len(file.payload)  # digests cover all columns
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
        """Return the item's number, from 1; there are no lines."""
        del unit
        return Origin(row + 1)

    def close(self) -> None:
        """Do nothing: no file is open between units."""

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
    """Raise for an output with start edges, because readers expect rows with known ends.

    Raises:
        SourceSchemaError: the end of a row is a separate item.
    """
    ends = is_end(int64_column(batch, VS), int64_column(batch, VE))
    if ends.any():
        reason = (
            "the job delivers changes, so its output has start and "
            "end edges; read it with ss.read_table, or write the query with to_parquet() as well"
        )
        raise SourceSchemaError(path, VE, reason)


def _streams(path: str) -> list[list[str]]:
    """Return the files of each stream, as paths for :func:`open_random`."""
    store = open_store(path)
    if split_part(path)[1]:
        return [[place_of(store, name) for name in _segments(store.list())]]
    if store.exists(SUCCESS):
        files = document(store, path, SUCCESS).get("files", [])
        files_of: dict[str, list[str]] = {}
        for name in files:
            match = _FILE.fullmatch(name)
            if match is not None:
                files_of.setdefault(match[1], []).append(place_of(store, name))
        return list(files_of.values())
    if store.exists(CLAIM):
        raise UnfinishedStreamError(path, _owner(store, path))
    refuse_job_folder(store, path)
    return [[place_of(store, name) for name in _segments(store.list())]]


def refuse_job_folder(store: BlobStore, path: str) -> None:
    """Raise for a job's root folder; the message names the folder of its output."""
    if store.exists(_JOB_FILE):
        place = f"{path.rstrip('/')}/{_OUTPUT}"
        raise SourceNotFoundError(path, f"this is the folder of a job; its answer is {place}")


def _segments(names: Sequence[str]) -> list[str]:
    """Return the segments to read. All of them are whole; a finished job needs no others."""
    return [segment_name(file) for seqs, file in valid_segments(names).items() if seqs == file]


def newest_claim(store: BlobStore, path: str) -> dict[str, Any]:
    """Return the claim with the streams and columns that the job writes now.

    Raises:
        FileNotFoundError: there is none, or changes replaced it during each read.
    """
    for _ in range(CLAIM_READS_MAX - 1):
        with contextlib.suppress(FileNotFoundError):  # a later change has replaced it meanwhile
            return document(store, path, _newest_claim(store))
    return document(store, path, _newest_claim(store))


def _newest_claim(store: BlobStore) -> str:
    return max(store.list(CLAIMS), default=CLAIM)


def document(store: BlobStore, path: str, name: str) -> dict[str, Any]:
    """Read a document of a job about its output, such as its claim; empty if it is invalid."""
    try:
        content = json.loads(store.get(name))
    except ValueError as error:
        raise CorruptSourceError(f"{path}/{name}", None, "it cannot be read as JSON") from error
    return content if isinstance(content, dict) else {}


def _owner(store: BlobStore, path: str) -> str:
    job = document(store, path, CLAIM).get("job", "")
    return f"the job {job} has not finished: wait for it, or continue it (jobmanager resume)"


def _units(path: str, stream: int, files: Sequence[str]) -> list[Unit]:
    """Return the units of one stream, dense from 0 to its end."""
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
    """Return whether the last item of a unit is the end of a stream."""
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


def _check_columns(path: str, columns: pa.Schema, wanted: pa.Schema) -> None:
    there = dict.fromkeys(columns.names)
    for field in wanted:
        if field.name not in there:
            raise SourceSchemaError(
                path, field.name, f"not in the file, which has {', '.join(there)}"
            )
        kind = columns.field(field.name).type
        if kind != field.type:
            raise SourceSchemaError(
                path, field.name, f"its type is {kind} in this file, but {field.type} in the plan"
            )
