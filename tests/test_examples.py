"""The examples return what a plain DuckDB batch query over the same files returns.

Not covered: errors of the Spark executor; tests/spark compares the two executors.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobmanager
import streamscope as ss
from jobmanager.storage.root import JobRoot

if TYPE_CHECKING:
    from types import ModuleType

    from tests.support.postgres_server import PostgresServer

SUMMARY = {"job", "state", "events_in", "events_out", "restarts", "elapsed_s", "output"}

EXAMPLES = Path(__file__).parent.parent / "examples"
HOUR_US = 3_600_000_000

FLIGHTS_SQL = """
    with known as (
        select f.origin, f.dep_delay, epoch_us(f.time_hour) + f.minute * 60000000 as moment,
               case when w.visib < 3 then 'poor' else 'good' end as sky
        from read_parquet($flights) f join read_parquet($weather) w
          on f.origin = w.origin
         and f.time_hour + to_minutes(f.minute) >= w.time_hour
         and f.time_hour + to_minutes(f.minute) < w.time_hour + interval 1 hour
    )
    select moment // $every * $every - back * $every as _vs, origin, sky, count(*) as flights,
           count(*) filter (where dep_delay is null) as cancelled,
           avg(dep_delay) as mean_delay, max(dep_delay) as max_delay
    from known, range(4) as hops(back)
    group by all order by all
"""

ALERTS_SQL = """
    select epoch_us(a.time) // $every * $every as _vs, p.user, count(*) as alerts,
           max(a.level) as worst
    from read_json($alerts, columns = {time: 'timestamp', pid: 'bigint', level: 'bigint'}) a
    join read_csv($processes) p
      on a.pid = p.pid and a.time >= p.started and a.time < p.ended
    group by all order by all
"""

WORDS_SQL = """
    select 0 as _vs, word, count(*) as n from (
        select unnest(string_split(
            regexp_replace(lower(line), '[^\\pL\\pN]+', ' ', 'g'), ' ')) as word
        from read_csv($text, columns = {line: 'varchar'}, header = false, delim = '\\x01',
                      quote = '', escape = '')
    ) where word <> '' group by all order by all
"""


def example(name: str) -> ModuleType:
    """Load an example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def answer(query: Any, root: Path) -> tuple[dict[str, Any], pa.Table]:
    """The last status, and the events of the output ordered by all columns."""
    status = jobmanager.run(query, root=str(root), executor="local").wait()
    files = f"{status['output'].removeprefix('file://')}/*.parquet"
    events = "select epoch_us(window_start) as _vs, * exclude (window_start, window_end) "
    events += "from read_parquet($files)"
    return status, batch(f"{events} order by all", files=files)


def command(*arguments: str, folder: Path) -> list[str]:
    """The lines that a Python program prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def run_flights(folder: Path, *options: str) -> dict[str, Any]:
    """Return the last line of ``jobmanager run examples/flights.py --json``."""
    path = str(EXAMPLES / "flights.py")
    lines = command("-m", "jobmanager", "run", path, "--json", *options, folder=folder)
    summary: dict[str, Any] = json.loads(lines[-1])
    assert summary.keys() >= SUMMARY
    assert summary["state"] == "finished"
    return summary


def batch(sql: str, **parameters: Any) -> pa.Table:
    """DuckDB's result, on one thread and in UTC."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("set timezone = 'UTC'")
        return connection.sql(sql, params=parameters).to_arrow_table()


@pytest.fixture(scope="module")
def flights() -> Any:
    return example("flights")


def test_flights_arrive_out_of_order_by_up_to_22_hours(flights: Any) -> None:
    table = pq.read_table(flights.inputs() / "flights.parquet")
    assert table.num_rows == 336_776
    scheduled = flights.micros(table["time_hour"]) + table["minute"].to_numpy() * 60_000_000
    disorder = np.maximum.accumulate(scheduled) - scheduled
    assert 21 * HOUR_US < disorder.max() < 22 * HOUR_US
    assert (np.diff(flights.left_at(table)) >= 0).all()


@pytest.mark.slow
def test_flights_equal_the_batch_query_on_the_whole_year(flights: Any, tmp_path: Path) -> None:
    status, events = answer(flights.query(), tmp_path / "job")
    assert status["late_events"] == 0
    folder = flights.inputs()
    expected = batch(
        FLIGHTS_SQL,
        flights=str(folder / "flights.parquet"),
        weather=str(folder / "weather.parquet"),
        every=6 * HOUR_US,
    )
    exact = ["_vs", "origin", "sky", "flights", "cancelled", "max_delay"]
    assert events.num_rows > 5_000
    assert events.select(exact).to_pylist() == expected.select(exact).to_pylist()
    means = [table["mean_delay"].to_numpy() for table in (events, expected)]
    np.testing.assert_allclose(*means, rtol=1e-9, equal_nan=True)
    worst = flights.worst(status["output"], 10)
    assert worst.num_rows == 10
    assert worst["mean_delay"][0].as_py() == np.nanmax(means[1])


def test_alerts_equal_the_batch_query(tmp_path: Path) -> None:
    alerts = example("alerts")
    status, events = answer(alerts.query(), tmp_path / "job")
    assert status["late_events"] == 0
    folder = alerts.inputs()
    expected = batch(
        ALERTS_SQL,
        alerts=str(folder / "alert.jsonl"),
        processes=str(folder / "process.csv"),
        every=5_000_000,
    )
    assert events.num_rows > 300
    assert events.to_pylist() == expected.to_pylist()


def test_words_equal_the_batch_query(tmp_path: Path) -> None:
    words = example("wordcount")
    status, events = answer(words.query(), tmp_path / "job")
    expected = batch(WORDS_SQL, text=str(words.TEXT))
    assert events.to_pylist() == expected.to_pylist()
    assert words.most(status["output"], 1)["word"].to_pylist() == ["the"]


@pytest.mark.spark(own_java=True)
def test_the_demo_prints_its_plan_and_output_and_has_the_same_digest_on_spark(
    tmp_path: Path,
) -> None:
    script = str(EXAMPLES / "flights.py")
    lines = command(script, "--root", "local", "--executor", "local", folder=tmp_path)
    assert "temporal join on origin" in "\n".join(lines)
    assert any("LGA poor" in line for line in lines)
    assert lines[-1].endswith("/local/output")
    local = JobRoot(str(tmp_path / "local")).read_status()
    spark = run_flights(tmp_path, "--root", "spark", "--master", "local[2]")
    assert spark["output_digest"] == local["output_digest"] != ""
    assert spark["events_out"] == local["events_out"] == 5_082


@pytest.mark.slow
def test_live_flights_arrive_exactly_once() -> None:
    """The broker freezes and the driver is killed; the script compares the topic."""
    command = [sys.executable, str(EXAMPLES / "live.py"), "--executor", "local"]
    done = subprocess.run(
        [*command, "--seconds", "20"], capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "equal: 5,082 windows, each exactly once" in done.stdout


@pytest.mark.slow
def test_two_sites_deliver_each_booking_once(tmp_path: Path) -> None:
    """The rows and the failures are like those of the example."""
    pytest.importorskip("nats")
    lines = ["date_time,srch_destination_id,hotel_cluster,is_booking"]
    lines += [f"2013-01-{n // 80 + 1:02} {n % 24:02}:00:00,{n},7,{n % 2}" for n in range(2000)]
    source = tmp_path / "searches.csv"
    source.write_text("\n".join(lines) + "\n")
    command = [sys.executable, str(EXAMPLES / "two_sites.py"), "--source", str(source)]
    command += ["--folder", str(tmp_path), "--paced", "800000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["east"] + found["west"] == found["bookings"] == 1000


@pytest.mark.slow
def test_only_planted_spikes_and_dips_are_found_that_week() -> None:
    """Planted spikes and dips in real flights are reported within three hours.

    The year's other alerts are holidays and clock changes.
    """
    zeitgeist, found = example("zeitgeist"), final_alerts()
    hour = {(a["origin"], a["kind"], a["bucket"] // HOUR_US): a["buckets"] for a in found}
    assert len(hour) == len(found)
    for (origin, begin, _), kind in ((zeitgeist.SPIKE, "spike"), (zeitgeist.DIP, "dip")):
        first = int(begin.timestamp()) // 3600
        planted = range(first, first + zeitgeist.PLANTED_HOURS)
        alerts = sorted(h for o, k, h in hour if (o, k) == (origin, kind) and h in planted)
        assert alerts == list(planted)[1:], f"{kind} is found in its second bucket and goes on"
    week = range(first - 7 * 24, first + 7 * 24)
    assert sum(h in week for _, _, h in hour) == 2 * (zeitgeist.PLANTED_HOURS - 1)
    days = {datetime.fromtimestamp(h * 3600, UTC).date().isoformat()[5:] for *_, h in hour}
    assert days - {"09-17", "09-19"} == {"11-04", "11-28", "11-29", "12-01"}


@pytest.mark.slow
def test_early_alerts_are_delivered_and_corrected(
    postgres: PostgresServer, postgres_schema: str, tmp_path: Path
) -> None:
    """If an airport closes, its flights depart hours later; alerts about it are then withdrawn."""
    zeitgeist = example("zeitgeist")
    queries = zeitgeist.delivered(zeitgeist.flights(), postgres.dsn, postgres_schema)
    ss.run(queries, root=str(tmp_path), executor="local").wait()
    columns = "origin, kind, bucket / 3600000000"
    tables = [f"{postgres_schema}.zeitgeist_{name}" for name in ("early", "corrections")]
    early = set(postgres.query(f"SELECT {columns} FROM {tables[0]}"))
    corrected = set(postgres.query(f"SELECT {columns}, withdrawn FROM {tables[1]}"))
    origin, begin, _ = zeitgeist.HELD
    first = int(begin.timestamp()) // 3600 + 1
    hours = range(first, first + zeitgeist.PLANTED_HOURS - 1)
    withdrawn = {(origin, "dip", hour) for hour in hours}
    assert withdrawn <= early
    assert {row[:3] for row in corrected if row[3]} == withdrawn
    added = {row[:3] for row in corrected if not row[3]}
    final = {(a["origin"], a["kind"], a["bucket"] // HOUR_US) for a in final_alerts()}
    assert early - withdrawn | added == final


@functools.cache
def final_alerts() -> list[dict[str, Any]]:
    zeitgeist = example("zeitgeist")
    found: list[dict[str, Any]] = zeitgeist.found_in(zeitgeist.flights())
    return found
