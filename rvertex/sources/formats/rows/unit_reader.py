"""Protocol of a format's reader, which reads units: row groups, files or pieces of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from rvertex.sources.formats.rows.line_rows import Origin
    from rvertex.sources.spec import Unit


class UnitReader(Protocol):
    """Reads complete units (files or parts of files) of one format.

    Reading a unit again gives the same rows in the same order.
    """

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """Return all rows in file order. A bad row keeps its position; see :mod:`bad_rows`."""

    def origin(self, unit: Unit, row: int) -> Origin:
        """Return the file position of a row of the last batch.

        ``row`` is its number in the unit, from 0.
        """

    def close(self) -> None: ...
