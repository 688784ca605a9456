"""Options of other engines that do not change the rows here, by dialect.

A name that ends in ``*`` stands for all names with that prefix. An option with a value in
:data:`ONE_VALUE` is accepted with this value only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.sql.tables.options import knows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from sqlglot import exp

    from planner.sql.reading.parsing import SqlText

#: How files are written or found, and how many tasks do so.
_OF_FLINK = (
    *("sink.parallelism", "sink.rolling-policy.*", "sink.partition-commit.*", "auto-compaction"),
    *("compaction.*", "sink.buffer-flush.*", "sink.max-retries", "sink.shuffle-by-partition.*"),
    *("parquet.*", "partition.default-name", "partition.time-extractor.*", "lookup.*"),
    *("source.report-statistics", "json.timestamp-format.standard", "json.map-null-key.*"),
    *("json.encode.*", "scan.fetch-size", "scan.auto-commit", "connection.max-retry-timeout"),
    *("sink.delivery-guarantee", "sink.transactional-id-prefix", "scan.topic-partition-discovery*"),
)
_OF_SPARK = (
    *("inferschema", "compression", "maxfilespertrigger", "maxbytespertrigger", "cleansource"),
    *("samplingratio", "mergeschema", "latestfirst", "maxfileage", "ignoreleadingwhitespace"),
    *("primitivesasstring", "checkpointlocation"),
)
#: By dialect, options without effect.
WITHOUT_EFFECT = {
    "ksqldb": ("partitions", "replicas", "key_format", "retention_ms"),
    "postgres": ("force_append_only", "sink_decouple"),
    "flink": _OF_FLINK,
    "spark": _OF_SPARK,
}
_MISSING = "a missing field is null here: leave it out"
#: Options with a value that does not change the rows, and what to write for other values.
ONE_VALUE = {
    "wrap_single_value": ("true", 'write messages as objects, as in {"a": 1}, and leave it out'),
    "snapshot": ("true", "a job writes all of its rows: write start = '...' for later rows"),
    "json.fail-on-missing-field": ("false", _MISSING),
    "csv.allow-comments": ("false", "take the lines with # out of the file"),
    "csv.disable-quote-character": ("false", "double quotes are around texts here"),
    "csv.quote-character": ('"', "double quotes are around texts here"),
    "quote": ('"', "double quotes are around texts here"),
    "mode": ("failfast", "write on_bad_row = 'skip' to leave bad rows out"),
    "multiline": ("false", "write one JSON value per line"),
}


def accepted(
    options: dict[str, exp.Expr],
    places: dict[str, exp.Expr],
    records: Iterable[type[Any]],
    text: SqlText,
) -> None:
    """Drop the options without effect, unless the connector has an option of that name.

    Raises:
        SqlError: an option has a value that would change the rows.
    """
    patterns = WITHOUT_EFFECT.get(text.engine.name)
    if patterns is None:
        return
    for name in list(places):
        if any(knows(record, name) for record in records):
            continue
        if name in ONE_VALUE:
            known, instead = ONE_VALUE[name]
            value, place = options.pop(name), places.pop(name)
            written = value.this if isinstance(value.this, bool) else value.name
            if str(written).lower() != known:
                raise text.error(place, f"{name} can only be {known.upper()}: {instead}")
        elif any(_is_like(name, pattern) for pattern in patterns):
            options.pop(name)
            places.pop(name)


def _is_like(name: str, pattern: str) -> bool:
    start = pattern.removesuffix("*")
    return name == pattern or (start != pattern and name.startswith(start))
