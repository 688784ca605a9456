"""The verb ``status``."""

from __future__ import annotations

import json

import typer
from rich.console import Console

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.exits import EXIT_DEGRADED
from jobmanager.cli.view import print_lost_rows, state_line, vertex_table
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.state.state_size import state_lines
from jobmanager.storage.shown import status as status_of


def status(root: options.Root, as_json: options.AsJson = False) -> None:
    found = status_of(root)
    if as_json:
        print(json.dumps(found))
    elif found.get("vertices"):
        console = Console()
        console.print(vertex_table(found, width=console.width))
        for line in state_lines(found):
            print(line)
        print_lost_rows(found)
    else:
        print(state_line(found))
    if found["health"] == "degraded" and found["state"] in OPEN_STATES:
        raise typer.Exit(EXIT_DEGRADED)
