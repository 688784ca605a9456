"""Puts of many files on a local disk with one wait for the disk.

A put waits for the disk, some milliseconds for each file. Files that are used only once a later
file exists are written without this wait. Then several threads sync all of them: the file system
writes them in a few transactions.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING

from rstream.errors import StoreError
from rstream.store.blobs import FsspecBlobs
from rstream.store.local_files import note_synced, sync_file, sync_folder, unsynced_names
from rstream.store.part_files import PartFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.store.protocol import BlobStore

_THREADS = 8


class SyncLater:
    """Collects the files that were written to any number of stores."""

    def __init__(self) -> None:
        self._files: list[str] = []

    def store_like(self, store: BlobStore) -> BlobStore:
        """Return a store whose puts are durable after :meth:`sync`, if it is a local disk."""
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
                named = threads.map(sync_folder, unsynced_names(folders))
                synced = threads.map(sync_file, files)
                list(chain(named, synced, threads.map(sync_folder, folders)))
            note_synced(folders)
        except OSError as error:
            raise StoreError(error.filename or "(sync)", str(error)) from error


def side_by_side(store: BlobStore, works: Sequence[Callable[[], object]]) -> None:
    """Do work that puts files, each in a thread. On a disk, the puts are synced together.

    Unlike files of a :class:`SyncLater`, they may replace files that are in use.
    """
    if not isinstance(store, FsspecBlobs):
        for work in works:
            work()
        return
    with ThreadPoolExecutor(len(works), "side-by-side") as threads:
        list(threads.map(lambda work: work(), works))
