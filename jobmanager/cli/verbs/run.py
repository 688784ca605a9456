"""The verbs ``run`` and ``resume``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.results import follow, print_end, print_result
from jobmanager.cli.run_options import with_run_options
from jobmanager.cli.running import days
from jobmanager.cli.running.batch import print_batch
from jobmanager.cli.view import ProgressView, starting
from jobmanager.driver.running import run as jobs
from jobmanager.storage.query_file import load_query, query_file
from jobmanager.storage.shown import interruption


@with_run_options()
def run(
    target: options.TargetOrRoot = None,
    root: Annotated[str | None, typer.Option(help="Folder of the job (any fsspec uri).")] = None,
    continue_root: options.ContinueRoot = None,
    finish: options.FinishDays = False,
    executor: options.ExecutorOrBefore = None,
    master: options.Master = None,
    parallelism: options.ParallelismOrAuto = 2,
    hosts: options.Hosts = None,
    paced: options.Paced = None,
    batch: Annotated[
        bool, typer.Option("--batch", help="Run the query as a Spark SQL batch instead.")
    ] = False,
    settings: options.Settings = None,
    dialect: options.DialectOption = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
    **run_options: Any,
) -> None:
    before = days.check_call(target, root, continue_root, batch=batch, finish=finish)
    query = (
        None
        if target is None
        else load_query(target, settings or (), run_options["py_files"] or (), dialect)
    )
    if batch:
        raise typer.Exit(
            print_batch(query, root, master, parallelism, run_options["shared_root"], as_json)
        )
    with ProgressView(starting(executor)) as view:
        job = jobs.run(
            query,
            root=continue_root or root,
            continue_=continue_root is not None,
            finish=finish,
            executor=executor,
            master=master,
            parallelism=parallelism,
            hosts=hosts,
            paced=paced,
            on_status=view.show,
            **run_options,
            query_file=None if target is None else query_file(target),
        )
        is_interrupted = follow(job)
    print_end(job, before, as_json=as_json, is_interrupted=is_interrupted)


@with_run_options(without=("shared_root", "py_files"))
def resume(
    root: options.Root,
    executor: Annotated[
        Literal["spark", "local"] | None, typer.Option(help="Default: as when the job started.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Default: as when the job started.")] = None,
    parallelism: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of vertices of stages that are partitioned by key."),
    ] = None,
    hosts: options.Hosts = None,
    trust: options.Trust = False,
    accept_changed_inputs: options.AcceptChangedInputs = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
    **run_options: Any,
) -> None:
    if ended := interruption(root):
        typer.echo(f"{root} was interrupted: {ended}", err=True)
    with ProgressView(starting(executor)) as view:
        job = jobs.resume(
            root,
            executor=executor,
            master=master,
            parallelism=parallelism,
            hosts=hosts,
            on_status=view.show,
            **run_options,
            trust=trust,
            accept_changed_inputs=accept_changed_inputs,
        )
        view.note(job.status())
        is_interrupted = follow(job)
    print_result(job, as_json=as_json, is_interrupted=is_interrupted)
