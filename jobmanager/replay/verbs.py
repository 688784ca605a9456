"""The verbs that recompute what a job did: ``replay``."""

from __future__ import annotations

import bdb
import json
from typing import Annotated

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.replay import replaying
from jobmanager.storage.query_file import load_query

#: The output differs from the recorded one; the user has left the debugger.
EXIT_DIFFERENT, EXIT_INTERRUPTED = 1, 130

From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Event time, as 2026-03-01T10:00:00Z."),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Event time.")]


def replay(
    root: options.Root,
    vertex: Annotated[str, typer.Argument(metavar="VERTEX", help="Such as s02-join.1.")],
    from_: From = None,
    until: Until = None,
    break_: Annotated[
        str | None,
        typer.Option(
            "--break", metavar="EXPR", help="SQL: stop in pdb before steps with such a row."
        ),
    ] = None,
    code: Annotated[
        str | None, typer.Option(metavar="FILE.py[:NAME]", help="Run this query instead.")
    ] = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Run a vertex of a job again in this process and compare its output with the recorded one."""
    query = None if code is None else load_query(code)
    try:
        found = replaying.replay(
            root, vertex, from_=from_, until=until, break_=break_, code=query, trust=trust
        )
    except bdb.BdbQuit:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    print(json.dumps(found.to_json()) if as_json else found)
    if not found.is_equal:
        raise typer.Exit(EXIT_DIFFERENT)
