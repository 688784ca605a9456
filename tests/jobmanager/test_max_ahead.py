"""Rows too far ahead of the clock are bad with ``max_ahead``; they do not make later rows late.

Not covered: a host whose clock is wrong by more than ``max_ahead``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import jobmanager
from planner import Stream, agg, tumbling
from planner.errors import InvalidDurationError, InvalidPlanError
from rstream import Appender
from rstream.clock import SystemClock
from rvertex.sources.logs.decode.decoded import Decoded
from rvertex.sources.logs.decode.messages import MessageDecoder, Messages
from rvertex.sources.logs.protocol import joined_rows
from rvertex.vertex.early_rows import EarlyRows
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import Watch, answer_rows, finish, has_read
from tests.support.logs import PAYLOAD, log_vertex

if TYPE_CHECKING:
    from pathlib import Path

QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.2)
YEAR_US = 365 * 86_400_000_000


def write(folder: Path, number: int, times: list[int]) -> None:
    folder.mkdir(exist_ok=True)
    part = folder / f"{number}.json.tmp"
    part.write_text("".join(f'{{"t": {t}, "n": {k}}}\n' for k, t in enumerate(times)))
    part.rename(folder / f"{number}.json")


def counts(folder: Path, **given: Any) -> Any:
    rows = Stream.from_json(str(folder), vs="t", **given)
    return rows.window(tumbling("1s")).agg(n=agg.count()).to_parquet()


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_a_row_far_ahead_in_a_file_is_bad_and_delays_nothing(tmp_path: Path, policy: str) -> None:
    now_us = SystemClock().now_us() // 1_000_000 * 1_000_000
    write(tmp_path / "in", 0, [now_us, now_us + 10 * YEAR_US, now_us + 1, now_us + 600_000_000])
    query = counts(tmp_path / "in", max_ahead="1h", on_bad_row=policy)
    root = str(tmp_path / "job")
    job = jobmanager.run(query, root=root, executor="local")
    assert job.wait(WAIT_S)["bad"][0]["bad"] == 1
    assert [row["n"] for row in answer_rows(job)] == [2, 1]
    if policy == "dead_letter":
        (dead,) = jobmanager.read_dead_letters(root).to_pylist()
        assert (dead["column"], dead["position"]) == ("t", 2)
        assert dead["reason"].startswith("starts further ahead of the clock than max_ahead allows")


def test_without_max_ahead_the_row_is_named(tmp_path: Path) -> None:
    now_us = SystemClock().now_us()
    write(tmp_path / "in", 0, [now_us, now_us + 10 * YEAR_US])
    (job, root) = (counts(tmp_path / "in", max_ahead="1h"), str(tmp_path / "job"))
    with pytest.raises(Exception, match=r"row 2.*column 't'.*further ahead of the clock"):
        jobmanager.run(job, root=root, executor="local").wait(WAIT_S)
    job = jobmanager.run(counts(tmp_path / "in"), root=str(tmp_path / "all"), executor="local")
    assert job.wait(WAIT_S)["events_in"] == 2
    with pytest.raises(InvalidDurationError, match="max_ahead"):
        counts(tmp_path / "in", max_ahead="-1h")


@pytest.mark.slow
def test_a_row_far_ahead_in_a_growing_folder_is_bad_also_for_a_successor(tmp_path: Path) -> None:
    """Rows after it are in time, in this run and after a resume."""
    folder, root, watch = tmp_path / "in", tmp_path / "job", Watch()
    now_us = SystemClock().now_us() // 1_000_000 * 1_000_000
    write(folder, 0, [now_us, now_us + 10 * YEAR_US, now_us + 1])
    live = {"follow": True, "delay": "1s", "poll_every": "20ms"}
    query = counts(folder, **live, max_ahead="1h", on_bad_row="dead_letter")
    options = {"executor": "local", "config": QUICK, "on_status": watch}
    job = jobmanager.run(query, root=str(root), **options)
    watch.until(has_read(2))
    job.cancel()
    assert job.wait(WAIT_S)["state"] == "cancelled"
    write(folder, 1, [now_us + 2, now_us + 20 * YEAR_US, now_us + 600_000_000])
    job = jobmanager.resume(str(root), on_status=watch, config=QUICK)
    watch.until(has_read(4))
    write(folder, 2, [now_us + 601_000_000])
    watch.until(has_read(5))
    status = finish(job)
    assert (status["events_in"], status["late_events"]) == (5, 0)
    assert [row["n"] for row in answer_rows(job)] == [3, 1, 1]
    dead = jobmanager.read_dead_letters(str(root)).to_pylist()
    assert [row["position"] & 0xFFFF for row in dead] == [1, 1]
    assert all("max_ahead is 3600 s" in row["reason"] for row in dead)
    assert [row["source"] for row in dead] == [str(folder / "0.json"), str(folder / "1.json")]
    assert [json.loads(row["raw"])["n"] for row in dead] == [1, 1]


PUSHED = pa.schema([("time", pa.int64()), ("until", pa.int64()), ("n", pa.int64())])


@pytest.mark.parametrize("follow", [False, True])
def test_bad_rows_of_a_pushed_log_are_kept_with_their_positions(
    tmp_path: Path, follow: bool
) -> None:
    """Bad are a row too far ahead, a row without a time, and a row that ends before it starts."""
    now_us, log, root, watch = SystemClock().now_us(), tmp_path / "log", tmp_path / "job", Watch()
    with Appender(str(log), PUSHED) as appender:
        for number, time in enumerate([now_us, now_us + 10 * YEAR_US, None, now_us + 2, 3]):
            row = {"time": time, "until": 2 if time == 3 else now_us + 11 * YEAR_US, "n": number}
            appender.append([row], producer="p", number=number)
    live = {"follow": True, "delay": "1s"} if follow else {}
    rows = Stream.from_rstream(
        str(log), vs="time", ve="until", on_bad_row="dead_letter", max_ahead="1h", **live
    )
    job = jobmanager.run(
        rows.to_parquet(), root=str(root), executor="local", config=QUICK, on_status=watch
    )
    if follow:
        watch.until(lambda status: status["bad_rows"] == 3)
        finish(job)
    else:
        job.wait(WAIT_S)
    assert [row["n"] for row in answer_rows(job)] == [0, 3]
    dead = jobmanager.read_dead_letters(str(root)).to_pylist()
    assert [json.loads(row["raw"])["n"] for row in dead] == [1, 2, 4]
    assert [row["column"] for row in dead] == ["time", "time", "until"]
    assert [row["reason"] for row in dead[1:]] == ["the time is null", "ends before it starts"]
    assert dead[0]["reason"].startswith("starts further ahead of the clock than max_ahead allows")
    assert {row["source"] for row in dead} == {str(log)}


def test_max_ahead_is_rejected_for_the_output_of_a_job(tmp_path: Path) -> None:
    write(tmp_path / "in", 0, [1])
    rows = Stream.from_json(str(tmp_path / "in"), vs="t")
    output = str(tmp_path / "out")
    jobmanager.run(rows.to_parquet(output), root=str(tmp_path / "a"), executor="local").wait(WAIT_S)
    with pytest.raises(InvalidPlanError, match="Set max_ahead= at the sources of the job"):
        Stream.from_rstream(output, max_ahead="1h")


def test_a_message_too_far_ahead_is_kept_with_its_key() -> None:
    """Two rows of one message, after a message that is decoded in time."""
    spec = log_vertex(1, delay_us=3, cti_every_us=4, replays=False, max_ahead_us=5)
    assert spec.source is not None
    source = replace(spec.source.spec, vs="at", shown="orders")
    values = [b"7", b"99 98", b"8"]

    def decode(messages: Messages) -> Decoded:
        times = [[int(t) for t in (value or b"").split()] for value in messages.values]
        value_of = [k for k, found in enumerate(times) for _ in found]
        at = [t for found in times for t in found]
        rows = pa.RecordBatch.from_pydict({"p": at, "at": at}, schema=PAYLOAD)
        return Decoded(rows, np.array(value_of), {})

    messages = Messages(
        0, np.arange(3), values, 3, lambda i: f"key {i}".encode(), lambda i: None, lambda i: None
    )
    rows, error = MessageDecoder(source, decode).decode(messages)
    assert error is None
    early = EarlyRows.of(source, 0)
    assert early is not None
    pieces = (rows.before(1), rows.beyond(1).before(2), rows.beyond(2))
    kept = early.set_aside(joined_rows(pieces), [[4, 3]])
    assert kept.dead is not None
    assert kept.batch.column("at").to_pylist() == [7, 8]
    assert [
        (row["source"], row["key"], row["raw"], row["value"]) for row in kept.dead.to_pylist()
    ] == [
        ("orders", b"key 1", b"99 98", "1970-01-01 00:00:00.000099"),
        ("orders", b"key 1", b"99 98", "1970-01-01 00:00:00.000098"),
    ]
