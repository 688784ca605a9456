"""The verb ``list``: lists the jobs whose roots are in a folder."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.exits import in_one_line
from jobmanager.state.health import health_line, reason_text
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.places import DEFAULT_JOBS_FOLDER
from jobmanager.storage.shown import BROKEN, roots_in, row_of
from rstream.clock import SystemClock


def list_jobs(
    folder: Annotated[str, typer.Argument(help="The folder of the jobs.")] = DEFAULT_JOBS_FOLDER,
    as_json: options.AsJson = False,
) -> None:
    now_us = SystemClock().now_us()
    roots, unread = roots_in(folder)
    rows = [row_of(root, now_us) for root in roots]
    for path, reason in unread.items():
        print(f"jobmanager: {path} cannot be read: {reason}", file=sys.stderr)
    if as_json:
        print(json.dumps({"jobs": rows, "unread": unread}))
        return
    if not rows:
        print(f"no job in or directly below {folder}", file=sys.stderr)
    for row in rows:
        print(f"{row['job']}  {row['state']}  {row['root']}")
        line = health_line(row) if row["state"] in OPEN_STATES and row["health"] != "ok" else ""
        if row["state"] in ("failed", "interrupted") and row["reasons"]:
            line = reason_text(row["reasons"][0])
        if line:
            print(f"  {in_one_line(line)}")
        if row["state"] == BROKEN:
            print(f"jobmanager: {row['error']}", file=sys.stderr)
