"""Options that several verbs share; :mod:`jobmanager.options` gives their meaning."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated, Any, Literal

import typer

from planner.cost.options import PARALLELISM_MAX
from planner.physical.recovery import REPLICAS_MAX


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"streamscope {metadata.version('streamscope')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
]
Target = Annotated[
    str, typer.Argument(metavar="FILE.py[:NAME] | FILE.sql", help="Where the query is.")
]
DeployTarget = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py[:NAME] | FILE.sql", help="The new query; with --rollback the root."
    ),
]
TargetOrRoot = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE.py[:NAME] | FILE.sql", help="Where the query is; --continue can do without."
    ),
]
ContinueRoot = Annotated[
    str | None,
    typer.Option(
        "--continue",
        metavar="ROOT",
        help="Day by day: read the files added since the last run of ROOT and keep its state.",
    ),
]
FinishDays = Annotated[
    bool, typer.Option("--finish", help="With --continue: the last day; open windows close.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="What ${NAME} is in the paths of FILE.sql."),
]
DialectOption = Annotated[
    Literal["flink", "spark", "postgres", "duckdb", "ksqldb"] | None,
    typer.Option("--dialect", help="The dialect of FILE.sql, where engines differ."),
]
Root = Annotated[str, typer.Argument(metavar="ROOT", help="The root of the job.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; the last line is the result.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Log every notice to standard error.")]
ExecutorOption = Annotated[
    Literal["spark", "local"], typer.Option(help="Spark tasks, or threads of this process.")
]
ExecutorOrBefore = Annotated[
    Literal["spark", "local"] | None,
    typer.Option(
        help="Spark tasks, or threads of this process; by default spark, or as the day before."
    ),
]
Master = Annotated[
    str | None,
    typer.Option(help="Such as spark://host:7077; by default as Spark is configured."),
]
Parallelism = Annotated[
    int,
    typer.Option(min=1, max=PARALLELISM_MAX, help="Vertices per keyed stage (part of the plan)."),
]


def _parsed_parallelism(text: str | int) -> int | str:
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a number nor 'auto'") from None


#: Typer knows no unions, so what ``_parsed_parallelism`` gives is typed by hand.
ParallelismOrAuto = Annotated[
    Any,
    typer.Option(
        parser=_parsed_parallelism,
        metavar="N|auto",
        help="Vertices per keyed stage (part of the plan); auto: what the cost model recommends.",
    ),
]
Paced = Annotated[float | None, typer.Option(help="Replay this many times faster than real time.")]
Hosts = Annotated[int | None, typer.Option(min=1, help="Hosts; by default from the slots.")]
Recovery = Annotated[
    Literal["checkpoint", "replay", "replication"] | None,
    typer.Option(help="Recovery of every vertex; default: the query's own."),
]
Replicas = Annotated[
    int | None,
    typer.Option(min=1, max=REPLICAS_MAX, help="Instances of every vertex, each on its own host."),
]
CheckpointInterval = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Such as 1s: between two checkpoints.")
]
CheckpointBytes = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="A checkpoint each time this much input was read, e.g. 64MB."
    ),
]
StateMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Memory for state per host, such as 4GB; more is spilled to disk."
    ),
]
ScratchFolder = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER", help="Folder for spilled state, on a local disk; default: /tmp."
    ),
]
ScratchLimit = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Limit of spilled state per host, such as 100GB.")
]
AcceptChangedInputs = Annotated[
    bool,
    typer.Option("--accept-changed-inputs", help="Only rows that could not be read were mended."),
]
Retain = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION|all", help="How long to keep data that recovery no longer needs."
    ),
]
Retention = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION|delivered|all", help="How long to keep the output, or: until delivered."
    ),
]
SideRetention = Annotated[
    str | None,
    typer.Option(metavar="DURATION|all", help="How long to keep late rows and dead letters."),
]
CompactOutput = Annotated[
    bool | None,
    typer.Option(
        "--compact-output/--no-compact-output",
        help="Merge small output files; default: if the job is endless and writes into its root.",
    ),
]
Fsync = Annotated[
    bool | None,
    typer.Option("--fsync/--no-fsync", help="Sync files to a local disk before they count."),
]
PyFiles = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH", help="Modules that the query imports: .py, .zip, .egg or a folder."
    ),
]
SharedRoot = Annotated[
    bool | None,
    typer.Option(
        "--shared-root", help="Let other users read the job's folder, subject to the umask."
    ),
]
Verify = Annotated[
    bool | None, typer.Option("--verify", help="Compare all that is written twice; slower.")
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Run its code though others may have written the folder."),
]
