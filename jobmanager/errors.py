"""The errors of jobs."""

from __future__ import annotations

from rstream.errors import IntegrityError, OperatingError, UsageError


class JobExistsError(UsageError):
    """The root already holds a job."""

    def __init__(self, root: str, state: str) -> None:
        super().__init__(root, state)
        self.root, self.state = root, state

    def __str__(self) -> str:
        return (
            f"{self.root} already holds a job ({self.state}); "
            f"`jobmanager resume {self.root}` goes on with it, or choose another --root"
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


class OutputTakenError(UsageError):
    """The output path holds the output of another job."""

    def __init__(self, path: str, job: str) -> None:
        super().__init__(path, job)
        self.path, self.job = path, job

    def __str__(self) -> str:
        return f"{self.path} holds the output of job {self.job}; choose another path or remove it"


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
        return f"vertex {self.vertex} cannot restart: {self.reason}"


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
