"""Partition columns: columns whose values are in folder names, as ``day=2026-01-01/`` (Hive).

A file has a value for each folder ``name=value`` above it. These are the folders below the source's
path, and such folders at the end of this path. Names and values may be encoded as in URLs;
:data:`NULL` is null. A file outside of any folder of that name has null, and a note names the file.
A column has the first type that fits all its values, or the type it was written with
(``partition_by``). If the files have the column too, it is read from them and compared with the
folder.

Invariant: the folder values of a file depend on its path and on its source's path alone.
"""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.exact import exact_cast
from rvertex.errors import SourceSchemaError
from rvertex.sources.files import SUFFIXES, fixed_folder
from rvertex.sources.formats.rows.bad_rows import bad_of
from rvertex.sources.formats.rows.text_values import with_values
from rvertex.sources.spec import Parquet, SourceKind
from rvertex.sources.versions import absolute

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from rvertex.sources.formats.rows.line_rows import Origin
    from rvertex.sources.formats.rows.unit_reader import UnitReader
    from rvertex.sources.spec import Format, SourceSpec, Unit

NULL = "__HIVE_DEFAULT_PARTITION__"
#: Key in the metadata of a Parquet file: the types of its partition columns.
TYPES_KEY = b"streamscope.folders"
_DAY = r"\d{4}-\d\d-\d\d"
_TIME = rf"{_DAY}[ T]\d\d:\d\d(:\d\d(\.\d{{1,6}})?)?"
#: Types to try for a partition column: the first type that fits all values, else text. ``01`` is a
#: number (a month or an hour); longer numbers that begin with 0 are text.
_KINDS = (
    (r"-?(0|[1-9]\d*)|0\d", pa.int64()),
    (r"-?(0|[1-9]\d{0,14})(\.\d+)?([eE][-+]?\d+)?", pa.float64()),
    (_DAY, pa.date32()),
    (_TIME, pa.timestamp("us")),
    (rf"{_TIME}(Z|[-+]\d\d:?\d\d)", pa.timestamp("us", "UTC")),
)


def folder_values(paths: Sequence[str], file: str) -> dict[str, str | None]:
    """Return the folder values of a file as text, by column; None: null.

    Raises:
        SourceSchemaError: two folders above the file name the same column.
    """
    values: dict[str, str | None] = {}
    for part in _folders_above(paths, file):
        name, _, value = part.partition("=")
        name = unquote(name)
        if name in values:
            raise SourceSchemaError(
                file, name, "two of the folders above the file name this column"
            )
        values[name] = None if value == NULL else value
    return values


def folder_columns(format: Format, paths: Sequence[str], files: Sequence[str]) -> pa.Schema:
    """Return the partition columns of all files of a source.

    Raises:
        SourceSchemaError: two folders above a file name the same column.
    """
    if format not in SUFFIXES or not files or not any("=" in file for file in files):
        return pa.schema([])
    every = [folder_values(paths, file) for file in files]
    names = dict.fromkeys(name for row in every for name in row)
    return pa.schema([(name, _kind_of([row.get(name) for row in every])) for name in names])


def recorded(columns: pa.Schema) -> dict[bytes, bytes]:
    """Return metadata for a written file that stores the types of its partition columns."""
    return {TYPES_KEY: base64.b64encode(columns.serialize().to_pybytes())}


def recorded_columns(metadata: dict[bytes, bytes] | None) -> pa.Schema:
    """Return the partition columns that :func:`recorded` stored in the metadata; empty if none."""
    data = (metadata or {}).get(TYPES_KEY)
    if data is None:
        return pa.schema([])
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data)))


def value_of(file: str, name: str, raw: str | None, kind: pa.DataType) -> pa.Array:
    """Convert a folder's text ``raw`` to an array of one value of type ``kind``.

    Raises:
        SourceSchemaError: the text is not of that type.
    """
    try:
        return _parsed(raw, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise SourceSchemaError(
            file,
            name,
            f"the folder is named {name}={unquote(raw or '')}, which is not {kind}; read "
            f'the column as text with schema={{"{name}": "string"}}',
        ) from None


def check_folders(spec: SourceSpec, file: str, names: Collection[str]) -> list[str]:
    """Check a file's folders against the source; return folder columns the source does not have.

    ``names``: the columns inside the file.

    Raises:
        SourceSchemaError: a folder's value is not of its column's type, or the file has a partition
            column inside that the first file does not have.
    """
    values = folder_values(spec.paths, file)
    for name in spec.files.folder_columns:
        if name in names:
            reason = "the file has this column, but in the first file only the folder name has it"
            raise SourceSchemaError(file, name, reason)
        if name in spec.columns.names:
            value_of(file, name, values.get(name), spec.columns.field(name).type)
    return [name for name in values if name not in names and name not in spec.files.folder_columns]


def folder_notes(spec: SourceSpec, paths: Sequence[str]) -> list[str]:
    """Return notes for the user on files outside of partition folders and lost leading zeros."""
    padded: dict[str, str] = {}
    outside: dict[str, list[str]] = {}
    for file in paths:
        values = folder_values(spec.paths, file)
        for name in spec.files.folder_columns:
            if name not in values and name in spec.schema.names:
                outside.setdefault(name, []).append(file)
        for name, raw in values.items():
            is_read = name in spec.files.folder_columns and name in spec.schema.names
            is_number = is_read and pa.types.is_integer(spec.schema.field(name).type)
            if is_number and name not in spec.files.casts and raw and raw[0] == "0" and raw != "0":
                padded.setdefault(name, raw)
    return [
        f"source {spec.path}: column {name!r} of its folders is int64, so {raw} is "
        f'{int(raw)}; set schema={{"{name}": "string"}} to keep it as it is written, or '
        f'schema={{"{name}": "int64"}} if that is right'
        for name, raw in padded.items()
    ] + [
        f"source {spec.path}: column {name!r} is null in {len(files)} of {len(paths)} "
        f"files, which are in no folder {name}=..., such as {files[0]}"
        for name, files in outside.items()
    ]


def without_folders(spec: SourceSpec) -> SourceSpec:
    """Return the source without its partition columns, as a reader of the files alone needs it."""
    names = spec.files.folder_columns
    late = None if spec.late_schema is None else _less(spec.late_schema, names)
    if spec.vs in names or spec.ve in names:
        late = None  # otherwise other files would decide which rows are late
    kind: SourceKind = replace(spec.files, folder_columns=())
    if isinstance(kind, Parquet):
        wanted = tuple(bound for bound in kind.wanted if bound.column not in names)
        kind = replace(kind, wanted=wanted)
    return replace(
        spec,
        kind=kind,
        schema=_less(spec.schema, names),
        columns=_less(spec.columns, names),
        late_schema=late,
    )


class FolderUnits:
    """Reads units of files and adds the partition columns."""

    def __init__(self, spec: SourceSpec, files: UnitReader) -> None:
        """Wrap ``files``, the reader for :func:`without_folders` of ``spec``."""
        self._spec, self._files = spec, files

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """Yield all rows of the unit."""
        of_folders = folder_values(self._spec.paths, unit.path)
        columns = self._spec.columns
        values: dict[str, pa.Array] = {}
        for name in self._spec.files.folder_columns:
            if name in columns.names:
                kind = columns.field(name).type
                values[name] = value_of(unit.path, name, of_folders.get(name), kind)
        checked = [name for name in of_folders if name in self._read(unit) and name not in values]
        for batch in self._files.batches(unit):
            for name in checked:
                _check(
                    unit.path, name, of_folders[name], self._good(batch, len(values)).column(name)
                )
            yield self._joined(batch, values)

    def _read(self, unit: Unit) -> set[str]:
        """Return the partition columns that are read from inside the file of a unit."""
        times = {time for time in (self._spec.vs, self._spec.ve) if isinstance(time, str)}
        return times if unit.only_times else {*times, *self._spec.schema.names}

    def _good(self, batch: pa.RecordBatch, made: int) -> pa.RecordBatch:
        bad = bad_of(batch, len(self._spec.columns) - made)
        return batch if bad is None else batch.filter(bad.is_null())

    def _joined(self, batch: pa.RecordBatch, values: dict[str, pa.Array]) -> pa.RecordBatch:
        """Return the columns in the source's order, then the column of bad rows if there is one."""
        if not values:
            return batch
        columns, width = self._spec.columns, len(self._spec.columns) - len(values)
        made = {
            name: pa.nulls(batch.num_rows, value.type)
            if value.null_count
            else pa.repeat(value[0], batch.num_rows)
            for name, value in values.items()
        }
        arrays = [made[n] if n in made else batch.column(n) for n in columns.names]
        names = [*columns.names, *batch.schema.names[width:]]
        return pa.RecordBatch.from_arrays([*arrays, *batch.columns[width:]], names=names)

    def origin(self, unit: Unit, row: int) -> Origin:
        return self._files.origin(unit, row)

    def close(self) -> None:
        self._files.close()


def _check(file: str, name: str, raw: str | None, column: pa.Array) -> None:
    """Check that a column inside a file equals the folder's value ``raw`` in every row.

    Raises:
        SourceSchemaError: a row has another value.
    """
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    value = value_of(file, name, raw, plain.type)
    is_equal = pc.equal(plain, value[0]).fill_null(False)
    is_same = plain.is_null() if value.null_count else is_equal
    if not pc.all(is_same).as_py():
        other = plain[pc.index(is_same, False).as_py()]
        raise SourceSchemaError(
            file,
            name,
            f"a row has {other} but its folder is named "
            f"{name}={NULL if raw is None else raw}; rename one of the two",
        )


def _less(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    return pa.schema([f for f in schema if f.name not in names])


def _folders_above(paths: Sequence[str], file: str) -> list[str]:
    """Return the folders that name columns, from the top down."""
    for one in paths:
        for base in dict.fromkeys((absolute(one).rstrip("/"), fixed_folder(absolute(one)))):
            if file == base:
                base = base.rpartition("/")[0]
            if not file.startswith(f"{base}/"):
                continue
            above: list[str] = []
            for part in reversed(base.split("/")):
                if not _names_column(part):
                    break
                above.insert(0, part)
            below = file[len(base) + 1 :].split("/")[:-1]
            return [*above, *filter(_names_column, below)]
    return []


def _names_column(folder: str) -> bool:
    return folder.find("=") > 0


def _kind_of(values: Sequence[str | None]) -> pa.DataType:
    written = [unquote(value) for value in values if value is not None]
    for pattern, kind in _KINDS:
        if written and all(re.fullmatch(pattern, text) for text in written):
            try:
                for value in values:
                    _parsed(value, kind)
            except ValueError:  # too large, or not a day of the calendar
                continue
            return kind
    return pa.string()


def _parsed(raw: str | None, kind: pa.DataType) -> pa.Array:
    types = pa.types
    if raw is None:
        return pa.nulls(1, kind)
    data = unquote_to_bytes(raw)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return pa.array([data], kind)
    text = pa.array([data.decode()])
    if types.is_timestamp(kind):
        (parsed,) = with_values(pa.record_batch([text], ["x"]), [pa.field("x", kind)]).columns
        return parsed
    if types.is_time(kind):
        day = pc.binary_join_element_wise("1970-01-01", text, "T")
        return day.cast(pa.timestamp("us")).cast(kind)
    if types.is_duration(kind):
        return text.cast(pa.int64()).cast(kind)
    return exact_cast(text, kind)
