"""Flink SQL in a local cluster inside of its JVM: streaming mode, file source and file sink.

The wheel of PyFlink reads no Parquet (that is a separate JAR), so each table is written as CSV at
start-up, the bids once with all columns and once with the numeric ones only. The answer is CSV,
too. The time runs from submitting the job to its end.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq
from pyflink.table import EnvironmentSettings, TableEnvironment

from nexmark.flink_sql import FLINK_SQL

_SETTINGS = {
    "table.local-time-zone": "UTC",
    "execution.checkpointing.interval": "5 s",
    "taskmanager.memory.process.size": "4 gb",
    "taskmanager.numberOfTaskSlots": "4",
    "table.exec.source.idle-timeout": "5 s",
}
_TYPES = {pa.int64(): "BIGINT", pa.string(): "STRING", pa.timestamp("us"): "BIGINT"}
_TIMES = {"date_time", "expires", "auction_time", "start", "stop", "day"}
_NUMBERS = ["auction", "bidder", "price", "date_time"]
#: Queries that need only the numeric columns of a bid.
_NARROW = {"q2", "q5", "q11", "q12", "q15", "q17"}


class System:
    """Uses one table environment per order, in one JVM."""

    NAMES = tuple(FLINK_SQL)
    VARIANTS: tuple[dict[str, object], ...] = ({"parallelism": 2}, {"parallelism": 1})

    def __init__(self, folder: Path) -> None:
        self._csv = Path(tempfile.mkdtemp(prefix="nexmark-flink-"))
        self._ddl = {kind: self._written(folder, kind) for kind in ("person", "auction", "bid")}
        self._ddl["numbers"] = self._written(folder, "bid", _NUMBERS)

    def run(self, name: str, out: Path, variant: dict[str, object]) -> float:
        """Run a query; the time runs from submitting the job to its end."""
        tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        for key, value in {**_SETTINGS, "parallelism.default": variant["parallelism"]}.items():
            tables.get_config().set(key, str(value))
        for kind in ("person", "auction", "bid"):
            tables.execute_sql(self._ddl["numbers" if kind == "bid" and name in _NARROW else kind])
        answer = tables.sql_query(FLINK_SQL[name])
        columns = answer.get_schema().get_field_names()
        listed = ", ".join(f"`{column}` STRING" for column in columns)
        where = f"'connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv'"
        tables.execute_sql(f"CREATE TABLE answer ({listed}) WITH ({where})")
        casts = ", ".join(f"CAST(`{column}` AS STRING)" for column in columns)
        tables.create_temporary_view("rows_of_answer", answer)
        started_s = time.perf_counter()
        tables.execute_sql(f"INSERT INTO answer SELECT {casts} FROM rows_of_answer").wait()
        elapsed_s = time.perf_counter() - started_s
        _to_parquet(out, columns)
        return elapsed_s

    def _written(self, folder: Path, kind: str, columns: list[str] | None = None) -> str:
        """Write a table as CSV; return the statement that declares it."""
        path = self._csv / ("numbers" if columns else kind)
        path.mkdir()
        for file in sorted((folder / kind).glob("*.parquet")):
            table = pq.read_table(file, columns=columns)
            types = {field.name: field.type for field in table.schema}
            for at, (column, kind_of) in enumerate(types.items()):
                if pa.types.is_timestamp(kind_of):
                    table = table.set_column(at, column, table[column].cast(pa.int64()))
            options = pyarrow.csv.WriteOptions(include_header=False)
            pyarrow.csv.write_csv(table, path / f"{file.stem}.csv", options)
        listed = [f"`{column}` {_TYPES[kind_of]}" for column, kind_of in types.items()]
        listed.append("ts AS TO_TIMESTAMP_LTZ(date_time / 1000, 3)")
        listed.append("WATERMARK FOR ts AS ts - INTERVAL '0.1' SECOND")
        where = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv'"
        return f"CREATE TABLE {kind} ({', '.join(listed)}) WITH ({where})"


def _to_parquet(out: Path, columns: list[str]) -> None:
    """Convert the CSV files of an answer to one Parquet file of texts."""
    names = list(columns)
    text = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    reading = pyarrow.csv.ReadOptions(column_names=names)
    parts = [
        pyarrow.csv.read_csv(file, reading, convert_options=text)
        for file in sorted(out.iterdir())
        if file.is_file() and file.stat().st_size
    ]
    table = pa.concat_tables(parts)
    for at, column in enumerate(table.schema.names):
        if column in _TIMES:
            values = table[column]
            if pa.compute.all(pa.compute.utf8_is_digit(values)).as_py():
                values = values.cast(pa.int64())
            table = table.set_column(at, column, values.cast(pa.timestamp("us")))
    pq.write_table(table, out / "answer.parquet")
