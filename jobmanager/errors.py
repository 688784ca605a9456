"""The errors of jobs."""

from __future__ import annotations

from rstream.errors import IntegrityError, OperatingError, UsageError


class LateRowsWarning(UserWarning):
    """Rows of a source were late, so that they are not in the answer as they were."""


class JobExistsError(UsageError):
    """The root already holds a job. ``note``: what else is to be known of it, or empty."""

    def __init__(self, root: str, state: str, note: str = "") -> None:
        super().__init__(root, state, note)
        self.root, self.state, self.note = root, state, note

    def __str__(self) -> str:
        more = f" ({self.note})" if self.note else ""
        if self.state in ("starting", "running"):
            return f"{self.root} already holds a job ({self.state}); choose another --root"
        if self.state == "finished":
            told = "its output stands; choose another --root, or delete that folder first"
            return f"{self.root} already holds a job (finished); {told}{more}"
        return (
            f"{self.root} already holds a job ({self.state}); "
            f"`jobmanager resume {self.root}` goes on with it, or choose another --root{more}"
        )


class JobRunningError(UsageError):
    """Another job manager is alive on this root."""

    def __init__(self, root: str, owner: str) -> None:
        super().__init__(root, owner)
        self.root, self.owner = root, owner

    def __str__(self) -> str:
        return f"a job manager is already running on {self.root} ({self.owner})"


class NoJobError(UsageError):
    """The root holds no job."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.root = root

    def __str__(self) -> str:
        return f"{self.root} holds no job"


class JobFormatError(UsageError):
    """Another version began the job, and stored it otherwise."""

    def __init__(self, root: str, found: int, expected: int) -> None:
        super().__init__(root, found, expected)
        self.root, self.found, self.expected = root, found, expected

    def __str__(self) -> str:
        return (
            f"{self.root} holds a job of another version (its format is {self.found}, this version "
            f"has {self.expected}); resume it with the version that began it, or run the query "
            "anew with another --root"
        )


class BrokenFileError(IntegrityError):
    """A file of a root that the job cannot go on without is gone, or not what was written."""

    def __init__(self, path: str, reason: str, meaning: str) -> None:
        super().__init__(path, reason, meaning)
        self.path, self.reason, self.meaning = path, reason, meaning

    def __str__(self) -> str:
        return (
            f"{self.path} is broken: {self.reason}. It holds {self.meaning}, and the job cannot go "
            "on without it: put the file back from a copy, or run the query anew with another "
            "--root"
        )


class UntrustedRootError(UsageError):
    """Somebody else may have written the pickles of a root, which are programs."""

    def __init__(self, root: str, reason: str) -> None:
        super().__init__(root, reason)
        self.root, self.reason = root, reason

    def __str__(self) -> str:
        return (
            f"{self.root} is not trusted: {self.reason}. Its files hold code that would run as "
            "you; if you trust everybody who may have written them, say --trust (trust=True)"
        )


class InputsChangedError(IntegrityError):
    """Input files are not those that the job was planned with. ``files`` names them."""

    def __init__(self, files: str) -> None:
        super().__init__(files)
        self.files = files

    def __str__(self) -> str:
        return (
            f"input files have changed since the job was planned: {self.files}; put them back as "
            "they were, with their times (cp -p), or run the query anew with another root; if only "
            "rows were mended that the job could not read, resume with --accept-changed-inputs"
        )


class OutputTakenError(UsageError):
    """The output path holds the output of another job, which may still be writing it.

    An empty ``job``: it holds files that no job has claimed.
    """

    def __init__(self, path: str, job: str) -> None:
        super().__init__(path, job)
        self.path, self.job = path, job

    def __str__(self) -> str:
        if not self.job:
            return (
                f"{self.path}: the folder is not empty, and no job has claimed it; choose another"
            )
        return f"{self.path} holds the output of job {self.job}; choose another path"


class BrokenClaimError(UsageError):
    """The file that says whose output a folder holds is broken or gone."""

    def __init__(self, path: str, reason: str, claim: str) -> None:
        super().__init__(path, reason, claim)
        self.path, self.reason, self.claim = path, reason, claim

    def __str__(self) -> str:
        return (
            f"{self.path}, which says whose output this is, cannot be read: {self.reason}. If no "
            f"other job has written there, put this into it: {self.claim}"
        )


class QueryFileError(UsageError):
    """A query file could not be loaded."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class JobFailedError(OperatingError):
    """The job ended in state ``failed``; it can be resumed."""

    def __init__(self, job: str, reason: str) -> None:
        super().__init__(job, reason)
        self.job, self.reason = job, reason

    def __str__(self) -> str:
        return f"job {self.job} failed: {self.reason}"


def as_job_failure(job: str, crash: BaseException) -> BaseException:
    """What ended a job manager, as its caller must take it: what the outside did can be resumed."""
    if isinstance(crash, OperatingError) and not isinstance(crash, JobFailedError):
        return JobFailedError(job, f"{crash} (jobmanager resume goes on with it)")
    return crash


class NotFinishedError(UsageError):
    """Only the output of a finished job is whole."""

    def __init__(self, root: str, state: str) -> None:
        super().__init__(root, state)
        self.root, self.state = root, state

    def __str__(self) -> str:
        return f"{self.root} has not finished ({self.state}), so its output is not whole yet"


class DamagedOutputError(IntegrityError):
    """Files of a finished job's output are not what was written."""

    def __init__(self, root: str, damages: str) -> None:
        super().__init__(root, damages)
        self.root, self.damages = root, damages

    def __str__(self) -> str:
        return (
            f"the output of {self.root} is damaged: {self.damages}; "
            f"`jobmanager resume {self.root}` computes it again if that can be"
        )


class NotDeterministicError(IntegrityError):
    """Two snapshots of one vertex are incomparable."""

    def __init__(self, vertex: str, one: str, other: str) -> None:
        super().__init__(vertex, one, other)
        self.vertex, self.one, self.other = vertex, one, other

    def __str__(self) -> str:
        return (
            f"vertex {self.vertex} is not deterministic: its snapshots {self.one} and "
            f"{self.other} cannot both be on one history"
        )


class NoCheckpointError(IntegrityError):
    """Checkpoints were lost or damaged, and none is left from which a vertex could restart."""

    def __init__(self, vertex: str, reason: str) -> None:
        super().__init__(vertex, reason)
        self.vertex, self.reason = vertex, reason

    def __str__(self) -> str:
        return (
            f"vertex {self.vertex} cannot restart: {self.reason}, and its inputs do not reach back "
            "to their beginnings any more; run the query anew with another --root"
        )


class CannotDrainError(UsageError):
    """A host cannot be emptied."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(host, reason)
        self.host, self.reason = host, reason

    def __str__(self) -> str:
        return f"host {self.host} cannot be drained: {self.reason}"


class NotRunningError(UsageError):
    """There is a job, but it does not run."""

    def __init__(self, root: str, state: str) -> None:
        super().__init__(root, state)
        self.root, self.state = root, state

    def __str__(self) -> str:
        return f"the job at {self.root} is not running, it is {self.state}"
