"""The environment of a simulated host: its clock, store, streams and connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rstream.errors import OperatingError
from streamscope.testing.simulation.network import (
    ControlLink,
    Network,
    SimReader,
    StreamService,
)
from streamscope.testing.simulation.scheduler import (
    Process,
    Scheduler,
    SimBackground,
    SimClock,
)
from streamscope.testing.simulation.storage import Disk, FaultyBlobs, root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.clock import Clock
    from rstream.log.background import Background
    from rstream.store.protocol import BlobStore
    from rstream.transport.receive import RemoteStream
    from rvertex.sources.logs.protocol import LogReader
    from rvertex.sources.spec import SourcePartition


class Surroundings(Protocol):
    """The parts of the simulated world that hosts use."""

    scheduler: Scheduler
    network: Network
    disk: Disk

    def background(self, process: Process) -> SimBackground:
        """Return the background threads of a process."""
        ...

    def open_log(
        self,
        wiring: SimWiring,
        source: SourcePartition,
        positions: Sequence[int],
        wake: Callable[[], None],
    ) -> LogReader:
        """Open a reader of a live log."""
        ...


class SimWiring:
    """The environment of a simulated host (rvertex.host.wiring.Wiring)."""

    def __init__(self, world: Surroundings, process: Process) -> None:
        self._world, self.process = world, process
        self.clock: Clock = SimClock(world.scheduler, process)
        self.background: Background = world.background(process)

    def open_store(self, uri: str) -> BlobStore:
        return FaultyBlobs(self._world.disk, self.process, root_of(uri))

    def serve(self, bind: str, secret: str) -> StreamService:
        return StreamService(self._world.network, self.process)

    def connect(
        self,
        address: str,
        secret: str,
        peer: str,
        on_message: Callable[[bytes], None],
        on_disconnect: Callable[[], None],
    ) -> ControlLink:
        service = self._world.network.controls.get(address)
        if service is None or service.is_closed or service.process.is_dead:
            raise OperatingError(f"{address}: no process answers at this address")
        return ControlLink(
            self._world.network, self.process, service, peer, on_message, on_disconnect
        )

    def read_remote(
        self,
        stream: RemoteStream,
        seq: int,
        store: BlobStore,
        on_change: Callable[[], None],
        *,
        durable_first: bool,
    ) -> SimReader:
        return SimReader(
            self._world.network,
            self.process,
            stream,
            seq,
            store=store,
            on_change=on_change,
            durable_first=durable_first,
        )

    def open_log(
        self, source: SourcePartition, positions: Sequence[int], wake: Callable[[], None]
    ) -> LogReader:
        return self._world.open_log(self, source, positions, wake)

    def close(self) -> None:
        self.background.close()
