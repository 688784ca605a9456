"""A bundle: all data that the page shows of a job, in one file for a bug report.

``jobmanager bundle ROOT`` writes it, ``jobmanager serve FILE.zip`` shows it on another machine. It
has the responses of the page as JSON, not the files of the root. So it has no code, and rows only
on request. Secrets, and rows and keys that messages quote, are replaced by ``...``.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import re
import zipfile
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobmanager.cli.page.board import Board
from jobmanager.errors import NoJobError
from jobmanager.storage.root import JobRoot
from rstream.clock import SystemClock
from rstream.connection_strings import passwords_in
from rstream.errors import StreamEngineError, UsageError, error_class
from rstream.secret_values import (
    HIDDEN,
    is_reference,
    is_secret_option,
    with_stars,
    without_secrets,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMAT = 1
MANIFEST = "bundle.json"
#: The requests of the dashboard whose responses are stored in a bundle (a file that shows the
#: dashboard later). Their only parameter is the job.
_ANSWERS = ("details", "plan", "timeline", "logs", "savepoints", "findings")
_KINDS = ("output", "table", "late", "dead_letters")
#: Parts of messages that quote rows: the event on which user code failed, keys, delivered rows.
_QUOTED = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"(on event \d+ of its input, lifetime \[[^)]*\): ).+",
        r"(raised \w+: ).+?(?= at line|\n|$)",
        r"^(\s*\w*(?:Error|Exception|Warning): ).+",
        r"(waits for the end of ).+?(?= since )",
        r"(sends on have ).+",
        r"(Failing row contains ).+",
        r"(Key \([^)]*\)=).+?\)(?= )",
    )
)


@error_class
class NotABundleError(UsageError):
    """The file is not a bundle that this release can read."""

    path: str
    reason: str

    message = "{path} is not a bundle: {reason}"


def write_bundle(root: str, path: Path, *, rows: int = 0) -> dict[str, Any]:
    """Write a bundle of a job. Return its manifest. ``rows``: most rows of each kind.

    Raises:
        NoJobError: there is no job.
    """
    job_root = JobRoot(root)
    job_root.settings()
    board = Board(root, SystemClock())
    board.look()
    name = Path(root.rstrip("/")).name
    if name not in board.jobs:
        raise NoJobError(root)
    secrets = list(_secrets_of(job_root))
    documents = {answer: _read(partial(getattr(board, answer), name)) for answer in _ANSWERS}
    documents["list"] = _read(board.rows)
    for kind in _KINDS if rows else ():
        documents[f"rows-{kind}"] = _read(partial(board.table, name, kind, rows))
    manifest = {
        "format": FORMAT,
        "job": name,
        "written_us": SystemClock().now_us(),
        "release": metadata.version("streamscope"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "rows": rows,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(MANIFEST, json.dumps(manifest))
        for title, document in documents.items():
            shown = document if title.startswith("rows-") else _masked(document, secrets)
            file.writestr(f"{title}.json", json.dumps(shown))
        file.writestr("metrics.txt", _masked(_metrics(board), secrets))
    return {**manifest, "file": str(path), "bytes": path.stat().st_size}


def _metrics(board: Board) -> str:
    try:
        from jobmanager.cli.page.metrics import exposition
    except ModuleNotFoundError:
        return "prometheus-client is not installed\n"
    return exposition(board.examined()).decode()


def _read(answer: Callable[[], Any]) -> Any:
    """Return a response, or the error of reading it, which may be why the bug is reported."""
    try:
        return answer()
    except StreamEngineError as error:
        return {"error": str(error)}


def _secrets_of(root: JobRoot) -> Iterator[str]:
    """Yield the secrets that the plan itself contains."""
    try:
        plan = root.read_plan()
    except StreamEngineError:
        return
    yield from _secrets_in(plan, set())


def _secrets_in(value: Any, visited: set[int]) -> Iterator[str]:
    if isinstance(value, str):
        yield from (text for text in passwords_in(value) if not is_reference(text))
    elif isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, str) for v in value):
        if is_secret_option(value[0]) and not is_reference(value[1]):
            yield value[1]
        yield from _secrets_in(value[1], visited)
    elif isinstance(value, list | tuple | dict) or dataclasses.is_dataclass(value):
        if id(value) in visited:
            return
        visited.add(id(value))
        if isinstance(value, dict):
            parts = list(value.items())
        elif isinstance(value, list | tuple):
            parts = list(value)
        else:
            parts = [getattr(value, f.name) for f in dataclasses.fields(value)]
        for part in parts:
            yield from _secrets_in(part, visited)


def _masked(value: Any, secrets: list[str]) -> Any:
    """Return a document without secrets, and without rows that messages quote."""
    if isinstance(value, str):
        text = with_stars(without_secrets(value, secrets))
        for pattern in _QUOTED:
            text = pattern.sub(rf"\g<1>{HIDDEN}", text)
        return text
    if isinstance(value, dict):
        return {
            key: HIDDEN if key == "hot_key" else _masked(part, secrets)
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(part, secrets) for part in value]
    return value


class BundledJobs:
    """A bundle with the interface of a board: the same responses, read from the file."""

    def __init__(self, path: str) -> None:
        """Open the bundle. Raises NotABundleError."""
        self.unread: dict[str, str] = {}
        self._path = path
        try:
            with zipfile.ZipFile(path) as file:
                names = [name for name in file.namelist() if name.endswith(".json")]
                self._documents = {name: json.loads(file.read(name)) for name in names}
            self._manifest = self._documents[MANIFEST]
        except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
            raise NotABundleError(path, f"{type(error).__name__}: {error}") from error
        if self._manifest.get("format") != FORMAT:
            raise NotABundleError(path, f"its format is {self._manifest.get('format')}")
        self._name = str(self._manifest["job"])

    @property
    def bundle(self) -> dict[str, Any]:
        """The manifest of the bundle."""
        return dict(self._manifest)

    def look(self) -> None:
        """Do nothing: a bundle does not change."""

    def rows(self) -> Any:
        """Implement :class:`jobmanager.cli.page.board.Board`, also for the methods below."""
        return self._documents["list.json"]

    def root(self, name: str) -> str:
        """Raise UsageError: a bundle has no root."""
        self._check(name)
        raise UsageError("a bundle holds no job to change or to recompute; use its root")

    def details(self, name: str) -> Any:
        return self._answer(name, "details")

    def details_text(self, name: str) -> str:
        return json.dumps(self.details(name))

    def plan(self, name: str) -> Any:
        return self._answer(name, "plan")

    def timeline(self, name: str) -> Any:
        return self._answer(name, "timeline")

    def logs(self, name: str) -> Any:
        return self._answer(name, "logs")

    def savepoints(self, name: str) -> Any:
        return self._answer(name, "savepoints")

    def findings(self, name: str) -> Any:
        return self._answer(name, "findings")

    def moments(self, name: str) -> Any:
        self.root(name)

    def table(self, name: str, kind: str, rows: int, output: str = "") -> Any:
        """Return rows as a board does.

        A bundle has only the first output, so ``output`` is ignored.
        """
        self._check(name)
        if f"rows-{kind}.json" not in self._documents:
            raise UsageError("the bundle has no rows; jobmanager bundle ROOT --rows 100 adds them")
        answer = self._answer(name, f"rows-{kind}")
        return {**answer, **{key: answer[key][:rows] for key in ("rows", "conditions")}}

    def outputs(self, name: str) -> list[str]:
        """Raise UsageError, because a bundle has no streams."""
        self.root(name)
        return []

    def current(self, name: str, at: str | None = None, output: str = "") -> Any:
        """Raise UsageError, because a bundle has no streams."""
        self.root(name)

    def examined(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the job for metrics."""
        details = self._answer(self._name, "details")
        return [(self._name, {**details["status"], "findings": details["findings"]})]

    def _check(self, name: str) -> None:
        if name != self._name:
            raise NoJobError(name)

    def _answer(self, name: str, answer: str) -> Any:
        self._check(name)
        document = self._documents[f"{answer}.json"]
        if isinstance(document, dict) and document.keys() == {"error"}:
            raise UsageError(document["error"])
        return document
