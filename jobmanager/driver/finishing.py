"""Whether a job can be told to finish: its sources would have to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.errors import CannotFinishError

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan


def check_can_finish(plan: PhysicalPlan | None, root: str) -> None:
    """The sources of the plan can end where they are: a live log has such an end (ADR 32).

    Raises:
        CannotFinishError: one of them reads to the end of its input, or there is no plan yet.
    """
    if plan is None:
        raise CannotFinishError(root, "it has no plan yet")
    sources = [vertex.source for vertex in plan.vertices if vertex.source is not None]
    if any(source.spec.log is None for source in sources):
        raise CannotFinishError(root, "it reads files or items, which end by themselves")
