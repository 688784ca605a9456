"""Options that several verbs share; what they mean is told in :mod:`jobmanager.options`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from planner.recovery import REPLICAS_MAX

Recovery = Annotated[
    Literal["checkpoint", "replay", "replication"] | None,
    typer.Option(help="How every vertex is recovered; by default as the query says."),
]
Replicas = Annotated[
    int | None,
    typer.Option(min=1, max=REPLICAS_MAX, help="Instances of every vertex, each on its own host."),
]
CheckpointInterval = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Such as 1s: between two checkpoints.")
]
CheckpointBytes = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Such as 64MB: a checkpoint after so much input.")
]
Retain = Annotated[
    str | None,
    typer.Option(metavar="DURATION|all", help="Keep what recovery no longer needs for so long."),
]
Verify = Annotated[
    bool | None, typer.Option("--verify", help="Compare all that is written twice; slower.")
]
