"""The ``jobmanager`` command: its verbs, each imported when it is called.

Exit status: 0 done or stopped; 1 failed or cancelled; 2 a mistake of the caller; 3 degraded
(``status``), or some state would be lost (``deploy --dry-run``); 130 interrupted.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

import typer
from typer.core import TyperCommand, TyperGroup

from jobmanager.cli import options, settings_file
from jobmanager.cli.exits import EXIT_FAILED, EXIT_USAGE, in_one_line, leave
from jobmanager.errors import JobFailedError
from rstream.errors import StreamEngineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


P = ParamSpec("P")

#: The base class of typer's errors for calls that it cannot parse; typer exports only subclasses.
_CallError: Any = typer.BadParameter.__bases__[0]
_JSON = "streamscope.json"
#: By verb: the module and the function that run it, and its line of help.
VERBS = {
    "run": (
        "jobmanager.cli.verbs.run:run",
        "Run a query to its end, or with --continue day by day, and show its progress.",
    ),
    "sql": (
        "jobmanager.cli.verbs.run:run",
        "Run a query written in SQL: run FILE.sql under another name.",
    ),
    "resume": (
        "jobmanager.cli.verbs.run:resume",
        "Continue a job that was stopped or cancelled, failed, or whose job manager died.",
    ),
    "explain": (
        "jobmanager.cli.verbs.plans:explain",
        "Show the plan of a query, its rules and its costs, without running it.",
    ),
    "validate": (
        "jobmanager.cli.verbs.plans:validate",
        "Run a query as a stream and as a Spark batch, and show the first difference.",
    ),
    "status": (
        "jobmanager.cli.verbs.status:status",
        "Show the status of a job, while it runs or afterwards.",
    ),
    "list": (
        "jobmanager.cli.verbs.listing:list_jobs",
        "List the jobs in a local folder, or one job by its root.",
    ),
    "standby": (
        "jobmanager.cli.verbs.standby:standby",
        "Start Spark, wait until a job's driver dies, and continue the job at once.",
    ),
    "cancel": (
        "jobmanager.cli.requests:cancel",
        "Ask a running job to end; durable data stays, and resume can continue the job.",
    ),
    "stop": (
        "jobmanager.cli.requests:stop",
        "Ask a running job to stop and keep its state; resume continues exactly there.",
    ),
    "drain": (
        "jobmanager.cli.requests:drain",
        "Move all vertices (tasks) off a host of a running job, then release the host.",
    ),
    "savepoint": (
        "jobmanager.cli.verbs.change:savepoint",
        "Save the state of a job, running or stopped, under a name.",
    ),
    "savepoints": (
        "jobmanager.cli.verbs.change:savepoints",
        "List the savepoints of a job, delete some, or export one to another folder.",
    ),
    "deploy": (
        "jobmanager.cli.verbs.change:deploy",
        "Continue a job with another query and its state, after showing the effect on each stage.",
    ),
    "branch": (
        "jobmanager.cli.verbs.branch:branch",
        "Try another query beside a job: from its state, in a separate root, without deliveries.",
    ),
    "rescale": (
        "jobmanager.cli.verbs.change:rescale",
        "Change the number of vertices of a running or stopped job, and keep its state.",
    ),
    "show": (
        "jobmanager.cli.verbs.show:show",
        "Show the first rows of a job's output by time, while the job runs or afterwards.",
    ),
    "table": (
        "jobmanager.cli.verbs.show:table",
        "Show the output rows of a job that are valid now, or at a given time.",
    ),
    "deliver": (
        "jobmanager.cli.verbs.deliver:deliver",
        "Deliver the output of a job, while it runs or afterwards.",
    ),
    "logs": (
        "jobmanager.cli.verbs.logs:logs",
        "Show what happened to a job: starts, checkpoints, losses, failures, its end.",
    ),
    "doctor": (
        "jobmanager.cli.page.verbs:doctor",
        "Report the problems of a job: since when, why, and how to fix them.",
    ),
    "serve": (
        "jobmanager.cli.page.verbs:serve",
        "Serve a page that shows jobs, and their metrics for Prometheus at /metrics.",
    ),
    "bundle": (
        "jobmanager.cli.page.verbs:bundle",
        "Write a job's page to one file for a bug report, without rows or secrets.",
    ),
    "replay": (
        "jobmanager.replay.verbs:replay",
        "Run a vertex (task) of a job again here, and compare its output with the recorded one.",
    ),
    "why": (
        "jobmanager.replay.verbs:why",
        "Show the smallest set of input rows that produces an output row, and their path.",
    ),
    "diff": (
        "jobmanager.replay.verbs:diff",
        "Compare the output of two versions of a query over the same recorded input.",
    ),
    "bisect": (
        "jobmanager.replay.verbs:bisect",
        "Find the first input item, or version of the query, that makes an output row wrong.",
    ),
    "capsule": (
        "jobmanager.replay.verbs:capsule",
        "Write the smallest input that produces an output row, with its code, to one file.",
    ),
    "state": (
        "jobmanager.replay.state_verb:state",
        "Show the state of a stage: keys, open windows, rows that may still match.",
    ),
    "gc": (
        "jobmanager.cli.verbs.storage:gc",
        "Delete files a stopped job no longer needs; it can still be resumed.",
    ),
    "verify": (
        "jobmanager.cli.verbs.storage:verify",
        "Read the output of a finished job back and compare all of it with its digests.",
    ),
    "intake": (
        "jobmanager.cli.verbs.intake:intake",
        "Accept rows over HTTP and Flight, and acknowledge them when they are durable.",
    ),
}


class _Verbs(Mapping[str, Any]):
    """The commands by verb; each is imported when it is looked up."""

    def __getitem__(self, verb: str) -> Any:
        if verb not in VERBS:
            raise KeyError(verb)
        return _command(verb)

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


@functools.cache
def _command(verb: str) -> Any:
    """Return the command of a verb with its options."""
    home, text = VERBS[verb]
    module, _, name = home.partition(":")
    alone = typer.Typer(add_completion=False)
    alone.command(name=verb, help=text)(_reports_errors(getattr(import_module(module), name)))
    return typer.main.get_command(alone)


class _Commands(TyperGroup):
    """The verbs.

    A call that cannot be parsed is reported like other errors: in one line, or as JSON.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Verbs()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all verbs, in the order of the help page."""
        return list(VERBS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the verbs and their lines of help, without importing them."""
        self.commands = {
            verb: TyperCommand(name=verb, help=text) for verb, (_, text) in VERBS.items()
        }
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the verb, and the file with options."""
        # after an invalid call no verb runs, so the flag is stored here
        ctx.meta[_JSON] = "--json" in args
        try:
            ctx.default_map = settings_file.defaults(self.commands)
        except UsageError as error:
            _fail(error, as_json=ctx.meta[_JSON])
        with _one_line(ctx) if args else contextlib.nullcontext():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Parse the other arguments and call the verb."""
        with _one_line(ctx):
            return super().invoke(ctx)


@contextlib.contextmanager
def _one_line(ctx: Any) -> Iterator[None]:
    try:
        yield
    except _CallError as error:
        command = getattr(error.ctx, "command_path", ctx.command_path)
        message = f"{in_one_line(error.format_message())} ({command} --help)"
        _fail(UsageError(message), as_json=ctx.meta[_JSON])


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
    """Report a mistake as one message on standard error and by the exit status; set up logs."""

    @functools.wraps(verb)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        if "verbose" in kwargs:
            from jobmanager import logs

            logs.configure(verbose=bool(kwargs["verbose"]))
        try:
            verb(*args, **kwargs)
        except StreamEngineError as error:
            _fail(error, as_json=bool(kwargs.get("as_json")))

    return guarded


def _fail(error: StreamEngineError, *, as_json: bool) -> NoReturn:
    message = ": ".join([*getattr(error, "__notes__", ()), str(error)])
    print(f"jobmanager: error: {message}", file=sys.stderr)
    if as_json and not isinstance(error, JobFailedError):
        print(json.dumps({"state": "failed", "error": message}))
    raise typer.Exit(EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED)


def main() -> None:
    """Run the console command."""
    if not __debug__:
        print("jobmanager: assertions guard the data; run Python without -O", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    try:
        app()
    except SystemExit as end:
        leave(end.code)
