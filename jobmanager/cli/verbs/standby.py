"""``standby``: waits, fully loaded, until the driver of a job dies, and then resumes the job."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.exits import EXIT_FAILED
from jobmanager.cli.requests import status_of
from jobmanager.cli.results import SUMMARY, follow, print_result
from jobmanager.cli.view import ProgressView, starting
from jobmanager.driver.running.standby import stand_by


def standby(
    root: options.Root,
    executor: Annotated[
        Literal["spark", "local"] | None, typer.Option(help="Default: as in the job.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Default: as in the job.")] = None,
    hosts: options.Hosts = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    view = ProgressView(starting(executor))

    def print_waiting(status: dict[str, Any]) -> None:
        owner = f"process {status.get('pid', '?')} on {status.get('machine', '?')}"
        print(f"standby: ready; {owner} works on {status['job']}", file=sys.stderr, flush=True)

    job = stand_by(
        root,
        executor=executor,
        master=master,
        hosts=hosts,
        trust=trust,
        on_waiting=print_waiting,
        on_status=view.show,
    )
    if job is None:
        _print_ended(status_of(root), as_json=as_json)
        return
    print("standby: the driver has ended, taking over", file=sys.stderr, flush=True)
    with view:
        view.note(job.status())
        is_interrupted = follow(job)
    print_result(job, as_json=as_json, is_interrupted=is_interrupted)


def _print_ended(status: dict[str, Any], *, as_json: bool) -> None:
    """Print that the job has ended under its own driver."""
    if as_json:
        print(json.dumps({key: status.get(key) for key in SUMMARY}))
    else:
        reason = f" ({status['error']})" if status.get("error") else ""
        text = f"{status['job']}: {status['state']}{reason}; the standby was not needed"
        print(text, file=sys.stderr)
    if status["state"] == "failed":
        raise typer.Exit(EXIT_FAILED)
