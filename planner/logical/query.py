"""A query: a logical plan and the place where its result is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from math import gcd
from typing import TYPE_CHECKING, Literal

from planner.errors import InvalidPlanError
from planner.logical.nodes import CalendarStep, Lifetime, LogicalNode, Sinks, WindowAgg
from planner.logical.nodes.recover import RecoveryChoice, recovery_choice
from planner.logical.traversal import topological
from rvertex.operators.lifetimes.shift import Shift
from rvertex.sinks.spec import takes_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from planner.logical.nodes import Sink
    from rvertex.sinks.spec import SinkSpec

#: The name and the folder of a job's output, if it has only one.
OUTPUT = "output"
#: The default grid of watermarks (CTIs) of a plan without windows by the clock, us.
CTI_EVERY_US = 1_000_000
#: The default grid with windows by a calendar, us: zones differ from UTC by multiples of it.
CALENDAR_CTI_EVERY_US = 900 * 1_000_000
#: The grid if rows are emitted when they begin, us. A change becomes visible with the next CTI,
#: so the grid is finer.
CHANGES_EVERY_US = 100_000
#: The most CTIs per ``CHANGES_EVERY_US`` for windows whose length is not a multiple of it.
_STEPS_OF_CHANGES_MAX = 100
#: By how many times an offset may multiply the CTIs: enough for days that begin at any minute.
_OFFSET_STEPS_MAX = 1_440


@dataclass(frozen=True, slots=True)
class Publishing:
    """A folder that gets the complete result when the job has finished, besides its own output."""

    path: str
    #: "overwrite" replaces the content of the folder; "error" needs a new or an empty folder.
    mode: Literal["overwrite", "error"]
    #: Columns whose values name subfolders, such as Hive's ``day=2026-03-01``.
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Query:
    """A stream and the place where its result is written; ``jobmanager.run`` runs it."""

    plan: Sink
    #: The grid of CTI times, us; None: the windows' common divisor, or 1 s without windows.
    cti_every_us: int | None = None
    #: Recovery of stages without ``recover_with``; None: the cost model chooses for each stage.
    recovery: RecoveryChoice | None = None
    #: Destinations that get the rows of the result, besides the job's own output.
    deliveries: tuple[SinkSpec, ...] = ()
    #: The folder that gets the result when the job has finished; None: only the job's output.
    publishing: Publishing | None = None

    @property
    def takes_changes(self) -> bool:
        """Whether all readers of the result accept rows whose end is not known yet."""
        form = self.plan.form
        has_ends = form is not None and form.end is not None
        is_own = self.plan.uri is None and self.publishing is None
        return (
            is_own
            and has_ends
            and bool(self.deliveries)
            and all(map(takes_changes, self.deliveries))
        )

    @property
    def delivered_keys(self) -> tuple[str, ...] | None:
        """The columns by which the partitions of the result divide rows for deliveries.

        Partitions are delivered at the same time, so all rows of a key must be in one partition.
        Empty: there is one partition. None: no destination orders rows by key.
        """
        keys = [spec.delivered_key for spec in self.deliveries if spec.delivered_key]
        if not keys:
            return None
        return tuple(n for n in keys[0] if n in self.schema.names and all(n in k for k in keys))

    @property
    def schema(self) -> pa.Schema:
        """The payload columns of the result."""
        return self.plan.schema

    def recover_with(self, strategy: str, *, replicas: int | None = None) -> Query:
        """Return the query with a recovery for all stages without one of their own.

        See :meth:`Stream.recover_with`.
        """
        return replace(self, recovery=recovery_choice(strategy, replicas))

    @property
    def parts(self) -> tuple[Query, ...]:
        """A query for each output of the job."""
        return (self,)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return (OUTPUT,)

    @property
    def root(self) -> Sink | Sinks:
        """The plan of all outputs."""
        return self.plan

    def over(self, change: Callable[[Sink], LogicalNode]) -> Query:
        """Return the query with ``change`` applied to the plan of each output."""
        return replace(self, plan=change(self.plan))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Query({column_list(self.schema)})"


@dataclass(frozen=True, slots=True, repr=False)
class Queries(Query):
    """Several outputs of one job, which share sources and stages; make one with :func:`together`.

    The fields that it inherits are those of the first output.
    """

    others: tuple[Query, ...] = ()
    called: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Query, ...]:
        first = Query(*(getattr(self, f.name) for f in fields(Query)))
        return (first, *self.others)

    @property
    def names(self) -> tuple[str, ...]:
        return self.called

    @property
    def root(self) -> Sink | Sinks:
        return Sinks(tuple(part.plan for part in self.parts))

    def over(self, change: Callable[[Sink], LogicalNode]) -> Query:
        others = tuple(part.over(change) for part in self.others)
        return replace(self, plan=change(self.plan), others=others)  # type: ignore[arg-type]

    def recover_with(self, strategy: str, *, replicas: int | None = None) -> Query:
        others = tuple(part.recover_with(strategy, replicas=replicas) for part in self.others)
        return replace(self, recovery=recovery_choice(strategy, replicas), others=others)

    def __repr__(self) -> str:
        shown = zip(self.called, self.parts, strict=True)
        return f"Queries({'; '.join(f'{n}: {column_list(p.schema)}' for n, p in shown)})"


def only_output(query: Query, what: str) -> Query:
    """Return a query that has one output.

    Raises:
        InvalidPlanError: the query has several outputs.
    """
    if len(query.parts) > 1:
        raise InvalidPlanError(
            f"{what} takes one query, not one job with several outputs ({', '.join(query.names)}): "
            "give it each query alone"
        )
    return query


def together(queries: Mapping[str, Query]) -> Query:
    """Make one job with an output per query; shared sources and stages run once.

    Raises:
        InvalidPlanError: a name has invalid characters, or the queries have different recoveries.
    """
    first, *others = queries.values()
    if not others:
        return first
    for name in queries:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
            raise InvalidPlanError(
                f"output {name!r}: a name may have only letters, digits, '_', '.' and '-'"
            )
    if any(part.recovery != first.recovery for part in others):
        raise InvalidPlanError(
            "the outputs of one job share stages, and these queries have different recoveries: "
            "call recover_with(...) on streams instead"
        )
    given = {f.name: getattr(first, f.name) for f in fields(Query)}
    return Queries(**given, others=tuple(others), called=tuple(queries))


def column_list(schema: pa.Schema) -> str:
    """Return columns and their types as text."""
    return ", ".join(f"{f.name}: {f.type}" for f in schema)


def grid_us(plan: LogicalNode) -> int:
    """Return the default grid of watermarks (CTIs), us: the common divisor of all clock windows.

    It also divides their offsets, which are shifts in the plan, so each window closes as soon as
    possible. If the offsets would need more than :data:`_OFFSET_STEPS_MAX` times as many CTIs, or
    there is no window, the grid is coarser.
    """
    nodes = list(topological(plan))
    windows = [node for node in nodes if isinstance(node, WindowAgg)]
    others = [node for node in nodes if not isinstance(node, WindowAgg)]
    has_edges = any(getattr(node, "edges", False) for node in others)
    if not windows:
        return CHANGES_EVERY_US if has_edges else CTI_EVERY_US
    step = _windows_grid_us(nodes, windows)
    if not has_edges or step <= CHANGES_EVERY_US:
        return step
    # divides the windows' grid, so each window still closes as soon as it can
    both = gcd(step, CHANGES_EVERY_US)
    return both if both * _STEPS_OF_CHANGES_MAX >= CHANGES_EVERY_US else CHANGES_EVERY_US


def _windows_grid_us(nodes: list[LogicalNode], windows: list[WindowAgg]) -> int:
    if any(isinstance(node, CalendarStep) for node in nodes):
        return CALENDAR_CTI_EVERY_US
    spans = gcd(*(us for window in windows for us in (window.size_us, window.every_us)))
    changes = [node.change for node in nodes if isinstance(node, Lifetime)]
    with_offsets = gcd(spans, *(c.duration_us for c in changes if isinstance(c, Shift)))
    return with_offsets if with_offsets * _OFFSET_STEPS_MAX >= spans else spans
