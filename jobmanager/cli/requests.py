"""The verbs that send requests to a running job: cancel, stop, drain."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.driver.input_positions import check_can_finish
from jobmanager.errors import (
    CannotDrainError,
    JobFailedError,
    NoJobError,
    NoJobManagerError,
    NotRunningError,
    StillStoppingError,
)
from jobmanager.state.held_time import time_of
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.root import CANCEL, DRAIN, FINISH, RETRY, STOP, JobRoot
from jobmanager.storage.shown import INTERRUPTED, shown_status
from rstream.clock import SystemClock
from rstream.errors import UsageError

#: Seconds between two reads of the status of a job that stops.
ASK_EVERY_S = 0.2
#: The requests to a running job, and their names in errors.
_REQUESTS = {
    CANCEL: CANCEL,
    STOP: STOP,
    FINISH: FINISH,
    RETRY: "retry the deliveries of",
    "drain": "drain a host of",
}


def cancel(root: options.Root, as_json: options.AsJson = False) -> None:
    answer = ask(root, CANCEL)
    print(json.dumps({"job": _job(root), "cancel": answer}) if as_json else answer)


def stop(
    root: options.Root,
    finish: Annotated[
        bool, typer.Option("--finish", help="End the sources, so the job finishes.")
    ] = False,
    wait_s: Annotated[
        float | None,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, help="Wait until it has stopped, at most this long."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    answer = ask(root, FINISH if finish else STOP)
    if wait_s is not None:
        answer = _ended(root, wait_s)
    print(json.dumps({"job": _job(root), "stop": answer}) if as_json else answer)


def drain(
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="The name of the host, as status shows it.")
    ],
    root: options.Root,
    as_json: options.AsJson = False,
) -> None:
    try:
        answer = ask(root, "drain", host)
    except NoJobError:
        if JobRoot(host).read_status():
            turned = f"it is a job's folder; the host comes first: drain {root} {host}"
            raise CannotDrainError(host, turned) from None
        raise
    print(json.dumps({"job": _job(root), "drain": host}) if as_json else answer)


def ask(root: str, what: str, host: str = "") -> str:
    """Send a request to a running job: cancel, stop, finish, retry, or drain of a ``host``.

    Returns ``requested``, or ``stopped`` if a job to stop has already stopped.

    Raises:
        UsageError: there is no such request.
        NoJobManagerError, NotRunningError: no job manager works on the job.
        CannotDrainError, CannotFinishError: the job does not support it.
    """
    if what not in _REQUESTS:
        raise UsageError(f"{what!r} is not a request; choose one of {', '.join(_REQUESTS)}")
    if what == STOP and status_of(root)["state"] == "stopped":
        return "stopped"
    current = _running_status(root, _REQUESTS[what])
    if what == "drain":
        _check_can_drain(current, host)
        JobRoot(root).request(DRAIN + host)
        return "requested"
    if what == FINISH:
        check_can_finish(JobRoot(root).read_plan(), root)
    JobRoot(root).request(what)
    return "requested"


def _ended(root: str, wait_s: float) -> str:
    """Wait until the job has ended. Return its state.

    Raises:
        NoJobManagerError: the job manager died meanwhile.
        JobFailedError: the job failed meanwhile.
        StillStoppingError: the job has not ended after ``wait_s``.
    """
    until_s = time.monotonic() + wait_s
    while (state := (status := status_of(root))["state"]) in OPEN_STATES:
        if time.monotonic() >= until_s:
            raise StillStoppingError(root, wait_s)
        time.sleep(ASK_EVERY_S)
    if state == INTERRUPTED:
        _running_status(root, "stop")
    if state == "failed":
        raise JobFailedError(str(status["job"]), str(status["error"]))
    return str(state)


def _check_can_drain(status: dict[str, Any], host: str) -> None:
    reasons = {row["host"]: row["cannot_drain"] for row in status.get("hosts", [])}
    if reasons.get(host, "?"):
        unknown = f"the job has no such host, its hosts are {', '.join(reasons)}"
        raise CannotDrainError(host, reasons.get(host, unknown))


def _job(root: str) -> str:
    return str(status_of(root)["job"])


def status_of(root: str) -> dict[str, Any]:
    """Return the status of a job that may run in any process."""
    return shown_status(JobRoot(root), SystemClock().now_us())


def _running_status(root: str, what: str) -> dict[str, Any]:
    """Return the status of a running job. ``what``: the request, for messages.

    Raises:
        NoJobManagerError: the job manager has died.
        NotRunningError: the job has ended or has not started.
    """
    status = status_of(root)
    if status["state"] == INTERRUPTED:
        raise NoJobManagerError(root, f"{time_of(status['written_us'])} UTC", what)
    if status["state"] not in OPEN_STATES:
        can_go_on = status["state"] in ("stopped", "cancelled", "failed")
        advice = f"; jobmanager resume {root} continues it" if can_go_on else ""
        raise NotRunningError(root, status["state"], advice)
    return status
