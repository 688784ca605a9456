"""``jobmanager intake``: serves logs to which producers push rows."""

from __future__ import annotations

from typing import Annotated

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.intake.config import load_config
from jobmanager.intake.errors import IntakeConfigError
from planner.durations import positive_duration_us

DEFAULT_PORT = 8460


def intake(
    root_or_config: Annotated[
        str,
        typer.Argument(
            metavar="ROOT | FILE.toml", help="A folder of logs, or a file that declares streams."
        ),
    ],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0: a free one.")
    ] = DEFAULT_PORT,
    flight_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Also accept Arrow Flight on this port; 0: a free one."
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(
            help="File with bearer tokens, one per line; default: STREAMSCOPE_INTAKE_TOKEN."
        ),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Delete rows older than this, unless a job still reads them.",
        ),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Serve other machines without TLS, behind a proxy.")
    ] = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    config = load_config(root_or_config)
    if retention is not None:
        config = config.with_retention(positive_duration_us(retention, what="retention"))
    try:
        from jobmanager.intake.server import serve
    except ModuleNotFoundError as error:
        reason = f"{error.name} is not installed: pip install starlette uvicorn"
        raise IntakeConfigError("jobmanager intake", reason) from error
    serve(
        config,
        host=host,
        port=port,
        flight_port=flight_port,
        token_file=token_file,
        is_plain=plain,
        as_json=as_json,
    )
