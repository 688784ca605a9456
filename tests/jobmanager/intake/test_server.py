"""The intake server as a process: posts, refusals, limits, a full disk, a slow store, the end.

Cannot catch: what a proxy in front of it changes.
"""

from __future__ import annotations

import http.client
import json
import resource
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rstream import open_log
from tests.rooms import ROOT
from tests.rstream.transport.test_flight import write_certificate
from tests.support.intake import TOKEN, IntakeProcess, write_config
from tests.support.pushed import SCHEMA, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMITS = "body_bytes_max = 20000\nrows_in_flight_max = 600\nposts_waiting_max = 4"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("intake")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[IntakeProcess]:
    with IntakeProcess(write_config(folder, limits=LIMITS)) as running:
        yield running


def row(producer: str, number: int, part: int = 0) -> dict[str, object]:
    return {"producer": producer, "number": number, "part": part}


@pytest.mark.slow
def test_posts_are_taken_once(server: IntakeProcess, folder: Path) -> None:
    first = server.post([row("a", 0), row("a", 0, 1)], Producer_Id="a", Sequence_Number=0)
    assert (first.status, first.body["is_repeat"]) == (200, False)
    assert first.body["last_seq"] == first.body["first_seq"] + 1
    again = server.post([row("a", 0), row("a", 0, 1)], Producer_Id="a", Sequence_Number=0)
    assert again.body == first.body | {"is_repeat": True}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(rows("a", 1))
    arrow = {"Content_Type": "application/vnd.apache.arrow.stream", "Producer_Id": "a"}
    body = sink.getvalue().to_pybytes()
    taken = server.request("POST", "/streams/clicks", body, Sequence_Number=1, **arrow)
    assert taken.body["first_seq"] == first.body["last_seq"] + 1
    found = open_log(str(folder / "logs" / "clicks"), first.body["first_seq"]).read_next()
    assert found is not None
    assert found.batch["number"].to_pylist() == [0, 0]


@pytest.mark.slow
def test_producers_are_told_where_they_are(server: IntakeProcess) -> None:
    server.post([row("p", 0)], Producer_Id="p", Sequence_Number=0)
    gap = server.post([row("p", 5)], Producer_Id="p", Sequence_Number=5)
    assert (gap.status, gap.body["kind"], gap.body["next_number"]) == (409, "ProducerGap", 1)
    unknown = server.post([row("q", 5)], Producer_Id="q", Sequence_Number=5)
    assert (unknown.status, unknown.body["kind"]) == (409, "UnknownProducer")
    opened = server.request("POST", "/streams/clicks/producers/p")
    assert opened.body == {"producer": "p", "epoch": 1, "next_number": 1}
    zombie = server.post([row("p", 1)], Producer_Id="p", Sequence_Number=1)
    assert (zombie.status, zombie.body["newest_epoch"]) == (409, 1)
    headers = {"Producer_Id": "p", "Producer_Epoch": 1}
    assert server.post([row("p", 1)], Sequence_Number=1, **headers).status == 200
    found = server.request("GET", "/streams/clicks/producers/p")
    assert found.body == {"producer": "p", "epoch": 1, "next_number": 2}
    assert server.request("GET", "/streams/clicks/producers/nobody").status == 404


@pytest.mark.slow
def test_bad_posts_are_refused_whole(server: IntakeProcess, folder: Path) -> None:
    log = open_log(str(folder / "logs" / "clicks"))
    before = log.positions()
    bad = server.post([row("a", 1), {"producer": "a", "number": "1"}])
    assert bad.status == 400
    assert (bad.body["line"], bad.body["column"]) == (2, "number")
    assert bad.body["error"] == (
        'line 2, column number: "1" is not int64; nothing of the post was taken'
    )
    for status, headers in (
        (415, {"Content_Type": "text/plain"}),
        (400, {"Sequence_Number": 3}),
        (400, {"Producer_Id": "a"}),
        (400, {"Producer_Id": "a", "Sequence_Number": "-1"}),
        (400, {"Producer_Id": "x" * 300, "Sequence_Number": "0"}),
        (400, {"Content_Type": "application/vnd.apache.arrow.stream"}),
    ):
        assert server.post([row("a", 1)], **headers).status == status, headers
    assert server.request("POST", "/streams/none", b"{}").status == 404
    assert server.request("POST", "/streams/clicks", b"null").status == 400
    large = server.post([row("a" * 1000, 1)] * 30)
    assert (large.status, large.body["bytes_max"]) == (413, 20000)
    assert log.positions() == before


@pytest.mark.slow
def test_a_stranger_is_refused_before_anything_is_read(server: IntakeProcess) -> None:
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "x"):
        for path in ("/streams/clicks", "/streams/none", "/streams/clicks/producers/p"):
            answer = server.request("POST", path, b"?", token=token)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert server.request("GET", "/health", token="").body == {"status": "ok"}
    assert "clicks" in server.request("GET", "/streams").body["streams"]


@pytest.mark.slow
def test_more_than_the_limits_allow_is_refused_and_may_come_again(folder: Path) -> None:
    """A store that takes its time, so that posts pile up."""
    path = folder / "piled"
    path.mkdir()
    config = write_config(path, f"faulty://{path}/logs", LIMITS)
    with IntakeProcess(config, delay_s=0.1) as server, ThreadPoolExecutor(12) as threads:
        many = [[row(f"p{k}", n) for n in range(250)] for k in range(12)]
        answers = list(threads.map(server.post, many))
        statuses = {answer.status for answer in answers}
        assert statuses <= {200, 429, 503}
        assert 200 in statuses
        refused = [answer for answer in answers if answer.status != 200]
        assert refused
        assert {answer.headers["retry-after"] for answer in refused} == {"1"}
        taken = sum(
            a.body["last_seq"] - a.body["first_seq"] + 1 for a in answers if a.status == 200
        )
        assert server.post([row("last", 0)]).body["first_seq"] == taken


@pytest.mark.slow
def test_a_full_disk_is_503_and_no_loss(tmp_path: Path) -> None:
    """Its process may write no byte more; then it may again."""
    with IntakeProcess(write_config(tmp_path)) as server:
        headers = {"Producer_Id": "p"}
        assert server.post([row("p", 0)], Sequence_Number=0, **headers).status == 200
        unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
        full = server.post([row("p", 1)], Sequence_Number=1, **headers)
        assert (full.status, full.body["kind"]) == (503, "Store")
        assert full.headers["retry-after"] == "1"
        assert "File too large" in full.body["error"]
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)
        taken = server.post([row("p", 1)], Sequence_Number=1, **headers)
        assert (taken.status, taken.body["first_seq"]) == (200, 1)
        assert server.stop() == 0
    assert pq.read_table(tmp_path / "logs" / "clicks")["number"].to_pylist() == [0, 1]


@pytest.mark.slow
def test_a_stop_answers_what_is_under_way(tmp_path: Path) -> None:
    config = write_config(tmp_path, f"faulty://{tmp_path}/logs")
    with IntakeProcess(config, delay_s=0.2) as server, ThreadPoolExecutor(8) as threads:
        url = urlsplit(server.url)
        futures = [threads.submit(server.post, [row(f"p{k}", 0)]) for k in range(8)]
        while not any(future.done() for future in futures):  # ends when the first is answered
            assert server.process.poll() is None
        assert server.stop() == 0
        answers = [f.result() for f in futures if f.exception() is None]
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((url.hostname, url.port))
    table = pq.read_table(tmp_path / "logs" / "clicks")  # all of it is in segments
    told = {a.body["first_seq"] for a in answers if a.status == 200}
    assert told <= set(range(table.num_rows))
    assert len(told) >= 1


@pytest.mark.slow
def test_a_server_that_slept_is_refused_after_its_successor(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    with IntakeProcess(config) as zombie:
        headers = {"Producer_Id": "p"}
        assert zombie.post([row("p", 0)], Sequence_Number=0, **headers).status == 200
        zombie.send(signal.SIGSTOP)
        with ThreadPoolExecutor(1) as threads, IntakeProcess(config) as successor:
            late = threads.submit(zombie.post, [row("p", 1)], Sequence_Number=1, **headers)
            for number in range(1, 30):  # several segments, so that numbers are free again
                answer = successor.post([row("p", number)], Sequence_Number=number, **headers)
                assert answer.status == 200
            zombie.send(signal.SIGCONT)
            answer = late.result()
            assert (answer.status, answer.body["kind"]) == (503, "AppenderFenced")
            assert zombie.request("GET", "/health").status == 503
            assert successor.stop() == 0
        assert zombie.stop() == 0
    table = pq.read_table(tmp_path / "logs" / "clicks")
    assert table["number"].to_pylist() == list(range(30))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "set STREAMSCOPE_TLS, or give --plain"),
        (["--token-file", "none"], "none: [Errno 2] No such file or directory: 'none'"),
        (["--host", "0.0.0.0", "--token-file", "/dev/null"], "it has no token"),
    ],
)
@pytest.mark.slow
def test_what_would_serve_strangers_does_not_start(
    tmp_path: Path, options: list[str], message: str
) -> None:
    command = [sys.executable, "-m", "jobmanager", "intake", str(write_config(tmp_path)), *options]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={"STREAMSCOPE_INTAKE_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_tls_is_that_of_jobs(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    with IntakeProcess(write_config(tmp_path), STREAMSCOPE_TLS=str(tmp_path)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        url = f"{server.url}/streams"
        trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(asked, context=trusted, timeout=30) as answer:
            assert "clicks" in json.load(answer)["streams"]
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(asked, context=ssl.create_default_context(), timeout=30)
        with pytest.raises((OSError, http.client.HTTPException)):
            server.request("GET", "/health")  # without TLS
