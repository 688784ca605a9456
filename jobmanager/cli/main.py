"""The ``jobmanager`` command.

Exit: 0 done or stopped, 1 failed or cancelled, 2 a mistake, 3 (status) degraded or (deploy
--dry-run) some state would be lost, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, ParamSpec

import typer
from rich.console import Console
from typer.core import TyperGroup

from jobmanager import logs
from jobmanager.cli import (
    options,
    requests,
    settings_file,
)
from jobmanager.cli.change import deploy, savepoint, savepoints
from jobmanager.cli.deliver import deliver
from jobmanager.cli.logs import logs as show_logs
from jobmanager.cli.page.verbs import doctor, serve
from jobmanager.cli.requests import status_of
from jobmanager.cli.results import (
    EXIT_DEGRADED,
    EXIT_FAILED,
    EXIT_USAGE,
    follow,
    leave,
    print_end,
    print_result,
)
from jobmanager.cli.running import days
from jobmanager.cli.running.batch import print_batch
from jobmanager.cli.show import show, table
from jobmanager.cli.standby import standby
from jobmanager.cli.verbs.intake import intake
from jobmanager.cli.verbs.listing import list_jobs
from jobmanager.cli.view import (
    ProgressView,
    in_one_line,
    print_lost_rows,
    starting,
    state_line,
    vertex_table,
)
from jobmanager.config import JobConfig
from jobmanager.driver.running import run as jobs
from jobmanager.driver.running.batch.validate import validate as run_both
from jobmanager.errors import JobFailedError
from jobmanager.options import configured
from jobmanager.replay.state_verb import state
from jobmanager.replay.verbs import bisect, capsule, diff, replay, why
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.garbage import collect_garbage
from jobmanager.storage.output_check import verify_output
from jobmanager.storage.query_file import load_query, query_file
from jobmanager.storage.root import JobRoot
from planner.explain import text as plan_text
from planner.explain.json import document as plan_document
from planner.physical.lower import lower
from rstream.errors import StreamEngineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


P = ParamSpec("P")

#: What typer raises of a call that it cannot read; it exports only the kinds below it.
_CallError: Any = typer.BadParameter.__bases__[0]
_JSON = "streamscope.json"


class _Commands(TyperGroup):
    """The verbs; a call that cannot be read is a mistake like others: one line, and JSON."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read what is before the verb, and the file with options."""
        ctx.meta[_JSON] = "--json" in args  # only a call that can be read tells it to a verb
        try:
            ctx.default_map = settings_file.defaults(self.commands)
        except UsageError as error:
            _fail(error, as_json=ctx.meta[_JSON])
        with _one_line(ctx) if args else contextlib.nullcontext():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Read the rest and call the verb."""
        with _one_line(ctx):
            return super().invoke(ctx)


@contextlib.contextmanager
def _one_line(ctx: Any) -> Iterator[None]:
    try:
        yield
    except _CallError as error:
        command = getattr(error.ctx, "command_path", ctx.command_path)
        told = f"{in_one_line(error.format_message())} ({command} --help)"
        _fail(UsageError(told), as_json=ctx.meta[_JSON])


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    help="Run, watch and recover deterministic streaming jobs on Spark.",
    pretty_exceptions_enable=False,
)


@app.callback()
def before_the_verb(version: options.Version = False) -> None: ...


def _reports_errors(verb: Callable[P, None]) -> Callable[P, None]:
    """Turn a mistake into one message on standard error and an exit status; set up logs."""

    @functools.wraps(verb)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        if "verbose" in kwargs:
            logs.configure(verbose=bool(kwargs["verbose"]))
        try:
            verb(*args, **kwargs)
        except StreamEngineError as error:
            _fail(error, as_json=bool(kwargs.get("as_json")))

    return guarded


def _fail(error: StreamEngineError, *, as_json: bool) -> NoReturn:
    told = ": ".join([*getattr(error, "__notes__", ()), str(error)])
    print(f"jobmanager: error: {told}", file=sys.stderr)
    if as_json and not isinstance(error, JobFailedError):
        print(json.dumps({"state": "failed", "error": told}))
    raise typer.Exit(EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED)


@app.command()
@_reports_errors
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
    recovery: options.Recovery = None,
    replicas: options.Replicas = None,
    checkpoint_interval: options.CheckpointInterval = None,
    checkpoint_bytes: options.CheckpointBytes = None,
    state_memory: options.StateMemory = None,
    scratch: options.ScratchFolder = None,
    scratch_limit: options.ScratchLimit = None,
    retain: options.Retain = None,
    retention: options.Retention = None,
    side_retention: options.SideRetention = None,
    compact_output: options.CompactOutput = None,
    verify: options.Verify = None,
    fsync: options.Fsync = None,
    shared_root: options.SharedRoot = None,
    py_files: options.PyFiles = None,
    batch: Annotated[bool, typer.Option("--batch", help="As a Spark SQL batch instead.")] = False,
    settings: options.Settings = None,
    dialect: options.DialectOption = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Run a query to its end, or with --continue day by day, and show its progress."""
    before = days.check_call(target, root, continue_root, batch=batch, finish=finish)
    query = None if target is None else load_query(target, settings or (), py_files or (), dialect)
    if batch:
        raise typer.Exit(print_batch(query, root, master, parallelism, shared_root, as_json))
    kept: dict[str, Any] = {"retain": retain, "retention": retention, "fsync": fsync}
    kept |= {"state_memory": state_memory, "scratch": scratch, "scratch_limit": scratch_limit}
    kept |= {"side_retention": side_retention, "compact_output": compact_output, "verify": verify}
    kept |= {"shared_root": shared_root, "py_files": py_files, "replicas": replicas}
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
            recovery=recovery,
            checkpoint_interval=checkpoint_interval,
            checkpoint_bytes=checkpoint_bytes,
            **kept,
            query_file=None if target is None else query_file(target),
        )
        is_interrupted = follow(job)
    print_end(job, before, as_json=as_json, is_interrupted=is_interrupted)


app.command(name="sql", help="Run a query written in SQL: run FILE.sql under another name.")(run)


@app.command()
@_reports_errors
def resume(
    root: options.Root,
    executor: Annotated[
        Literal["spark", "local"] | None, typer.Option(help="By default as before.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="By default as before.")] = None,
    hosts: options.Hosts = None,
    recovery: options.Recovery = None,
    replicas: options.Replicas = None,
    checkpoint_interval: options.CheckpointInterval = None,
    checkpoint_bytes: options.CheckpointBytes = None,
    state_memory: options.StateMemory = None,
    scratch: options.ScratchFolder = None,
    scratch_limit: options.ScratchLimit = None,
    retain: options.Retain = None,
    retention: options.Retention = None,
    side_retention: options.SideRetention = None,
    compact_output: options.CompactOutput = None,
    verify: options.Verify = None,
    fsync: options.Fsync = None,
    trust: options.Trust = False,
    accept_changed_inputs: options.AcceptChangedInputs = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Go on with a job that was stopped or cancelled, failed, or whose job manager died."""
    with ProgressView(starting(executor)) as view:
        job = jobs.resume(
            root,
            executor=executor,
            master=master,
            hosts=hosts,
            on_status=view.show,
            recovery=recovery,
            replicas=replicas,
            checkpoint_interval=checkpoint_interval,
            checkpoint_bytes=checkpoint_bytes,
            state_memory=state_memory,
            scratch=scratch,
            scratch_limit=scratch_limit,
            retain=retain,
            retention=retention,
            side_retention=side_retention,
            compact_output=compact_output,
            verify=verify,
            fsync=fsync,
            trust=trust,
            accept_changed_inputs=accept_changed_inputs,
        )
        view.note(job.status())
        is_interrupted = follow(job)
    print_result(job, as_json=as_json, is_interrupted=is_interrupted)


@app.command()
@_reports_errors
def explain(
    target: options.Target,
    parallelism: options.ParallelismOrAuto = 2,
    paced: options.Paced = None,
    format: Annotated[
        Literal["text", "mermaid", "json"], typer.Option(help="For people, pages or programs.")
    ] = "text",
    mermaid: Annotated[bool, typer.Option(help="The same as --format mermaid.")] = False,
    settings: options.Settings = None,
    dialect: options.DialectOption = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the plan of a query, its rules and its costs, without running it."""
    config = configured(JobConfig(), parallelism, None, paced)
    query, is_paced = load_query(target, settings or (), dialect=dialect), config.host.pace > 0
    plan = lower(query, root="ROOT", parallelism=config.parallelism, is_paced=is_paced)
    if as_json:
        print(json.dumps(plan_document(plan)))
    else:
        print(plan_text.explain(plan, "mermaid" if mermaid else format))


@app.command()
@_reports_errors
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
    """Run a query as a stream and as a Spark batch, and show the first difference."""
    query = load_query(target, settings or (), dialect=dialect)
    found = run_both(query, executor=executor, master=master, parallelism=parallelism, paced=paced)
    print(json.dumps(found.to_json()) if as_json else found)
    if not found.is_equal:
        raise typer.Exit(EXIT_FAILED)


@app.command()
@_reports_errors
def status(root: options.Root, as_json: options.AsJson = False) -> None:
    """Show where a job stands; works from any process, during the job and after it."""
    found = status_of(root)
    if as_json:
        print(json.dumps(found))
    elif found.get("vertices"):
        console = Console()
        console.print(vertex_table(found, width=console.width))
        print_lost_rows(found)
    else:
        print(state_line(found))
    if found["health"] == "degraded" and found["state"] in OPEN_STATES:
        raise typer.Exit(EXIT_DEGRADED)


app.command(name="list")(_reports_errors(list_jobs))

for _verb in (
    standby,
    requests.cancel,
    requests.stop,
    requests.drain,
    savepoint,
    savepoints,
    deploy,
    show,
    table,
    deliver,
    show_logs,
    doctor,
    serve,
    replay,
    why,
    diff,
    bisect,
    capsule,
    state,
):
    app.command()(_reports_errors(_verb))


@app.command()
@_reports_errors
def gc(
    root: options.Root,
    retain: options.Retain = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the files that would be deleted.")
    ] = False,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Delete what a job that does not run keeps and nobody needs: it can be resumed as before."""
    job_root = JobRoot(root, trust=trust)
    found = collect_garbage(job_root, JobConfig(), {"retain": retain}, is_dry_run=dry_run)
    told = {"files": list(found.files), "bytes": found.size_bytes, "dry_run": dry_run}
    if as_json:
        print(json.dumps(told))
        return
    for name in found.files:
        print(name)
    what = "would be freed" if dry_run else "freed"
    print(f"{len(found.files):,} files, {found.size_bytes:,} bytes {what}")


@app.command()
@_reports_errors
def verify(root: options.Root, trust: options.Trust = False) -> None:
    """Read the output of a finished job back and compare all of it with its digests."""
    print(json.dumps(verify_output(JobRoot(root, trust=trust))))


app.command()(_reports_errors(intake))


def main() -> None:
    """Entry point of the console command."""
    if not __debug__:
        print("jobmanager: assertions guard the data; run Python without -O", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    try:
        app()
    except SystemExit as end:
        leave(end.code)
