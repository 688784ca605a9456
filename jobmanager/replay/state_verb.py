"""The verb ``state``: prints the states of a job's stages."""

from __future__ import annotations

from typing import Annotated

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.delivery.answer import print_rows
from jobmanager.replay.state_at import query_state, read_state
from rstream.items.json_text import json_text, plain_rows


def state(
    root: options.Root,
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="A stage, or one vertex of it.")],
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", help="The event time; default: the newest checkpoint."
        ),
    ] = None,
    sql: Annotated[str | None, typer.Option(help="A query over the tables (needs DuckDB).")] = None,
    rows: Annotated[
        int, typer.Option("--rows", "-n", min=1, help="The maximum number of rows of each table.")
    ] = 10,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    tables = read_state(root, stage, at=at, trust=trust)
    if sql is not None:
        tables = {"": query_state(tables, sql)}
    for name, table in tables.items():
        shown = table.slice(0, rows)
        if as_json:
            for row in plain_rows(shown):
                print(json_text({"_table": name, **row} if name else row))
            continue
        if name:
            print(f"{name}: {table.num_rows:,} rows")
        print_rows(shown)
