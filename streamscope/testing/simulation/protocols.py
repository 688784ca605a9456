"""The interface of a job manager that the simulated world uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rvertex.vertex.spec import VertexSpec
    from streamscope.testing.simulation.laws.watched import WatchedManager
    from streamscope.testing.simulation.scheduler import Process


class AnyManager(Protocol):
    """A process with a driver (``managers.ManagerProcess``)."""

    process: Process
    core: WatchedManager | None
    vertices: dict[str, VertexSpec]

    @property
    def is_current(self) -> bool:
        """Whether no other job manager has taken over."""
        ...

    def wake(self) -> None:
        """Schedule a turn: the driver's queue has a notice."""
        ...
