"""Planted bugs that a power loss reveals: announced data was not on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.storage.notice_log import NoticeLog
from rstream.store.blobs import unsynced
from rvertex.host.environment import HostEnvironment
from streamscope.testing.simulation.storage import FaultyBlobs
from tests.sim.planting import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.config import JobConfig
    from jobmanager.storage.root import JobRoot
    from rstream.clock import Clock
    from rstream.log.background import Background
    from rstream.store.protocol import BlobStore

KINDS = ("power_loss",)


def announced_before_it_is_synced() -> Mutant:
    """A put returns before the content is on the disk: the file is then empty."""
    return Mutant(FaultyBlobs, "syncs_content", False, KINDS)


def the_folder_is_not_synced() -> Mutant:
    """A put returns before the name is on the disk: the file is then missing."""
    return Mutant(FaultyBlobs, "syncs_names", False, KINDS)


def hosts_do_not_sync() -> Mutant:
    """Segments and checkpoints are not synced."""

    def open_store(self: HostEnvironment, uri: str) -> BlobStore:
        return unsynced(self._wiring.open_store(uri))

    return Mutant(HostEnvironment, "_open_store", open_store, KINDS)


def notices_are_not_synced() -> Mutant:
    """The log of the job manager is not synced, although it justifies deletions."""
    original = NoticeLog.__init__

    def init(
        self: NoticeLog, root: JobRoot, clock: Clock, config: JobConfig, background: Background
    ) -> None:
        kept, root.store = root.store, unsynced(root.store)
        original(self, root, clock, config, background)
        root.store = kept

    return Mutant(NoticeLog, "__init__", init, KINDS)


POWER_MUTANTS: tuple[Callable[[], Mutant], ...] = (
    announced_before_it_is_synced,
    the_folder_is_not_synced,
    hosts_do_not_sync,
    notices_are_not_synced,
)
