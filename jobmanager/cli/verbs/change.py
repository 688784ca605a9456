"""The verbs that save and change a job: savepoint, savepoints, deploy, rescale."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.branching.export import export
from jobmanager.cli.exits import EXIT_DEGRADED
from jobmanager.driver.running.changes.errors import ChangeRefusedError
from jobmanager.driver.running.changes.scaling.ranges import ANY
from jobmanager.driver.running.deploying import (
    deploy as deploy_query,
    rescale as rescale_job,
    roll_back,
    take_savepoint,
)
from jobmanager.errors import NoJobError
from jobmanager.state.held_time import range_of, time_of
from jobmanager.storage.root import GENERATION, UNDO, JobRoot, display_uri
from jobmanager.storage.savepoints import (
    expire,
    list_with_undone,
    read_savepoint,
    settings_at,
    was_undone,
)
from planner.durations import format_us, positive_duration_us, time_us
from rstream.errors import UsageError
from rstream.items.json_text import json_text
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from jobmanager.cli.branching.branch import Branch
    from jobmanager.cli.branching.canary import Canary
    from jobmanager.driver.running.changes.compare import Comparison
    from jobmanager.driver.running.deploying import Deployment
    from jobmanager.storage.query_file import LoadedFile
    from jobmanager.storage.savepoints import Savepoint

#: Verdicts of stages that lose no state.
_KEEPS = ("kept", "converted", "started")


def savepoint(
    root: options.Root,
    name: Annotated[
        str, typer.Option(help="The name of the savepoint; an older one of that name is replaced.")
    ] = "saved",
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="Wait until the sources reach this event time."),
    ] = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    at_us = None if at is None else time_us(at, what="--at")
    outcome = take_savepoint(root, name, at_us=at_us, trust=trust)
    line = f"savepoint {name} of {root} at {_time(outcome['time'])}"
    if outcome["stopped_because"]:
        line += f"; the job stopped for it: {outcome['stopped_because']}"
    print(json.dumps(outcome) if as_json else line)


def savepoints(
    root: options.Root,
    expired: Annotated[
        list[str] | None, typer.Option("--expire", metavar="NAME", help="Delete this savepoint.")
    ] = None,
    export_to: Annotated[
        str | None,
        typer.Option(
            "--export", metavar="URI", help="Export a savepoint to a folder, as a job to resume."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The savepoint to export; default: the newest.")
    ] = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    job_root = JobRoot(root, trust=trust)
    if job_root.read_plan() is None:
        raise NoJobError(display_uri(job_root.uri))
    for one in expired or ():
        if damage := expire(job_root.store, one):
            print(f"deleted {one}, whose list of files was broken: {damage}", file=sys.stderr)
        if one == job_root.settings().get(UNDO):
            print(
                f"deleted {one}: deploy --rollback {root} cannot undo the last change now",
                file=sys.stderr,
            )
    listed = list_with_undone(job_root)
    if export_to is not None:
        lasting = [one.name for one, is_undone in listed if not is_undone]
        if name is None and not lasting:
            none = "no savepoint that was not undone" if listed else "no savepoint to export"
            raise UsageError(f"{root} has {none}: jobmanager savepoint {root}")
        made = export(job_root, name or lasting[-1], export_to)
        _warn_of_former_query(job_root, made)
        line = {"root": display_uri(job_root.uri), "savepoint": made, "exported": export_to}
        print(json.dumps(line) if as_json else f"jobmanager resume {export_to} starts from {made}")
        return
    rows = [_row(one, is_undone=is_undone) for one, is_undone in listed]
    if as_json:
        print(json.dumps({"root": display_uri(job_root.uri), "savepoints": rows}))
        return
    head = {"name": "savepoint", "time": "event time", "created": "taken"}
    for row in [head, *rows] if rows else []:
        undone = "  undone" if row.get("undone") else ""
        print(f"{row['name']:<24}  {row['time']:<28}  {row['created']}{undone}")
    if not rows:
        print(f"no savepoints: jobmanager savepoint {root}", file=sys.stderr)


def _warn_of_former_query(root: JobRoot, name: str) -> None:
    """Say on stderr that an exported savepoint has another query than the job has now."""
    saved, present = settings_at(root.store, read_savepoint(root.store, name)), root.settings()
    if saved.get(GENERATION, 0) == present.get(GENERATION, 0):
        return
    query = (saved.get("query_file") or {}).get("target", "the query of that time")
    what = "from before a change" if not was_undone(saved, present) else "of an undone change"
    print(f"savepoint {name} is {what} of the job: it contains {query}", file=sys.stderr)


def deploy(
    target: options.DeployTarget,
    root: Annotated[
        str | None, typer.Argument(metavar="ROOT", help="The folder (root) of the job.")
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Change the job; without this the command only compares."),
    ] = False,
    approve: Annotated[
        str,
        typer.Option(metavar="HASH", help="Change the job only if the comparison has this hash."),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only compare.")] = False,
    rollback: Annotated[
        bool,
        typer.Option("--rollback", help="Restore the query that ROOT had before the last change."),
    ] = False,
    canary: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="First run it beside the job for this event time; deploy only if rows are equal.",
        ),
    ] = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    if rollback:
        if approve or dry_run or canary is not None:
            other = "--approve" if approve else "--dry-run" if dry_run else "--canary"
            raise UsageError(f"deploy --rollback takes no {other}: leave it out")
        _roll_back(target, root, trust=trust, as_json=as_json)
        return
    if root is None or os.path.isfile(root):
        raise UsageError("deploy takes the new query and then the root: deploy NEW.py ROOT")
    show = (lambda _: None) if as_json else show_comparison
    loaded: str | LoadedFile = target
    more = {}
    if canary is not None:
        duration_us = positive_duration_us(canary, what="--canary")
        compared = deploy_query(target, root, dry_run=True, trust=trust, on_compared=show)
        loaded = compared.loaded  # the canary runs the same query as the deployment
        tried = _tried(compared, root, duration_us, trust=trust, as_json=as_json)
        show, more = (lambda _: None), {"canary": tried.to_json()}
        if not (tried.is_equal or yes or approve == tried.hash):
            _refuse_canary(compared, tried, root, as_json=as_json)
        yes = False
        approve = compared.comparison.hash
    shown = deploy_query(
        loaded, root, yes=yes, approve=approve, dry_run=dry_run, trust=trust, on_compared=show
    )
    if as_json:
        print(json_text({**shown.to_json(), **more}))
    elif shown.outcome is not None:
        _print_outcome(shown.outcome)
    if dry_run and shown.comparison.refusals:
        raise typer.Exit(2)
    if dry_run and not all(row.verdict in _KEEPS for row in shown.comparison.rows):
        raise typer.Exit(EXIT_DEGRADED)


def _tried(
    compared: Deployment, root: str, duration_us: int, *, trust: bool, as_json: bool
) -> Canary:
    """Run a canary and show the difference of its rows."""
    from jobmanager.cli.branching.canary import run_canary

    if compared.comparison.refusals:
        raise ChangeRefusedError(root, compared.comparison.refusal)

    def begin(made: Branch) -> None:
        place, span = display_uri(made.root.uri), format_us(duration_us)
        print(f"canary in {place} for {span} of event time; it delivers nothing", file=sys.stderr)

    def show_range(begin_us: int, end_us: int) -> None:
        print(f"comparing rows of {range_of(begin_us, end_us)}", file=sys.stderr)

    tried = run_canary(
        compared.loaded,
        root,
        duration_us,
        comparison=compared.comparison.hash,
        trust=trust,
        on_started=begin,
        on_range=show_range,
    )
    if not as_json:
        print(tried, flush=True)
    return tried


def _refuse_canary(compared: Deployment, tried: Canary, root: str, *, as_json: bool) -> NoReturn:
    """Exit without a change: the rows of the canary differ, or an output has no rows."""
    if as_json:
        print(json_text({**compared.to_json(), "canary": tried.to_json()}))
    reason = "the rows differ"
    if tried.without_rows:
        reason = f"output {', '.join(tried.without_rows)} has no rows to compare"
    elif all(difference.has_equal_rows for difference in tried.differences.values()):
        stages = sorted({stage for mixed in tried.mixed.values() for stage in mixed})
        reason = f"{', '.join(stages)} may use rows that the former query has read"
    print(
        f"{root} was not changed: {reason}; give --yes, or --approve {tried.hash}",
        file=sys.stderr,
    )
    raise typer.Exit(EXIT_DEGRADED)


def rescale(
    root: options.Root,
    parallelism: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of vertices of every stage that is partitioned by key."
        ),
    ] = None,
    stage: Annotated[
        list[str] | None,
        typer.Option("--stage", metavar="STAGE=N", help="Number of vertices of one stage: s03=8."),
    ] = None,
    split_hot: Annotated[
        bool,
        typer.Option(
            "--split-hot", help="Split the key range of the vertex (task) with the most rows."
        ),
    ] = False,
    merge_cold: Annotated[
        bool,
        typer.Option("--merge-cold", help="Join the two adjacent key ranges with the fewest rows."),
    ] = False,
    split: Annotated[
        str | None,
        typer.Option(metavar="STAGE|VERTEX", help="As --split-hot, for this stage or vertex."),
    ] = None,
    merge: Annotated[
        str | None,
        typer.Option(metavar="STAGE|VERTEX", help="As --merge-cold, for this stage or vertex."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the changes.")] = False,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Change the number of vertices of a running or stopped job, and keep its state."""
    for is_any, names, where in (
        (split_hot, ("--split-hot", "--split"), split),
        (merge_cold, ("--merge-cold", "--merge"), merge),
    ):
        if is_any and where is not None:
            raise UsageError(f"{names[0]} chooses the range, and {names[1]} {where} too: use one")
    outcome = rescale_job(
        root,
        parallelism=parallelism,
        stages=dict(_stage_width(one) for one in stage or ()),
        split=ANY if split_hot else split,
        merge=ANY if merge_cold else merge,
        dry_run=dry_run,
        trust=trust,
    )
    if as_json:
        print(json.dumps({"outcome": outcome}))
        return
    _print_ranges(outcome)
    if not dry_run:
        _print_outcome(outcome)


def _print_ranges(outcome: dict[str, Any]) -> None:
    for name, width in outcome.get("widths", {}).items():
        ranges = "one range with all keys" if width == 1 else f"{width} equal ranges of keys"
        print(f"{name}: {ranges}")
    if "what" in outcome:
        print(outcome["what"])
    for k, row in enumerate(outcome.get("ranges", ())):
        share = "" if row["share"] is None else f"  {row['share']:>4.0%}"
        print(f"range {k:<3} slots {row['lo']:>10} to {row['hi'] - 1:>10}{share}")


def _stage_width(text: str) -> tuple[str, int]:
    name, _, width = text.rpartition("=")
    if not name or not width.isdecimal():
        raise UsageError(f"--stage {text}: must be STAGE=N, such as s03=8")
    return name, int(width)


def _roll_back(root: str, more: str | None, *, trust: bool, as_json: bool) -> None:
    if more is not None:
        reason = "deploy --rollback restores the former query, so it takes no file"
        raise UsageError(f"{reason}: deploy --rollback {more}")
    outcome = roll_back(root, trust=trust)
    if as_json:
        print(json.dumps({"outcome": outcome}))
    else:
        _print_outcome(outcome)


def _print_outcome(outcome: dict[str, Any]) -> None:
    at, seconds = _time(outcome["time"]), f"{outcome['seconds']:.1f} s"
    if outcome["kind"] == "rollback":
        print(f"rolled back to savepoint {outcome['savepoint']}, {at}, in {seconds}")
    else:
        print(f"changed at {at} in {seconds}; savepoint {outcome['savepoint']}")


def show_comparison(comparison: Comparison) -> None:
    """Print the outcome for each stage; then why it is refused, or the hash that approves it."""
    for row in comparison.rows:
        name = row.stage or row.former
        former = f" (was {row.former})" if row.stage and row.former not in ("", row.stage) else ""
        print(f"{name + former:<28} {row.verdict:<14} {row.reason}".rstrip())
    for reason in comparison.refusals:
        print(f"refused: {reason}")
    if not comparison.refusals:
        print(f"comparison {comparison.hash}")


def _row(one: Savepoint, *, is_undone: bool) -> dict[str, Any]:
    created = f"{time_of(one.created_us)} UTC"
    outputs = {v.vertex: list(v.outputs) for v in one.vertices}
    line = {"name": one.name, "time": _time(one.time_us), "time_us": one.time_us}
    line |= {"created": created, "created_us": one.created_us, "undone": is_undone}
    return {**line, "outputs": outputs}


def _time(time: int) -> str:
    return "the end of its input" if time == INF_TIME else f"{time_of(time)} UTC"
