"""The configuration of an intake server: its streams with their columns, and its limits.

A TOML file has ``root`` (a folder or URL; relative to the file) and a table
``[streams.NAME.columns]`` for each stream. For a folder, the server serves the existing logs in it.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobmanager.intake.errors import IntakeConfigError
from planner.errors import InvalidPlanError
from planner.expressions.types import data_type
from rstream.intake.commits import DECLARATION
from rstream.limits import MIB, AppendLimits
from rstream.store.blobs import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_NOT_NULL = " not null"
#: Limits that must not be 0, because the server would then reject all rows.
_ABOVE_ZERO = (
    *("body_bytes_max", "bytes_in_flight_max", "rows_in_flight_max", "posts_waiting_max"),
    *("connections_max", "flight_calls_max", "flight_batches_waiting_max", "flight_silence_s"),
    *("body_wait_s", "answer_wait_s"),
    *("commit_rows_max", "segment_commits_max", "segments_waiting_max", "waiting_appends_max"),
    *("waiting_bytes_max", "producers_max"),
)


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """The limits of one intake server."""

    #: Most bytes of one post. A longer one gets status 413.
    body_bytes_max: int = 16 * MIB
    #: Most bytes of all unanswered posts together. Beyond that, a post gets status 429.
    bytes_in_flight_max: int = 256 * MIB
    #: Most rows of all unanswered posts together. Beyond that, a post gets status 429.
    rows_in_flight_max: int = 1 << 20
    #: Most unanswered posts. Beyond that, a post gets status 503.
    posts_waiting_max: int = 2048
    #: Most HTTP connections. A further connection is closed.
    connections_max: int = 4096
    #: Most Flight calls, each with two threads. A further call gets status 429.
    flight_calls_max: int = 256
    #: Most unanswered batches of one Flight call. Then the server waits for an answer before it
    #: reads the next batch.
    flight_batches_waiting_max: int = 64
    #: A Flight call without a message in either direction for this time is ended with its
    #: connection. The time while the producer waits for an answer that is not due does not count.
    flight_silence_s: float = 300.0
    #: Most seconds to receive the bytes of an HTTP post. A slower one gets status 408.
    body_wait_s: float = 30.0
    #: Most seconds until a post is durable. A slower one gets status 503, and may still become
    #: durable.
    answer_wait_s: float = 30.0
    #: Seconds after which a rejected producer may post again (``Retry-After``).
    retry_after_s: int = 1
    #: Most seconds that a stopping server waits for unanswered posts.
    shutdown_wait_s: int = 30


@dataclass(frozen=True, slots=True)
class IntakeConfig:
    """The streams of a server with their schemas. A schema of None: the log must exist already."""

    root: str
    streams: Mapping[str, pa.Schema | None]
    limits: IntakeLimits = field(default_factory=IntakeLimits)
    append_limits: AppendLimits = field(default_factory=AppendLimits)

    def uri(self, stream: str) -> str:
        """Return the uri of the log of a stream."""
        return f"{self.root.rstrip('/')}/{stream}"

    def with_retention(self, retention_us: int) -> IntakeConfig:
        """Return a copy with this retention for the rows of all logs."""
        return replace(
            self, append_limits=replace(self.append_limits, retention_s=retention_us / 1e6)
        )


def load_config(root_or_file: str) -> IntakeConfig:
    """Load the streams of a ``.toml`` file, or list the existing logs of a folder.

    Raises:
        IntakeConfigError: there is no stream, or the file has an invalid value.
    """
    if root_or_file.endswith(".toml"):
        return _of_file(root_or_file)
    names = [name.rpartition("/") for name in open_store(root_or_file).list()]
    streams = {folder: None for folder, _, file in names if file == DECLARATION and folder}
    config = IntakeConfig(root_or_file, {name: None for name in streams if _NAME.fullmatch(name)})
    if not config.streams:
        raise IntakeConfigError(
            root_or_file,
            "it has no stream; declare streams with their columns in a file, and give FILE.toml",
        )
    return config


def _of_file(path: str) -> IntakeConfig:
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise IntakeConfigError(path, str(error)) from error
    _check_keys(path, document, {"root", "streams", "limits", "append_limits"})
    root, tables = document.get("root"), document.get("streams")
    if not isinstance(root, str) or not isinstance(tables, dict) or not tables:
        reason = 'it needs root = "FOLDER" and a table [streams.NAME.columns] for each stream'
        raise IntakeConfigError(path, reason)
    if "://" not in root:
        root = os.path.join(os.path.dirname(os.path.abspath(path)), root)
    return IntakeConfig(
        root,
        {name: _columns(path, name, table) for name, table in tables.items()},
        _limits(path, IntakeLimits(), document.get("limits", {})),
        _limits(path, AppendLimits(), document.get("append_limits", {})),
    )


def _columns(path: str, name: str, table: Any) -> pa.Schema:
    if not _NAME.fullmatch(name):
        reason = f"stream {name!r}: a name may have only letters, digits and, but not first, _.-"
        raise IntakeConfigError(path, reason)
    columns = table.get("columns") if isinstance(table, dict) else None
    if not isinstance(columns, dict) or not columns:
        raise IntakeConfigError(path, f"stream {name} needs a table [streams.{name}.columns]")
    _check_keys(path, table, {"columns"})
    fields = []
    for column, kind in columns.items():
        try:
            type_ = data_type(str(kind).removesuffix(_NOT_NULL))
        except (InvalidPlanError, ValueError, TypeError) as error:
            reason = f"stream {name}, column {column}: {error}"
            raise IntakeConfigError(path, reason) from error
        fields.append(pa.field(column, type_, nullable=not str(kind).endswith(_NOT_NULL)))
    return pa.schema(fields)


def _limits(path: str, limits: Any, given: Any) -> Any:
    known = {f.name for f in fields(limits)}
    if not isinstance(given, dict):
        raise IntakeConfigError(path, "limits must be a table of numbers")
    _check_keys(path, given, known)
    for name, value in given.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf:
            raise IntakeConfigError(path, f"{name} must be a number of 0 or more, not {value!r}")
        if value == 0 and name in _ABOVE_ZERO:
            raise IntakeConfigError(path, f"{name} = 0 would reject all rows: leave it out")
    return replace(limits, **given)


def _check_keys(path: str, given: dict[str, Any], known: set[str]) -> None:
    for name in given:
        if name not in known:
            raise IntakeConfigError(path, f"{name!r} is not one of {', '.join(sorted(known))}")
