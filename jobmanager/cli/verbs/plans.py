"""The verbs that show what a query does: ``explain`` and ``validate``."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.exits import EXIT_FAILED
from jobmanager.config import JobConfig
from jobmanager.driver.running.batch.validate import validate as run_both
from jobmanager.options import configured
from jobmanager.storage.query_file import load_query
from planner.explain import text as plan_text
from planner.explain.json import document as plan_document
from planner.physical.lower import lower


def explain(
    target: options.Target,
    parallelism: options.ParallelismOrAuto = 2,
    paced: options.Paced = None,
    format: Annotated[
        Literal["text", "mermaid", "json"],
        typer.Option(help="The format: for people, web pages or programs."),
    ] = "text",
    mermaid: Annotated[bool, typer.Option(help="The same as --format mermaid.")] = False,
    settings: options.Settings = None,
    dialect: options.DialectOption = None,
    as_json: options.AsJson = False,
) -> None:
    config = configured(JobConfig(), parallelism, None, paced)
    query, is_paced = load_query(target, settings or (), dialect=dialect), config.host.pace > 0
    plan = lower(query, root="ROOT", parallelism=config.parallelism, is_paced=is_paced)
    if as_json:
        print(json.dumps(plan_document(plan)))
    else:
        print(plan_text.explain(plan, "mermaid" if mermaid else format))


def validate(
    target: options.Target,
    executor: options.ExecutorOption = "local",
    master: options.Master = None,
    parallelism: options.Parallelism = 2,
    paced: options.Paced = None,
    settings: options.Settings = None,
    dialect: options.DialectOption = None,
    as_json: options.AsJson = False,
) -> None:
    query = load_query(target, settings or (), dialect=dialect)
    both = run_both(query, executor=executor, master=master, parallelism=parallelism, paced=paced)
    print(json.dumps(both.to_json()) if as_json else both)
    if not both.is_equal:
        raise typer.Exit(EXIT_FAILED)
