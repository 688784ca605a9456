"""The pending change of a job: a savepoint, another query, or the former query.

``change/requests/<number>.json`` names it; the query and the plan are in ``change/<id>/``. The job
manager stops the job at a cut, builds the next generation and writes
``change/commits/<epoch>.json``. Before that file exists, the job is unchanged. After that, a
successor completes the change if this job manager dies. The outcome stays in
``change/<id>/outcome-<epoch>.json``. The change is pending until it has one.

Invariants: (1) a job manager acts on its commit only if it still owns the root after writing it. So
a successor has read this commit, or the commit has no effect: the successor then writes an empty
commit before it attempts the change itself, and only the newest commit counts. (2) An outcome
counts only if no commit for its change has a later epoch: a job manager that was suspended cannot
end what its successor does. (3) The newest request is not deleted, so no process that was suspended
deletes the next one.
"""

from __future__ import annotations

import re
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
REQUESTS, COMMITS = f"{FOLDER}/requests", f"{FOLDER}/commits"
NEXT_PLAN, NEXT_QUERY = "plan.pkl", "query.pkl"
#: Files of a change: the plan that replaces the job's, and the copy of the job's state.
PLACED, COPY = "next-plan.pkl", "state"
_REQUEST = re.compile(rf"{REQUESTS}/(\d+)\.json")
_OUTCOME = re.compile(r".*/outcome-(\d+)\.json")
_COMMIT = re.compile(rf"{COMMITS}/(\d+)\.json")
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

    def drawn_folder(self, epoch: int) -> str:
        """The folder of the files that the job manager of an epoch writes for its commit."""
        return f"{self.folder}/{epoch:010d}"


def new_change(kind: Kind, **fields: Any) -> Change:
    """Return a change with a new id."""
    return Change(uuid.uuid4().hex[:12], kind, **fields)


def request(root: JobRoot, change: Change, query: Query | None, plan: PhysicalPlan | None) -> None:
    """Store the request for the job manager.

    Raises:
        ChangePendingError: another change is under way.
    """
    store, former = root.store, _requests(root.store)
    if _pending(store, former) is not None:
        raise ChangePendingError(display_uri(root.uri))
    if query is not None and plan is not None:
        store.put(f"{change.folder}/{NEXT_QUERY}", pickle_document(query))
        store.put(f"{change.folder}/{NEXT_PLAN}", pickle_document(plan_without_place(plan)))
    number = max(former, default=0) + 1
    path = f"{REQUESTS}/{number:06d}.json"
    is_first = store.put_new(path, json_document(asdict(change)))
    if not is_first or max(_requests(store)) != number:
        # the files of this change are its own; so is the request, which comes too late
        for own in [*store.list(change.folder), *([path] if is_first else ())]:
            store.delete(own)
        raise ChangePendingError(display_uri(root.uri))


def pending(store: BlobStore) -> Change | None:
    """Return the requested change that has no outcome yet; None if there is none."""
    return _pending(store, _requests(store))


def _pending(store: BlobStore, requests: dict[int, str]) -> Change | None:
    request = _document(store, requests[max(requests)]) if requests else None
    if request is None or outcome_of(store, request["id"]) is not None:
        return None
    return Change(**request)


def commit(store: BlobStore, epoch: int, change: dict[str, Any]) -> None:
    """Commit a change. ``epoch``: of the owner.

    The caller must check the ownership again before it acts on the commit.
    """
    store.put(f"{COMMITS}/{epoch:010d}.json", json_document(change))


def cancel_commits(store: BlobStore, epoch: int, change_id: str) -> dict[str, Any] | None:
    """Cancel what former owners do for a change. ``epoch``: of the owner.

    Return the outcome that one of them has given the change; None: this owner decides.
    """
    commit(store, epoch, {"id": "", "cancels": change_id})
    outcomes = _numbered(store, f"{FOLDER}/{change_id}", _OUTCOME)
    return _document(store, outcomes[max(outcomes)]) if outcomes else None


def committed(store: BlobStore) -> dict[str, Any] | None:
    """Return the committed change, which must be completed; None if there is none."""
    _, change = _newest_commit(store)
    is_open = change and change["id"] and outcome_of(store, change["id"]) is None
    return change if is_open else None


def close(store: BlobStore, change_id: str, outcome: dict[str, Any], epoch: int) -> None:
    """Write the outcome of a change and delete its files. ``epoch``: of the owner."""
    record(store, change_id, outcome, epoch)
    tidy(store)


def record(store: BlobStore, change_id: str, outcome: dict[str, Any], epoch: int) -> None:
    """Write the outcome of a change. Then no change is pending, and the next may be requested.

    ``epoch``: of the owner. Commits of later owners stay: this process may have been suspended
    while another one took over and committed the next change.
    """
    store.put(outcome_path(change_id, epoch), json_document(outcome))
    forget_commits(store, epoch)


def forget_commits(store: BlobStore, epoch: int) -> None:
    """Delete the commits of this owner and former ones, whose changes have outcomes."""
    for number, path in _numbered(store, COMMITS, _COMMIT).items():
        if number <= epoch:
            store.delete(path)


def tidy(store: BlobStore) -> None:
    """Delete all files of changes that have an outcome, except the outcomes."""
    for path in left_by_changes(store):
        store.delete(path)


def left_by_changes(store: BlobStore) -> list[str]:
    """Return the files of changes that have an outcome, except the outcomes.

    The newest request is not among them.
    """
    paths, kept = store.list(FOLDER), (REQUESTS, COMMITS)
    left = [p for p in paths if not _OUTCOME.fullmatch(p) and p.rpartition("/")[0] not in kept]
    done = {i for i in {path.split("/")[1] for path in left} if outcome_of(store, i) is not None}
    requests = sorted(path for path in paths if _REQUEST.fullmatch(path))
    return [*requests[:-1], *(path for path in left if path.split("/")[1] in done)]


def outcome_path(change_id: str, epoch: int) -> str:
    """Return the file for the outcome that the owner of an epoch gives a change."""
    return f"{FOLDER}/{change_id}/outcome-{epoch:010d}.json"


def outcome_of(store: BlobStore, change_id: str) -> dict[str, Any] | None:
    """Return the outcome of a change; None while it has none, or a later owner attempts it."""
    outcomes = _numbered(store, f"{FOLDER}/{change_id}", _OUTCOME)
    if not outcomes:
        return None
    epoch, newest = _newest_commit(store)
    is_void = epoch > max(outcomes) and change_id in (newest.get("id"), newest.get("cancels"))
    return None if is_void else _document(store, outcomes[max(outcomes)])


def _newest_commit(store: BlobStore) -> tuple[int, dict[str, Any]]:
    """Return the newest readable commit and the epoch of its owner; 0 and empty without one."""
    for epoch, path in sorted(_numbered(store, COMMITS, _COMMIT).items(), reverse=True):
        if (change := _document(store, path)) is not None:
            return epoch, change
    return 0, {}


def _requests(store: BlobStore) -> dict[int, str]:
    return _numbered(store, REQUESTS, _REQUEST)


def _numbered(store: BlobStore, folder: str, name: re.Pattern[str]) -> dict[int, str]:
    """Return the files of a folder whose names match, by the number in the name."""
    matches = (name.fullmatch(path) for path in store.list(folder))
    return {int(match[1]): match[0] for match in matches if match}


def _document(store: BlobStore, path: str) -> dict[str, Any] | None:
    try:
        return read_json_document(store.get(path))
    except (FileNotFoundError, BrokenDocumentError):
        return None
