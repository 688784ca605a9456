"""``why``: finds the source rows that make one row of the result, and the stages between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobmanager.delivery.clean_rows import CleanRows
from jobmanager.replay.errors import NoSuchRowError
from jobmanager.replay.recorded import Recorded
from jobmanager.replay.rows.answer_rows import AnswerCondition, AnswerRow, the_row
from jobmanager.replay.rows.lineage import RUNS_MAX, Lineage, Shrinking
from jobmanager.replay.rows.slices import SliceRuns, sinks_of
from jobmanager.storage.root import JobRoot
from rstream.items.batch import KIND, item_schema, payload_schema
from rstream.items.dictionaries import as_declared, plain_schema
from rstream.items.json_text import plain_rows

if TYPE_CHECKING:
    from jobmanager.replay.rows.slices import Rows

ROW = "row"


@dataclass(frozen=True, slots=True)
class StageRows:
    """Counts of events that a vertex read and emitted."""

    vertex: str
    events_in: int
    events_out: int


@dataclass(frozen=True, slots=True)
class Why:
    """The explanation of one result row: the input rows that make it."""

    #: The result row, in the form of the output files.
    row: pa.Table
    #: By source vertex: the input rows that make it. Column ``row``: their numbers, from 0.
    inputs: dict[str, pa.Table]
    stages: tuple[StageRows, ...]
    #: Whether the set is minimal: if any one input row is left out, the result row is missing.
    is_smallest: bool
    #: The number of runs over slices of the input.
    runs: int

    @property
    def rows(self) -> int:
        """The number of input rows."""
        return sum(table.num_rows for table in self.inputs.values())

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "row": next(plain_rows(self.row)),
            "inputs": {vertex: list(plain_rows(table)) for vertex, table in self.inputs.items()},
            "stages": [[s.vertex, s.events_in, s.events_out] for s in self.stages],
            "smallest": self.is_smallest,
            "runs": self.runs,
        }


def why(
    root: str,
    row: str,
    *,
    output: str | None = None,
    runs_max: int = RUNS_MAX,
    trust: bool = False,
) -> Why:
    """Find the smallest set of input rows that makes one row of a job's result.

    ``row``: a SQL condition that only this row satisfies. ``output``: the output with this row, if
    the job has several. The query runs on smaller and smaller
    parts of the recorded input. After ``runs_max`` runs, the smallest part so far is returned. The
    root is not changed.

    Raises:
        NoSuchRowError: no row, or more than one, satisfies the condition.
        CannotReplayError: the query cannot run on a part of its input.
    """
    recorded = Recorded(JobRoot(root, trust=trust)).of_output(output)
    plan, condition = recorded.plan, AnswerCondition(recorded.plan, row)
    target = the_row(plan, condition)
    event = target.event
    runs, lineage = lineage_of(recorded, target, runs_max)
    return Why(
        condition.shown(event),
        {v: shown_rows(rows) for v, rows in lineage.rows.items() if len(rows)},
        stages_of(runs, lineage),
        lineage.is_smallest,
        lineage.runs,
    )


def lineage_of(
    recorded: Recorded, row: AnswerRow, runs_max: int = RUNS_MAX
) -> tuple[SliceRuns, Lineage]:
    """Find the smallest slice that makes a row; also return the runner of slices.

    Raises:
        NoSuchRowError: the query does not make the row again.
        CannotReplayError: the query cannot run on a part of its input.
    """
    # A change of the job may have moved the row's key to another sink.
    is_moved = recorded.was_changed
    sinks = sinks_of(recorded.plan) if is_moved else [recorded.plan.writers()[row.stream]]
    runs = SliceRuns(recorded.plan, sinks, recorded)
    try:
        return runs, Shrinking(runs, row.event, runs_max).lineage()
    except NoSuchRowError:
        if not is_moved:
            raise
        reason = "the current query does not compute it from the recorded input, a former one did"
        raise NoSuchRowError(f"{reason}: the job was changed since") from None


def stages_of(runs: SliceRuns, lineage: Lineage) -> tuple[StageRows, ...]:
    """Run the smallest slice. Return the counts of events of each vertex."""
    counts: dict[str, StageRows] = {}
    for step in runs.steps(lineage.rows):
        for vertex, run in step.rerun.runs.items():
            done = run.vertex.counts
            counts[vertex] = StageRows(vertex, done.events_in, done.events_out)
    return tuple(stage for stage in counts.values() if stage.events_in or stage.events_out)


def shown_rows(rows: Rows) -> pa.Table:
    """Return rows as a table for the user, with their row numbers."""
    batch = rows.batch
    if batch.schema.names[0] == KIND:
        batch = batch.drop_columns([KIND])
    payload = plain_schema(payload_schema(batch.schema))
    items = item_schema(payload)
    events = as_declared(batch, pa.schema(list(items)[1:]))
    table = CleanRows(items, None).table(pa.Table.from_batches([events]))
    name = ROW if ROW not in table.column_names else f"_{ROW}"
    return table.add_column(0, name, pa.array(rows.numbers))
