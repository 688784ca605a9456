"""Capsules: one file with the smallest input, the plan and the code that give one output row.

A capsule is a zip: ``manifest.json``, ``plan.pkl`` without paths, the rows of each source as Arrow
files, the row, and the files of the query. Opening a capsule runs its code, so the caller must
trust its author. Columns can be masked: their values are replaced by marks, with equal marks for
equal values in all sources, and the same sort order. The masked input must still give the row.
"""

from __future__ import annotations

import atexit
import io
import json
import platform
import shutil
import tempfile
import zipfile
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobmanager.replay.errors import CannotMaskError, NotACapsuleError
from jobmanager.replay.recorded import Recorded, vertex_of
from jobmanager.replay.rows.answer_rows import AnswerCondition, the_row
from jobmanager.replay.rows.lineage import RUNS_MAX
from jobmanager.replay.rows.slices import Rows, SliceRuns, sinks_of
from jobmanager.replay.rows.starred import starred
from jobmanager.replay.rows.whys import lineage_of
from jobmanager.replay.stops import Stops
from jobmanager.storage.documents import BrokenDocumentError, pickle_document, read_pickle_document
from jobmanager.storage.places import plan_without_place
from jobmanager.storage.query_file import changed_note, module_places
from jobmanager.storage.root import JobRoot
from planner.physical.literal_secrets import literal_secrets
from rstream.items.batch import empty_events
from rstream.items.dictionaries import plain_array, plain_type
from rstream.items.digest import content_hashes
from rstream.items.json_text import json_text, plain_rows
from rvertex.sources.spec import PlanItems
from rvertex.user_code.modules import import_place, put_on_path
from rvertex.user_code.sources import has_changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.replay.rerun import Stopping
    from jobmanager.replay.rows.slices import Slice
    from planner.physical.plan import PhysicalPlan

FORMAT = 1
MANIFEST, PLAN, ROW, ROWS, CODE = "manifest.json", "plan.pkl", "row.arrow", "rows/", "code/"


@dataclass(frozen=True, slots=True)
class Capsule:
    """The content of a capsule."""

    manifest: dict[str, Any]
    plan: PhysicalPlan
    rows: Slice
    #: The recorded output row: ``_vs``, ``_ve`` and the payload.
    row: pa.RecordBatch

    def events(self, stops: Stopping | None = None) -> list[pa.RecordBatch]:
        """Run the query on the capsule's input. Return the emitted events."""
        runs = SliceRuns(self.plan, sinks_of(self.plan))
        rows = with_all_sources(self.plan, self.rows)
        return [events for _, events in runs.events(rows, stops)]

    def stops(self, vertex: str | None, break_: str) -> Stops:
        """Return a vertex's breakpoints: before each step with a row that satisfies ``break_``.

        Raises:
            CannotReplayError, InvalidConditionError: there is no such vertex, or no such condition.
        """
        return Stops(vertex_of(self.plan, vertex or ""), break_)

    def is_reproduced(self, stops: Stopping | None = None) -> bool:
        """Return whether a run still emits the row."""
        target = content_hashes(self.row)[0]
        return any((content_hashes(events) == target).any() for events in self.events(stops))

    def shown(self) -> dict[str, Any]:
        """Return the row in the form of the output files."""
        return _shown(self.plan, self.row)


def make_capsule(
    root: str,
    row: str,
    path: str,
    *,
    output: str | None = None,
    mask: Sequence[str] = (),
    runs_max: int = RUNS_MAX,
    trust: bool = False,
) -> Capsule:
    """Write the smallest input of one row of a job's result, with the query's code, to a zip file.

    ``row``: a SQL condition that only this row satisfies. ``mask``: columns whose values are
    replaced by marks. Literals of the query and its code are not masked.

    Raises:
        NoSuchRowError, CannotReplayError: see :func:`jobmanager.replay.rows.whys.why`.
        CannotMaskError: the masked input does not make the row, or no source has the column.
    """
    recorded = Recorded(JobRoot(root, trust=trust)).of_output(output)
    plan = recorded.plan
    _check_mask(plan, mask)
    row_of_answer = the_row(plan, AnswerCondition(plan, row))
    runs, lineage = lineage_of(recorded, row_of_answer, runs_max)
    rows, event = lineage.rows, row_of_answer.event
    plan = runs.plan_of(plan, rows)
    if mask:
        rows, event = _masked(plan, rows, event, mask)
    bare, secrets = _without_input(plan), _secrets(recorded.plan)
    if any(secret.encode() in pickle_document(bare) for secret in secrets):
        reason = "the code of the query contains it; write env:NAME or file:/PATH in its place"
        raise CannotMaskError("the secret of a source or destination", reason)
    code = _code_files(recorded, secrets)
    manifest = {
        "capsule": FORMAT,
        "streamscope": version("streamscope"),
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "plan": plan.plan_hash,
        "rows": {vertex: len(row_of_answer) for vertex, row_of_answer in rows.items()},
        "smallest": lineage.is_smallest,
        "masked": list(mask),
        "starred": [name for name, (before, after) in code.items() if before != after],
        "row": json.loads(json_text(_shown(plan, event))),
    }
    capsule = Capsule(manifest, bare, rows, event)
    Path(path).write_bytes(_zipped(capsule, {name: after for name, (_, after) in code.items()}))
    return capsule


def open_capsule(path: str, *, trust: bool = False) -> Capsule:
    """Read a capsule.

    Raises:
        NotACapsuleError: the file is not a capsule or is damaged, or ``trust`` is not set: reading
            a capsule can run its code.
    """
    if not trust:
        reason = "it holds code, which would run here; if you trust its maker, add --trust"
        raise NotACapsuleError(path, reason)
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            manifest = json.loads(archive.read(MANIFEST))
            if manifest["capsule"] != FORMAT:
                raise NotACapsuleError(path, f"its format is {manifest['capsule']}, not {FORMAT}")
            code = [n for n in names if n.startswith(CODE) and n.endswith(".py")]
            folder = tempfile.mkdtemp(prefix="capsule-") if code else ""
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            for name in code:
                _write_inside(folder, name.removeprefix(CODE), archive.read(name))
            put_on_path([], [folder] if folder else [])
            # Otherwise stars have changed the digests of its modules.
            is_as_it_was = not manifest.get("starred")
            plan = read_pickle_document(archive.read(PLAN), to_run=is_as_it_was)
            rows = {
                name.removeprefix(ROWS).removesuffix(".arrow"): _rows_of(archive.read(name))
                for name in names
                if name.startswith(ROWS)
            }
            return Capsule(manifest, plan, rows, _batch_of(archive.read(ROW)))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, BrokenDocumentError) as error:
        raise NotACapsuleError(path, str(error)) from error


def _write_inside(folder: str, name: str, data: bytes) -> None:
    """Write a file below a folder. Raise an error if the name leads out of the folder."""
    path = Path(folder, name)
    if not path.resolve().is_relative_to(Path(folder).resolve()):
        raise ValueError(f"the file {name} would be outside of the folder of modules")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def with_all_sources(plan: PhysicalPlan, rows: Slice) -> Slice:
    """Add an empty entry for each source of the plan that the slice does not have."""
    empty = np.empty(0, np.int64)
    return {
        v.id: rows.get(v.id, Rows(empty, empty_events(v.source.spec.row_schema)))
        for v in plan.vertices
        if v.source is not None
    }


def _check_mask(plan: PhysicalPlan, mask: Sequence[str]) -> None:
    """Check that each column is in a source and has a type that can be masked."""
    schemas = [v.source.spec.row_schema for v in plan.vertices if v.source is not None]
    for name in mask:
        kinds = {plain_type(schema.field(name).type) for schema in schemas if name in schema.names}
        if not kinds:
            raise CannotMaskError(name, "no source has this column")
        if len(kinds) > 1:
            raise CannotMaskError(name, "its type differs between sources")
        (kind,) = kinds
        if not (_is_text(kind) or pa.types.is_integer(kind)):
            reason = f"its type is {kind}; text and whole numbers can be masked"
            raise CannotMaskError(name, reason)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _masked(
    plan: PhysicalPlan, rows: Slice, event: pa.RecordBatch, mask: Sequence[str]
) -> tuple[Slice, pa.RecordBatch]:
    """Replace values by marks in the input. Return the masked input, and the row that it makes."""
    marks = {name: _marks(name, list(rows.values())) for name in mask}
    masked = {v: Rows(r.numbers, _with_marks(r.batch, marks)) for v, r in rows.items()}
    runs = SliceRuns(plan, sinks_of(plan))
    kept = [n for n in event.schema.names if n not in mask]
    target = content_hashes(event.select(kept))[0]
    for _, events in runs.events(with_all_sources(plan, masked)):
        places = np.flatnonzero(content_hashes(events.select(kept)) == target)
        if len(places):
            return masked, events.slice(int(places[0]), 1)
    raise CannotMaskError(
        ", ".join(mask), "without these values, the input no longer produces the row"
    )


def _marks(name: str, sources: list[Rows]) -> tuple[pa.Array, pa.Array]:
    """Return the sorted distinct values of a column in all sources, and a mark for each."""
    columns = [plain_array(r.batch.column(name)) for r in sources if name in r.batch.schema.names]
    kind = columns[0].type
    values = pc.drop_null(pc.unique(pa.chunked_array(columns)))
    values = values.take(pc.sort_indices(values))
    numbers = range(1, len(values) + 1)
    if not _is_text(kind):
        return values, pa.array(numbers, kind)
    width = len(str(len(values)))
    return values, pa.array([f"m{n:0{width}d}" for n in numbers], kind)


def _with_marks(
    batch: pa.RecordBatch, marks: dict[str, tuple[pa.Array, pa.Array]]
) -> pa.RecordBatch:
    columns = list(batch.columns)
    fields = list(batch.schema)
    for k, name in enumerate(batch.schema.names):
        if name in marks:
            values, new = marks[name]
            columns[k] = new.take(pc.index_in(plain_array(columns[k]), value_set=values))
            fields[k] = fields[k].with_type(columns[k].type)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _without_input(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan without file names, and without rows stored inside the plan."""
    vertices = []
    for vertex in plan.vertices:
        source = vertex.source
        if source is not None:
            name = Path(source.spec.path).name
            spec = replace(source.spec, path=name, shown=name, live=None)
            if spec.files.more_paths:
                spec = spec.with_options(more_paths=())
            if spec.items is not None:
                spec = replace(spec, kind=PlanItems(spec.items.slice(0, 0)))
            source = replace(source, spec=spec, units=(), added=(), known=None)
        vertices.append(replace(vertex, source=source))
    bare = replace(plan, vertices=tuple(vertices), deliveries=(), publishing=None, plan_trace=None)
    return plan_without_place(bare)


def _secrets(plan: PhysicalPlan) -> set[str]:
    """Return the secrets that the query's sources and destinations contain in plain text."""
    sources = [v.source.spec for v in plan.vertices if v.source is not None]
    return literal_secrets(sources, plan.deliveries)


def _code_files(recorded: Recorded, secrets: set[str]) -> dict[str, tuple[bytes, bytes]]:
    """Return the unchanged files of the query, each as it is and without secrets.

    Empty if the query's own file has changed since the job's start.
    """
    known = recorded.settings.get("query_file")
    if known is None or changed_note({**known, "imports": {}}) != "":
        return {}
    imports: dict[str, str] = known.get("imports", {})
    # Skip this project's packages, because the reader has them installed.
    own = Path(__file__).parents[3]
    modules = [Path(p) for p, digest in imports.items() if not has_changed(Path(p), digest)]
    given, folders = module_places(recorded.settings)
    places = [str(Path(known["path"]).parent), *folders, *map(import_place, given)]
    files = {Path(known["path"]).name: Path(known["path"])}
    for path in modules:
        if path.parent != own:
            files.update(_with_packages(path, places))
    contents = [(name, path.read_bytes()) for name, path in files.items() if path.is_file()]
    return {n: (data, starred(data, secrets, is_python=n.endswith(".py"))) for n, data in contents}


def _with_packages(path: Path, places: Sequence[str]) -> dict[str, Path]:
    """Return a module and its parent packages, by their paths below the nearest of ``places``.

    ``places``: the folders that Python imports from.
    """
    place = Path(max((p for p in places if path.is_relative_to(p)), key=len, default=path.parent))
    inner = [folder for folder in path.parents if folder != place and folder.is_relative_to(place)]
    files = [path, *(folder / "__init__.py" for folder in inner)]
    return {file.relative_to(place).as_posix(): file for file in files}


def _zipped(capsule: Capsule, code: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, json.dumps(capsule.manifest, indent=1))
        archive.writestr(PLAN, pickle_document(capsule.plan))
        archive.writestr(ROW, _arrow(capsule.row))
        for vertex, rows in capsule.rows.items():
            numbered = rows.batch.append_column(_NUMBER, pa.array(rows.numbers))
            archive.writestr(f"{ROWS}{vertex}.arrow", _arrow(numbered))
        for name, data in code.items():
            archive.writestr(f"{CODE}{name}", data)
    return sink.getvalue()


_NUMBER = "_row"


def _arrow(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _batch_of(data: bytes) -> pa.RecordBatch:
    return pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)


def _rows_of(data: bytes) -> Rows:
    batch = _batch_of(data)
    numbers = batch.column(_NUMBER).to_numpy()
    return Rows(numbers, batch.drop_columns([_NUMBER]))


def _shown(plan: PhysicalPlan, event: pa.RecordBatch) -> dict[str, Any]:
    return next(plain_rows(AnswerCondition(plan, "true").shown(event)))
