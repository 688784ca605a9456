"""The verb ``list``: the jobs whose roots lie in a folder."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.view import in_one_line
from jobmanager.driver.running import run as jobs
from jobmanager.errors import CannotListError
from jobmanager.state.health import health_line
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.root import JOB
from jobmanager.storage.shown import BROKEN, row_of
from rstream.clock import SystemClock

_LOCAL = "file://"


def list_jobs(
    folder: Annotated[str, typer.Argument(help="Where to look.")] = jobs.DEFAULT_JOBS_FOLDER,
    as_json: options.AsJson = False,
) -> None:
    """List the jobs whose roots lie in a local folder, or the job whose root it is."""
    now_us = SystemClock().now_us()
    roots, unread = _roots_in(folder)
    rows = [row_of(root, now_us) for root in roots]
    for path, reason in unread.items():
        print(f"jobmanager: {path} cannot be read: {reason}", file=sys.stderr)
    if as_json:
        print(json.dumps({"jobs": rows, "unread": unread}))
        return
    if not rows:
        print(f"no job lies in or directly below {folder}", file=sys.stderr)
    for row in rows:
        print(f"{row['job']}  {row['state']}  {row['root']}")
        line = health_line(row) if row["state"] in OPEN_STATES and row["health"] != "ok" else ""
        if line:
            print(f"  {in_one_line(line)}")
        if row["state"] == BROKEN:
            print(f"jobmanager: {row['error']}", file=sys.stderr)


def _roots_in(folder: str) -> tuple[list[str], dict[str, str]]:
    """The roots, and the folders that may be some, by why they cannot be looked into.

    Raises:
        CannotListError: the folder itself cannot be, or is no local one.
    """
    folder = folder.removeprefix(_LOCAL)
    if "://" in folder:
        raise CannotListError(folder, "it is no local folder; jobmanager status ROOT shows one job")
    roots, unread, here = [], {}, Path(folder)
    try:
        folders = [here, *sorted(here / entry.name for entry in os.scandir(here) if _may_be(entry))]
    except FileNotFoundError:
        return [], {}
    except OSError as error:
        raise CannotListError(folder, error.strerror or str(error)) from error
    for path in folders:
        try:
            (path / JOB).stat()
            roots.append(str(path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            unread[str(path)] = error.strerror or str(error)
    return roots, unread


def _may_be(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder, or cannot be asked what it is."""
    try:
        return entry.is_dir()
    except OSError:
        return True
