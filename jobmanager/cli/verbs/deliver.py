"""The verb ``deliver``: sends the output of a job to a destination, from a separate process."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from jobmanager.cli import options  # noqa: TC001 - typer reads the annotations
from jobmanager.cli.requests import status_of
from jobmanager.delivery.standalone import deliver as deliver_from
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.root import RETRY, JobRoot
from planner.api import sinks
from planner.physical.literal_secrets import sink_notes
from rstream.errors import UsageError

if TYPE_CHECKING:
    from rvertex.sinks.spec import KafkaFormat, SinkSpec

To = Annotated[
    str | None,
    typer.Option(
        metavar="kafka:TOPIC|postgres:TABLE|console",
        help="Where to deliver; default: the destinations of the query.",
    ),
]
Columns = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A key column; may be repeated.")
]
ConfigItems = Annotated[
    list[str] | None,
    typer.Option(
        "--config", metavar="NAME=VALUE", help="An option of librdkafka; may be repeated."
    ),
]
Upsert = Annotated[
    bool, typer.Option("--upsert", help="Kafka only: one value per key, and tombstones.")
]
Changes = Annotated[
    bool,
    typer.Option(
        "--changes", help="Deliver starts and ends of rows as changes, with a first column 'op'."
    ),
]
DeletesOption = Annotated[
    Literal["delete", "mark", "ignore"] | None,
    typer.Option(help="With --mode upsert: what to do with a row that ends."),
]


def deliver(
    root: options.Root,
    to: To = None,
    servers: Annotated[str | None, typer.Option(help="Kafka's bootstrap servers.")] = None,
    dsn: Annotated[
        str | None, typer.Option(help="PostgreSQL's connection string, env:NAME or file:/PATH.")
    ] = None,
    mode: Annotated[
        Literal["transactions", "headers", "append", "upsert"] | None,
        typer.Option(help="Kafka: transactions (default) or headers. Tables: append or upsert."),
    ] = None,
    format: Annotated[
        Literal["json", "avro", "arrow", "debezium-json"],
        typer.Option(help="The format of Kafka records."),
    ] = "json",
    key: Columns = None,
    upsert: Upsert = False,
    changes: Changes = False,
    deletes: DeletesOption = None,
    config: ConfigItems = None,
    name: Annotated[
        str, typer.Option(help="Name of the delivery, under which its position is stored.")
    ] = "",
    on_bad_row: Annotated[
        Literal["fail", "dead_letter"] | None,
        typer.Option(help="If the destination rejects a row: fail, or keep it as a dead letter."),
    ] = None,
    start: Annotated[int, typer.Option("--from", min=0, help="First item of a new delivery.")] = 0,
    retry: Annotated[
        bool, typer.Option("--retry", help="Make a running job retry failed deliveries.")
    ] = False,
    output: options.OutputName = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    if retry and to is not None:
        raise UsageError("--retry is for the deliveries that the query names: leave out --to")
    if retry and _retry(root, as_json=as_json):
        return
    specs: tuple[SinkSpec, ...] = ()
    if to is not None:
        more: dict[str, Any] = {"mode": mode, "on_bad_row": on_bad_row, "deletes": deletes}
        more |= {"changes": changes, "upsert": upsert}
        given = {"key": key or [], "name": name} | {k: v for k, v in more.items() if v}
        specs = (_spec(to, servers, dsn, format, config or [], given),)
    elif on_bad_row or changes or upsert or deletes:
        reason = "--on-bad-row, --changes, --upsert and --deletes need a destination: add --to"
        raise UsageError(reason)
    for note in sink_notes(specs):
        print(f"jobmanager: note: {note}", file=sys.stderr)
    rows = _delivered(root, specs, start, output, trust=trust)
    if as_json:
        print(json.dumps({"deliveries": rows}))
    if any(row["state"] != "finished" for row in rows):
        raise typer.Exit(1)
    _note_failed(root, specs)


STILL_FAILED = "all rows are delivered, but the job is still shown as failed: jobmanager resume {}"


def _note_failed(root: str, specs: tuple[SinkSpec, ...]) -> None:
    if not specs and status_of(root)["state"] == "failed":
        print(f"jobmanager: note: {STILL_FAILED.format(root)}", file=sys.stderr)


def _delivered(
    root: str, specs: tuple[SinkSpec, ...], start: int, output: str | None, *, trust: bool
) -> list[dict[str, Any]]:
    """Deliver, and print each change of a partition's state, and finally the rows."""
    shown: set[str] = set()

    def show(rows: list[dict[str, Any]]) -> None:
        for line in map(_line, rows):
            if line not in shown:
                shown.add(line)
                print(line, file=sys.stderr, flush=True)

    try:
        rows = deliver_from(root, specs, start_seq=start, output=output, trust=trust, on_rows=show)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    show(rows)
    return rows


def _retry(root: str, *, as_json: bool) -> bool:
    """Request the job manager to try again, unless the job has ended and delivers no more rows."""
    status = status_of(root)
    if status["state"] not in OPEN_STATES:
        return False
    JobRoot(root).request(RETRY)
    print(json.dumps({"job": status["job"], "retry": "requested"}) if as_json else "requested")
    return True


def _line(row: dict[str, Any]) -> str:
    reason = f": {row['error']}" if row["error"] else ""
    return f"{row['delivery']}, partition {row['partition']}: {row['state']}{reason}"


def _spec(
    to: str,
    servers: str | None,
    dsn: str | None,
    format: KafkaFormat,
    config: list[str],
    given: dict[str, Any],
) -> SinkSpec:
    kind, _, place = to.partition(":")
    for option, of in (("upsert", "kafka"), ("deletes", "postgres")):
        if option in given and kind != of:
            raise UsageError(f"--{option} is an option of {of}, not of --to {to}")
    if kind == "kafka" and place and servers:
        settings = dict(item.split("=", 1) for item in config if "=" in item)
        return sinks.kafka(place, servers=servers, format=format, config=settings, **given)
    if kind == "postgres" and place and dsn:
        return sinks.postgres(dsn, place, **given)
    if to == "console":
        return sinks.console(name=given["name"], changes=given.get("changes", False))
    raise UsageError(
        f"--to {to}: give kafka:TOPIC with --servers, postgres:TABLE with --dsn, or console"
    )
