"""Facts that follow from a plan: lifetimes that are points, where equal keys lie, its grid.

*Partitioning* says which columns decide the vertex a row is in: position by position the names that
the hashed column has by now. Rows that agree on all positions are in one vertex.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from planner.expressions.nodes import Column
from planner.logical.nodes import (
    Clip,
    DataWindowAgg,
    Exchange,
    Explode,
    Extremes,
    Filter,
    Join,
    Lifetime,
    LogicalNode,
    Project,
    Recover,
    Sink,
    Source,
    Stitch,
    Union,
    UserStep,
    WindowAgg,
)
from planner.logical.traversal import topological
from rstream.items.batch import EVENT, VE, VS, int64_column, kinds
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift
from rvertex.operators.user.apply import Apply
from rvertex.operators.user.keyed_process import KeyedProcessing


@dataclass(frozen=True, slots=True)
class Partitioning:
    """``keys`` None: nothing is known. Empty: all rows are in one vertex."""

    keys: tuple[frozenset[str], ...] | None

    @property
    def is_single(self) -> bool:
        return self.keys == ()

    def covers(self, group: tuple[str, ...]) -> bool:
        """Whether rows that agree on the columns of ``group`` are in one vertex."""
        return self.keys is not None and all(names & set(group) for names in self.keys)

    def is_by(self, keys: tuple[str, ...]) -> bool:
        """Whether rows lie as a hash exchange on ``keys`` would put them."""
        if self.keys is None or not keys or len(keys) != len(self.keys):
            return False
        return all(key in names for key, names in zip(keys, self.keys, strict=True))

    def positions(self, keys: tuple[str, ...]) -> tuple[int, ...] | None:
        """Which of ``keys``, in which order, decide where rows lie; None if not they do."""
        if not self.keys:
            return None
        found = [[i for i, key in enumerate(keys) if key in names] for names in self.keys]
        return tuple(at[0] for at in found) if all(found) else None


UNKNOWN = Partitioning(None)
SINGLE = Partitioning(())


def grid_us(plan: LogicalNode) -> int:
    """The grid of CTIs, if nobody says otherwise: what divides all windows by the clock.

    So each window closes as soon as it can.
    """
    windows = [node for node in topological(plan) if isinstance(node, WindowAgg)]
    spans = [us for window in windows for us in (window.size_us, window.every_us)]
    return gcd(*spans) if spans else CTI_EVERY_US


def is_point(node: LogicalNode) -> bool:
    """Whether every event has ``ve == vs + 1``."""
    match node:
        case Source(spec=spec) if spec.format == "items":
            assert spec.items is not None
            events = spec.items.filter(_events_mask(node))
            return bool((int64_column(events, VE) - int64_column(events, VS) == 1).all())
        case Source(spec=spec):
            return spec.length_us == 1
        case Union(branches=branches):
            return all(is_point(branch) for branch in branches)
        case Join(left=left, right=right, how="inner"):
            return is_point(left) or is_point(right)
        case Join(left=left) | Clip(left=left):
            return is_point(left)
        case Lifetime():
            return _changes_to_points(node)
        case Stitch():
            return False
        case WindowAgg(size_us=size_us):
            return size_us == 1
        case DataWindowAgg(points=points):
            return points
        case UserStep():
            return isinstance(node.spec, Apply) and is_point(node.input)
        case Filter() | Project() | Explode() | Extremes() | Recover() | Exchange() | Sink():
            return is_point(node.input)


def _changes_to_points(node: Lifetime) -> bool:
    match node.change:
        case PointAtEnd():
            return True
        case SetDuration(duration_us=length):
            return length == 1
        case Chop(period_us=period):
            return period == 1 or is_point(node.input)
        case Extend(duration_us=length):
            return length <= 0 and is_point(node.input)
        case Shift():
            return is_point(node.input)


def is_stateless(node: LogicalNode) -> bool:
    """Whether each output row follows from one input row."""
    if isinstance(node, Lifetime):
        return isinstance(node.change, Shift | SetDuration | Extend)
    return isinstance(node, Filter | Project | Explode)


def partitioning(node: LogicalNode) -> Partitioning:
    """Where the rows of ``node`` lie."""
    match node:
        case Source(partitions=partitions):
            return SINGLE if partitions == 1 else UNKNOWN
        case Exchange(keys=keys):
            return Partitioning(tuple(frozenset([key]) for key in keys))
        case Project(columns=columns):
            return _through(partitioning(node.input), _outputs(columns))
        case Join():
            return _of_join(node)
        case WindowAgg(keys=keys) | DataWindowAgg(keys=keys):
            kept = {key: frozenset([key]) for key in keys}
            return _through(partitioning(node.input), kept)
        case Explode(column=column):
            kept = {name: frozenset([name]) for name in node.schema.names if name != column}
            return _through(partitioning(node.input), kept)
        case Union(branches=branches):
            return _of_union([partitioning(branch) for branch in branches])
        case Clip(left=left):
            return partitioning(left)
        case UserStep(input=below):
            keeps = node.keys if isinstance(node.spec, KeyedProcessing) else None
            return _through(partitioning(below), {key: frozenset([key]) for key in keeps or ()})
        case Filter() | Recover() | Sink() | Lifetime() | Stitch() | Extremes():
            return partitioning(node.input)


def _through(before: Partitioning, outputs: dict[str, frozenset[str]]) -> Partitioning:
    """``outputs``: for each input column the names under which its values go on."""
    if before.keys is None:
        return UNKNOWN
    after: list[frozenset[str]] = []
    for names in before.keys:
        now = frozenset[str]().union(*(outputs.get(name, frozenset()) for name in names))
        if not now:
            return UNKNOWN
        after.append(now)
    return Partitioning(tuple(after))


def _outputs(columns: tuple[tuple[str, object], ...]) -> dict[str, frozenset[str]]:
    names: dict[str, frozenset[str]] = {}
    for output, node in columns:
        if isinstance(node, Column):
            names[node.name] = names.get(node.name, frozenset()) | {output}
    return names


def _of_join(node: Join) -> Partitioning:
    """By its keys, under every name that either side's column has in the output.

    By all of them, unless both sides lie by the same part of them already.
    """
    sides = partitioning(node.left), partitioning(node.right)
    if sides[0].is_single and sides[1].is_single:
        return SINGLE
    pairs = list(zip(node.left_on, node.right_on, strict=True))
    part = sides[0].positions(node.left_on)
    if part is not None and part == sides[1].positions(node.right_on):
        pairs = [pairs[i] for i in part]
    keys: list[frozenset[str]] = []
    # The right key of a left join is null without a match, wherever the row is.
    from_right = node.how == "inner"
    for left, right in pairs:
        names = frozenset(
            output
            for side, column, output in node.columns
            if (side, column) == ("left", left)
            or (from_right and (side, column) == ("right", right))
        )
        if not names:
            return UNKNOWN
        keys.append(names)
    return Partitioning(tuple(keys))


def _of_union(branches: list[Partitioning]) -> Partitioning:
    """By what all branches are partitioned, position by position."""
    known = [branch.keys for branch in branches if branch.keys]
    if len(known) < len(branches) or len({len(keys) for keys in known}) != 1:
        return UNKNOWN
    common = [frozenset.intersection(*names) for names in zip(*known, strict=True)]
    return Partitioning(tuple(common)) if all(common) else UNKNOWN


def _events_mask(node: Source) -> object:
    import pyarrow as pa

    assert node.spec.items is not None
    return pa.array(kinds(node.spec.items) == EVENT)


CTI_EVERY_US = 1_000_000
