"""The verb ``logs``: prints the history of a job from its log, in sentences."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.view import reason_lines
from jobmanager.errors import NoSuchVertexError
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.state.sentences import sentence
from jobmanager.storage.notice_log import read_notices
from jobmanager.storage.root import JobRoot
from jobmanager.storage.shown import shown_status
from rstream.clock import SystemClock
from rvertex import messages as host_notices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.state.messages import Notice

#: Pause between two reads of the log of a running job, s.
LOOK_EVERY_S = 0.5


def logs(
    root: options.Root,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until the job has ended.")
    ] = False,
    vertex: Annotated[str, typer.Option(help="Show only this vertex or stage.")] = "",
    as_json: options.AsJson = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Show stack traces of failures, and long lines in full."),
    ] = False,
) -> None:
    job_root = JobRoot(root)
    job_root.readable_settings()
    if vertex:
        _check_vertex(job_root, root, vertex)
    shown = last_us = 0
    while True:  # ends with the job, or at once
        is_open = shown_status(job_root, SystemClock().now_us())["state"] in OPEN_STATES
        notices = read_notices(job_root.store)
        if len(notices) < shown:  # the log has been compacted
            shown = sum(at_us <= last_us for at_us, _ in notices)
        for at_us, notice in notices[shown:]:
            last_us = at_us
            for line in _lines(notice, vertex, verbose=verbose):
                _print(at_us, notice, line, as_json=as_json)
        shown = len(notices)
        if not (follow and is_open):
            break
        time.sleep(LOOK_EVERY_S)
    status = shown_status(job_root, SystemClock().now_us())
    if not as_json and not vertex:
        error = status.get("error", "")
        print(f"the job is {status['state']}" + (f": {error}" if error else ""))
        for line in [*reason_lines(status), *(f"note: {n}" for n in status.get("notes", ()))]:
            print(line)


def _check_vertex(job_root: JobRoot, root: str, vertex: str) -> None:
    rows = shown_status(job_root, SystemClock().now_us()).get("vertices", [])
    names = [row["vertex"] for row in rows]
    if rows and not any(_is_of(name, vertex) for name in names):
        raise NoSuchVertexError(root, vertex, ", ".join(names))


def _print(at_us: int, notice: Notice, line: str, *, as_json: bool) -> None:
    seconds, rest_us = divmod(at_us, 1_000_000)
    at = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(seconds))}.{rest_us // 1000:03d}"
    if as_json:
        row = {"time": f"{at}Z", "notice": type(notice).__name__, "text": line}
        print(json.dumps(row | {"vertex": getattr(notice, "vertex", "")}), flush=True)
    else:
        print(f"{at}  {line}", flush=True)


def _is_of(name: str, wanted: str) -> bool:
    return name == wanted or name.startswith(f"{wanted}.")


def _lines(notice: Notice, wanted: str, *, verbose: bool) -> Iterator[str]:
    """Return the sentence for a notice; empty for internal bookkeeping."""
    if wanted and not _is_of(getattr(notice, "vertex", ""), wanted):
        return
    line = sentence(notice)
    if line:
        yield line
    if verbose and isinstance(notice, host_notices.VertexFailed) and notice.detail:
        yield from notice.detail.rstrip().splitlines()
