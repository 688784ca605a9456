"""The verbs ``show`` and ``table``: print rows of a job's result."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.delivery.answer import ROWS, ROWS_MAX, Answer, print_rows, read_table
from jobmanager.driver.lost_rows import lost_lines
from jobmanager.errors import NoJobError
from jobmanager.storage.root import JobRoot, display_uri
from jobmanager.storage.shown import shown_status
from rstream.clock import SystemClock
from rstream.errors import StreamEngineError
from rstream.items.json_text import json_text, plain_rows

Rows = Annotated[
    int, typer.Option("--rows", "-n", min=1, max=ROWS_MAX, help="The maximum number of rows.")
]


def show(
    root: options.Root,
    rows: Rows = ROWS,
    output: options.OutputName = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    job_root = JobRoot(root, trust=trust)
    plan = job_root.read_plan()
    if plan is None:
        raise NoJobError(display_uri(root))
    plan = plan.output_named(output)
    answer, losses = Answer(plan), _lost(job_root)
    if not as_json:
        more = f"There are more: --rows, or the files of {display_uri(plan.output)}"
        answer.show(rows, losses, more)
        return
    for row in plain_rows(answer.first(rows)):
        print(json_text(row))
    for line in losses:
        print(line, file=sys.stderr)


At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="Show the rows valid at this time, such as 2026-03-01T10:00:00Z.",
    ),
]


def table(
    root: options.Root,
    at: At = None,
    rows: Rows = ROWS_MAX,
    output: options.OutputName = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    stored = read_table(root, at, output=output, trust=trust)
    if as_json:
        for row in plain_rows(stored.slice(0, rows)):
            print(json_text(row))
        return
    print_rows(stored.slice(0, rows))
    if stored.num_rows > rows:
        print(f"There are {stored.num_rows:,} rows: --rows", file=sys.stderr)


def _lost(root: JobRoot) -> list[str]:
    """Return lines on lost or changed rows of the sources; empty if the status is unreadable."""
    with contextlib.suppress(StreamEngineError):
        return lost_lines(shown_status(root, SystemClock().now_us()))
    return []
