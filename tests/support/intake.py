"""Intake servers as separate processes, and producers that post to them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jobmanager.intake.errors import AGAIN
from tests.rooms import ROOT
from tests.support import faulty_store, flight_intake

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a token that is long enough"
CONFIG = """
root = "{root}"

[streams.clicks.columns]
producer = "string not null"
number = "int64 not null"
part = "int64"

[append_limits]
segment_commits_max = 8

[limits]
{limits}
"""
#: The duration of calls of a slow store, and a file that holds its commits back; set in the
#: server's process.
DELAY, HELD_BY = "INTAKE_STORE_DELAY_S", "INTAKE_STORE_HELD_BY"
ANSWER_WAIT_S = 120
DOORS = ("http", "flight")
#: The names in HTTP, with ``_`` for ``-``.
_HEADERS = {"number": "Sequence_Number", "epoch": "Producer_Epoch"}


@dataclass
class Answer:
    """The response of a server."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def may_repeat(self) -> bool:
        """Whether to repeat: over HTTP the server says when; a Flight error implies it."""
        return self.status in AGAIN and self.headers.get("retry-after", "1") == "1"


class IntakeProcess:
    """``jobmanager intake`` on a free port; ``post`` uses HTTP or Flight."""

    def __init__(
        self,
        config: Path,
        *options: str,
        over: str = "http",
        delay_s: float = 0,
        held_by: Path | str = "",
        **environment: str,
    ) -> None:
        self.over = over
        command = [sys.executable, "-m", "tests.support.intake", str(config), "--port", "0"]
        command += ["--flight-port", "0"] if over == "flight" else []
        env = {"STREAMSCOPE_INTAKE_TOKEN": TOKEN, "PYTHONPATH": str(ROOT)}
        env |= {DELAY: str(delay_s), HELD_BY: str(held_by)}
        self.process = subprocess.Popen(
            [*command, "--json", *options],
            cwd=ROOT,
            env=os.environ | env | environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        self.url, self.flight_url = str(told["listening"]), str(told.get("flight"))

    def __enter__(self) -> IntakeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(ANSWER_WAIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """Stop the server. Return its exit status."""
        self.send(signal.SIGTERM)
        return self.process.wait(ANSWER_WAIT_S)

    def post(
        self,
        rows: list[dict[str, Any]],
        *,
        producer: str | None = None,
        token: str = TOKEN,
        **given: object,
    ) -> Answer:
        """Post rows of a producer with ``number=`` and ``epoch=``, as NDJSON or as one batch."""
        if self.over == "flight":
            told = given if producer is None else given | {"producer": producer}
            batch = flight_intake.batch_of(rows)
            options = flight_intake.call_options(token, ANSWER_WAIT_S)
            with flight_intake.connected(self.flight_url) as client:
                packed = flight_intake.metadata(**told)
                return Answer(*flight_intake.put(client, batch, packed, options))
        headers = {_HEADERS[name]: value for name, value in given.items()}
        headers |= {} if producer is None else {"Producer_Id": producer}
        body = "\n".join(map(json.dumps, rows)).encode()
        return self.request("POST", "/streams/clicks", body, token=token, **headers)

    def open_producer(self, producer: str, token: str = TOKEN) -> Answer:
        """Start a producer."""
        return self._ask("POST", "open-producer", producer, token)

    def position(self, producer: str, token: str = TOKEN) -> Answer:
        """The position of a producer."""
        return self._ask("GET", "position", producer, token)

    def _ask(self, method: str, action: str, producer: str, token: str) -> Answer:
        if self.over == "http":
            return self.request(method, f"/streams/clicks/producers/{producer}", token=token)
        body = {"stream": "clicks", "producer": producer}
        with flight_intake.connected(self.flight_url) as client:
            options = flight_intake.call_options(token, ANSWER_WAIT_S)
            return Answer(*flight_intake.act(client, action, body, options))

    def request(
        self, method: str, path: str, body: bytes = b"", *, token: str = TOKEN, **headers: object
    ) -> Answer:
        """Send one HTTP request on its own connection; header names with ``_`` for ``-``.

        Raises:
            OSError, http.client.HTTPException: the server did not answer.
        """
        line = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=ANSWER_WAIT_S)
        told = {"Content-Type": "application/x-ndjson"} | ({"Authorization": f"Bearer {token}"})
        told |= {name.replace("_", "-"): str(value) for name, value in headers.items()}
        try:
            line.request(method, path, body, told)
            answer = line.getresponse()
            found = json.loads(answer.read())
            return Answer(answer.status, found, {k.lower(): v for k, v in answer.getheaders()})
        finally:
            line.close()


def write_config(folder: Path, root: str = "logs", limits: str = "") -> Path:
    """A file that declares the stream ``clicks``."""
    folder.mkdir(exist_ok=True)
    path = folder / "intake.toml"
    path.write_text(CONFIG.format(root=root, limits=limits))
    return path


def run_intake(config: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a ``jobmanager intake`` that fails to start."""
    command = [sys.executable, "-m", "jobmanager", "intake", str(config), *options]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={"STREAMSCOPE_INTAKE_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=ANSWER_WAIT_S,
        check=False,
    )


def main() -> None:
    """Run ``jobmanager intake`` with a store that may be slow."""
    from jobmanager.cli.main import main as run

    faulty_store.register()
    faulty_store.FAULTS.delay_s = float(os.environ[DELAY])
    faulty_store.FAULTS.held_by = os.environ[HELD_BY]
    sys.argv[1:1] = ["intake"]
    run()


if __name__ == "__main__":
    main()
