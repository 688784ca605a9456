"""A Spark Structured Streaming query in a separate process, which a benchmark starts and kills.

It reads the Parquet files that a feeder writes into a folder, and appends to a Parquet folder with
a checkpoint, which is what Spark's guide calls exactly-once. It prints ``READY`` when the query
runs, and ends when its standard input is closed.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession, functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "time timestamp, key long, value long"
INTERVALS = "start timestamp, stop timestamp, key long, tag long"


def windowed(events: DataFrame, window_us: int) -> DataFrame:
    """Count and sum by key and window; only final results."""
    window = f.window("time", f"{window_us} microseconds")
    groups = events.withWatermark("time", "0 seconds").groupBy(window, "key")
    sums = groups.agg(f.count("*").alias("n"), f.sum("value").alias("total"))
    start = f.unix_micros("window.start").alias("_vs")
    return sums.select(start, "key", "n", "total")


def filtered(events: DataFrame) -> DataFrame:
    """Keep one row in ten and compute a column."""
    cheap = events.where("value <= 1000")
    time = f.unix_micros("time").alias("_vs")
    return cheap.select(time, "key", (f.col("value") * 0.908).alias("euros"))


def joined(events: DataFrame, intervals: DataFrame) -> DataFrame:
    """Join events with the intervals of their key that are alive at that moment."""
    left = events.withWatermark("time", "0 seconds").alias("l")
    right = intervals.withWatermark("start", "0 seconds").alias("r")
    alive = "l.key = r.key and l.time >= r.start and l.time < r.stop"
    # Spark needs a bound on both sides to delete state; no interval is longer.
    bound = "l.time < r.start + interval 1 second"
    both = left.join(right, f.expr(f"{alive} and {bound}"))
    return both.select(f.unix_micros("l.time").alias("_vs"), f.col("l.key").alias("key"), "tag")


def main() -> None:
    """Run one query until the standard input is closed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True, help="has in/, gets out/ and checkpoint/")
    parser.add_argument("--query", choices=["filter", "window", "join"], required=True)
    parser.add_argument("--window-us", type=int, default=20_000)
    parser.add_argument("--master", required=True)
    args = parser.parse_args()
    builder = SparkSession.builder.master(args.master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.executor.memory", "1g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    events = spark.readStream.schema(SCHEMA).parquet(f"{args.folder}/in")
    if args.query == "window":
        answer = windowed(events, args.window_us)
    elif args.query == "filter":
        answer = filtered(events)
    else:
        others = spark.readStream.schema(INTERVALS).parquet(f"{args.folder}/intervals")
        answer = joined(events, others)
    writer = answer.writeStream.format("parquet").outputMode("append")
    writer = writer.option("checkpointLocation", f"{args.folder}/checkpoint")
    stream = writer.start(f"{args.folder}/out")
    print("READY", flush=True)
    sys.stdin.read()
    stream.stop()
    spark.stop()


if __name__ == "__main__":
    main()
