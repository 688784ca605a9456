"""The statistics of a plan's sources, as the cost model needs them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.cost.dealing import start_columns
from planner.fingerprint import fingerprint
from planner.logical.nodes import LogicalNode, Source
from planner.logical.traversal import IdentityMap, NodeMap, topological, wanted_columns
from rvertex.sources.disorder import delay_needed, time_order
from rvertex.sources.formats.carried import columns_that_repeat
from rvertex.sources.mixed import growing_notes, look as look_at_files
from rvertex.sources.spec import Parquet, SourceSpec, Unit
from rvertex.sources.survey import first_times, survey as survey_times, unit_notes

if TYPE_CHECKING:
    from rvertex.sources.disorder import UnitTimes
    from rvertex.sources.statistics import SourceStatistics

Discover = Callable[[SourceSpec], Sequence[Unit]]
Survey = Callable[[SourceSpec, Sequence[Unit], Collection[str]], Sequence["UnitTimes"]]
Look = Callable[[SourceSpec, Sequence[Unit]], "SourceStatistics | None"]


class SourceKeys:
    """Keys that are equal for sources with the same rows at the same times, each made once."""

    def __init__(self) -> None:
        self._known: IdentityMap[SourceSpec, str] = IdentityMap()

    def __call__(self, spec: SourceSpec) -> str:
        """Return the key of a source."""
        if spec not in self._known:
            kind = replace(spec.kind, wanted=()) if isinstance(spec.kind, Parquet) else spec.kind
            parts = (spec.checks, spec.checks.latest_us, spec.vs, spec.ve)
            self._known[spec] = fingerprint((kind, spec.paths, *parts))
        return self._known[spec]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics by source, regardless of columns that rules have removed."""

    known: dict[str, SourceStatistics] = field(default_factory=dict)
    source_key: SourceKeys = field(default_factory=SourceKeys, compare=False)

    def of(self, spec: SourceSpec) -> SourceStatistics | None:
        """Return the statistics of a source; None: there are none."""
        return self.known.get(self.source_key(spec))


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """All facts about a source's files that lowering uses, so that lowering reads no file."""

    units: tuple[Unit, ...]
    times: tuple[UnitTimes, ...]
    #: The columns that stay dictionary-encoded because this saves work.
    carried: tuple[str, ...]
    notes: tuple[str, ...]


class Discovery:
    """Reads facts about the files of a plan's sources; each source is listed once."""

    def __init__(self, discover: Discover, survey: Survey = survey_times) -> None:
        self._discover = discover
        self._survey = survey
        self._source_key = SourceKeys()
        self._units: dict[str, tuple[Unit, ...]] = {}
        self._times: dict[str, tuple[UnitTimes, ...]] = {}
        self._carried: dict[str, tuple[str, ...]] = {}
        self._notes: dict[str, tuple[str, ...]] = {}

    def files(self, plan: LogicalNode, mixed: NodeMap[bool]) -> NodeMap[SourceFiles]:
        """Return the facts about each source; sources in ``mixed`` get no dictionary columns.

        Raises the errors of the methods below.
        """
        files_of: NodeMap[SourceFiles] = NodeMap()
        for node in topological(plan):
            if isinstance(node, Source):
                spec = node.spec
                carried = () if node in mixed else self.carried(spec)
                files_of[node] = SourceFiles(
                    self.units(spec), self.times(spec), carried, self.notes(spec)
                )
        return files_of

    def units(self, spec: SourceSpec) -> tuple[Unit, ...]:
        """Return the units of a source.

        Raises:
            SourceNotFoundError, CorruptSourceError, SourceVanishedError: naming the file.
        """
        key = self._source_key(spec)
        if key not in self._units:
            self._units[key] = tuple(self._discover(spec))
        return self._units[key]

    def times(self, spec: SourceSpec) -> tuple[UnitTimes, ...]:
        """Return the times of each unit, if the delay of the source must be found; else nothing.

        Raises:
            SourceRowError, SourceSchemaError, CorruptSourceError, SourceVanishedError: naming the
                file, and the row that has no time.
        """
        if spec.delay_origin != "auto":
            return ()
        key = self._source_key(spec)
        if key not in self._times:
            self._times[key] = tuple(self._survey(spec, self.units(spec), start_columns(spec)))
        return self._times[key]

    def carried(self, spec: SourceSpec) -> tuple[str, ...]:
        """Return the columns of ``spec`` that stay dictionary-encoded because this saves work."""
        if spec.live is not None:
            return ()
        key = fingerprint((self._source_key(spec), spec.schema))
        if key not in self._carried:
            self._carried[key] = columns_that_repeat(spec, self.units(spec))
        return self._carried[key]

    def notes(self, spec: SourceSpec) -> tuple[str, ...]:
        """Return notes for the user on the files of ``spec`` and the unit of its times.

        Raises:
            SourceSchemaError: a column has a type that does not fit.
        """
        key = fingerprint((self._source_key(spec), spec.columns, spec.schema))
        if spec.live is not None:
            self._notes.setdefault(key, growing_notes(spec))
        if key not in self._notes:
            looks_odd = unit_notes(spec, self.times(spec) or self._first_times(spec))
            self._notes[key] = (*look_at_files(spec, self.units(spec)), *looks_odd)
        return self._notes[key]

    def _first_times(self, spec: SourceSpec) -> tuple[UnitTimes, ...]:
        """Return the first times, if times are integers and have not all been read."""
        kind = spec.columns.field(spec.vs).type if spec.vs in spec.columns.names else None
        units = self.units(spec)
        if kind is None or not pa.types.is_integer(kind) or not units:
            return ()
        return first_times(spec, units[0], start_columns(spec))

    def statistics(self, plan: LogicalNode, look: Look) -> Statistics:
        """Collect the statistics of each source and its wanted columns; ``look`` reads them."""
        wanted = wanted_columns(plan)
        sources: dict[str, Source] = {}
        names: dict[str, set[str]] = {}
        for node in topological(plan):
            # the future rows of a log are unknown
            if isinstance(node, Source) and node.spec.live is None:
                key = self._source_key(node.spec)
                sources.setdefault(key, node)
                names.setdefault(key, set()).update(wanted[node])
        known: dict[str, SourceStatistics] = {}
        for key, node in sources.items():
            fresh = look(node.sampled(names[key]), self.units(node.spec))
            times = self.times(node.spec)
            if fresh is not None:
                delay_us = delay_needed([times[k] for k in time_order(times)])
                known[key] = replace(fresh, delay_us=delay_us)
        return Statistics(known, self._source_key)
