"""Skips the payload of Parquet row groups without a row for the query; reads only their times.

The rows of a source partition are numbered. Every row advances the frontier, may be late and is
counted, even if the query drops it. So a row group is never skipped entirely. If its statistics
prove that no row passes the filter after the source, its rows are still returned, with null in all
columns except the time columns. The filter drops them, because a comparison with null is not true.

Late rows may be kept, with their payload, in a side output. With that policy, the payload is null
only if no row of the unit can be late. This is known from the times of the units before it
(:func:`marked`, when the job is planned) and the unit's own times (``parquet.py``, when it is
read). By the same rule, a reader decides whether to read columns that only late rows need; if it
has read all rows before a unit, it needs no statistics for that. Both decisions follow from the
files. So a reader opened at any row returns the same rows, except that columns which are not stored
may be null.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.types import MIN_TIME
from rvertex.sources.formats.parquet import leaf_of, open_parquet
from rvertex.sources.formats.rows.folders import folder_values, value_of
from rvertex.sources.times import Fault, parse_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow.parquet as pq

    from rvertex.sources.spec import Bound, SourcePartition, SourceSpec, Unit

_EXACT_UNITS = ("s", "ms", "us")
#: By operator: which of (min, max) to compare, and a test that is true if some row may pass.
_DECIDED: dict[str, tuple[tuple[str, Callable[[Any, Any], bool]], ...]] = {
    "==": (("min", operator.le), ("max", operator.ge)),
    "<": (("min", operator.lt),),
    "<=": (("min", operator.le),),
    ">": (("max", operator.gt),),
    ">=": (("max", operator.ge),),
}


def can_be_bounded(kind: pa.DataType) -> bool:
    """Return whether statistics of a column of this type can be compared exactly."""
    if pa.types.is_timestamp(kind):
        return kind.unit in _EXACT_UNITS
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
    )


def marked(partition: SourcePartition) -> SourcePartition:
    """Return the partition with ``only_times`` set where statistics allow it. Reads file footers.

    Raises:
        SourceVanishedError, CorruptSourceError: naming the file.
    """
    if not _has_optional_columns(partition.spec):
        return partition
    units: list[Unit] = []
    before: int | None = MIN_TIME
    path, file = "", None
    try:
        for unit in partition.units:
            if file is None or unit.path != path:
                if file is not None:
                    file.close()
                path, file = unit.path, open_parquet(unit.path)
            units.append(_marked(partition.spec, unit, file, before))
            times = _times(partition.spec, unit, file)
            before = None if before is None or times is None else max(before, times[1])
    finally:
        if file is not None:
            file.close()
    return replace(partition, units=tuple(units))


def times_of(spec: SourceSpec, units: Sequence[Unit], files_max: int) -> tuple[int, int] | None:
    """Return the least and the greatest start of an event, by the statistics of some files."""
    if not spec.kind.has_row_groups or not isinstance(spec.vs, str) or not units:
        return None
    by_path: dict[str, list[Unit]] = {}
    for unit in units:
        by_path.setdefault(unit.path, []).append(unit)
    step = -(-len(by_path) // files_max)
    ends: list[tuple[int, int]] = []
    for path in sorted({*list(by_path)[::step], *list(by_path)[-1:]}):
        with open_parquet(path) as file:
            for unit in by_path[path]:
                span = _times(spec, unit, file)
                if span is None:
                    return None
                ends.append(span)
    return min(low for low, _ in ends), max(high for _, high in ends)


def _has_optional_columns(spec: SourceSpec) -> bool:
    """Return whether the source has columns that few units need and others may lack (null)."""
    if spec.checks.on_bad_row != "fail" or spec.checks.of_values:
        return False
    if {spec.vs, spec.ve} & {*spec.files.folder_columns}:
        return False
    keeps_more = spec.kind.has_row_groups and spec.late_schema is not None
    return bool(spec.wanted) or (keeps_more and isinstance(spec.vs, str))


def _marked(spec: SourceSpec, unit: Unit, file: pq.ParquetFile, before_us: int | None) -> Unit:
    if spec.drops_late_rows and before_us is None:
        return unit
    if spec.late_schema is not None:
        unit = replace(unit, before_us=before_us)
    if not (
        excluded_by_folders(spec, unit.path, spec.wanted)
        or any(_excludes(spec, unit, file, bound) for bound in spec.wanted)
    ):
        return unit
    return replace(unit, only_times=True, before_us=before_us)


def _excludes(spec: SourceSpec, unit: Unit, file: pq.ParquetFile, bound: Bound) -> bool:
    """Return whether no row of the unit satisfies ``bound``."""
    statistics = _statistics(spec, unit, file, bound.column)
    if statistics is None:
        return False
    if statistics.has_null_count and statistics.null_count == unit.rows:
        return True
    if not statistics.has_min_max:
        return False
    value_range = _min_max(statistics)
    if value_range is None:
        return False
    return _is_outside(value_range, bound)


def excluded_by_folders(spec: SourceSpec, path: str, bounds: Sequence[Bound]) -> bool:
    """Return whether the folders above a file exclude all its rows, since they contradict a bound.

    Raises:
        SourceSchemaError: a folder's value does not have its column's type.
    """
    values = folder_values(spec.paths, path) if bounds else {}
    for bound in bounds:
        name = bound.column
        if name not in spec.files.folder_columns:
            continue
        value = value_of(path, name, values.get(name), spec.columns.field(name).type)
        if value.null_count:
            return True
        try:
            plain = value[0].as_py()
        except (OverflowError, ValueError):
            continue
        if _is_outside((plain, plain), bound):
            return True
    return False


def _is_outside(value_range: tuple[Any, Any], bound: Bound) -> bool:
    """Return whether no value in this range (least, greatest) satisfies the bound."""
    ends = {"min": _like(value_range[0], bound.value), "max": _like(value_range[1], bound.value)}
    if any(end is None or end != end for end in ends.values()):
        return False
    return not all(compare(ends[end], bound.value) for end, compare in _DECIDED[bound.operator])


def _min_max(statistics: pq.Statistics) -> tuple[Any, Any] | None:
    """Convert statistics to Python values; None for times before year 1 or after 9999."""
    try:
        return statistics.min, statistics.max
    except (OverflowError, ValueError):
        return None


def _statistics(
    spec: SourceSpec, unit: Unit, file: pq.ParquetFile, column: str
) -> pq.Statistics | None:
    """Return the statistics of a flat column if its type in the file is the type in the plan."""
    there = file.schema_arrow
    at = there.get_field_index(column)
    if at < 0 or not there.field(at).type.equals(spec.columns.field(column).type):
        return None
    assert unit.row_group is not None
    leaf = leaf_of(file, column)
    if leaf is None:
        return None
    chunk = file.metadata.row_group(unit.row_group).column(leaf)
    return chunk.statistics if chunk.is_stats_set else None


def _like(value: Any, like: Any) -> Any:
    """Convert a statistics value to the literal's type; None if they cannot be compared."""
    if isinstance(like, datetime):
        if not isinstance(value, datetime):
            return None
        if like.tzinfo is None:
            return value if value.tzinfo is None else None
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(like, float) and isinstance(value, int | float):
        return float(value)
    same = isinstance(value, bool) is isinstance(like, bool)
    kinds = (int, str, date)
    fits = any(isinstance(value, k) and isinstance(like, k) for k in kinds)
    return value if same and fits and not isinstance(value, datetime) else None


def _times(spec: SourceSpec, unit: Unit, file: pq.ParquetFile) -> tuple[int, int] | None:
    """Return the least and the greatest start in the unit; None if statistics lack them."""
    assert isinstance(spec.vs, str), spec.vs
    statistics = _statistics(spec, unit, file, spec.vs)
    if statistics is None or not statistics.has_min_max:
        return None
    kind = spec.columns.field(spec.vs).type
    exact = pa.types.is_integer(kind) or (pa.types.is_timestamp(kind) and kind.unit != "ns")
    if not exact:
        return None
    value_range = _min_max(statistics)
    if value_range is None:
        return None
    times = parse_times(pa.array(value_range, kind))
    return None if isinstance(times, Fault) else (int(times[0]), int(times[1]))
