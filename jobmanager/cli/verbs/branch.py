"""The verb ``branch``: another query beside a job, from the state of the job."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.branching.branch import prepare
from jobmanager.cli.results import follow, print_result
from jobmanager.cli.verbs.change import show_comparison
from jobmanager.cli.view import ProgressView, starting
from jobmanager.state.held_time import time_of
from jobmanager.storage.root import display_uri
from planner.durations import time_us
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    from jobmanager.cli.branching.branch import Branch


def branch(
    root: Annotated[
        str,
        typer.Argument(metavar="ROOT[@TIME]", help="The root of the job, and an event time."),
    ],
    target: options.Target,
    new_root: Annotated[
        str | None,
        typer.Option("--root", metavar="NEWROOT", help="Root of the branch; default: beside ROOT."),
    ] = None,
    executor: Annotated[
        Literal["spark", "local"] | None, typer.Option(help="Default: as the job.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Default: as the job.")] = None,
    hosts: options.Hosts = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    place, at_us = _place_and_time(root)
    show = (lambda _: None) if as_json else show_comparison
    made = prepare(target, place, at_us=at_us, new_root=new_root, trust=trust, on_compared=show)
    print(json.dumps(made.to_json()) if as_json else "\n".join(lines_of(made, place)), flush=True)
    with ProgressView(starting(executor)) as view:
        job = made.start(executor=executor, master=master, hosts=hosts, on_status=view.show)
        is_interrupted = follow(job)
    print_result(job, as_json=as_json, is_interrupted=is_interrupted)


def lines_of(made: Branch, root: str) -> list[str]:
    """Return the place of a branch and its deliveries that are off, as lines of text."""
    lines = [f"branch of {root} at {_time(made.time_us)}, in {display_uri(made.root.uri)}"]
    if made.switched_off:
        lines.append(f"it delivers nothing; switched off: {', '.join(made.switched_off)}")
    return lines


def _place_and_time(text: str) -> tuple[str, int | None]:
    """Split ``ROOT@TIME``. A root may contain ``@``; a time has no slash."""
    place, at, time = text.rpartition("@")
    if not at or "/" in time or os.path.isdir(text):
        return text, None
    return place, time_us(time, what="the time after @")


def _time(time: int) -> str:
    if time == MIN_TIME:
        return "the start of its input (no checkpoint with rows yet)"
    return "the end of its input" if time == INF_TIME else f"{time_of(time)} UTC"
