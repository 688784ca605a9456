"""What all logical nodes with one input share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from planner.logical.nodes import LogicalNode


@dataclass(frozen=True, slots=True)
class OneInput:
    """Base of a logical node whose first field is its only input."""

    input: LogicalNode

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[LogicalNode, ...]) -> Self:
        """The same node above another input."""
        (only,) = inputs
        return replace(self, input=only)
