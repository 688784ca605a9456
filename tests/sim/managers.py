"""Job managers of jobs that may get partitions and deliver their answers."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jobmanager.driver.job_deliveries import JobDeliveries
from jobmanager.driver.running.growing_topics import GrowingTopics
from rstream.errors import OperatingError
from rstream.log.overlap import seal
from streamscope.testing.simulation import managers as of_query
from streamscope.testing.simulation.scheduler import SimClock
from streamscope.testing.simulation.storage import FaultyBlobs, root_of
from tests.sim.delivering import JOB_ID, SimDeliveryWiring
from tests.sim.growing import Brokers, grows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.driver.driver import Driver
    from jobmanager.manager.manager import JobManager
    from jobmanager.state.messages import PartitionsAdded
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan
    from rvertex.vertex.spec import VertexSpec
    from tests.sim.world import World


class ManagerProcess(of_query.ManagerProcess):
    """A process with a driver, its deliveries, and what it knows of a topic."""

    _world: World
    _deliveries: JobDeliveries | None = None
    _topics: GrowingTopics | None = None
    _plan: PhysicalPlan | None = None

    def planned(self, root: JobRoot) -> Sequence[VertexSpec]:
        if not grows(self._world.workload):
            return super().planned(root)
        self._plan = root.read_plan()
        if self._plan is None:  # nothing was written down yet
            self._plan = self._world.workload.plan
            root.write_plan(self._plan)
        return self._plan.vertices

    def prepare(self, root: JobRoot, driver: Driver) -> None:
        world, process = self._world, self.process
        if self._plan is not None:
            self._topics = GrowingTopics(
                self._plan,
                root,
                SimClock(world.scheduler, process),
                lambda _, added: self._take_in(added),
                background=world.background(process),
                look=Brokers(world.scheduler, world.workload).look,
            )
        if world.workload.deliveries:
            self._deliveries = JobDeliveries(
                world.delivered_plan,
                root,
                JOB_ID,
                driver,
                world.workload.config,
                SimDeliveryWiring(world, process),
            )
            self._deliveries.start()

    def on_tick(self, manager: JobManager) -> None:
        if self._topics is not None:
            self._topics.note(manager)

    def _take_in(self, added: PartitionsAdded) -> None:
        assert self.driver is not None
        self.driver.add_partitions(added)
        self.wake()

    def state_of(self, status: dict[str, Any]) -> str:
        """As ``Job`` does: what becomes of deliveries is a part of it."""
        view = {} if self._deliveries is None else self._deliveries.view(status)
        self._world.laws.was_reported(self.process.name, view.get("deliveries", ()))
        return str(view.get("state", status["state"]))

    def ended(self) -> None:
        if self._deliveries is None:
            super().ended()
        else:
            self._world.strands.start(self.process, self._finish)

    def _finish(self) -> None:
        """As ``Job`` does when its driver has ended; this may block."""
        deliveries, core = self._deliveries, self.core
        assert deliveries is not None
        assert core is not None
        store = FaultyBlobs(self._world.disk, self.process)

        def finish() -> None:
            if core.state == "finished":
                for _, uri in self._world.workload.sinks:
                    seal(store.child(root_of(uri)))
                deliveries.finish(self._report_again)
            else:
                deliveries.stop()
            self._report_again()
            deliveries.stop()

        if self._guarded(finish):
            self._world.ended(self, core.state, core.error)

    def _report_again(self) -> None:
        assert self._root is not None
        with suppress(OperatingError):
            self._root.check_owner()
            self._take_status(self._status)
