"""The verbs that recompute: ``replay``, ``why``, ``diff``, ``bisect``, ``capsule``.

Each verb imports its modules itself: imports take most of the time to the first breakpoint.
"""

from __future__ import annotations

import bdb
import json
import os
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from jobmanager.cli import options
from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.rows.lineage import RUNS_MAX
from planner.durations import duration_us
from rstream.errors import UsageError
from rstream.items.json_text import json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.replay.replaying import Replay
    from planner import Query

#: Exit statuses: the output differs from the recorded one; the user has left the debugger.
EXIT_DIFFERENT, EXIT_INTERRUPTED = 1, 130
#: The niceness of a process that works only when others are idle.
LOWEST = 19
#: Input rows of one source that are printed; ``--json`` has all.
_NO_STOP = "No row that {vertex} reads satisfies --break, so it did not stop."
ROWS_SHOWN = 20

From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Start at this event time: 2026-03-01T10:00:00Z."),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Stop at this event time.")
]
Row = Annotated[
    str,
    typer.Option("--row", metavar="EXPR", help="A SQL condition that is true for this row only."),
]
RunsMax = Annotated[int, typer.Option(min=1, help="Most runs on parts of the input.")]


def replay(
    root: Annotated[
        str, typer.Argument(metavar="ROOT | CAPSULE.zip", help="The root of the job, or a capsule.")
    ],
    vertex: Annotated[
        str | None,
        typer.Argument(metavar="VERTEX", help="The vertex, such as s02-join.1; default: all."),
    ] = None,
    from_: From = None,
    until: Until = None,
    break_: Annotated[
        str | None,
        typer.Option(
            "--break", metavar="EXPR", help="Stop in pdb before a row with this SQL condition."
        ),
    ] = None,
    code: Annotated[
        str | None, typer.Option(metavar="FILE.py[:NAME]", help="Run this version of the query.")
    ] = None,
    audit: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Replay random ranges for this time."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of --audit.")] = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    query = None if code is None else _query(code)
    if audit is not None:
        if any(v is not None for v in (vertex, from_, until, break_, code)):
            raise UsageError("--audit chooses vertices and times itself; give it a ROOT alone")
        _audit(root, duration_us(audit, what="--audit") / 1e6, seed, trust=trust, as_json=as_json)
        return
    try:
        if root.endswith(".zip"):
            _replay_capsule(root, vertex, break_, trust=trust, as_json=as_json)
            return
        if vertex is None:
            if break_ is not None or code is not None:
                raise UsageError("--break and --code need a VERTEX; jobmanager status lists them")
            _replay_all(root, from_, until, trust=trust, as_json=as_json)
            return
        from jobmanager.replay.replaying import replay as run

        result = run(root, vertex, from_=from_, until=until, break_=break_, code=query, trust=trust)
    except Exception as error:
        if not _has_quit(error):
            raise
        raise typer.Exit(EXIT_INTERRUPTED) from None
    states = ""
    if result.difference is not None and query is None:
        from jobmanager.replay.rows.state_differences import state_difference

        states = state_difference(root, result.difference, result.vertex, trust=trust)
    if as_json:
        print(json.dumps({**result.to_json(), "states": states}))
    else:
        print("\n".join(filter(None, (str(result), states, _unstopped(result, break_)))))
    if not result.is_equal:
        raise typer.Exit(EXIT_DIFFERENT)


def why(
    root: options.Root,
    row: Row,
    output: options.OutputName = None,
    runs_max: RunsMax = RUNS_MAX,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    from jobmanager.delivery.answer import print_rows
    from jobmanager.replay.rows import whys

    explanation = whys.why(root, row, output=output, runs_max=runs_max, trust=trust)
    if as_json:
        print(json_text(explanation.to_json()))
        return
    print_rows(explanation.row)
    for vertex, table in explanation.inputs.items():
        print(f"\n{vertex}: {table.num_rows:,} rows")
        print_rows(table.slice(0, ROWS_SHOWN))
        if table.num_rows > ROWS_SHOWN:
            print(f"... {table.num_rows - ROWS_SHOWN:,} more: --json")
    print()
    for stage in explanation.stages:
        print(f"{stage.vertex}: {stage.events_in:,} events in, {stage.events_out:,} out")
    if explanation.is_smallest:
        print("These rows alone give the row. Without any one of them it is missing.")
    else:
        print(
            f"These rows alone give the row; fewer may do ({explanation.runs:,} runs: --runs-max)."
        )


def diff(
    root: options.Root,
    code: Annotated[
        str, typer.Argument(metavar="FILE.py[:NAME] | FILE.sql", help="The new version.")
    ],
    from_: From = None,
    until: Until = None,
    key: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Pair rows by this column.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", callback=options.new_file, help="Write a report for a pull request."
        ),
    ] = None,
    output: options.OutputName = None,
    settings: options.Settings = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    from jobmanager.replay.rows import diffing

    query = _query(code, settings or ())
    difference = diffing.diff(
        root, query, from_=from_, until=until, keys=key or (), output=output, trust=trust
    )
    if markdown is not None:
        markdown.write_text(difference.to_markdown(), encoding="utf-8")
    print(json_text(difference.to_json()) if as_json else difference)
    if not difference.is_equal:
        raise typer.Exit(EXIT_DIFFERENT)


def bisect(
    root: options.Root,
    row: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="A SQL condition that is true for wrong rows."),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="A SQL condition that is true for right rows."),
    ] = None,
    code: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE.py[:NAME]", help="A version of the query, the oldest first."),
    ] = None,
    output: options.OutputName = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    from jobmanager.delivery.answer import print_rows
    from jobmanager.replay.rows import bisecting

    if code:
        queries = [_query(target) for target in code]
        at = bisecting.first_wrong_version(
            root, queries, row=row, expect=expect, output=output, trust=trust
        )
        print(json.dumps({"version": code[at]}) if as_json else f"first wrong version: {code[at]}")
        return
    bisection = bisecting.bisect(root, row=row, expect=expect, output=output, trust=trust)
    if as_json:
        print(json_text(bisection.to_json()))
        return
    print(f"{bisection.wrong_rows:,} rows of the result are wrong.")
    for cause in bisection.causes:
        print(f"\n{cause.rows:,} of them become wrong with this item of {cause.source}, ", end="")
        print(f"after {cause.before:,} items:")
        print_rows(cause.item)
        print("\nThe first of them, after this item:")
        print_rows(cause.row)
    if bisection.unexplained:
        print(f"\n{bisection.unexplained:,} more rows are wrong because of other items.")


def capsule(
    root: options.Root,
    row: Row,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE.zip", callback=options.new_file, help="The file to write."
        ),
    ],
    mask: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Mask the values of this column.")
    ] = None,
    output: options.OutputName = None,
    runs_max: RunsMax = RUNS_MAX,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    from jobmanager.replay.rows import capsules

    made = capsules.make_capsule(
        root, row, str(out), output=output, mask=mask or (), runs_max=runs_max, trust=trust
    )
    size = out.stat().st_size
    rows = sum(made.manifest["rows"].values())
    if as_json:
        print(json.dumps({"file": str(out), "bytes": size, **made.manifest}))
    else:
        print(f"{out}: {size:,} bytes, {rows:,} input rows; jobmanager replay {out} --trust")


def _unstopped(replayed: Replay, break_: str | None) -> str:
    return "" if break_ is None or replayed.stops else _NO_STOP.format(vertex=replayed.vertex)


def _has_quit(error: BaseException | None) -> bool:
    """Return whether the user has left the debugger, perhaps in code whose errors are wrapped."""
    while error is not None and not isinstance(error, bdb.BdbQuit):
        error = error.__cause__ or error.__context__
    return error is not None


def _query(target: str, settings: Sequence[str] = ()) -> Query:
    from jobmanager.storage.query_file import load_query

    return load_query(target, settings)


def _audit(root: str, limit_s: float, seed: int | None, *, trust: bool, as_json: bool) -> None:
    from jobmanager.replay.rows import auditing

    os.nice(LOWEST)
    result = auditing.audit(root, limit_s, seed=seed, trust=trust)
    print(json.dumps(result.to_json()) if as_json else result)
    if not result.is_equal:
        raise typer.Exit(EXIT_DIFFERENT)


def _replay_all(
    root: str, from_: str | None, until: str | None, *, trust: bool, as_json: bool
) -> None:
    from jobmanager.replay import replaying

    equal, skipped, rows = True, {}, []
    for replayed in replaying.replay_all(root, from_=from_, until=until, trust=trust):
        if isinstance(replayed, CannotReplayError):
            skipped[replayed.what] = str(replayed)
        else:
            rows.append(replayed.to_json())
            equal &= replayed.is_equal
        if not as_json:
            print(replayed)
    if as_json:
        print(json.dumps({"equal": equal, "vertices": rows, "skipped": skipped}))
    if not rows:
        raise CannotReplayError(root, "no vertex can run again", "; ".join(skipped.values()))
    if not equal:
        raise typer.Exit(EXIT_DIFFERENT)


def _replay_capsule(
    path: str, vertex: str | None, break_: str | None, *, trust: bool, as_json: bool
) -> None:
    from jobmanager.replay.rows import capsules

    found = capsules.open_capsule(path, trust=trust)
    stops = None if break_ is None else found.stops(vertex, break_)
    is_same = found.is_reproduced(stops)
    if as_json:
        print(json.dumps({"equal": is_same, **found.manifest}))
    else:
        text = "gives this row" if is_same else "does not give this row any more"
        print(f"{path}: {sum(found.manifest['rows'].values()):,} input rows; its input {text}:")
        print(json_text(found.shown()))
        if stops is not None and not stops.count:
            print(_NO_STOP.format(vertex=stops.vertex))
    if not is_same:
        raise typer.Exit(EXIT_DIFFERENT)
