"""Savepoints of a job: named cuts from which this or another job can start.

``savepoints/<name>/`` holds ``savepoint.json``, the unconsumed items of channels, and the plan, the
query and the settings of the job at the savepoint. The checkpoints of the cut are only named there,
not copied.

Invariant: a checkpoint, or a part of one, that a savepoint names is not deleted.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jobmanager.errors import BrokenFileError
from jobmanager.storage.documents import (
    BrokenDocumentError,
    json_document,
    read_json_document,
)
from jobmanager.storage.root import display_uri
from rstream.errors import UsageError, error_class

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore

FOLDER, MANIFEST = "savepoints", "savepoint.json"
#: The name of the savepoint that each clean stop replaces.
STOP = "stop"
#: Format of manifests. Raise it if a former release would misread one.
FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@error_class
class NoSavepointError(UsageError):
    """The job has no savepoint of this name. ``names``: the existing ones."""

    root: str
    name: str
    names: str

    message = "{root} has no savepoint {name!r}; it has: {names}"


@dataclass(frozen=True, slots=True)
class SavedVertex:
    """A vertex at the cut: its checkpoint, or its final positions if it had finished."""

    vertex: str
    checkpoint: str
    parts: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_finished: bool = False
    digests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SavedRest:
    """Items ``[lo, hi)`` of a channel that its reader had not consumed."""

    stream: str
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Savepoint:
    """The manifest of a savepoint. Times are us UTC, ``time_us`` is an event time.

    All sources had reached ``time_us``.
    """

    name: str
    created_us: int
    time_us: int
    plan_hash: str
    #: The newest epoch of an instance, and the number of job managers, at the savepoint.
    epoch: int
    takeovers: int
    checkpointed_us: int
    vertices: tuple[SavedVertex, ...]
    rests: tuple[SavedRest, ...] = ()
    #: Rows (delivery, partition, seq): all items below that seq were known to be delivered.
    deliveries: tuple[tuple[str, int, int], ...] = ()
    generation: int = 0

    @property
    def files(self) -> frozenset[str]:
        """The files of its checkpoints and their parts, relative to the job's root."""
        paths = (name for v in self.vertices for name in (v.checkpoint, *v.parts))
        return frozenset(name for name in paths if name)

    def to_json(self) -> dict[str, Any]:
        """Return the savepoint as the fields of the manifest."""
        return {"format": FORMAT, **asdict(self)}


def check_name(name: str) -> str:
    """Check that a name can be the name of a folder, and return it.

    Raises:
        UsageError: the name has other characters, or is too long.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"savepoint name {name!r}: use letters, digits, '.', '_' and '-', at most 64"
        )
    return name


def folder_of(name: str) -> str:
    """Return the folder of a savepoint below the job's root."""
    return f"{FOLDER}/{name}"


def write_manifest(store: BlobStore, savepoint: Savepoint) -> None:
    """Write the manifest durably, which completes the savepoint."""
    store.put(f"{folder_of(savepoint.name)}/{MANIFEST}", json_document(savepoint.to_json()))


def read_savepoint(store: BlobStore, name: str) -> Savepoint:
    """Return the savepoint of that name.

    Raises:
        NoSavepointError: there is none.
        BrokenFileError: its manifest cannot be read.
    """
    path = f"{folder_of(check_name(name))}/{MANIFEST}"
    try:
        fields = read_json_document(store.get(path))
        return _savepoint(fields)
    except FileNotFoundError as error:
        names = ", ".join(s.name for s in list_savepoints(store)) or "none"
        raise NoSavepointError(display_uri(store.uri), name, names) from error
    except (BrokenDocumentError, KeyError, TypeError) as error:
        place = f"{display_uri(store.uri)}/{path}"
        raise BrokenFileError(place, str(error), "the savepoint's list of files") from error


def list_savepoints(store: BlobStore) -> list[Savepoint]:
    """Return all savepoints, the oldest first."""
    paths = [path for path in store.list(FOLDER) if path.endswith(f"/{MANIFEST}")]
    savepoints = [read_savepoint(store, path.split("/")[1]) for path in paths]
    return sorted(savepoints, key=lambda savepoint: (savepoint.created_us, savepoint.name))


def expire(store: BlobStore, name: str) -> None:
    """Delete a savepoint, its manifest first; ``jobmanager gc`` deletes its files.

    Raises:
        NoSavepointError: there is no such savepoint.
    """
    read_savepoint(store, name)
    store.delete(f"{folder_of(name)}/{MANIFEST}")
    for path in store.list(folder_of(name)):
        store.delete(path)


def named_files(store: BlobStore) -> frozenset[str]:
    """Return the files, relative to the job's root, that savepoints name: never delete them.

    Raises:
        BrokenFileError: a manifest cannot be read.
    """
    return frozenset(name for savepoint in list_savepoints(store) for name in savepoint.files)


def _savepoint(fields: dict[str, Any]) -> Savepoint:
    known = {name: fields[name] for name in Savepoint.__slots__ if name in fields}
    vertices = tuple(
        SavedVertex(**{name: _tuple(value) for name, value in row.items()})
        for row in fields["vertices"]
    )
    rests = tuple(SavedRest(**row) for row in fields["rests"])
    deliveries = tuple((name, k, seq) for name, k, seq in fields["deliveries"])
    return Savepoint(**{**known, "vertices": vertices, "rests": rests, "deliveries": deliveries})


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
