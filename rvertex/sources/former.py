"""Reads source specs as job format 9 stored them before each kind of source had its own record."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from rstream.items.batch import item_schema
from rvertex.sources.spec import (
    Checks,
    Csv,
    Json,
    Live,
    LiveFolder,
    Parquet,
    PlanItems,
    PushedRows,
    SourceKind,
    Streams,
    Text,
    Topic,
    TopicPlace,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


#: Former defaults, for a record without the option or field.
_OPTIONS = {"delimiter": ",", "null_values": ",NA,N/A,NULL,null,NaN,nan,None", "start": "earliest"}
_LOG = {
    "idle": "follow",
    "idle_after_us": 2_000_000,
    "on_lost": "fail",
    "on_error": "fail",
    "skew_us": None,
    "max_ahead_us": None,
    "taken_files": "unchanged",
    "encoding": "",
    "config": (),
}


def converted(former: Mapping[str, Any]) -> dict[str, Any]:
    """Return the present fields for the former fields of a source."""
    left = {"latest_us": None, "options": (), "items": None, "wanted": (), "log": None, **former}
    options: dict[str, Any] = _OPTIONS | dict(left.pop("options"))
    log: Any = left.pop("log")
    log = None if log is None else SimpleNamespace(**{**_LOG, **vars(log)})
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


def _kind(left: dict[str, Any], options: dict[str, Any], log: Any) -> SourceKind:
    """Return the kind; its fields are removed from ``left``."""
    names = ("casts", "given", "folder_columns", "folders")
    files = {name: left.pop(name) for name in names if name in left}
    left["path"], *more = left["path"].split("\n")
    files["more_paths"] = tuple(more)
    items, wanted = left.pop("items"), left.pop("wanted")
    encoding = options.get("encoding", "utf-8")
    match left.pop("format"):
        case "parquet":
            return Parquet(wanted, **files)
        case "csv":
            nulls = tuple(options["null_values"].split(","))
            return Csv(options["delimiter"], nulls, encoding, **files)
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
    if text.startswith("time:"):
        return int(text.removeprefix("time:"))
    if text in ("earliest", "latest"):
        return cast("TopicPlace", text)
    offsets = json.loads(text.removeprefix("offsets:"))
    return tuple(sorted((int(p), offset) for p, offset in offsets.items()))
