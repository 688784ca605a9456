"""``diff``: which rows of the answer another version of a query changes, over the recorded input.

Rows are compared as bags: row order and partitions are ignored. Rows that only one version has are
paired by their times and keys, and the columns in which a pair differs are reported. If the
versions have no common keys, rows are not paired, because equal times are not enough.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from jobmanager.delivery.deliveries import clean_rows
from jobmanager.replay.newcode import planned_again, same_meaning
from jobmanager.replay.recorded import Recorded
from jobmanager.replay.rerun import Rerun, Shape
from jobmanager.replay.rows.answer_rows import recorded_events
from jobmanager.replay.rows.slices import Step, sinks_of
from jobmanager.storage.output_claim import is_complete
from jobmanager.storage.root import JobRoot
from planner.durations import time_us
from rstream.items.batch import VS, event_schema, int64_column, only_events
from rstream.items.dictionaries import as_declared, plain_array, plain_schema
from rstream.items.digest import content_hashes
from rstream.items.edges import paired
from rstream.items.json_text import json_text, plain_rows
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from planner import Query
    from planner.durations import Time
    from planner.physical.plan import PhysicalPlan
    from rvertex.vertex.spec import VertexSpec

SAMPLES = 5
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Changed:
    """An old and a new row with the same times and keys; ``columns``: different columns."""

    old: Row
    new: Row
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """The differences between the results of two versions."""

    old_rows: int
    new_rows: int
    #: The number of rows that only the old version emits, and only the new one, pairs included.
    only_old: int
    only_new: int
    #: The number of pairs of such rows with the same times and keys.
    changed: int
    #: By column: the number of pairs in which it differs.
    columns: dict[str, int]
    #: By column: how values differ, "to null", "from null" or "changed".
    kinds: dict[str, frozenset[str]]
    #: Without keys, by column: how the values of different rows differ, as bags, if both sides have
    #: such rows. Also "combined": equal values, but in other combinations.
    unpaired: dict[str, frozenset[str]]
    #: The columns by which rows were paired, besides their times.
    keys: tuple[str, ...]
    #: Columns that only the old version has, and only the new one. Comparisons ignore them.
    removed_columns: tuple[str, ...]
    added_columns: tuple[str, ...]
    #: Sample rows, at most ``SAMPLES`` of each kind.
    changed_samples: tuple[Changed, ...]
    old_samples: tuple[Row, ...]
    new_samples: tuple[Row, ...]

    @property
    def is_equal(self) -> bool:
        """Whether both versions emit the same rows with the same columns."""
        differs = self.only_old or self.only_new or self.removed_columns or self.added_columns
        return not differs

    @property
    def has_equal_rows(self) -> bool:
        """Whether both versions emit the same rows, in the columns that both have."""
        return not (self.only_old or self.only_new)

    @property
    def differing(self) -> int:
        """The number of different rows; a pair counts once."""
        return self.only_old + self.only_new - self.changed

    def __str__(self) -> str:
        if self.is_equal:
            return f"equal: {self.old_rows:,} rows"
        lines = [_headline(self)]
        for name, count in self.columns.items():
            lines.append(f"  {name} differs in {count:,}")
        for pair in self.changed_samples:
            changes = (f"{c}: {pair.old[c]!s} -> {pair.new[c]!s}" for c in pair.columns)
            lines.append(f"changed {_key_of(self, pair.old)}: {', '.join(changes)}")
        for what, rows in (("only old", self.old_samples), ("only new", self.new_samples)):
            lines += [f"{what} {json_text(row)}" for row in rows]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "equal": self.is_equal,
            "old_rows": self.old_rows,
            "new_rows": self.new_rows,
            "only_old": self.only_old - self.changed,
            "only_new": self.only_new - self.changed,
            "changed": self.changed,
            "differing": self.differing,
            "columns": self.columns,
            "keys": list(self.keys),
            "removed_columns": list(self.removed_columns),
            "added_columns": list(self.added_columns),
            "samples": {
                "changed": [
                    {"old": p.old, "new": p.new, "columns": list(p.columns)}
                    for p in self.changed_samples
                ],
                "only_old": list(self.old_samples),
                "only_new": list(self.new_samples),
            },
        }

    def to_markdown(self) -> str:
        """Return a report for a pull request."""
        lines = ["# Changed rows", "", _headline(self) + ".", ""]
        if self.columns:
            lines += ["| column | changed rows |", "|---|---|"]
            lines += [f"| {name} | {count:,} |" for name, count in self.columns.items()]
            lines.append("")
        for pair in self.changed_samples:
            lines.append(f"- {_key_of(self, pair.old)}")
            lines += [f"  - `{c}`: `{pair.old[c]!s}` → `{pair.new[c]!s}`" for c in pair.columns]
        for what, rows in (("old", self.old_samples), ("new", self.new_samples)):
            lines += [f"- only in the {what} version: `{json_text(row)}`" for row in rows]
        return "\n".join(lines).rstrip() + "\n"


def diff(
    root: str,
    code: Query,
    *,
    from_: Time | None = None,
    until: Time | None = None,
    keys: Sequence[str] = (),
    output: str | None = None,
    trust: bool = False,
) -> VersionDiff:
    """Compare a job's result with the result of another version over the same recorded input.

    ``from_`` and ``until`` restrict the comparison to rows that start in this range. ``keys``: the
    columns by which rows are paired, besides their times; default: the output's partition keys.
    ``output``: the output to compare, if the job has several.

    Raises:
        CannotReplayError: the new version reads other files, or needed input is not retained.
    """
    job_root = JobRoot(root, trust=trust)
    recorded = Recorded(job_root, to_run=False).of_output(output)
    begin = MIN_TIME if from_ is None else time_us(from_, what="from")
    end = INF_TIME if until is None else time_us(until, what="until")
    plan = planned_again(recorded, code, output)
    old = rows_between(recorded.plan, _old_events(recorded, job_root, output), begin, end)
    new = rows_between(
        plan, _events(plan, recorded, is_same=same_meaning(recorded.plan, plan)), begin, end
    )
    return compared(old, new, tuple(keys) or pairing_keys(recorded.plan, old, new))


def _old_events(recorded: Recorded, root: JobRoot, output: str | None) -> Iterable[pa.RecordBatch]:
    """Return the recorded result if all of it is retained; else compute the old result again.

    Raises:
        ChangedCodeError: it has to be computed again, and its code has changed.
    """
    if is_complete(recorded.plan.output) and _has_beginning(recorded):
        return (events for _, events in recorded_events(recorded.plan))
    recorded = Recorded(root).of_output(output)
    return _events(recorded.plan, recorded, is_same=lambda _: True)


def _has_beginning(recorded: Recorded) -> bool:
    logs = (recorded.log(stream, uri) for stream, uri in recorded.plan.sink_streams())
    return all(log.beginning[0] == 0 and log.mark == 0 for log in logs)


def _events(
    plan: PhysicalPlan, recorded: Recorded, *, is_same: Callable[[VertexSpec], bool]
) -> Iterable[pa.RecordBatch]:
    """Run a plan over all recorded input. Return its result."""

    def is_whole(spec: VertexSpec) -> bool:
        has_all = recorded.finished(spec.id) is not None and not recorded.was_changed
        return has_all and is_same(spec)

    rerun = Rerun(Shape.of(plan), recorded, is_recorded=is_whole)
    try:
        active = rerun.open(dict.fromkeys(sinks_of(plan)))
        while active:
            for run in active:
                if run.turn() and run.result is not None:
                    for _, items in Step(run.spec, run.result, rerun).sink_items():
                        yield only_events(items.batch)
            active = [run for run in active if not run.has_ended]
    finally:
        rerun.close()


def rows_between(
    plan: PhysicalPlan, batches: Iterable[pa.RecordBatch], begin_us: int, end_us: int
) -> pa.Table:
    """Return events that start in ``[begin_us, end_us)``, in the form of the output files."""
    clean, schema = clean_rows(plan), event_schema(plain_schema(plan.schema))
    declared = [as_declared(batch, schema) for batch in batches]
    if plan.changes is not None:  # an open row and its end are one row
        declared = paired(pa.Table.from_batches(declared, schema=schema)).to_batches()
    starts = [int64_column(batch, VS) for batch in declared]
    inside = [
        batch.filter(pa.array((vs >= begin_us) & (vs < end_us)))
        for batch, vs in zip(declared, starts, strict=True)
    ]
    return clean.table(pa.Table.from_batches(inside, schema=schema)).combine_chunks()


def pairing_keys(plan: PhysicalPlan, old: pa.Table, new: pa.Table) -> tuple[str, ...]:
    """Return the default columns by which rows are paired: partition keys that both have."""
    common = [name for name in old.column_names if name in new.column_names]
    places = plan.partitioning.keys or ()
    return tuple(name for name in common if any(name in names for names in places))


def compared(old: pa.Table, new: pa.Table, keys: tuple[str, ...]) -> VersionDiff:
    """Compare rows as bags in the columns that both have, and pair different ones by ``keys``."""
    common = [n for n in old.column_names if n in new.column_names]
    common = [n for n in common if old.schema.field(n).type == new.schema.field(n).type]
    left, right = old.select(common), new.select(common)
    only_old, only_new = _apart(_hashes(left), _hashes(right))
    times = [n for n in common if pa.types.is_timestamp(left.schema.field(n).type)]
    by = tuple(dict.fromkeys([*(n for n in times[:2]), *(k for k in keys if k in common)]))
    olds = list(plain_rows(left.take(pa.array(only_old))))
    news = list(plain_rows(right.take(pa.array(only_new))))
    pairs, at_old, at_new = _paired(olds, news, by if keys else ())
    lone_old, lone_new = [olds[at] for at in at_old], [news[at] for at in at_new]
    rests = left.take(pa.array(only_old)), right.take(pa.array(only_new))
    counts = Counter(name for pair in pairs for name in pair.columns)
    kinds: dict[str, set[str]] = {}
    for pair in pairs:
        for name in pair.columns:
            kinds.setdefault(name, set()).add(_kind(pair.old[name], pair.new[name]))
    return VersionDiff(
        old.num_rows,
        new.num_rows,
        len(olds),
        len(news),
        len(pairs),
        dict(sorted(counts.items())),
        {name: frozenset(of_column) for name, of_column in kinds.items()},
        {} if keys else _bag_kinds(*rests),
        by if keys else (),
        tuple(n for n in old.column_names if n not in common),
        tuple(n for n in new.column_names if n not in common),
        tuple(pairs[:SAMPLES]),
        tuple(lone_old[:SAMPLES]),
        tuple(lone_new[:SAMPLES]),
    )


def _kind(old: object, new: object) -> str:
    return "to null" if new is None else "from null" if old is None else "changed"


def _hashes(table: pa.Table) -> np.ndarray:
    columns = (
        [plain_array(column) for column in table.combine_chunks().to_batches()[0].columns]
        if (table.num_rows)
        else []
    )
    if not columns:
        return np.empty(0, np.uint64)
    return content_hashes(pa.RecordBatch.from_arrays(columns, names=table.column_names))


def _apart(old: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each side the rows without an equal on the other side; of repeats, the last."""
    return _surplus(old, new), _surplus(new, old)


def _surplus(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    values, counts = np.unique(other, return_counts=True)
    order = np.argsort(own, kind="stable")
    ordered = own[order]
    starts = np.searchsorted(ordered, ordered, side="left")
    rank = np.arange(len(own)) - starts
    at = np.searchsorted(values, ordered)
    at = np.minimum(at, max(0, len(values) - 1))
    has = np.zeros(len(own), np.int64)
    if len(values):
        has = np.where(values[at] == ordered, counts[at], 0)
    return np.sort(order[rank >= has])


def _paired(
    olds: list[Row], news: list[Row], by: tuple[str, ...]
) -> tuple[list[Changed], list[int], list[int]]:
    """Pair rows with equal values of ``by``, in row order.

    Return the pairs, and the indexes of the rest per side.
    """
    if not by:
        return [], [*range(len(olds))], [*range(len(news))]
    waiting: dict[str, list[int]] = {}
    for at, row in enumerate(news):
        waiting.setdefault(_key(row, by), []).append(at)
    pairs, lone = [], []
    for at, row in enumerate(olds):
        partners = waiting.get(_key(row, by))
        if not partners:
            lone.append(at)
            continue
        new = news[partners.pop(0)]
        columns = tuple(n for n in row if json_text({"": row[n]}) != json_text({"": new[n]}))
        pairs.append(Changed(row, new, columns))
    return pairs, lone, [at for rest in waiting.values() for at in rest]


def _bag_kinds(old: pa.Table, new: pa.Table) -> dict[str, frozenset[str]]:
    """Return by column how its bags of values differ. Empty if a side has no rows."""
    if not (old.num_rows and new.num_rows):
        return {}
    kinds: dict[str, frozenset[str]] = {}
    for name in old.column_names:
        nulls_old, nulls_new = old.column(name).null_count, new.column(name).null_count
        found = {"to null"} if nulls_new > nulls_old else set()
        found |= {"from null"} if nulls_new < nulls_old else set()
        sides = (one.select([name]).filter(one.column(name).is_valid()) for one in (old, new))
        if not _same_bag(*sides):
            found.add("changed")
        if found:
            kinds[name] = frozenset(found)
    same = [name for name in old.column_names if name not in kinds]
    if same and not _same_bag(old.select(same), new.select(same)):
        kinds |= dict.fromkeys(same, frozenset({"combined"}))
    return kinds


def _same_bag(old: pa.Table, new: pa.Table) -> bool:
    return np.array_equal(np.sort(_hashes(old)), np.sort(_hashes(new)))


def _key(row: Row, by: tuple[str, ...]) -> str:
    return json_text({name: row[name] for name in by})


def _key_of(diff: VersionDiff, row: Row) -> str:
    return ", ".join(f"{name}={row[name]!s}" for name in diff.keys)


def _headline(diff: VersionDiff) -> str:
    rows = diff.old_rows + diff.only_new - diff.changed  # a changed row counts once
    parts = [
        f"{diff.changed:,} changed",
        f"{diff.only_old - diff.changed:,} only in the old version",
        f"{diff.only_new - diff.changed:,} only in the new version",
    ]
    text = f"{diff.differing:,} of {rows:,} rows differ: {', '.join(parts)}"
    for what, names in (("removed", diff.removed_columns), ("added", diff.added_columns)):
        if names:
            text += f"; {what} columns: {', '.join(names)}"
    return text
