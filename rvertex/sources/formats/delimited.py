"""CSV units: one file each, streamed by Arrow in blocks.

The columns have the types that were inferred (or asked for) when the job was planned, so what a
file holds later cannot change them. Where Arrow refuses a row, its message tells the row and the
column; the line is then looked up by a second, slow pass, which only errors pay for.
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv

from rvertex.errors import (
    CorruptSourceError,
    SourceRowError,
    SourceSchemaError,
    SourceVanishedError,
)
from rvertex.sources.files import first_line, open_sequential

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rstream.errors import StreamEngineError
    from rvertex.sources.spec import SourceSpec, Unit

BLOCK_BYTES = 4 << 20
#: Empty, and what R, pandas and SQL write for a missing value.
NULL_VALUES = ",NA,N/A,NULL,null,NaN,nan,None"
_ROW = re.compile(r"Row #(\d+): (.*)", re.DOTALL)
_COLUMN = re.compile(r"In CSV column #(\d+)")


class CsvUnits:
    """Reads the files of one CSV source."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """All rows of the file, in order, columns as the specification wants them."""
        stream = open_sequential(unit.path)
        columns = self._spec.columns
        try:
            with stream:
                yield from open_csv(
                    stream,
                    delimiter=str(self._spec.option("delimiter", ",")),
                    convert=pacsv.ConvertOptions(
                        include_columns=columns.names,
                        column_types=columns,
                        null_values=str(self._spec.option("null_values", NULL_VALUES)).split(","),
                        strings_can_be_null=True,
                    ),
                )
        except (pa.ArrowException, OSError, KeyError) as error:
            raise self._explain(unit, error) from error

    def row_in_file(self, unit: Unit, row: int) -> tuple[int, int | None]:
        """Data row ``row`` of the file (from 0) as row and line, both counted from 1."""
        return row + 1, self._row(unit, row + 1)[0]

    def close(self) -> None:
        """Nothing is held between units."""

    def _explain(self, unit: Unit, error: BaseException) -> StreamEngineError:
        message = str(error)
        if isinstance(error, FileNotFoundError):
            return SourceVanishedError(unit.path, first_line(error))
        if isinstance(error, KeyError):
            return self._missing_column(unit)
        found = _ROW.search(message)
        if found is None:
            return CorruptSourceError(unit.path, None, first_line(error))
        row = int(found[1]) - 1
        line, fields, header = self._row(unit, row)
        column = _COLUMN.search(message)
        if column is None:
            reason = f"{len(fields)} fields where the header has {len(header)}"
            return SourceRowError(unit.path, row, line, None, ",".join(fields)[:80], reason)
        at = int(column[1])
        name = header[at]
        kind = self._spec.columns.field(name).type
        return SourceRowError(unit.path, row, line, name, repr(fields[at]), f"not of type {kind}")

    def _missing_column(self, unit: Unit) -> StreamEngineError:
        header = self._row(unit, 0)[2]
        missing = [n for n in self._spec.columns.names if n not in header]
        assert missing, header
        reason = f"not in the file, which has {', '.join(header)}"
        return SourceSchemaError(unit.path, missing[0], reason)

    def _row(self, unit: Unit, row: int) -> tuple[int, list[str], list[str]]:
        """Line, fields and header of data row ``row`` (from 1; 0 is the header itself)."""
        delimiter = str(self._spec.option("delimiter", ","))
        with open_sequential(unit.path) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
            reader = csv.reader(text, delimiter=delimiter)
            rows = ((reader.line_num, fields) for fields in reader if fields)
            header = next(rows, (0, []))[1]
            for number, (line, fields) in enumerate(rows, start=1):
                if number == row:
                    return line, fields, header
        return 0, [], header


def open_csv(
    stream: pa.NativeFile, *, delimiter: str, convert: pacsv.ConvertOptions
) -> pacsv.CSVStreamingReader:
    """A streaming reader on one thread, so that rows come numbered and in order."""
    return pacsv.open_csv(
        stream,
        read_options=pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=convert,
    )


def infer_csv_schema(path: str, delimiter: str, null_values: str) -> pa.Schema:
    """Columns and types as the first block of the file suggests them."""
    try:
        with open_sequential(path) as stream:
            convert = pacsv.ConvertOptions(
                null_values=null_values.split(","), strings_can_be_null=True
            )
            schema: pa.Schema = open_csv(stream, delimiter=delimiter, convert=convert).schema
    except (pa.ArrowException, OSError) as error:
        raise CorruptSourceError(path, None, first_line(error)) from error
    return schema
