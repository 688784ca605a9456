"""The verb ``status``."""

from __future__ import annotations

import json

import typer
from rich.console import Console

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.exits import EXIT_DEGRADED
from jobmanager.cli.view import print_lost_rows, state_line, vertex_table
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.state.state_size import key_lines, state_lines
from jobmanager.storage.shown import status as status_of


def status(root: options.Root, as_json: options.AsJson = False) -> None:
    current = status_of(root)
    if as_json:
        print(json.dumps(current))
    elif current.get("vertices"):
        console = Console()
        console.print(vertex_table(current, width=console.width, has_health=False))
        for line in state_lines(current):
            print(line)
        for line in key_lines(current):
            print(line)
        print_lost_rows(current)
        for note in current.get("notes", ()):
            print(f"note: {note}")
    else:
        print(state_line(current))
    if current["health"] == "degraded" and current["state"] in OPEN_STATES:
        raise typer.Exit(EXIT_DEGRADED)
