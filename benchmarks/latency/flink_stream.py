"""A Flink SQL query in a separate process, in Flink's environment, for a benchmark.

Events come as lines over a socket, the only source in Flink's wheel that needs no files; results
leave by Flink's print sink, on this process's standard output, as they are made (not when a
checkpoint commits them). The program prints ``READY`` before the query starts; the query ends with
the process. Everything runs in Java, in a local cluster inside the JVM that PyFlink starts.
"""

from __future__ import annotations

import argparse

from pyflink.common import Configuration
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

#: The shortest intervals that Flink's documentation suggests for low latency.
SETTINGS = {
    "execution.buffer-timeout.interval": "1 ms",
    "pipeline.auto-watermark-interval": "1 ms",
    "table.local-time-zone": "UTC",
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "8",
    "rest.port": "0",
}
#: One row per line: time in microseconds, then these columns.
EVENTS, INTERVALS = ("at", "key", "value"), ("start", "stop", "key", "tag")


def main() -> None:
    """Run one query until the sockets are closed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", choices=["filter", "window", "join"], required=True)
    parser.add_argument("--window-us", type=int, default=10_000)
    parser.add_argument("--ports", type=int, nargs="+", required=True)
    args = parser.parse_args()
    configuration = Configuration()
    for name, value in SETTINGS.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    tables = StreamTableEnvironment.create(env)
    view(env, tables, "events", args.ports[0], EVENTS)
    if args.query == "join":
        view(env, tables, "intervals", args.ports[1], INTERVALS)
    tables.execute_sql(
        "CREATE TABLE answer (vs BIGINT, k BIGINT, v BIGINT) WITH ('connector' = 'print')"
    )
    print("READY", flush=True)
    tables.execute_sql(f"INSERT INTO answer {sql(args.query, args.window_us)}").wait()


def view(
    env: StreamExecutionEnvironment,
    tables: StreamTableEnvironment,
    name: str,
    port: int,
    columns: tuple[str, ...],
) -> None:
    """Create a table of the lines of a socket, ordered by its time attribute ``ts``."""
    lines = DataStream(env._j_stream_execution_environment.socketTextStream("127.0.0.1", port))
    schema = Schema.new_builder().column("f0", DataTypes.STRING())
    for k, column in enumerate(columns):
        schema = schema.column_by_expression(
            f"c_{column}", f"CAST(SPLIT_INDEX(f0, ',', {k}) AS BIGINT)"
        )
    micros = "CAST(SPLIT_INDEX(f0, ',', 0) AS BIGINT)"
    schema = schema.column_by_expression("ts", f"TO_TIMESTAMP_LTZ({micros} / 1000, 3)")
    schema = schema.watermark("ts", "ts - INTERVAL '0.001' SECOND")
    tables.create_temporary_view(name, tables.from_data_stream(lines, schema.build()))


def sql(query: str, window_us: int) -> str:
    """Return the query; Flink's times have milliseconds, so windows are whole milliseconds."""
    if query == "filter":
        return "SELECT c_at, c_key, c_value FROM events WHERE c_value <= 1000"
    if query == "window":
        size = f"INTERVAL '{window_us / 1e6:.3f}' SECOND"
        return f"""
            SELECT CAST(UNIX_TIMESTAMP(CAST(window_start AS STRING)) AS BIGINT) * 1000000
                + EXTRACT(MICROSECOND FROM window_start), c_key, SUM(c_value)
            FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), {size}))
            GROUP BY window_start, window_end, c_key
        """
    return """
        SELECT e.c_at, e.c_key, i.c_tag FROM events AS e JOIN intervals AS i ON e.c_key = i.c_key
        AND e.ts BETWEEN i.ts AND i.ts + INTERVAL '1' SECOND
        AND e.c_at >= i.c_start AND e.c_at < i.c_stop
    """


if __name__ == "__main__":
    main()
