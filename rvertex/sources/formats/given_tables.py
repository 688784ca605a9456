"""Stores the caller's in-memory tables as Parquet files, so that a restart can read them again.

A file is named after its content, so an equal table is written once. Without a folder of the caller
the file is in a temporary folder that is deleted with this process. A job therefore first copies
the file into its root (``SourceSpec.given``).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from rstream.errors import UsageError
from rstream.store.local_files import make_folder, sync_file, sync_folder
from rvertex.sources.versions import local_path

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_ROWS = 1 << 20
_CHUNK_BYTES = 1 << 20
_NAME_BYTES = 8
_temporary: list[tempfile.TemporaryDirectory[str]] = []


def stored_table(table: pa.Table, folder: str | None) -> str:
    """Write the table to a folder, unless it is there; return the path of the file.

    Raises:
        UsageError: the table cannot be stored there.
    """
    place = temporary_folder() if folder is None else local_path(folder)
    if place is None:
        raise UsageError(
            f"folder={folder!r}: it must be a local folder; for another store, write "
            "Parquet files there and read those"
        )
    try:
        make_folder(place, sync=folder is not None)
        handle, draft = tempfile.mkstemp(dir=place, prefix=".table-", suffix=".tmp")
        os.close(handle)
        try:
            pq.write_table(table, draft, row_group_size=ROW_GROUP_ROWS, compression="zstd")
            path = f"{place}/table-{_digest(draft)}.parquet"
            if os.path.exists(path):
                os.unlink(draft)
            else:
                sync_file(draft)
                os.replace(draft, path)
            if folder is not None:
                sync_folder(
                    place
                )  # a process may have crashed before it synced the folder of this file
        except BaseException:
            if os.path.exists(draft):
                os.unlink(draft)
            raise
    except OSError as error:
        raise UsageError(f"the table cannot be written to {place}: {error.strerror}") from error
    return path


def temporary_folder() -> str:
    """Return a folder that is deleted when this process ends."""
    if not _temporary:
        _temporary.append(tempfile.TemporaryDirectory(prefix="streamscope-tables-"))
    return _temporary[0].name


def _digest(path: str) -> str:
    digest = hashlib.blake2b(digest_size=_NAME_BYTES)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):  # until the file's end
            digest.update(chunk)
    return digest.hexdigest()
