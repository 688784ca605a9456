"""The intake server as a process: posts, rejections, limits, a full disk, a slow store, shutdown.

Tests of common behaviour use HTTP and Flight; ``test_flight.py`` has the tests of Flight alone.

Not covered: changes that a proxy in front of it makes.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import resource
import signal
import socket
import ssl
import urllib.error
import urllib.request
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uvicorn

from jobmanager.intake.listening import STOPS, Server
from rstream import open_log
from tests.rstream.transport.test_flight import write_certificate
from tests.support.intake import (
    ANSWER_WAIT_S,
    DOORS,
    TOKEN,
    IntakeProcess,
    run_intake,
    write_config,
)
from tests.support.pushed import SCHEMA, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMITS = "body_bytes_max = 20000\nrows_in_flight_max = 600\nposts_waiting_max = 4"


@pytest.fixture(scope="module", params=DOORS)
def over(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(over: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(f"intake-{over}")


@pytest.fixture(scope="module")
def server(over: str, folder: Path) -> Iterator[IntakeProcess]:
    with IntakeProcess(write_config(folder, limits=LIMITS), over=over) as running:
        yield running


def row(producer: str, number: int, part: int = 0) -> dict[str, object]:
    return {"producer": producer, "number": number, "part": part}


@pytest.mark.slow
def test_posts_are_accepted_once(server: IntakeProcess, folder: Path) -> None:
    first = server.post([row("a", 0), row("a", 0, 1)], producer="a", number=0)
    assert (first.status, first.body["is_repeat"]) == (200, False)
    assert first.body["last_seq"] == first.body["first_seq"] + 1
    again = server.post([row("a", 0), row("a", 0, 1)], producer="a", number=0)
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
def test_a_compressed_post_is_accepted(server: IntakeProcess, over: str) -> None:
    if over != "http":
        pytest.skip("Flight compresses by itself")
    line = json.dumps(row("zipped", 0)).encode() + b"\n"
    path, zipped = "/streams/clicks", gzip.compress(line)
    kind = {"Content_Type": "application/x-ndjson", "Producer_Id": "zipped", "Sequence_Number": 0}
    taken = server.request("POST", path, zipped, Content_Encoding="gzip", **kind)
    assert (taken.status, taken.body["is_repeat"]) == (200, False)
    large = gzip.compress(line * 1_000)
    assert len(large) < 20_000
    refused = server.request("POST", "/streams/clicks", large, Content_Encoding="gzip", **kind)
    assert refused.status == 413
    refused = server.request("POST", "/streams/clicks", line, Content_Encoding="br", **kind)
    assert (refused.status, refused.body["kind"]) == (415, "ContentEncoding")


@pytest.mark.slow
def test_producers_get_their_positions(server: IntakeProcess) -> None:
    server.post([row("p", 0)], producer="p", number=0)
    gap = server.post([row("p", 5)], producer="p", number=5)
    assert (gap.status, gap.body["kind"], gap.body["next_number"]) == (409, "ProducerGap", 1)
    unknown = server.post([row("q", 5)], producer="q", number=5)
    assert (unknown.status, unknown.body["kind"]) == (409, "UnknownProducer")
    opened = server.open_producer("p")
    assert opened.body == {"producer": "p", "epoch": 1, "next_number": 1}
    zombie = server.post([row("p", 1)], producer="p", number=1)
    assert (zombie.status, zombie.body["newest_epoch"]) == (409, 1)
    who = {"producer": "p", "epoch": 1}
    assert server.post([row("p", 1)], number=1, **who).status == 200
    found = server.position("p")
    assert found.body == {"producer": "p", "epoch": 1, "next_number": 2}
    nobody = server.position("nobody")
    assert (nobody.status, nobody.body["error"]) == (404, "producer nobody is not known")


@pytest.mark.slow
def test_a_post_with_wrong_producer_headers_is_rejected(server: IntakeProcess) -> None:
    place = "header" if server.over == "http" else "app_metadata:"
    for given, message in (
        ({"number": 3}, " needs "),
        ({"epoch": 3}, " needs "),
        ({"producer": "a"}, "dense from 0"),
        ({"producer": "a", "number": "-1"}, "must be a number of 0 or more, not '-1'"),
        ({"producer": "a", "number": "9" * 20}, "must be a number of 0 or more"),
        ({"producer": "a", "number": 0, "epoch": "x"}, "must be a number of 0 or more, not 'x'"),
    ):
        answer = server.post([row("a", 1)], **given)  # type: ignore[arg-type]
        assert (answer.status, answer.body["kind"]) == (400, "Post"), given
        assert answer.body["error"].startswith(place), answer
        assert message in answer.body["error"], answer
    long = server.post([row("a", 1)], producer="x" * 300, number=0)
    assert (long.status, "1 to 200 characters" in long.body["error"]) == (400, True)
    large = server.post([row("a" * 1000, 1)] * 30)
    assert (large.status, large.body["bytes_max"]) == (413, 20000)


@pytest.mark.parametrize("over", ["http"], indirect=True)
@pytest.mark.slow
def test_bad_posts_are_rejected_completely(server: IntakeProcess, folder: Path) -> None:
    log = open_log(str(folder / "logs" / "clicks"))
    before = log.positions()
    bad = server.post([row("a", 1), {"producer": "a", "number": "1"}])
    assert bad.status == 400
    assert (bad.body["line"], bad.body["column"]) == (2, "number")
    assert bad.body["error"] == (
        'line 2, column number: "1" is not int64; no row of the post was stored'
    )
    for status, media_type in ((415, "text/plain"), (400, "application/vnd.apache.arrow.stream")):
        path, body = "/streams/clicks", b'{"producer": "a", "number": 1}'
        answer = server.request("POST", path, body, Content_Type=media_type)
        assert answer.status == status, media_type
    assert server.request("POST", "/streams/none", b"{}").status == 404
    assert server.request("POST", "/streams/clicks", b"null").status == 400
    assert log.positions() == before


@pytest.mark.slow
def test_only_requests_with_a_token_are_accepted(server: IntakeProcess) -> None:
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "x"):
        for answer in (
            server.post([row("a", 0)], token=token),
            server.open_producer("a", token),
            server.position("a", token),
        ):
            told = "the request needs Authorization: Bearer TOKEN"
            assert (answer.status, answer.body["error"]) == (401, told)


@pytest.mark.parametrize("over", ["http"], indirect=True)
@pytest.mark.slow
def test_a_request_without_a_token_is_rejected_before_its_body_is_read(
    server: IntakeProcess,
) -> None:
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "x"):
        for path in ("/streams/clicks", "/streams/none", "/streams/clicks/producers/p"):
            answer = server.request("POST", path, b"?", token=token)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert server.request("GET", "/health", token="").body == {"status": "ok"}
    assert "clicks" in server.request("GET", "/streams").body["streams"]


@pytest.mark.slow
def test_requests_beyond_the_limits_are_rejected_and_can_be_repeated(
    folder: Path, over: str
) -> None:
    """The store completes no commit before a post was refused, so that posts queue."""
    path = folder / "piled"
    config, hold = write_config(path, f"faulty://{path}/logs", LIMITS), path / "hold"
    with (
        IntakeProcess(config, over=over, held_by=hold) as server,
        ThreadPoolExecutor(12) as threads,
    ):
        hold.touch()
        many = [[row(f"p{k}", n) for n in range(250)] for k in range(12)]
        posts = [threads.submit(server.post, rows) for rows in many]
        assert wait(posts, ANSWER_WAIT_S, FIRST_COMPLETED).done
        hold.unlink()
        answers = [post.result() for post in posts]
        statuses = {answer.status for answer in answers}
        assert statuses <= {200, 429, 503}
        assert 200 in statuses
        refused = [answer for answer in answers if answer.status != 200]
        assert refused
        assert all(answer.may_repeat for answer in refused)
        taken = sum(
            a.body["last_seq"] - a.body["first_seq"] + 1 for a in answers if a.status == 200
        )
        assert server.post([row("last", 0)]).body["first_seq"] == taken


@pytest.mark.slow
def test_slow_posts_can_be_repeated_and_are_stored_once(tmp_path: Path, over: str) -> None:
    config = write_config(tmp_path, f"faulty://{tmp_path}/logs", "answer_wait_s = 0.1")
    with IntakeProcess(config, over=over, delay_s=0.2) as server:
        late = server.post([row("p", 0)], producer="p", number=0)
        assert (late.status, late.may_repeat, late.body["kind"]) == (503, True, "Store")
        assert "not durable after 0.1 s; it may still become so" in late.body["error"]
        while server.position("p").status != 200:  # ends when it is acknowledged
            assert server.process.poll() is None
        again = server.post([row("p", 0)], producer="p", number=0)
        assert (again.status, again.body["first_seq"], again.body["is_repeat"]) == (200, 0, True)
        assert server.stop() == 0
    assert pq.read_table(tmp_path / "logs" / "clicks")["number"].to_pylist() == [0]


@pytest.mark.slow
def test_small_posts_do_not_make_small_files(tmp_path: Path, over: str) -> None:
    """Many commits become one segment; simultaneous posts share a commit."""
    with IntakeProcess(write_config(tmp_path), over=over) as server, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: server.post([row("a", n)]), range(160)))
        assert {answer.status for answer in answers} == {200}
        assert server.stop() == 0
    files = [file for file in (tmp_path / "logs" / "clicks").rglob("*") if file.is_file()]
    segments = [file for file in files if file.suffix == ".parquet"]
    assert len(segments) <= 160 // 8  # eight commits per segment, if each post had its own commit
    assert len(files) - len(segments) <= 6
    assert pq.read_table(tmp_path / "logs" / "clicks").num_rows == 160


@pytest.mark.slow
def test_a_full_disk_returns_503_and_loses_nothing(tmp_path: Path, over: str) -> None:
    """The server's disk is full for a while: posts get status 503, and no row is lost."""
    with IntakeProcess(write_config(tmp_path), over=over) as server:
        who = {"producer": "p"}
        assert server.post([row("p", 0)], number=0, **who).status == 200
        unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
        full = server.post([row("p", 1)], number=1, **who)
        assert (full.status, full.body["kind"]) == (503, "Store")
        assert full.may_repeat
        assert "File too large" in full.body["error"]
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)
        taken = server.post([row("p", 1)], number=1, **who)
        assert (taken.status, taken.body["first_seq"]) == (200, 1)
        assert server.stop() == 0
    assert pq.read_table(tmp_path / "logs" / "clicks")["number"].to_pylist() == [0, 1]


@pytest.mark.parametrize("over", ["http"], indirect=True)
@pytest.mark.slow
def test_connections_beyond_the_limit_are_told_to_retry(tmp_path: Path, over: str) -> None:
    with IntakeProcess(write_config(tmp_path, limits="connections_max = 3"), over=over) as server:
        url = urlsplit(server.url)
        idle = [socket.create_connection((url.hostname, url.port)) for _ in range(3)]
        assert status(server) == 503
        for line in idle:
            line.close()
        while status(server) == 503:  # ends when the server has noticed it
            assert server.process.poll() is None
        assert server.stop() == 0


@pytest.mark.parametrize("over", ["http"], indirect=True)
@pytest.mark.slow
def test_a_slow_post_is_answered_by_a_stopping_server(tmp_path: Path, over: str) -> None:
    body = json.dumps(row("a", 0)).encode()
    head = (
        f"POST /streams/clicks HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    with IntakeProcess(write_config(tmp_path), over=over) as server:
        url = urlsplit(server.url)
        with socket.create_connection((url.hostname, url.port), timeout=ANSWER_WAIT_S) as line:
            line.sendall(head.encode())
            assert line.recv(1_000).startswith(b"HTTP/1.1 100 "), "it waits for the body"
            server.send(signal.SIGTERM)
            while takes_connections(server):  # ends when the server has got the signal
                assert server.process.poll() is None
            line.sendall(body)
            answer = http.client.HTTPResponse(line)
            answer.begin()
            assert answer.status == 200
        assert server.process.wait(ANSWER_WAIT_S) == 0
    assert pq.read_table(tmp_path / "logs" / "clicks").num_rows == 1


def takes_connections(server: IntakeProcess) -> bool:
    url = urlsplit(server.url)
    try:
        socket.create_connection((url.hostname, url.port)).close()
    except OSError:
        return False
    return True


def status(server: IntakeProcess) -> int:
    line = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=ANSWER_WAIT_S)
    with contextlib.closing(line):
        line.request("GET", "/health")
        return line.getresponse().status


def test_signal_handlers_are_restored_after_the_server_has_ended() -> None:
    """A server that has ended restores the signal handlers, so that Ctrl-C works again."""
    running = Server(uvicorn.Config(lambda: None), lambda: None)
    before = [signal.getsignal(number) for number in STOPS]
    with running.capture_signals():
        assert {signal.getsignal(number) for number in STOPS} == {running.handle_exit}
    assert [signal.getsignal(number) for number in STOPS] == before


@pytest.mark.slow
def test_a_stop_completes_pending_requests(tmp_path: Path, over: str) -> None:
    config = write_config(tmp_path, f"faulty://{tmp_path}/logs")
    with IntakeProcess(config, over=over, delay_s=0.2) as server, ThreadPoolExecutor(8) as threads:
        url = urlsplit(server.url)
        futures = [threads.submit(server.post, [row(f"p{k}", 0)]) for k in range(8)]
        while not any(future.done() for future in futures):  # ends when the first post is answered
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
def test_a_suspended_server_is_rejected_after_its_successor_has_started(
    tmp_path: Path, over: str
) -> None:
    config = write_config(tmp_path)
    with IntakeProcess(config, over=over) as zombie:
        who = {"producer": "p"}
        assert zombie.post([row("p", 0)], number=0, **who).status == 200
        zombie.send(signal.SIGSTOP)
        with ThreadPoolExecutor(1) as threads, IntakeProcess(config, over=over) as successor:
            late = threads.submit(zombie.post, [row("p", 1)], number=1, **who)
            for number in range(1, 30):  # several segments, so that numbers are free again
                answer = successor.post([row("p", number)], number=number, **who)
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
def test_a_server_that_would_be_open_to_strangers_does_not_start(
    tmp_path: Path, options: list[str], message: str
) -> None:
    done = run_intake(write_config(tmp_path), *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_tls_uses_the_same_folder_as_jobs(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    with IntakeProcess(write_config(tmp_path), STREAMSCOPE_TLS=str(tmp_path)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        url = f"{server.url}/streams"
        trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(asked, context=trusted, timeout=ANSWER_WAIT_S) as answer:
            assert "clicks" in json.load(answer)["streams"]
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(
                asked, context=ssl.create_default_context(), timeout=ANSWER_WAIT_S
            )
        with pytest.raises((OSError, http.client.HTTPException)):
            server.request("GET", "/health")  # without TLS
