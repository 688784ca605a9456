"""Source specs that job format 9 stored, as this release reads them.

Not covered: a pickle that names other classes; the stored roots have real ones.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from rvertex.sources.spec import (
    Bound,
    Checks,
    Csv,
    Json,
    Live,
    LiveFolder,
    Parquet,
    PlanItems,
    PushedRows,
    SourceSpec,
    Streams,
    Text,
    Topic,
)
from rvertex.user_code.errors import StoredRecordError
from rvertex.user_code.stored import rebuilt

COLUMNS = pa.schema([("t", pa.int64())])
COMMON = {"path": "p", "schema": COLUMNS, "columns": COLUMNS, "vs": "t", "delay_us": 5}
BOUNDS = (Bound("t", ">", 3),)
SERVERS = (("bootstrap.servers", "b:1"),)
OF_TOPIC = (
    ("avro_schema", "{}"), ("away_max_us", 9), ("key", "a\nb"), ("not_null", '["t"]'),
    ("start", 'offsets:{"1": 4, "0": 7}'), ("until", "time:-8"),
)  # fmt: skip


def log(
    idle: str = "follow", idle_after_us: int = 2_000_000, on_lost: str = "fail", **more: Any
) -> SimpleNamespace:
    """What remains of a ``LogSpec``: the values of its fields."""
    others = {
        "on_error": "fail", "skew_us": None, "max_ahead_us": None, "is_bounded": False,
        "taken_files": "unchanged", "encoding": "", "config": (),
    }  # fmt: skip
    named = {"idle": idle, "idle_after_us": idle_after_us, "on_lost": on_lost, **others, **more}
    made: SimpleNamespace = rebuilt(SimpleNamespace, named)
    return made


FOLLOWS = log(
    "clock", 7, "skip", on_error="dead_letter", skew_us=3, max_ahead_us=11, taken_files="kept"
)


@pytest.mark.parametrize(
    ("former", "expected"),
    [
        (
            {"format": "parquet", "wanted": BOUNDS, "folder_columns": ("d",), "casts": ("t",)},
            {"kind": Parquet(BOUNDS, folder_columns=("d",), casts=("t",))},
        ),
        (
            {
                "format": "csv",
                "latest_us": 6,
                "options": (
                    ("delimiter", ";"), ("encoding", "latin-1"), ("lengths", '{"t": 4}'),
                    ("max_ahead_us", 2), ("null_values", ",n/a"), ("on_bad_row", "skip"),
                ),
            },
            {
                "kind": Csv(";", ("", "n/a"), "latin-1"),
                "checks": Checks("skip", lengths=(("t", 4),), max_ahead_us=2, latest_us=6),
            },
        ),
        (
            {
                "format": "json",
                "log": FOLLOWS,
                "options": (("log_partitions", 2), ("poll_every_us", 8), ("on_bad_row", "skip")),
            },
            {
                "kind": Json(),
                "live": LiveFolder("clock", 7, "skip", 3, "kept", 2, 8),
                "checks": Checks("dead_letter", max_ahead_us=11),
            },
        ),
        ({"format": "text", "path": "p\nq"}, {"kind": Text(more_paths=("q",))}),
        (
            {"format": "rstream", "log": log("wait")},
            {"kind": Streams(), "live": Live("wait")},
        ),
        (
            {"format": "log", "log": log(), "options": (("log_partitions", 1),)},
            {"kind": PushedRows(), "live": Live()},
        ),
        (
            {
                "format": "kafka",
                "log": log(encoding="avro", config=SERVERS, is_bounded=True),
                "options": OF_TOPIC,
            },
            {
                "kind": Topic("avro", SERVERS, ((0, 7), (1, 4)), -8, ("a", "b"), "{}", 9),
                "live": Live(),
                "checks": Checks(not_null=("t",)),
            },
        ),
        (
            {"format": "kafka", "log": log("wait", 5), "options": (("start", "latest"),)},
            {"kind": Topic("", (), "latest"), "live": Live("wait", 5)},
        ),
        ({"format": "csv"}, {"kind": Csv()}),
        ({"format": "csv", "options": (("delimiter", ";"),)}, {"kind": Csv(";")}),
        (
            {"format": "kafka", "log": SimpleNamespace()},
            {"kind": Topic("", ()), "live": Live()},
        ),
        (
            {"format": "json", "log": SimpleNamespace(), "options": (("log_partitions", 1),)},
            {"kind": Json(), "live": LiveFolder()},
        ),
    ],
)  # fmt: skip
def test_a_source_of_a_former_release_is_equal(
    former: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert rebuilt(SourceSpec, {**COMMON, **former}) == SourceSpec(**COMMON, **expected)


def test_items_of_a_capsule_are_stored_separately() -> None:
    rows = pa.RecordBatch.from_pylist([{"t": 1}])
    for given, count in ((rows, 1), (None, 0)):
        kind = rebuilt(SourceSpec, {**COMMON, "format": "items", "items": given}).kind
        assert isinstance(kind, PlanItems)
        assert kind.rows.num_rows == count


def test_an_unknown_field_is_still_an_error() -> None:
    with pytest.raises(StoredRecordError, match="does not know field 'speed'"):
        rebuilt(SourceSpec, {**COMMON, "format": "text", "speed": 3})
