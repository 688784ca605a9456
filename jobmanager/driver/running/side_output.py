"""Side outputs of a job: late rows of its sources and rows that its operators rejected.

They are in the job's folder, in ``late/<stage>`` and ``dead_letters/<name>``, even while the job
runs. A folder appears with its first row. Rows that a destination rejected are in ``refused``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from jobmanager.delivery.deliveries import clean_rows, output_of
from jobmanager.delivery.refused_rows import has_refused, read_refused
from jobmanager.errors import NoJobError
from jobmanager.storage.root import JobRoot, display_uri
from rstream import open_store, read_events
from rstream.errors import UsageError
from rstream.items.batch import event_schema
from rstream.store.part_files import part_uri, parts_in, split_part
from rvertex.events.side_output import DEAD_LETTERS, LATE
from rvertex.sinks.spec import keeps_refused, name_of

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan
    from rvertex.vertex.spec import OutputEdge


def read_late(root: str, source: str = "", *, trust: bool = False) -> pa.Table:
    """Return the late rows that a source dropped, by partition, in the order they were read.

    Columns: ``_vs, _ve``, all columns of the source (not only those the query reads), and
    ``_frontier``: the source's watermark when the row arrived. ``source``: the name of a stage, or
    a part of it; optional if only one source can have late rows.

    Raises:
        NoJobError: the root holds no job that has started.
        UntrustedRootError: others may have written files of the root, and ``trust`` is False.
        UsageError: no source has this name, or several have.
    """
    return _read(root, LATE, source, trust=trust)


def read_dead_letters(root: str, name: str = "", *, trust: bool = False) -> pa.Table:
    """Return the dead letters of an operator, by partition, in the order they were stored.

    ``name``: the name of a source, a step, or a delivery with ``on_bad_row="dead_letter"``. Rows
    that a destination rejected have the columns of the delivered table, then ``_partition``,
    ``_seq``, ``_is_end`` (the row was delivered, its end was rejected), ``_refused_at`` and
    ``_reason``.

    Raises:
        NoJobError: the root holds no job that has started.
        UntrustedRootError: others may have written files of the root, and ``trust`` is False.
        UsageError: no dead letters have this name, or several have.
    """
    return _read(root, DEAD_LETTERS, name, trust=trust)


def _read(root: str, folder: str, name: str, *, trust: bool) -> pa.Table:
    """Return the late rows or dead letters of one step.

    ``folder``: of late rows or of dead letters. ``name``: the step or destination that refused
    the rows. ``trust``: load the plan even if others may have written it.
    """
    job_root = JobRoot(root, trust=trust)
    plan = job_root.read_plan()
    if plan is None:
        raise NoJobError(display_uri(root))
    deliveries = _refusing(plan, job_root, name) if folder == DEAD_LETTERS else []
    side = _side(plan, folder, name, deliveries)
    if side.removeprefix(f"{folder}/") in deliveries:
        name = side.removeprefix(f"{folder}/")
        named = [s for s in plan.deliveries if name_of(s) == name]
        # The columns of an empty table
        of = output_of(plan, named[0]) if named else plan.of_outputs[0]
        schema = clean_rows(of).schema
        return read_refused(job_root.store, name, schema)
    edges = [edge for v in plan.vertices for edge in v.outputs if edge.side == side]
    assert edges[0].payload is not None, edges[0]
    tables = [event_schema(edges[0].payload).empty_table()]
    tables += [read_events(uri) for uri in _streams_of(edges)]
    return pa.concat_tables(_alike(tables), promote_options="default")


def _alike(tables: list[pa.Table]) -> list[pa.Table]:
    """Return the tables; a column whose type changed with the job becomes text.

    Raises:
        UsageError: a column cannot be converted to text.
    """
    types: dict[str, set[pa.DataType]] = {}
    for column in (column for table in tables for column in table.schema):
        types.setdefault(column.name, set()).add(column.type)
    changed = [name for name, found in types.items() if len(found) > 1]
    for name in changed:
        try:
            tables = [_as_text(table, name) for table in tables]
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            shown = ", ".join(sorted(str(found) for found in types[name]))
            raise UsageError(
                f"column {name!r} of the late or bad rows had the types {shown}, which cannot be "
                "combined; read the files in the job's folder one by one"
            ) from error
    return tables


def _as_text(table: pa.Table, name: str) -> pa.Table:
    if name not in table.column_names:
        return table
    index = table.column_names.index(name)
    return table.set_column(index, name, table.column(index).cast(pa.string()))


def _streams_of(edges: list[OutputEdge]) -> list[str]:
    """Return the uris of a side output's streams, also those from before a change of the job."""
    current = [uri for edge in edges for uri in edge.uris]
    folders = dict.fromkeys(folder for folder, name in map(split_part, current) if name)
    stored = [part_uri(f, name) for f in folders for name in parts_in(open_store(f))]
    former = sorted((uri for uri in stored if uri not in current), key=_numbers)
    return [*former, *(uri for uri in current if uri in stored)]


def _numbers(uri: str) -> list[int]:
    """Return generation and index in a stream's name, such as ``g2-part-10``.

    Streams from before the first change have no generation.
    """
    numbers = [int(digits) for digits in re.findall(r"\d+", split_part(uri)[1])]
    return [0] * (2 - len(numbers)) + numbers


def side_names(root: str, folder: str) -> list[str]:
    """Return the names that :func:`read_late` or :func:`read_dead_letters` accepts."""
    job_root = JobRoot(root)
    plan = job_root.read_plan()
    if plan is None:
        raise NoJobError(display_uri(root))
    return _known(plan, folder, _refusing(plan, job_root, "") if folder == DEAD_LETTERS else [])


def _known(plan: PhysicalPlan, folder: str, deliveries: list[str]) -> list[str]:
    known = [s.removeprefix(f"{folder}/") for s in plan.side_streams() if s.startswith(folder)]
    return [*known, *(delivery for delivery in deliveries if delivery not in known)]


def _refusing(plan: PhysicalPlan, root: JobRoot, name: str) -> list[str]:
    """Return the deliveries with dead letters. ``name``: also check a name that the plan lacks."""
    named = [name_of(spec) for spec in plan.deliveries if keeps_refused(spec)]
    is_other = bool(name) and name not in named and has_refused(root.store, name)
    return [*named, name] if is_other else named


def _side(plan: PhysicalPlan, folder: str, name: str, deliveries: list[str]) -> str:
    known = _known(plan, folder, deliveries)
    matches = [side for side in known if side == name] or [side for side in known if name in side]
    if len(matches) != 1:
        request = f"{folder} {name!r}"
        if not known:
            bad = (
                'on_bad_row="dead_letter" of a source or a delivery, or on_error="dead_letter" of '
                "a step,"
            )
            only = {LATE: 'a source with late="drop"', DEAD_LETTERS: bad}
            raise UsageError(f"{request}: this job writes none; it needs {only[folder]}")
        call = {LATE: "ss.read_late", DEAD_LETTERS: "ss.read_dead_letters"}[folder]
        raise UsageError(
            f"{request}: name one source, step or delivery of this job, such as "
            f"{call}(root, {known[0]!r}); it has {', '.join(known)}"
        )
    return f"{folder}/{matches[0]}"
