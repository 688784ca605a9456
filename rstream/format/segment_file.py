"""Reads items from the row groups of a segment, and checks them against the footer."""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from rstream.errors import CorruptSegmentError, SegmentFormatError
from rstream.format.checksum import CRC, has_changed
from rstream.format.table import PackedCtis, TableForm
from rstream.items.batch import KIND, RESERVED, SEQ, VE, VS, Items, item_schema
from rstream.items.digest import StreamDigest
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

READ_VERSIONS = (1, 2, 3, 4)
#: First version whose segments have a checksum.
_CHECKSUM_VERSION = 4
_INNER_NAMES = re.compile(r"(?<=list<)(item|element)(?=: )| \('[^']*'\)(?=[,>])")
FOOTER_KEY = b"rstream"
#: Key of a table's CTIs in the footer.
CTIS_KEY = b"rstream.ctis"


@dataclass(frozen=True, slots=True)
class TableInfo:
    """The additional fields of a table's footer."""

    form: TableForm
    #: Names of the columns that are not part of the payload.
    added: tuple[str, ...]
    #: The seq at which each row group ends.
    ends: tuple[int, ...]
    ctis: int


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """A decoded footer. ``digests``: one per row group. ``columns``: their names and types."""

    stream: str
    seqs: SeqRange
    columns: tuple[str, ...]
    digests: tuple[str, ...]
    #: Set for a table; None: a segment with one row per item.
    table: TableInfo | None = None


@dataclass(frozen=True, slots=True)
class _Group:
    """Consecutive items: rows of one row group of the file, and the CTIs between them."""

    seqs: SeqRange
    #: Index of the row group in the file; None: there are only CTIs.
    place: int | None


class SegmentFile:
    """An open segment. ``columns``: payload columns to read besides reserved ones (None: all).

    ``checked``: first read all bytes and compare them with the checksum.

    Raises:
        CorruptSegmentError: the file does not match its name or footer; any method may raise it.
        SegmentFormatError: a later version wrote the file.
    """

    def __init__(
        self,
        source: pa.NativeFile,
        path: str,
        seqs: SeqRange,
        *,
        columns: Sequence[str] | None,
        checked: bool = False,
    ) -> None:
        self._path = path
        if checked and has_changed(source):
            raise CorruptSegmentError(path, "its checksum does not match its bytes")
        try:
            self._file = pq.ParquetFile(source, pre_buffer=False)
            metadata = self._file.metadata.metadata or {}
            self.info = _parse_footer(path, metadata)
            self._ctis = _parse_ctis(metadata, self.info)
            self._groups = self._find_groups()
        except SegmentFormatError:
            raise
        except Exception as error:  # damage can cause any error: a wrong type, an impossible size
            reason = f"unreadable footer: {type(error).__name__} {error}"
            raise CorruptSegmentError(path, reason) from error
        table = self.info.table
        hidden = RESERVED if table is None else table.added
        #: The payload columns.
        self.payload = pa.schema([f for f in self._file.schema_arrow if f.name not in hidden])
        names = self.payload.names
        self._wanted = names if columns is None else [n for n in columns if n in names]
        self._check(seqs)

    @property
    def schema(self) -> pa.Schema:
        """The item schema."""
        if self.info.table is not None:
            return item_schema(self.payload)
        return pa.schema([f for f in self._file.schema_arrow if f.name != SEQ])

    @property
    def form(self) -> TableForm | None:
        """The form of a table; None: one row per item."""
        return None if self.info.table is None else self.info.table.form

    def group_digests(self) -> list[tuple[SeqRange, StreamDigest]]:
        """Return the seq ranges of the row groups, in order, with their digests in the footer."""
        digests = (StreamDigest.from_bytes(bytes.fromhex(d)) for d in self.info.digests)
        return [(g.seqs, d) for g, d in zip(self._groups, digests, strict=True)]

    def read_group(self, seq: int, *, verify: bool) -> Items:
        """Return the items from ``seq`` to the end of its row group."""
        assert seq in self.info.seqs, (seq, self.info.seqs)
        number = bisect_right(self._groups, seq, key=lambda g: g.seqs.lo) - 1
        group = self._groups[number]
        names = self.payload.names if verify else self._wanted
        try:
            items = Items(group.seqs.lo, self._read(group, names))
        except Exception as error:
            reason = f"row group {number}: {type(error).__name__} {error}"
            raise CorruptSegmentError(self._path, reason) from error
        if verify:
            self._verify(number, items)
            if names != self._wanted:
                wanted = [KIND, VS, VE, *self._wanted]
                items = Items(items.first_seq, items.batch.select(wanted))
        return items.from_seq(seq)

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)

    def _find_groups(self) -> list[_Group]:
        metadata, table = self._file.metadata, self.info.table
        rows = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
        lo = self.info.seqs.lo
        if table is None:
            ends = list(itertools.accumulate(rows, initial=lo))
            pairs = itertools.pairwise(ends)
            return [_Group(SeqRange(a, b), k) for k, (a, b) in enumerate(pairs)]
        groups: list[_Group] = []
        place = 0
        for a, b in zip((lo, *table.ends[:-1]), table.ends, strict=True):
            events = b - a - len(self._ctis.between(a - lo, b - lo)[0])
            if events and (place >= len(rows) or rows[place] != events):
                raise ValueError(f"{events} rows are declared for row group {place}")
            groups.append(_Group(SeqRange(a, b), place if events else None))
            place += bool(events)
        return groups

    def _read(self, group: _Group, payload: list[str]) -> pa.RecordBatch:
        """Return the items of a row group, with these payload columns."""
        form = self.form
        if form is None:
            return self._rows(group, [KIND, VS, VE, *payload])
        first = self.info.seqs.lo
        at, times = self._ctis.between(group.seqs.lo - first, group.seqs.hi - first)
        bounds = [n for n in (form.start, form.end) if n is not None and n not in payload]
        schema = pa.schema([self.payload.field(name) for name in payload])
        return form.items(self._rows(group, [*bounds, *payload]), at, times, schema)

    def _rows(self, group: _Group, columns: list[str]) -> pa.RecordBatch:
        if group.place is None:
            return pa.RecordBatch.from_pylist([], schema=self._file.schema_arrow)
        table = self._file.read_row_group(group.place, columns=columns, use_threads=False)
        batches = table.combine_chunks().to_batches()
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

    def _check(self, seqs: SeqRange) -> None:
        info, rows = self.info, self._file.metadata.num_rows + len(self._ctis.rows)
        if (info.seqs.lo, info.seqs.hi) != (seqs.lo, seqs.hi) or rows != len(seqs):
            reason = f"its footer declares {info.seqs} and {rows} rows"
            raise CorruptSegmentError(self._path, reason)
        if _unnamed(info.columns) != _unnamed(describe(self._file.schema_arrow)):
            raise CorruptSegmentError(self._path, "its columns differ from the list in its footer")
        if len(info.digests) != len(self._groups):
            raise CorruptSegmentError(self._path, "its footer has no digests")

    def _verify(self, group: int, items: Items) -> None:
        digest = StreamDigest()
        digest.update(items.first_seq, items.batch)
        if digest.hexdigest() != self.info.digests[group]:
            raise CorruptSegmentError(self._path, f"row group {group}: its content digest differs")


def describe(schema: pa.Schema) -> list[str]:
    """Return names and types of columns, in the form of a footer."""
    return [f"{f.name} {f.type}" for f in schema]


def _unnamed(columns: Iterable[str]) -> list[str]:
    """Remove names that Parquet changes: names of list elements and of map entries."""
    return [_INNER_NAMES.sub("", column) for column in columns]


def _parse_footer(path: str, metadata: dict[bytes, bytes]) -> SegmentInfo:
    footer = json.loads(metadata[FOOTER_KEY])
    version, newest = int(footer["version"]), max(READ_VERSIONS)
    if version > newest:
        raise SegmentFormatError(path, version, newest)
    if version not in READ_VERSIONS:
        raise ValueError(f"format version {version}, this is {newest}")
    if version >= _CHECKSUM_VERSION and CRC not in footer:
        raise ValueError("it lacks the checksum")
    table = footer.get("table")
    return SegmentInfo(
        stream=str(footer["stream"]),
        seqs=SeqRange(int(footer["lo"]), int(footer["hi"])),
        columns=tuple(str(c) for c in footer["columns"]),
        digests=tuple(str(d) for d in footer["digests"]),
        table=None if table is None else _parse_table(table),
    )


def _parse_table(table: dict[str, Any]) -> TableInfo:
    return TableInfo(
        form=TableForm.from_json(table),
        added=tuple(str(name) for name in table["added"]),
        ends=tuple(int(seq) for seq in table["ends"]),
        ctis=int(table["ctis"]),
    )


def _parse_ctis(metadata: dict[bytes, bytes], info: SegmentInfo) -> PackedCtis:
    if info.table is None:
        return PackedCtis.of([])
    ctis = PackedCtis.loads(metadata[CTIS_KEY], info.table.ctis)
    if len(ctis.rows) and ctis.rows[-1] >= len(info.seqs):
        raise ValueError("a CTI is past the end")
    return ctis
