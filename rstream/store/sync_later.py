"""Puts of many files on a local disk that share the waits for it.

A put waits for the disk, some milliseconds for each file. Files that count only once a later file
exists are written without that, and synced at once, by several threads: the file system writes them
in a few transactions.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from rstream.errors import StoreError
from rstream.store.blobs import FsspecBlobs
from rstream.store.local_files import make_folder, sync_file, sync_folder
from rstream.store.part_files import PartFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rstream.store.protocol import BlobStore

_THREADS = 8


class SyncLater:
    """Collects the files that were written to any number of stores."""

    def __init__(self) -> None:
        self._files: list[str] = []

    def store_like(self, store: BlobStore) -> BlobStore:
        """Return the store with puts that are durable after :meth:`sync`, if it is a local disk."""
        if isinstance(store, PartFiles):
            return PartFiles(self.store_like(store.folder), store.name)
        return store.syncing_later(self._files) if isinstance(store, FsspecBlobs) else store

    def sync(self) -> None:
        """Make all puts durable.

        Raises:
            StoreError: the disk failed, or a file was deleted.
        """
        files, self._files[:] = list(dict.fromkeys(self._files)), []
        folders = list(dict.fromkeys(file.rpartition("/")[0] for file in files))
        try:
            with ThreadPoolExecutor(_THREADS, "sync-later") as threads:
                list(threads.map(sync_file, files))
                for folder in folders:  # the names of new folders, in the folders above
                    make_folder(folder, sync=True)
                list(threads.map(sync_folder, folders))
        except OSError as error:
            raise StoreError(error.filename or "(sync)", str(error)) from error


def put_all(store: BlobStore, blobs: Mapping[str, bytes]) -> None:
    """Put several blobs, not atomically; on a disk they are synced together.

    Unlike files of a :class:`SyncLater`, they may replace files that are in use.
    """
    if not isinstance(store, FsspecBlobs):
        for path, data in blobs.items():
            store.put(path, data)
        return
    with ThreadPoolExecutor(len(blobs), "put-all") as threads:
        list(threads.map(store.put, blobs, blobs.values()))
