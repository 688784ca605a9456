"""Reads source specs as job format 9 stored them before each kind of source had its own record."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.items.batch import item_schema
from rvertex.sources.spec import (
    Checks,
    Csv,
    Idle,
    Json,
    Live,
    LiveFolder,
    OnBadRow,
    OnLost,
    Parquet,
    PlanItems,
    PushedRows,
    SourceKind,
    Streams,
    TakenFiles,
    Text,
    Topic,
    TopicPlace,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_NULLS = ",NA,N/A,NULL,null,NaN,nan,None"


@dataclass(frozen=True, slots=True)
class FormerLog:
    """The former ``LogSpec``."""

    idle: Idle = "follow"
    idle_after_us: int = 2_000_000
    on_lost: OnLost = "fail"
    on_error: OnBadRow = "fail"
    skew_us: int | None = None
    max_ahead_us: int | None = None
    is_bounded: bool = False
    taken_files: TakenFiles = "unchanged"
    encoding: str = ""
    config: tuple[tuple[str, str], ...] = ()


def converted(former: Mapping[str, Any]) -> dict[str, Any]:
    """Return the present fields for the former fields of a source."""
    left = {"latest_us": None, "options": (), "items": None, "wanted": (), "log": None, **former}
    options: dict[str, Any] = dict(left.pop("options"))
    log: FormerLog | None = left.pop("log")
    kind = _kind(left, options, log)
    policy, ahead_us = options.get("on_bad_row", "fail"), options.get("max_ahead_us")
    if log is not None:
        policy, ahead_us = log.on_error, log.max_ahead_us
        rules = (log.idle, log.idle_after_us, log.on_lost, log.skew_us)
        places = options.get("log_partitions", 1), options.get("poll_every_us", 1_000_000)
        is_folder = "log_partitions" in options and kind.format != "log"
        left["live"] = LiveFolder(*rules, log.taken_files, *places) if is_folder else Live(*rules)
    not_null = tuple(json.loads(options.get("not_null", "[]")))
    lengths = tuple(json.loads(options.get("lengths", "{}")).items())
    checks = Checks(policy, not_null, lengths, ahead_us, left.pop("latest_us"))
    return {**left, "kind": kind, "checks": checks}


def _kind(left: dict[str, Any], options: dict[str, Any], log: FormerLog | None) -> SourceKind:
    """Return the kind; its fields are removed from ``left``."""
    names = ("casts", "given", "folder_columns", "folders")
    files = {name: left.pop(name) for name in names if name in left}
    items, wanted = left.pop("items"), left.pop("wanted")
    encoding = options.get("encoding", "utf-8")
    match left.pop("format"):
        case "parquet":
            return Parquet(wanted, **files)
        case "csv":
            nulls = tuple(options.get("null_values", _NULLS).split(","))
            return Csv(options.get("delimiter", ","), nulls, encoding, **files)
        case "json":
            return Json(encoding, **files)
        case "text":
            return Text(**files)
        case "items":
            if items is None:  # a capsule stores its rows elsewhere
                items = pa.RecordBatch.from_pylist([], schema=item_schema(left["schema"]))
            return PlanItems(items)
        case "rstream":
            return Streams()
        case "log":
            return PushedRows()
    assert log is not None, "a topic is live"
    return Topic(
        log.encoding,
        log.config,
        start=_place(options["start"]),
        until=_place(options["until"]) if "until" in options else None,
        key=tuple(filter(None, options.get("key", "").split("\n"))),
        avro_schema=options.get("avro_schema", ""),
        away_max_us=options.get("away_max_us"),
    )


def _place(text: str) -> TopicPlace:
    kind, _, value = text.partition(":")
    if kind == "time":
        return int(value)
    if kind == "offsets":
        return tuple(sorted((int(p), offset) for p, offset in json.loads(value).items()))
    return "latest" if text == "latest" else "earliest"
