"""What a plan's sources are known to hold, by source, as the cost model asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.fingerprint import fingerprint
from planner.logical import LogicalNode, Source
from planner.traversal import topological
from rvertex.sources.carried import columns_that_repeat
from rvertex.sources.spec import SourceSpec, Unit

if TYPE_CHECKING:
    from rvertex.sources.statistics import SourceStatistics

Discover = Callable[[SourceSpec], Sequence[Unit]]
Look = Callable[[SourceSpec, Sequence[Unit]], "SourceStatistics | None"]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics by source, whatever rules have done to its columns."""

    known: dict[str, SourceStatistics] = field(default_factory=dict)

    def of(self, spec: SourceSpec) -> SourceStatistics | None:
        """The statistics of a source; None: nothing is known."""
        return self.known.get(source_key(spec))


class Discovery:
    """The units of every source of a plan, each looked up once."""

    def __init__(self, discover: Discover) -> None:
        self._discover = discover
        self._units: dict[str, tuple[Unit, ...]] = {}
        self._carried: dict[str, tuple[str, ...]] = {}

    def units(self, spec: SourceSpec) -> tuple[Unit, ...]:
        """What the source consists of.

        Raises:
            SourceNotFoundError, CorruptSourceError, SourceVanishedError: naming the file.
        """
        key = source_key(spec)
        if key not in self._units:
            self._units[key] = tuple(self._discover(spec))
        return self._units[key]

    def carried(self, spec: SourceSpec) -> tuple[str, ...]:
        """The columns of ``spec`` that pay as dictionaries."""
        key = fingerprint((source_key(spec), spec.schema))
        if key not in self._carried:
            self._carried[key] = columns_that_repeat(spec, self.units(spec))
        return self._carried[key]

    def statistics(self, plan: LogicalNode, look: Look) -> Statistics:
        """What ``look`` finds out about the sources of the plan."""
        known: dict[str, SourceStatistics] = {}
        for node in topological(plan):
            if isinstance(node, Source) and source_key(node.spec) not in known:
                found = look(node.spec, self.units(node.spec))
                if found is not None:
                    known[source_key(node.spec)] = found
        return Statistics(known)


def source_key(spec: SourceSpec) -> str:
    """Equal for sources that give the same rows at the same times."""
    return fingerprint((spec.format, spec.path, spec.options, spec.vs, spec.ve, spec.items))
