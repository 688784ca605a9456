"""The verb ``show``: the first rows of a job's answer, for people."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.delivery.answer import Answer
from jobmanager.driver.running.rows import ROWS, ROWS_MAX, print_rows
from jobmanager.errors import NoJobError
from jobmanager.storage.root import JobRoot, display_uri
from rvertex.sinks.json_text import json_text, plain_rows

Rows = Annotated[int, typer.Option("--rows", "-n", min=1, max=ROWS_MAX, help="At most so many.")]


def show(
    root: options.Root,
    rows: Rows = ROWS,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the first rows of a job's answer, in order of time, while it runs or after it."""
    plan = JobRoot(root, trust=trust).read_plan()
    if plan is None:
        raise NoJobError(display_uri(root))
    found = Answer(plan).first(rows + 1)
    shown = found.slice(0, rows)
    if as_json:
        for row in plain_rows(shown):
            print(json_text(row))
        return
    print_rows(shown)
    if found.num_rows > rows:
        print(
            f"There are more: --rows, or the files of {display_uri(plan.output)}", file=sys.stderr
        )
