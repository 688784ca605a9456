"""Files of one source with different columns: which types are compatible, and notes for users.

The first file defines the columns and their types. If a later file lacks a column, its reader
raises an error. A compatible type is converted, with every value checked; any other is an error,
unless the user declared the type. A column that only later files have is not read; a note reports
that when the job is planned.
"""

from __future__ import annotations

import contextlib
import csv
import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from rstream.errors import StreamEngineError
from rstream.items.batch import RESERVED
from rstream.items.exact import is_bytes, is_list, is_text
from rvertex.errors import SourceSchemaError
from rvertex.sources.files import CODECS, files_beside, list_files
from rvertex.sources.formats.first_rows.value_notes import value_notes
from rvertex.sources.formats.json_lines import chunks, parse_json
from rvertex.sources.formats.parquet import schema_of
from rvertex.sources.formats.rows.column_names import check_unique, check_unique_fields
from rvertex.sources.formats.rows.folders import check_folders, folder_notes
from rvertex.sources.formats.rows.text_encoding import open_text
from rvertex.sources.spec import Csv, Json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rvertex.sources.spec import SourceSpec, Unit

#: Most files and columns that a message names.
NAMED_MAX = 3


def fits(there: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a checked conversion preserves each value or raises."""
    there, wanted = _plain(there), _plain(wanted)
    if there.equals(wanted) or kinds.is_null(there):
        return True
    if kinds.is_integer(there):
        return _is_number(wanted)
    if kinds.is_decimal(there):
        return bool(kinds.is_integer(wanted) or kinds.is_decimal(wanted))
    if kinds.is_floating(there):
        is_wider = kinds.is_floating(wanted) and wanted.bit_width >= there.bit_width
        return bool(is_wider or kinds.is_integer(wanted))
    if kinds.is_timestamp(there):
        return bool(kinds.is_timestamp(wanted) and (there.tz is None) == (wanted.tz is None))
    if kinds.is_date(there):
        return bool(kinds.is_date(wanted) or (kinds.is_timestamp(wanted) and wanted.tz is None))
    if is_list(there) and is_list(wanted):
        return fits(there.value_type, wanted.value_type)
    if kinds.is_struct(there) and kinds.is_struct(wanted):
        alike = [f.name for f in there] == [f.name for f in wanted]
        return alike and all(fits(a.type, b.type) for a, b in zip(there, wanted, strict=True))
    if kinds.is_map(there) and kinds.is_map(wanted):
        pairs = ((there.key_type, wanted.key_type), (there.item_type, wanted.item_type))
        return all(fits(a, b) for a, b in pairs)
    return any(_both(test, there, wanted) for test in _FAMILIES)


def check_type(path: str, name: str, there: pa.DataType, spec: SourceSpec) -> None:
    """Check that the column of a file can be read with the plan's type.

    Raises:
        SourceSchemaError: it cannot.
    """
    wanted = spec.columns.field(name).type
    if name in spec.files.casts or fits(there, wanted):
        return
    plain = _plain(wanted)
    raise SourceSchemaError(
        path,
        name,
        f"it is {there} here, but {plain} in the plan, as in the first file; make the "
        f'files alike, or convert it with schema={{"{name}": "{plain}"}}',
    )


def look(spec: SourceSpec, units: Sequence[Unit]) -> tuple[str, ...]:
    """Return notes for the user about files of a source that differ from the first.

    Raises:
        SourceSchemaError: a column that is read has a type that does not fit.
    """
    paths = list(dict.fromkeys(unit.path for unit in units))
    if spec.kind.gives_items or spec.kind.is_numbered or not paths:
        return ()
    if spec.format == "text":
        return tuple(_skipped(spec))
    columns = FileColumns(spec)
    for path in paths:
        columns.add(path)
    return (
        *columns.notes,
        *value_notes(spec, paths[0]),
        *folder_notes(spec, paths),
        *_compressed_copies(spec, paths),
        *_skipped(spec),
    )


class FileColumns:
    """Collects the columns that other files have and the first file lacks."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._first: frozenset[str] = frozenset()
        self._extra: dict[str, list[str]] = {}
        self._files = 0

    def add(self, path: str) -> None:
        """Add one more file.

        Raises:
            SourceSchemaError: a column that is read has a type that does not fit.
        """
        spec = self._spec
        names = _checked(spec, path) if spec.kind.has_row_groups else _names(spec, path)
        names = [*names, *check_folders(spec, path, names)]
        self._files += 1
        self._first = self._first or frozenset(names)
        more = [name for name in names if name not in self._first]
        if more:
            self._extra[path] = more

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes for the user about these columns, and about names that are already used."""
        return (*self._taken(), *self._more())

    def _taken(self) -> Iterator[str]:
        spec = self._spec
        taken = sorted(self._first & {*RESERVED} - {spec.vs, spec.ve})
        if taken:
            yield (
                f"source {spec.path}: not read: {listed(taken, 'column')}, since such names are "
                "reserved; rename them in the files"
            )

    def _more(self) -> tuple[str, ...]:
        if not self._extra:
            return ()
        columns = list(dict.fromkeys(name for more in self._extra.values() for name in more))
        return (
            f"source {self._spec.path}: not read: {listed(columns, 'column')} that the first file "
            f"does not have, in {len(self._extra)} of {self._files} files "
            f"({listed(list(self._extra), 'file')})",
        )


def _compressed_copies(spec: SourceSpec, paths: Iterable[str]) -> Iterator[str]:
    """Yield a note if a file and its compressed copy are both read, which doubles their rows."""
    by_stem: dict[str, list[str]] = {}
    for path in paths:
        stem = next((path.removesuffix(s) for s in CODECS if path.endswith(s)), path)
        by_stem.setdefault(stem, []).append(path.rpartition("/")[2])
    several = [names for names in by_stem.values() if len(names) > 1]
    if several:
        yield (
            f"source {spec.path}: both {' and '.join(sorted(several[0]))} are read: if they have "
            f"the same rows, delete one ({len(several)} such names)"
        )


def _skipped(spec: SourceSpec) -> list[str]:
    """Return a note about files in the same folders that are not read."""
    beside = files_beside(spec.format, *spec.paths)
    if not beside:
        return []
    names = [path.rpartition("/")[2] for path in beside]
    return [
        f"source {spec.path}: not read: {listed(names, 'file')}, whose names do not end "
        f"like those of {spec.format} files"
    ]


def growing_notes(spec: SourceSpec) -> tuple[str, ...]:
    """Return notes about the existing files of a growing folder."""
    if not spec.kind.suffixes:
        return ()
    try:
        files = list_files(spec.format, *spec.paths)
    except StreamEngineError:
        return ()
    columns = FileColumns(spec)
    for path in files:
        with contextlib.suppress(StreamEngineError):  # the reader of the file reports the error
            columns.add(path)
    first_notes = value_notes(spec, next(iter(files)))
    copies = _compressed_copies(spec, files)
    return (
        *columns.notes,
        *first_notes,
        *folder_notes(spec, list(files)),
        *copies,
        *_skipped(spec),
    )


def _checked(spec: SourceSpec, path: str) -> list[str]:
    schema = schema_of(path)
    check_unique_fields(path, schema)
    for name in spec.columns.names:
        at = schema.get_field_index(name)
        if at >= 0:
            check_type(path, name, schema.field(at).type, spec)
    names: list[str] = schema.names
    return names


def _names(spec: SourceSpec, path: str) -> list[str]:
    """Return the columns of a file; none if it cannot be read, since its reader reports that.

    Raises:
        SourceSchemaError: a name occurs more than once.
    """
    kind = spec.kind
    if not isinstance(kind, Csv | Json):
        return []
    try:
        if isinstance(kind, Csv):
            header = _header(path, kind.delimiter, kind.encoding)
            check_unique(path, header)
            return header
        table = parse_json(next(chunks(path, encoding=kind.encoding), b""), None)
    except SourceSchemaError:
        raise
    except (StreamEngineError, pa.ArrowException, OSError, ValueError):
        return []
    return _paths(table.schema)


def _paths(fields: Iterable[pa.Field]) -> list[str]:
    """Return the names of columns; for fields of structs as ``column.field``."""
    return [
        path
        for field in fields
        for path in (field.name, *(f"{field.name}.{n}" for n in _paths(_members_of(field.type))))
    ]


def _members_of(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields of a struct, or of the structs in a list."""
    if is_list(kind):
        return _members_of(kind.value_type)
    return list(kind) if kinds.is_struct(kind) else []


def _header(path: str, delimiter: str, encoding: str) -> list[str]:
    with open_text(path, 0, None, encoding) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
        return next((row for row in csv.reader(text, delimiter=delimiter) if row), [])


def listed(names: Sequence[str], what: str) -> str:
    """Join the first of ``names``, and the number of further ones, as in "and 3 more files"."""
    shown = ", ".join(names[:NAMED_MAX])
    more = len(names) - NAMED_MAX
    return f"{shown} and {more} more {what}{'s' if more > 1 else ''}" if more > 0 else shown


def _plain(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return kind.value_type if kinds.is_dictionary(kind) else kind


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def _both(test: Callable[[pa.DataType], bool], there: pa.DataType, wanted: pa.DataType) -> bool:
    return test(there) and test(wanted)


_FAMILIES = (is_text, is_bytes, kinds.is_time, kinds.is_duration)
