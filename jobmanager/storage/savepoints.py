"""Savepoints of a job: named cuts from which this or another job can start.

``savepoints/<name>/<version>/`` holds ``savepoint.json`` (the manifest), the unconsumed items of
channels, and the plan, the query and the settings of the job at the savepoint. The checkpoints of
the cut are only named there, not copied. The manifest is written last; only the newest manifest of
a name counts.

Invariants: (1) a checkpoint, or a part of one, that a savepoint names is not deleted; (2) a
savepoint that replaces one of the same name is a new version, so the old one stays readable until
the new one is complete; (3) a version sorts by the epoch of its job manager, so one that was
suspended and writes late replaces nothing.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jobmanager.errors import BrokenFileError
from jobmanager.storage.documents import (
    VERSION,
    BrokenDocumentError,
    json_document,
    next_version,
    read_json_document,
)
from jobmanager.storage.root import GENERATION, JOB, UNDONE, display_uri
from rstream.errors import StoreError, UsageError, error_class

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobmanager.storage.root import JobRoot
    from rstream.store.protocol import BlobStore

FOLDER, MANIFEST = "savepoints", "savepoint.json"
#: The name of the savepoint that each clean stop replaces.
STOP = "stop"
#: Format of manifests. Raise it if a former release would misread one.
FORMAT = 1
#: Most reads of a savepoint that is replaced meanwhile.
READS_MAX = 3
#: Names of savepoints from before a change, with the number of the next generation.
_BEFORE = re.compile(r"before-(\d+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@error_class
class NoSavepointError(UsageError):
    """The job has no savepoint of this name. ``names``: the existing ones."""

    root: str
    name: str
    names: str

    message = "{root} has no savepoint {name!r}; it has: {names}"


@error_class
class BrokenSavepointError(BrokenFileError):
    """The manifest of a savepoint cannot be read. ``meaning``: the name of the savepoint."""

    message = (
        "{path} is broken: {reason}. It lists the files of savepoint {meaning}: put it back from a "
        "copy, or delete the savepoint with savepoints ROOT --expire {meaning}"
    )


@error_class
class ReservedNameError(UsageError):
    """A user's savepoint has a name that the job gives itself."""

    name: str

    message = (
        "savepoint name {name!r}: stops and changes of the job name their savepoints 'stop' and "
        "'before-<number>'; use another name, such as 'my-{name}'"
    )


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
    #: The folder of its files, in the folder with its name. Empty: a savepoint of a release without
    #: versions, whose files are directly in the folder with its name.
    version: str = ""

    @property
    def folder(self) -> str:
        """The folder of its manifest and its other files, relative to the job's root."""
        return f"{folder_of(self.name)}/{self.version}".rstrip("/")

    @property
    def manifest(self) -> str:
        """The file that completes it, relative to the job's root."""
        return f"{self.folder}/{MANIFEST}"

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


def check_new_name(name: str) -> str:
    """Check that a user may give this name to a savepoint, and return it.

    Raises:
        ReservedNameError: a stop or a change would replace it, or it would replace theirs.
        UsageError: the name cannot be the name of a folder.
    """
    if name == STOP or generation_after(name) is not None:
        raise ReservedNameError(name)
    return check_name(name)


def before_name(number: int) -> str:
    """Return the name of the savepoint that is taken before generation ``number`` starts."""
    return f"before-{number:04d}"


def generation_after(name: str) -> int | None:
    """Return the generation whose change took this savepoint; None: no change took it."""
    return int(named[1]) if (named := _BEFORE.fullmatch(name)) else None


def folder_of(name: str) -> str:
    """Return the folder of all versions of a savepoint, relative to the job's root."""
    return f"{FOLDER}/{name}"


def new_version(store: BlobStore, name: str, epoch: int) -> str:
    """Return a version that replaces all others of the name. ``epoch``: of the root's owner."""
    return next_version(store, folder_of(name), epoch)


def complete(store: BlobStore, savepoint: Savepoint) -> None:
    """Write the manifest durably. From now on earlier versions of the savepoint do not count."""
    store.put(savepoint.manifest, json_document(savepoint.to_json()))


def delete_replaced(store: BlobStore, savepoint: Savepoint) -> None:
    """Delete the files of earlier versions of a complete savepoint."""
    _delete(store, savepoint.name, lambda version: version < savepoint.version)


def read_savepoint(store: BlobStore, name: str) -> Savepoint:
    """Return the savepoint of that name.

    Raises:
        NoSavepointError: there is none.
        BrokenFileError: its manifest cannot be read.
    """
    found = _newest(store, check_name(name))
    if found is None:
        names = ", ".join(manifests(store, FOLDER)) or "none"
        raise NoSavepointError(display_uri(store.uri), name, names)
    return found


def _newest(store: BlobStore, name: str) -> Savepoint | None:
    """Return the newest version of a savepoint; None if there is none."""
    for _ in range(READS_MAX):
        newest = manifests(store, folder_of(name))
        if not newest:
            return None
        with contextlib.suppress(FileNotFoundError):  # replaced or expired meanwhile
            return _read(store, name, newest[name])
    where = f"{display_uri(store.uri)}/{folder_of(name)}"
    raise StoreError(where, f"the savepoint was replaced during {READS_MAX} reads; try again")


def _read(store: BlobStore, name: str, path: str) -> Savepoint:
    try:
        return from_json(read_json_document(store.get(path)))
    except (BrokenDocumentError, KeyError, TypeError) as error:
        place = f"{display_uri(store.uri)}/{path}"
        raise BrokenSavepointError(place, str(error), name) from error


def manifests(store: BlobStore, folder: str) -> dict[str, str]:
    """Return the newest manifest of each savepoint in ``folder``, by name."""
    paths = [path for path in store.list(folder) if path.endswith(f"/{MANIFEST}")]
    return {path.split("/")[1]: path for path in sorted(paths, key=_order)}


def _order(path: str) -> tuple[int, str]:
    """Sort the files of savepoints without versions before all versions."""
    return path.count("/"), path


def list_savepoints(store: BlobStore) -> list[Savepoint]:
    """Return all savepoints, the oldest first.

    Another process may expire some meanwhile: these are left out.

    Raises:
        BrokenFileError: a manifest cannot be read.
    """
    newest = [_newest(store, name) for name in manifests(store, FOLDER)]
    savepoints = [savepoint for savepoint in newest if savepoint is not None]
    return sorted(savepoints, key=lambda savepoint: (savepoint.created_us, savepoint.name))


def settings_at(store: BlobStore, savepoint: Savepoint) -> dict[str, Any]:
    """Return the job's settings at a savepoint.

    Raises:
        FileNotFoundError: the savepoint was expired meanwhile.
    """
    return read_json_document(store.get(f"{savepoint.folder}/{JOB}"))


def was_undone(saved: Mapping[str, Any], present: Mapping[str, Any]) -> bool:
    """Whether a rollback undid the generation of a savepoint.

    ``saved``: the job's settings at the savepoint. ``present``: its settings now.
    """
    generation = int(saved.get(GENERATION, 0))
    return any(first <= generation <= last for first, last in present.get(UNDONE, ()))


def list_with_undone(root: JobRoot) -> list[tuple[Savepoint, bool]]:
    """Return all savepoints, the oldest first, and whether a rollback undid each one.

    The job has no rows of an undone savepoint any more: do not start from it unless a user names
    it.

    Raises:
        BrokenFileError: a manifest cannot be read.
    """
    listed, found = list_savepoints(root.store), []
    present = root.settings()  # read last, so it knows the rollbacks of all listed savepoints
    for one in listed:
        with contextlib.suppress(FileNotFoundError):  # expired meanwhile
            found.append((one, was_undone(settings_at(root.store, one), present)))
    return found


def expire(store: BlobStore, name: str) -> str:
    """Delete a savepoint, its manifest first. A running job, or ``gc``, deletes its checkpoints.

    Return why its manifest could not be read, so that its checkpoints are unknown; empty: it could.

    Raises:
        NoSavepointError: there is no such savepoint.
    """
    damage, version = "", ""
    try:
        version = read_savepoint(store, name).version
    except BrokenSavepointError as error:
        folder = error.path.split("/")[-2]
        damage, version = error.reason, folder if VERSION.fullmatch(folder) else ""
    # a later version may be incomplete, because another process writes it
    _delete(store, name, lambda other: other <= version)
    return damage


def _delete(store: BlobStore, name: str, is_obsolete: Callable[[str], bool]) -> None:
    """Delete versions: all manifests first, the newest last, so no old one becomes the newest."""
    paths = [path for path in store.list(folder_of(name)) if is_obsolete(_version_of(path))]
    first = [path for path in sorted(paths, key=_order) if path.endswith(f"/{MANIFEST}")]
    for path in (*first, *(path for path in paths if path not in first)):
        store.delete(path)


def _version_of(path: str) -> str:
    """Return the version of a file; empty for a savepoint without versions."""
    folder = path.split("/")[2]
    return folder if VERSION.fullmatch(folder) else ""


def incomplete(store: BlobStore) -> list[str]:
    """Return the files of savepoints that were never completed, or were replaced.

    The caller owns the root and takes no savepoint.
    """
    kept = tuple(f"{path.rpartition('/')[0]}/" for path in manifests(store, FOLDER).values())
    return [path for path in store.list(FOLDER) if not path.startswith(kept)]


def named_files(store: BlobStore) -> frozenset[str]:
    """Return the files, relative to the job's root, that savepoints name: never delete them.

    Raises:
        BrokenFileError: a manifest cannot be read.
    """
    return frozenset(name for savepoint in list_savepoints(store) for name in savepoint.files)


def from_json(fields: dict[str, Any]) -> Savepoint:
    """Return a savepoint from the fields of its manifest."""
    known = {name: fields[name] for name in Savepoint.__slots__ if name in fields}
    vertices = tuple(
        SavedVertex(**{name: _tuple(value) for name, value in row.items()})
        for row in fields["vertices"]
    )
    rests = tuple(SavedRest(**row) for row in fields["rests"])
    return Savepoint(**{**known, "vertices": vertices, "rests": rests})


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
