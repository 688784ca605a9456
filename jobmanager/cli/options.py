"""Options that several verbs share. :mod:`jobmanager.options` documents their meaning."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated, Any, Literal

import typer

from planner.cost.parallelism import PARALLELISM_MAX


def _show_version(is_given: bool) -> None:
    if is_given:
        print(f"streamscope {metadata.version('streamscope')}")
        raise typer.Exit


def new_file(path: Path | None) -> Path | None:
    """Check that a file can be written there, before its content is computed."""
    if path is None:
        return None
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder: name a file")
    if not os.access(path.parent, os.W_OK):
        raise typer.BadParameter(f"{path.parent} is not a folder that you can write to")
    return path


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
]
Target = Annotated[
    str, typer.Argument(metavar="FILE.py[:NAME] | FILE.sql", help="The file of the query.")
]
DeployTarget = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py[:NAME] | FILE.sql",
        help="The file of the new query; with --rollback, the root.",
    ),
]
TargetOrRoot = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE.py[:NAME] | FILE.sql", help="The file of the query; optional with --continue."
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
    bool,
    typer.Option("--finish", help="With --continue: this is the last day; open windows close."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="The value of ${NAME} in the paths of FILE.sql."
    ),
]
DialectOption = Annotated[
    Literal["flink", "spark", "postgres", "duckdb", "ksqldb"] | None,
    typer.Option("--dialect", help="The SQL dialect of FILE.sql."),
]
Root = Annotated[str, typer.Argument(metavar="ROOT", help="The folder (root) of the job.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; the last line is the result.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Log every event of the job manager to standard error.")
]
ExecutorOption = Annotated[
    Literal["spark", "local"], typer.Option(help="Spark tasks, or threads of this process.")
]
ExecutorOrBefore = Annotated[
    Literal["spark", "local"] | None,
    typer.Option(
        help="Spark tasks, or threads of this process; default: spark; with --continue, as in the"
        " last run of ROOT."
    ),
]
Master = Annotated[
    str | None,
    typer.Option(help="Spark's master, such as spark://host:7077; default: Spark's configuration."),
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


#: Typer does not support unions, so the type that ``_parsed_parallelism`` returns is declared here.
ParallelismOrAuto = Annotated[
    Any,
    typer.Option(
        parser=_parsed_parallelism,
        metavar="N|auto",
        help="Vertices per keyed stage (part of the plan); auto: chosen by the cost model.",
    ),
]
Paced = Annotated[float | None, typer.Option(help="Replay this many times faster than real time.")]
Hosts = Annotated[
    int | None, typer.Option(min=1, help="Number of hosts; default: from Spark's task slots.")
]
AcceptChangedInputs = Annotated[
    bool,
    typer.Option(
        "--accept-changed-inputs",
        help="Accept changed input files if only bad rows were corrected.",
    ),
]
OutputName = Annotated[
    str | None, typer.Option("--output", metavar="NAME", help="The output, if the job has several.")
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Run the stored code even if other users may have written it."),
]
