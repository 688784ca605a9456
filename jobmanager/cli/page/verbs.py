"""The verbs ``serve`` and ``doctor``."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobmanager.cli import options
from jobmanager.cli.page.answers import ROWS_MAX
from jobmanager.cli.page.bundle import write_bundle
from jobmanager.cli.page.doctor import Finding, findings
from jobmanager.cli.page.looking import Status, case_of, log_of, look_at
from jobmanager.state.held_time import time_of
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.places import DEFAULT_JOBS_FOLDER
from jobmanager.storage.shown import roots_in
from rstream.clock import SystemClock
from rstream.errors import UsageError

if TYPE_CHECKING:
    from rstream.clock import Clock

DEFAULT_PORT = 8470
#: Pause between reading the two statuses of a running job, s.
_LOOK_S = 2.0
EXIT_DEGRADED = 3


def serve(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="DIR | ROOT | FILE.zip", help="A folder of jobs, one job, or a bundle."
        ),
    ] = DEFAULT_JOBS_FOLDER,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0: a free one.")
    ] = DEFAULT_PORT,
    flight_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Serve current tables over Arrow Flight on this port; 0: a free one.",
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(
            help="File with bearer tokens, one per line; requests with one may change jobs."
        ),
    ] = None,
    otlp: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Send metrics and spans to a collector (OTLP, HTTP)."),
    ] = None,
    lineage: Annotated[
        str | None,
        typer.Option(metavar="URL | FILE", help="Send OpenLineage events, or append them."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    try:
        from jobmanager.cli.page.server import serve_page
    except ModuleNotFoundError as error:
        reason = f"{error.name} is not installed: pip install starlette uvicorn prometheus-client"
        raise UsageError(reason) from error
    serve_page(
        folder,
        host=host,
        port=port,
        flight_port=flight_port,
        token_file=token_file,
        as_json=as_json,
        otlp=otlp,
        lineage=lineage,
    )


def doctor(
    folder: Annotated[
        str, typer.Argument(metavar="ROOT | DIR", help="A job, or a folder with jobs.")
    ] = DEFAULT_JOBS_FOLDER,
    as_json: options.AsJson = False,
) -> None:
    roots, _ = roots_in(folder)
    examined = _examined(roots or [folder])
    if as_json:
        print(json.dumps({root: [asdict(f) for f in rows] for root, rows in examined.items()}))
    else:
        for root, rows in examined.items():
            print(f"{root}: {_counted(rows)}")
            for row in rows:
                print(f"  {_line(row)}")
                if row.advice:
                    print(f"    {row.advice}")
    if any(row.gravity == "degraded" for rows in examined.values() for row in rows):
        raise typer.Exit(EXIT_DEGRADED)


def bundle(
    root: options.Root,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE.zip",
            callback=options.new_file,
            help="The file to write; default: NAME.zip.",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=0, max=ROWS_MAX, help="Include this number of rows of each kind.")
    ] = 0,
    as_json: options.AsJson = False,
) -> None:
    path = out or options.new_file(Path(f"{Path(root.rstrip('/')).name}.zip"))
    assert path is not None
    made = write_bundle(root, path, rows=rows)
    line = f"{path}: {made['bytes']:,} bytes; jobmanager serve {path} shows it"
    print(json.dumps(made) if as_json else line)


def _examined(roots: list[str]) -> dict[str, list[Finding]]:
    clock = SystemClock()
    before = {root: look_at(root, clock.now_us(), must_exist=len(roots) == 1) for root in roots}
    if any(status["state"] in OPEN_STATES for status in before.values()):
        time.sleep(_LOOK_S)
    return {root: _of_root(root, status, clock) for root, status in before.items()}


def _of_root(root: str, before: Status, clock: Clock) -> list[Finding]:
    status = look_at(root, clock.now_us())
    # Take the time after the status was read. Otherwise a status that was just written would be
    # from the future.
    return findings(case_of(root, before, status, clock.now_us(), partial(log_of, root)))


def _counted(rows: list[Finding]) -> str:
    if not rows:
        return "healthy"
    return f"{len(rows)} finding{'s' if len(rows) > 1 else ''}"


def _line(row: Finding) -> str:
    since = f" (since {time_of(row.since_us)} UTC)" if row.since_us else ""
    return f"{row.gravity}: {row.what}{since}"
