"""The pending change of a job: a savepoint, another query, or the former query.

``change/request.json`` names it; the query and the plan are in ``change/<id>/``. The job manager
stops the job at a cut, builds the next generation and writes ``change/commits/<epoch>.json``.
Before that file exists, the job is unchanged. After that, a successor completes the change if this
job manager dies. The outcome stays in ``change/<id>/outcome.json``.

Invariant: a job manager acts on its commit only if it still owns the root after writing it. So a
successor has read this commit, or the commit has no effect: the successor then writes an empty
commit before it attempts the change itself, and only the newest commit counts.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from jobmanager.driver.running.changes.errors import ChangePendingError
from jobmanager.storage.documents import (
    BrokenDocumentError,
    json_document,
    pickle_document,
    read_json_document,
)
from jobmanager.storage.places import plan_without_place
from jobmanager.storage.root import display_uri
from planner.physical.slot_ranges import equal_bounds

if TYPE_CHECKING:
    from jobmanager.storage.root import JobRoot
    from planner import Query
    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore

FOLDER = "change"
REQUEST, COMMITS = f"{FOLDER}/request.json", f"{FOLDER}/commits"
OUTCOME, NEXT_PLAN, NEXT_QUERY = "outcome.json", "plan.pkl", "query.pkl"
#: Files of a change: the plan that replaces the job's, and the copy of the job's state.
PLACED, COPY = "next-plan.pkl", "state"
Kind = Literal["savepoint", "deploy", "rollback", "rescale"]


@dataclass(frozen=True, slots=True)
class Change:
    """A requested change.

    ``savepoint``: the name of the savepoint to take, or to which to return. ``at_us``: the event
    time that all sources must reach before the change. ``approved``: the hash of the comparison.
    ``settings``: fields of ``job.json`` that change with the query.
    """

    id: str
    kind: Kind
    savepoint: str = ""
    at_us: int | None = None
    approved: str = ""
    settings: dict[str, Any] | None = None
    #: Per stage, the new number of equally wide ranges of keys; or the first slot of each range
    #: after the first.
    widths: dict[str, int] | None = None
    bounds: dict[str, list[int]] | None = None

    @property
    def new_bounds(self) -> dict[str, tuple[int, ...]]:
        """Per stage that is rescaled, the first slot of each range after the first."""
        equal = {stage: equal_bounds(n) for stage, n in (self.widths or {}).items()}
        return equal | {stage: tuple(slots) for stage, slots in (self.bounds or {}).items()}

    @property
    def folder(self) -> str:
        """The folder of the change's files, relative to the job's root."""
        return f"{FOLDER}/{self.id}"


def new_change(kind: Kind, **fields: Any) -> Change:
    """Return a change with a new id."""
    return Change(uuid.uuid4().hex[:12], kind, **fields)


def request(root: JobRoot, change: Change, query: Query | None, plan: PhysicalPlan | None) -> None:
    """Store the request for the job manager.

    Raises:
        ChangePendingError: another change is under way.
    """
    store = root.store
    if query is not None and plan is not None:
        store.put(f"{change.folder}/{NEXT_QUERY}", pickle_document(query))
        store.put(f"{change.folder}/{NEXT_PLAN}", pickle_document(plan_without_place(plan)))
    if not store.put_new(REQUEST, json_document(asdict(change))):
        raise ChangePendingError(display_uri(root.uri))


def pending(store: BlobStore) -> Change | None:
    """Return the requested change; None if there is none."""
    request = _document(store, REQUEST)
    return None if request is None else Change(**request)


def commit(store: BlobStore, epoch: int, change: dict[str, Any] | None) -> None:
    """Commit a change. ``epoch``: of the owner. None: cancel the commits of former owners.

    The caller must check the ownership again before it acts on the commit.
    """
    store.put(f"{COMMITS}/{epoch:010d}.json", json_document(change or {"id": ""}))


def committed(store: BlobStore) -> dict[str, Any] | None:
    """Return the committed change, which must be completed; None if there is none."""
    for path in sorted(store.list(COMMITS), reverse=True):
        if (change := _document(store, path)) is not None:
            is_open = change["id"] and outcome_of(store, change["id"]) is None
            return change if is_open else None
    return None


def close(store: BlobStore, change_id: str, outcome: dict[str, Any], epoch: int) -> None:
    """Write the outcome of a change. Afterwards no change is pending. ``epoch``: of the owner."""
    record(store, change_id, outcome, epoch)
    forget(store, change_id)
    tidy(store)


def record(store: BlobStore, change_id: str, outcome: dict[str, Any], epoch: int) -> None:
    """Write the outcome of a change. No job manager carries it out again after that.

    ``epoch``: of the owner. Commits of later owners stay: this process may have been suspended
    while another one took over and committed the next change.
    """
    store.put(f"{FOLDER}/{change_id}/{OUTCOME}", json_document(outcome))
    for path in store.list(COMMITS):
        if int(path.rpartition("/")[2].removesuffix(".json")) <= epoch:
            store.delete(path)


def tidy(store: BlobStore) -> None:
    """Delete all files of changes that have an outcome, except the outcomes."""
    for path in left_by_changes(store):
        store.delete(path)


def left_by_changes(store: BlobStore) -> list[str]:
    """Return the files of changes that have an outcome, except the outcomes."""
    paths = store.list(FOLDER)
    done = {path.removesuffix(OUTCOME) for path in paths if path.endswith(f"/{OUTCOME}")}
    return [
        path
        for path in paths
        if not path.endswith(OUTCOME) and f"{path.rpartition('/')[0]}/" in done
    ]


def forget(store: BlobStore, change_id: str) -> None:
    """Delete the request of a change that has an outcome. Then another change can be requested."""
    change = pending(store)
    if change is not None and change.id == change_id:
        store.delete(REQUEST)


def outcome_of(store: BlobStore, change_id: str) -> dict[str, Any] | None:
    """Return the outcome of a change; None while it has none.

    While :func:`pending` still returns the change, no other change can be requested.
    """
    return _document(store, f"{FOLDER}/{change_id}/{OUTCOME}")


def _document(store: BlobStore, path: str) -> dict[str, Any] | None:
    try:
        return read_json_document(store.get(path))
    except (FileNotFoundError, BrokenDocumentError):
        return None
