"""The delivering processes of the simulation: the job's own, and ``jobmanager deliver``.

All decisions are production code: ``JobDeliveries``, ``Deliveries`` with their parts, and
``deliver_plan``. Their threads are strands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobmanager.delivery.standalone import deliver_plan
from jobmanager.storage.root import JobRoot
from rstream.errors import OperatingError
from streamscope.testing.simulation.network import SimReader
from streamscope.testing.simulation.scheduler import Process, SimClock
from streamscope.testing.simulation.storage import FaultyBlobs, root_of
from tests.sim.strands import SimSignal, Strand
from tests.sim.workload import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.clock import Clock
    from rstream.store.protocol import BlobStore
    from rstream.transport.receive import RemoteStream
    from rvertex.sinks.protocol import Destination
    from rvertex.sinks.spec import DeliveryPlace, SinkSpec
    from tests.sim.destinations import AnySink
    from tests.sim.world import World

JOB_ID = "simulated"


class SimDeliveryWiring:
    """The environment of deliveries (jobmanager.delivery.wiring.DeliveryWiring)."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process
        self.clock: Clock = SimClock(world.scheduler, process)

    def signal(self) -> SimSignal:
        return SimSignal(self._world.strands)

    def start(self, name: str, body: Callable[[], None]) -> Strand:
        return self._world.strands.start(self._process, body)

    def open_store(self, uri: str) -> BlobStore:
        return FaultyBlobs(self._world.disk, self._process, root_of(uri))

    def read_remote(
        self, stream: RemoteStream, seq: int, store: BlobStore, on_change: Callable[[], None]
    ) -> SimReader:
        return SimReader(
            self._world.network,
            self._process,
            stream,
            seq,
            store=store,
            on_change=on_change,
            durable_first=True,
        )

    def destination(self, spec: SinkSpec, place: DeliveryPlace) -> Destination:
        found: AnySink = self._world.laws.sinks[spec.name]
        return self._world.destinations.open(self._process, found, place)


class DeliveryProcess:
    """A process of the command ``jobmanager deliver``, from its start to its end."""

    def __init__(self, world: World, sinks: Sequence[AnySink], start_seq: int = 0) -> None:
        """``start_seq``: where new deliveries start."""
        self._world, self._sinks, self._start_seq = world, tuple(sinks), start_seq
        self.process = Process(world.fresh_name("deliver"), self._died)
        self.is_over = False
        world.deliverers.append(self)
        world.scheduler.note(f"{self.process.name}: {[s.name for s in sinks]} from {start_seq}")
        world.strands.start(self.process, self._run)

    def _run(self) -> None:
        world, name = self._world, self.process.name
        try:
            rows = deliver_plan(
                world.delivered_plan,
                lambda plan: (plan, self._sinks),
                self._root(),
                JOB_ID,
                start_seq=self._start_seq,
                limits=world.workload.config.delivery,
                on_rows=self._report,
                is_cancelled=lambda: False,
                wiring=SimDeliveryWiring(world, self.process),
            )
            self._report(rows)
            world.scheduler.note(f"{name} ends: {[row['state'] for row in rows]}")
        except OperatingError as error:
            world.scheduler.violate("who delivers waits for a store", f"{name}: {error}")
        except Exception as error:
            world.bug(self.process, error)
        self.is_over = True
        world.network.break_lines_of(self.process)
        self.process.is_dead = True

    def _root(self) -> JobRoot:
        store = FaultyBlobs(self._world.disk, self.process, root_of(ROOT))
        return JobRoot(store, pid=1, machine=self.process.name)

    def _report(self, rows: list[dict[str, Any]]) -> None:
        self._world.laws.was_reported(self.process.name, rows)
        for row in rows:
            self._world.scheduler.met[f"delivery: {row['state']}"] += 1

    def _died(self, reason: str) -> None:
        self._world.scheduler.note(f"{self.process.name} {reason}")
        self.is_over = True
        self._world.network.break_lines_of(self.process)
