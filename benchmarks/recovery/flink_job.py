"""Submits a recovery benchmark's job to a Flink cluster, in Flink's environment.

Source, window and sink are Flink's own: its data generator source (replayable: a checkpoint has the
index of the next event), SQL's tumbling window, and its file sink, whose files appear when a
checkpoint commits them; the same rows are printed on the task managers' standard output. All of it
runs in Java. The generator calls a user function with an index: ``PACED_EVENTS``, also in Java,
reads the load from a file and waits until the event is due. Flink's own compiler for generated code
(Janino) compiles it, so no JDK is needed.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from pathlib import Path

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import Source
from pyflink.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

#: Each returns a half of the events.
READERS = 2
#: The class of ``PACED_EVENTS``.
NAME = "PacedEvents"
#: Two readers have half of the indices each, and return their events at the same rate.
PACED_EVENTS = """
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.time.Instant;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.connector.datagen.source.GeneratorFunction;

public class PacedEvents implements GeneratorFunction {
    /** So long it waits for the file that says when the first event is due; it looks so often. */
    private static final long START_WAIT_MS = 120000L;
    private static final long LOOK_MS = 5L;

    private final String folder;
    private transient ByteBuffer rows;
    private transient long eventsOfReader, rate, firstUs, startedUs, nowUs;

    public PacedEvents(String folder) { this.folder = folder; }

    public void open(SourceReaderContext context) throws Exception {
        rows = ByteBuffer.wrap(Files.readAllBytes(new File(folder, "events").toPath()));
        eventsOfReader = rows.getLong(0);
        rate = rows.getLong(8);
        firstUs = rows.getLong(16);
    }

    public Object map(Object index) throws Exception {
        if (startedUs == 0) startedUs = whenStarted();
        long reader = ((Long) index).longValue() / eventsOfReader;
        long step = ((Long) index).longValue() % eventsOfReader;
        long dueUs = step * 2000000L / rate;
        while (nowUs < startedUs + dueUs) {
            Instant now = Instant.now();
            nowUs = now.getEpochSecond() * 1000000L + now.getNano() / 1000;
            if (nowUs < startedUs + dueUs) Thread.sleep(1L);
        }
        int at = (int) (24 + 8 * (2 * step + reader));
        return new Tuple3(Long.valueOf(firstUs + dueUs), Long.valueOf((long) rows.getInt(at)),
                          Long.valueOf((long) rows.getInt(at + 4)));
    }

    private long whenStarted() throws Exception {
        File start = new File(folder, "start");
        for (long waited = 0; waited < START_WAIT_MS && !start.exists(); waited += LOOK_MS)
            Thread.sleep(LOOK_MS);
        return ByteBuffer.wrap(Files.readAllBytes(start.toPath())).getLong();
    }
}
"""


def main() -> None:
    """Build the job, read a line with a savepoint or none, submit the job, and print its id."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="has the events; gets the rows")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--window-us", type=int, required=True)
    parser.add_argument("--setting", nargs="*", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    configuration = Configuration()
    for setting in args.setting:
        configuration.set_string(*setting.split("=", 1))
    # get_execution_environment() would start a separate cluster
    java = get_gateway().jvm.org.apache.flink.streaming.api.environment
    env = StreamExecutionEnvironment(
        java.StreamExecutionEnvironment(configuration._j_configuration)
    )
    tables = StreamTableEnvironment.create(env)
    events = env.from_source(
        paced_events(env, args.folder, args.rows),
        WatermarkStrategy.no_watermarks(),
        "events",
        Types.TUPLE([Types.LONG()] * 3),
    ).set_parallelism(READERS)
    schema = Schema.new_builder()
    for column in ("f0", "f1", "f2"):
        schema = schema.column(column, DataTypes.BIGINT())
    schema = schema.column_by_expression("ts", "TO_TIMESTAMP_LTZ(f0 / 1000, 3)")
    schema = schema.watermark("ts", "ts - INTERVAL '0.001' SECOND")
    tables.create_temporary_view("events", tables.from_data_stream(events, schema.build()))
    sums = tables.to_data_stream(tables.sql_query(sql(args.window_us)))
    sums.sink_to(
        FileSink.for_row_format(str(args.folder / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    sums._j_data_stream.print()
    print("built", flush=True)
    if savepoint := sys.stdin.readline().strip():
        configuration.set_string("execution.state-recovery.path", savepoint)
        env._j_stream_execution_environment.configure(configuration._j_configuration)
    print(env.execute_async("recovery").get_job_id(), flush=True)


def paced_events(env: StreamExecutionEnvironment, folder: Path, rows: int) -> Source:
    """Return the source: a generator of ``rows`` events, each returned when it is due."""
    jvm = get_gateway().jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(PACED_EVENTS)
    path = folder / "paced-events.jar"
    with zipfile.ZipFile(path, "w") as jar:
        for name, code in compiler.getBytecodes().items():
            jar.writestr(f"{name}.class", bytes(code))
    env.add_jars(path.as_uri())
    loader = jvm.Thread.currentThread().getContextClassLoader()
    arguments = get_gateway().new_array(jvm.Object, 1)
    arguments[0] = str(folder)
    made = jvm.Class.forName(NAME, True, loader).getConstructors()[0].newInstance(arguments)
    types = Types.TUPLE([Types.LONG()] * 3).get_java_type_info()
    return Source(
        jvm.org.apache.flink.connector.datagen.source.DataGeneratorSource(made, rows, types)
    )


def sql(window_us: int) -> str:
    """Return the SQL for start of window, key and sum; windows are whole milliseconds."""
    return f"""
        SELECT MIN(f0) - MOD(MIN(f0), {window_us}), f1, SUM(f2)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{window_us / 1e6:.3f}' SECOND))
        GROUP BY window_start, window_end, f1
    """


if __name__ == "__main__":
    main()
