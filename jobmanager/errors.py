"""The errors of jobs."""

from __future__ import annotations

from rstream.errors import IntegrityError, OperatingError, UsageError, error_class


class LateRowsWarning(UserWarning):
    """Rows of a source were late: they are missing in the result, or have other times there."""


class BadRowsWarning(UserWarning):
    """Rows of a source could not be read as events: they are missing in the result."""


@error_class
class JobExistsError(UsageError):
    """The root already holds a job. ``note``: a further sentence about that job, or empty."""

    root: str
    state: str
    note: str = ""

    def __str__(self) -> str:
        more = f" ({self.note})" if self.note else ""
        if self.state in ("starting", "running", "stopping"):
            return f"{self.root} already holds a job ({self.state}); choose another --root"
        if self.state == "finished":
            advice = "its output is kept; choose another --root, or delete that folder first"
            return f"{self.root} already holds a job (finished); {advice}{more}"
        return (
            f"{self.root} already holds a job ({self.state}); "
            f"`jobmanager resume {self.root}` continues it, or choose another --root{more}"
        )


@error_class
class JobRunningError(UsageError):
    """Another job manager is alive on this root."""

    root: str
    owner: str

    message = "a job manager is already running on {root} ({owner})"


@error_class
class NoJobError(UsageError):
    """The root holds no job."""

    root: str

    message = "{root} is not the folder of a job"


@error_class
class BeginningDeletedError(UsageError):
    """The current rows need the whole output, and retention has deleted a part of it."""

    stream: str
    first_seq: int

    message = (
        "output {stream}: retention keeps it from seq {first_seq} on, so rows that are "
        "still valid may be missing; read a later time or the destination, or run the job "
        "without retention="
    )


@error_class
class CannotListError(UsageError):
    """The folder of jobs cannot be read."""

    folder: str
    reason: str

    message = "cannot read the jobs folder {folder}: {reason}"


@error_class
class NoDeliveryError(UsageError):
    """There is nothing to deliver: the job has not begun, or no destination is named."""

    root: str

    message = (
        "{root}: nothing to deliver: the job has not begun, or its query names no destination; "
        "--to names one"
    )


@error_class
class JobFormatError(UsageError):
    """Another version of StreamScope stored the job, in a format that this one cannot read."""

    root: str
    found: int
    oldest: int
    newest: int

    message = (
        "{root} holds a job of another version (its format is {found}, this version reads "
        "{oldest} to {newest}); resume it with the version that started it, or run the "
        "query again with another --root"
    )


@error_class
class BrokenFileError(IntegrityError):
    """A file of a root that the job needs is missing, or its bytes have changed."""

    path: str
    reason: str
    meaning: str

    message = (
        "{path} is broken: {reason}. It holds {meaning}, and the job cannot "
        "continue without it: put the file back from a copy, or run the query again with another "
        "--root"
    )


@error_class
class UntrustedRootError(UsageError):
    """Another user may have written the pickles of a root, which are programs."""

    root: str
    reason: str

    message = (
        "{root} is not trusted: {reason}. Its files hold code that would run as "
        "you; if you trust all users who may have written them, pass --trust (trust=True)"
    )


@error_class
class InputsChangedError(IntegrityError):
    """Input files are not those that the job was planned with. ``files`` names them."""

    files: str

    message = (
        "input files have changed since the job was planned: {files}; put them back as "
        "they were, with their times (cp -p), or run the query again with another root; if only "
        "rows were mended that the job could not read, resume with --accept-changed-inputs"
    )


@error_class
class OutputTakenError(UsageError):
    """The output path holds the output of another job, which may still be writing it.

    An empty ``job``: the path holds files that no job has claimed.
    """

    path: str
    job: str

    def __str__(self) -> str:
        if not self.job:
            return (
                f"{self.path}: the folder is not empty, and no job has claimed it; choose another"
            )
        return f"{self.path} holds the output of job {self.job}; choose another path"


@error_class
class BrokenClaimError(UsageError):
    """The file that names the job of an output folder is broken or missing."""

    path: str
    reason: str
    claim: str

    message = (
        "{path}, which names the owner of this output, cannot be read: {reason}. If no "
        "other job has written there, put this into it: {claim}"
    )


@error_class
class QueryFileError(UsageError):
    """A query file could not be loaded."""

    path: str
    reason: str

    message = "{path}: {reason}"


@error_class
class JobFailedError(OperatingError):
    """The job ended in state ``failed``; it can be resumed."""

    job: str
    reason: str

    message = "job {job} failed: {reason}"


def as_job_failure(job: str, crash: BaseException) -> BaseException:
    """Return the exception to raise for ``crash``, which ended a job manager.

    An :class:`OperatingError` becomes a :class:`JobFailedError`, because the job can be resumed.
    """
    if isinstance(crash, OperatingError) and not isinstance(crash, JobFailedError):
        return JobFailedError(job, f"{crash} (jobmanager resume continues it)")
    return crash


@error_class
class NotFinishedError(UsageError):
    """The job has not finished, so its output is not complete."""

    root: str
    state: str

    message = "{root} has not finished ({state}), so its output is not complete yet"


@error_class
class DamagedOutputError(IntegrityError):
    """Files of a finished job's output are missing, or their bytes have changed."""

    root: str
    damages: str

    message = (
        "the output of {root} is damaged: {damages}; `jobmanager resume {root}` "
        "recomputes it if possible"
    )


@error_class
class NotDeterministicError(IntegrityError):
    """Two checkpoints of one vertex contradict each other, so it is not deterministic."""

    vertex: str
    one: str
    other: str

    message = (
        "vertex {vertex} is not deterministic: its snapshots {one} and {other} contradict "
        "each other"
    )


@error_class
class NoCheckpointError(IntegrityError):
    """Checkpoints were lost or damaged, and none is left from which a vertex could restart."""

    vertex: str
    reason: str

    message = (
        "vertex {vertex} cannot restart: {reason}, and the first rows of its inputs are "
        "no longer stored; run the query again with another --root"
    )


@error_class
class CannotDrainError(UsageError):
    """A host cannot be drained, because its vertices cannot move to another host."""

    host: str
    reason: str

    message = "host {host} cannot be drained: {reason}"


@error_class
class StillStoppingError(OperatingError):
    """A job did not stop within the time that a user wanted to wait."""

    root: str
    wait_s: float

    message = (
        "{root}: the job has not stopped within {wait_s:g} s; it stops later: see jobmanager logs"
    )


@error_class
class NotRunningError(UsageError):
    """The root holds a job that is not running."""

    root: str
    state: str
    advice: str

    message = "the job at {root} is not running, it is {state}{advice}"


@error_class
class NoJobManagerError(UsageError):
    """A request reached a job whose job manager has died. ``what``: the request."""

    root: str
    since: str
    what: str

    message = (
        "cannot {what} {root}: no job manager is running since {since}. Its state is kept: "
        "jobmanager resume {root} continues it"
    )


@error_class
class CannotFinishError(UsageError):
    """The job has a source that no request can end."""

    root: str
    reason: str

    message = "the job at {root} cannot finish: {reason}; stop it without --finish"


@error_class
class CannotPublishError(UsageError):
    """A complete result cannot be published into a folder."""

    path: str
    reason: str

    message = "to_parquet({path!r}): the output cannot be written there: {reason}"


@error_class
class NoSuchVertexError(UsageError):
    """The job has no such vertex."""

    root: str
    vertex: str
    vertices: str

    message = "{root} has no vertex {vertex}; it has {vertices}"


@error_class
class NotContinuedError(UsageError):
    """``run(continue_=True)`` on a job that did not start with it."""

    root: str

    message = (
        "{root} holds a job that was started without --continue, so it reads only the "
        "files of its start. Start a job with --continue and another root"
    )


@error_class
class DaysOverError(UsageError):
    """A job that was continued day by day has been finished."""

    root: str

    message = (
        "{root} holds a job that has finished: its windows were closed, so no rows can follow. Run "
        "the query over all files with another root"
    )


@error_class
class TypesChangedError(UsageError):
    """The types of columns that a continued job reads have changed since its start."""

    root: str
    path: str
    column: str
    now: str
    then: str

    message = (
        "{root}: the first file of {path} differs from that of the first day: its column "
        "{column!r} was {then} and is now {now}. The query is the same; set "
        'schema={{"{column}": "{then}"}} to read it as on the first day (a file with a '
        "header alone, or with other values, may have become the first)"
    )


@error_class
class QueryChangedError(UsageError):
    """The query of a continued job differs from the one that it started with."""

    root: str
    change: str

    message = (
        "{root}: the query has changed since the job began: {change}. The job's state "
        "belongs to the old query: leave out the query to continue with the old one, or "
        "run the new one over all files with another root"
    )
