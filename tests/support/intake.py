"""Intake servers as processes of their own, and producers that post to them until they are told."""

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

from tests.rooms import ROOT
from tests.support import faulty_store

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
#: Calls of a slow store take so long; set in the server's process.
DELAY = "INTAKE_STORE_DELAY_S"
ANSWER_WAIT_S = 30


@dataclass
class Answer:
    """What a server said to a request."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


class IntakeProcess:
    """``jobmanager intake`` on a free port."""

    def __init__(self, config: Path, *options: str, delay_s: float = 0, **environment: str) -> None:
        command = [sys.executable, "-m", "tests.support.intake", str(config), "--port", "0"]
        env = {"STREAMSCOPE_INTAKE_TOKEN": TOKEN, DELAY: str(delay_s), "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [*command, "--json", *options],
            cwd=ROOT,
            env=os.environ | env | environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = str(json.loads(self.process.stdout.readline())["listening"])

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
        """Tell it to stop; its exit status."""
        self.send(signal.SIGTERM)
        return self.process.wait(ANSWER_WAIT_S)

    def post(self, rows: list[dict[str, Any]], **headers: object) -> Answer:
        """Post rows as NDJSON; header names with ``_`` for ``-``."""
        body = "\n".join(map(json.dumps, rows)).encode()
        return self.request("POST", "/streams/clicks", body, **headers)

    def request(
        self, method: str, path: str, body: bytes = b"", *, token: str = TOKEN, **headers: object
    ) -> Answer:
        """One request on a line of its own.

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
    path = folder / "intake.toml"
    path.write_text(CONFIG.format(root=root, limits=limits))
    return path


def main() -> None:
    """``jobmanager intake`` with a store that may be slow."""
    from jobmanager.cli.main import main as run

    faulty_store.register()
    faulty_store.FAULTS.delay_s = float(os.environ[DELAY])
    sys.argv[1:1] = ["intake"]
    run()


if __name__ == "__main__":
    main()
