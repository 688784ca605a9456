"""Spark Structured Streaming: file source, append mode, Parquet sink, ``availableNow``.

Windows close only when a later event comes, so windowed queries also read one event of each kind
far in the future, from a folder of links; its rows are never emitted. The time runs from the start
of the first micro-batch to the end of the query.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nexmark.spark_sql import SPARK_SQL, WINDOWED, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER = "local[2]"
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_HEAP = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "6g",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "ERROR",
}


class System:
    """Uses one session for all queries."""

    NAMES = tuple(SPARK_SQL)
    VARIANTS: tuple[dict[str, object], ...] = (
        {"files": 4, "store": "memory"},
        {"files": 4, "store": "rocksdb"},
        {"files": 1_000, "store": "memory"},
        {"files": 1, "store": "memory"},
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._scratch = Path(tempfile.mkdtemp(prefix="nexmark-spark-"))
        self._spark = _session(self._scratch)
        for kind in ("person", "auction", "bid"):
            _link(folder, self._scratch, kind)

    def run(self, name: str, out: Path, variant: dict[str, object]) -> float:
        """Run a query; the time runs from the first micro-batch's start to the query's end."""
        provider = _ROCKS if variant.get("store") == "rocksdb" else _HEAP
        self._spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
        query = SPARK_SQL[name]
        root = self._scratch if name in WINDOWED else self._folder
        for kind in query.kinds:
            self._view(kind, root / kind, query, int(str(variant.get("files", 1_000))))
        if "side" in query.sql:
            side = self._spark.read.parquet(str(self._folder / "side"))
            side.createOrReplaceTempView("side")
        for view, text in query.views.items():
            self._spark.sql(text).createOrReplaceTempView(view)
        checkpoint = tempfile.mkdtemp(dir=self._scratch)
        writer = self._spark.sql(query.sql).writeStream.format("parquet").outputMode("append")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        running = writer.start(str(out))
        running.awaitTermination()
        ended_s = time.time()
        first = datetime.fromisoformat(running.recentProgress[0]["timestamp"])
        shutil.rmtree(checkpoint, ignore_errors=True)
        return ended_s - first.timestamp()

    def _view(self, kind: str, path: Path, query: Query, files: int) -> None:
        schema = self._spark.read.parquet(str(self._folder / kind)).schema
        reader = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
        frame: DataFrame = reader.parquet(str(path))
        if kind in query.watermarks:
            column, delay = query.watermarks[kind]
            frame = frame.withWatermark(column, delay)
        frame.createOrReplaceTempView(kind)


def _session(scratch: Path) -> SparkSession:
    from pyspark.sql import SparkSession  # only where this system runs

    builder = SparkSession.builder.master(MASTER).appName("nexmark")
    builder = builder.config("spark.local.dir", str(scratch))
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _link(folder: Path, scratch: Path, kind: str) -> None:
    (scratch / kind).mkdir()
    for file in sorted((folder / kind).glob("*.parquet")):
        os.link(file, scratch / kind / file.name)
    # a file source reads by time of change, so this file is read last
    shutil.copy(folder / "last" / kind / "last.parquet", scratch / kind / "9999.parquet")
