"""Prints rows: aligned columns in a terminal, a JSON object per row everywhere else.

It only appends to standard output and moves no cursor, so the rest of the process can print too. A
row may be printed again after a failure.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from rstream.items.json_text import json_text, plain_rows
from rvertex.sinks.function import FunctionDestination

if TYPE_CHECKING:
    from typing import TextIO

    import pyarrow as pa

    from rvertex.sinks.spec import ConsoleSink, DeliveryPlace

#: Number of rows after which the column names are printed again.
HEADER_EVERY_ROWS = 40
CELL_CHARACTERS_MAX = 40
#: Partitions print from separate threads; the lock keeps the lines of a batch together.
_printing = threading.Lock()


class ConsolePrinter:
    """The function that is called with rows; see :mod:`rvertex.sinks.function`."""

    def __init__(self, out: TextIO | None = None) -> None:
        """Print to ``out``; None: to the value of ``sys.stdout`` at each call."""
        self._out = out
        self._widths: list[int] = []
        self._rows = 0

    def __call__(self, first_seq: int, batch: pa.RecordBatch) -> None:
        out = sys.stdout if self._out is None else self._out
        lines = self._aligned(batch) if out.isatty() else map(json_text, plain_rows(batch))
        with _printing:
            out.write("".join(f"{line}\n" for line in lines))
            out.flush()

    def _aligned(self, batch: pa.RecordBatch) -> list[str]:
        names = batch.schema.names
        rows = [[_cell(value) for value in row.values()] for row in plain_rows(batch)]
        before = self._widths or [0] * len(names)
        columns = zip(names, before, *rows, strict=True)
        self._widths = [max(len(name), width, *map(len, cells)) for name, width, *cells in columns]
        lines = []
        for row in rows:
            if self._rows % HEADER_EVERY_ROWS == 0 or before != self._widths:
                lines.append(self._line(names))
                before = self._widths
            lines.append(self._line(row))
            self._rows += 1
        return lines

    def _line(self, cells: list[str]) -> str:
        return "  ".join(f"{c:<{w}}" for c, w in zip(cells, self._widths, strict=True)).rstrip()


def _cell(value: object) -> str:
    text = value if isinstance(value, str) else json_text(value).strip('"')
    text = "".join(c if c.isprintable() else " " for c in text)
    short = CELL_CHARACTERS_MAX - 1
    return text if len(text) <= CELL_CHARACTERS_MAX else text[:short] + "…"


def open_destination(spec: ConsoleSink, place: DeliveryPlace) -> FunctionDestination:
    """Open the destination, as :attr:`rvertex.sinks.spec.SinkSpec.home` requires."""
    return FunctionDestination(ConsolePrinter(), spec.label, place)
