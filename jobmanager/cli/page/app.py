"""The page over HTTP: files, JSON, a stream of events, metrics, and the buttons.

Without tokens, all routes are read-only, and the server answers only requests whose ``Host`` names
this machine. So no page of another site can read it through a browser. With tokens, requests that
change a job need one. If other machines can reach the address, all requests except ``/health`` need
one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from jobmanager.cli.page.answers import text_rows
from jobmanager.cli.page.board import LOOK_EVERY_S
from jobmanager.cli.page.metrics import exposition
from jobmanager.cli.page.recompute import run_verb
from jobmanager.cli.requests import ask
from jobmanager.errors import NoJobError
from jobmanager.intake.errors import NoTokenError
from jobmanager.intake.tokens import check_token
from jobmanager.state.held_time import time_of
from rstream.errors import StreamEngineError, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from starlette.requests import Request

    from jobmanager.cli.page.board import Board
    from jobmanager.cli.page.bundle import BundledJobs

    Handler = Callable[[Request], Awaitable[Response]]

STATIC = Path(__file__).parent / "static"
#: Seconds between two exports to other systems.
EXPORT_EVERY_S = 5.0
#: Most open event streams.
VIEWERS_MAX = 200
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_THIS_MACHINE = ["localhost", "127.0.0.1", "[::1]"]
_KINDS = ("output", "table", "late", "dead_letters")


class Export(Protocol):
    """Sends the contents of a board to another system."""

    def send(self) -> None:
        """Send everything that is new since the last call."""

    def close(self) -> None:
        """Send the remaining data and end."""


def make_app(
    board: Board | BundledJobs,
    tokens: list[bytes],
    exports: Sequence[Export] = (),
    *,
    is_local: bool,
) -> Starlette:
    """Return the application over a board. ``is_local``: only this machine can reach it."""
    page = _Page(board, tokens, exports, is_local=is_local)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(run()) for run in (page.keep_looking, page.keep_exporting)]
        yield
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for export in exports:
            await run_in_threadpool(_sent, export.close)

    one = "/api/jobs/{name}"
    reads = {
        "/api/jobs": page.jobs,
        "/api/events": page.events,
        one: page.details,
        f"{one}/plan": page.read(board.plan),
        f"{one}/timeline": page.read(board.timeline),
        f"{one}/logs": page.read(board.logs),
        f"{one}/savepoints": page.read(board.savepoints),
        f"{one}/moments": page.read(board.moments),
        f"{one}/findings": page.read(board.findings),
        f"{one}/rows/{{kind}}": page.rows,
        f"{one}/table.arrow": page.table,
        f"{one}/why": page.why,
        f"{one}/capsule.zip": page.capsule,
        f"{one}/at": page.at,
        "/metrics": page.metrics,
    }
    routes = [
        Route("/health", page.health),
        *(Route(path, page.reading(handler)) for path, handler in reads.items()),
        Route(f"{one}/compare", page.changing(page.compare), methods=["POST"]),
        Route(f"{one}/diff", page.changing(page.diff), methods=["POST"]),
        Route(f"{one}/savepoint", page.changing(page.savepoint), methods=["POST"]),
        Route(f"{one}/rescale", page.changing(page.rescale), methods=["POST"]),
        Route(f"{one}/{{action}}", page.changing(page.act), methods=["POST"]),
        Mount("/", StaticFiles(directory=STATIC, html=True)),
    ]
    hosts = [Middleware(TrustedHostMiddleware, allowed_hosts=_THIS_MACHINE)] if is_local else []
    return Starlette(routes=routes, lifespan=lifespan, middleware=hosts)


class _Page:
    """The handlers of the routes."""

    def __init__(
        self,
        board: Board | BundledJobs,
        tokens: list[bytes],
        exports: Sequence[Export],
        *,
        is_local: bool,
    ) -> None:
        self._board, self._tokens, self._is_local = board, tokens, is_local
        self._exports = exports
        #: The error of the last export; empty if it succeeded.
        self._export_trouble = ""
        self._changed = asyncio.Condition()
        self._viewers = 0
        self._looked_s = time.monotonic()
        #: The error of the last read of the statuses; empty if it succeeded.
        self._trouble = ""
        #: The list of jobs as JSON text, built once per read of the statuses.
        self._text = ""
        self._listing = threading.Lock()

    async def keep_looking(self) -> None:
        """Read the statuses periodically, once for all viewers."""
        while True:  # ends with the server
            try:
                await run_in_threadpool(self._look)
                self._looked_s, self._trouble = time.monotonic(), ""
            except Exception as error:  # the page shows the error, and the next read may succeed
                self._trouble = f"{type(error).__name__}: {error}"
            self._text = ""
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(LOOK_EVERY_S)

    async def keep_exporting(self) -> None:
        """Export to other systems periodically. A failed export is repeated."""
        while self._exports:  # ends with the server
            await asyncio.sleep(EXPORT_EVERY_S)
            troubles = [await run_in_threadpool(_sent, one.send) for one in self._exports]
            self._export_trouble = "; ".join(filter(None, troubles))

    def _look(self) -> None:
        self._board.look()
        if self._viewers:
            self._board.rows()  # runs the doctor in this thread, not in the event loop

    def reading(self, handler: Handler) -> Handler:
        """Return a handler that first checks the permission to read."""
        return self._guarded(handler, () if self._is_local else self._tokens)

    def changing(self, handler: Handler) -> Handler:
        """Return a handler that first checks the permission to change jobs.

        If the server has no tokens, every request is rejected.
        """

        async def with_tokens(request: Request) -> Response:
            if not self._tokens:
                advice = "this page cannot change jobs; serve it with --token-file to allow that"
                return _json({"error": advice}, 403)
            return await handler(request)

        return self._guarded(with_tokens, self._tokens)

    def _guarded(self, handler: Handler, tokens: list[bytes] | tuple[()]) -> Handler:
        async def guard(request: Request) -> Response:
            try:
                check_token(request.headers.get("authorization", ""), list(tokens))
                return await handler(request)
            except NoTokenError as error:
                return _json({"error": str(error)}, 401, {"WWW-Authenticate": "Bearer"})
            except NoJobError as error:
                return _json({"error": str(error)}, 404)
            except StreamEngineError as error:
                return _json({"error": str(error)}, 409)

        return guard

    def read(self, answer: Callable[[str], Any]) -> Handler:
        """Return the handler of a route about a job. It may read files, so it runs in a thread."""

        async def handler(request: Request) -> Response:
            return _json(await run_in_threadpool(answer, request.path_params["name"]))

        return handler

    async def details(self, request: Request) -> Response:
        """Return the status of a job, serialized once per read for all viewers."""
        text = await run_in_threadpool(self._board.details_text, request.path_params["name"])
        return Response(text, headers=_HEADERS, media_type="application/json")

    async def health(self, _: Request) -> Response:
        """Return whether the server can read its folder. Health probes need no token."""
        if self._trouble:
            return _json({"status": "failing", "error": self._trouble}, 503)
        return _json({"status": "ok"})

    async def jobs(self, _: Request) -> Response:
        text = await run_in_threadpool(self._list)
        return Response(text, headers=_HEADERS, media_type="application/json")

    def _list(self) -> str:
        with self._listing:  # all viewers request the list at once, after each read of the statuses
            if not self._text:
                document = {
                    "jobs": self._board.rows(),
                    "unread": self._board.unread,
                    "can_change": bool(self._tokens),
                    "trouble": self._trouble,
                    "export_trouble": self._export_trouble,
                    "age_s": round(time.monotonic() - self._looked_s, 1),
                    "bundle": self._board.bundle,
                }
                self._text = json.dumps(document)
            return self._text

    async def rows(self, request: Request) -> Response:
        kind, rows = request.path_params["kind"], request.query_params.get("n", "100")
        if kind not in _KINDS or not rows.isdigit():
            return _json({"error": f"choose one of {', '.join(_KINDS)}; n must be a number"}, 400)
        name, output = request.path_params["name"], request.query_params.get("output", "")
        return _json(await run_in_threadpool(self._board.table, name, kind, int(rows), output))

    async def table(self, request: Request) -> Response:
        """Return all rows that are alive now, or at ``?at=TIME``, as a stream of Arrow."""
        name, at = request.path_params["name"], request.query_params.get("at")
        output = request.query_params.get("output", "")
        body = await run_in_threadpool(lambda: _arrow(self._board.current(name, at, output)))
        return Response(body, headers=_HEADERS, media_type="application/vnd.apache.arrow.stream")

    async def why(self, request: Request) -> Response:
        """Return the input rows of one result row. ``row``: a SQL condition that selects it."""
        root = self._recomputing(request)
        row = request.query_params.get("row", "")
        (line, *_) = await run_in_threadpool(run_verb, "why", root, f"--row={row}")
        return Response(line, headers=_HEADERS, media_type="application/json")

    async def capsule(self, request: Request) -> Response:
        """Return the capsule of one result row. ``row``: a SQL condition that selects it."""
        root = self._recomputing(request)
        row = request.query_params.get("row", "")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "capsule.zip")
            await run_in_threadpool(run_verb, "capsule", root, f"--row={row}", f"--out={path}")
            body = path.read_bytes()
        return Response(body, headers=_HEADERS, media_type="application/zip")

    async def at(self, request: Request) -> Response:
        """Return the rows alive at ``us``, or with ``stage`` the state of a stage at that time."""
        root, query = self._recomputing(request), request.query_params
        us, stage = query.get("us", ""), query.get("stage", "")
        if not us.lstrip("-").isdigit():
            raise UsageError(f"us={us!r} is not an event time in microseconds")
        if stage.startswith("-"):
            raise UsageError(f"there is no stage {stage!r}")
        name = request.path_params["name"]
        output = query.get("output") or self._board.outputs(name)[0]
        verb = ["state", root, stage] if stage else ["table", root, f"--output={output}"]
        at = f"{time_of(int(us)).replace(' ', 'T')}.{int(us) % 1_000_000:06d}Z"
        lines = await run_in_threadpool(run_verb, *verb, "--rows=200", f"--at={at}")
        return _json({"rows": text_rows(lines)})

    def _recomputing(self, request: Request) -> str:
        """Return the root of the job. Reject requests that a page of another site sent."""
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise UsageError("a page of another site may not start a recomputation")
        return self._board.root(request.path_params["name"])

    async def compare(self, request: Request) -> Response:
        """Return the effect of deploying ``file``, a query on this machine, on each stage."""
        root, file = self._next_query(request)
        return await _result_of("deploy", file, root, "--dry-run")

    async def diff(self, request: Request) -> Response:
        """Return the result rows that the query in ``file`` changes, over the recorded input."""
        root, file = self._next_query(request)
        return await _result_of("diff", root, file)

    def _next_query(self, request: Request) -> tuple[str, str]:
        """Return the root of a job, and the file of its next query."""
        file = request.query_params.get("file", "")
        if not file or file.startswith("-"):
            raise UsageError("name the file of the new query, as seen by the server")
        return self._board.root(request.path_params["name"]), file

    async def savepoint(self, request: Request) -> Response:
        """Save the state of a job."""
        root, name = self._board.root(request.path_params["name"]), request.query_params.get("host")
        lines = await run_in_threadpool(run_verb, "savepoint", root, f"--name={name or 'saved'}")
        return _json({"requested": f"saved as {json.loads(lines[-1])['savepoint']}"})

    async def rescale(self, request: Request) -> Response:
        """Change the number of vertices of one ``stage``, or of all stages divided by key."""
        root, query = self._board.root(request.path_params["name"]), request.query_params
        vertices, stage = query.get("vertices", ""), query.get("stage", "")
        if not vertices.isdecimal():
            raise UsageError(f"vertices={vertices!r} is not a number of vertices")
        option = f"--stage={stage}={vertices}" if stage else f"--parallelism={vertices}"
        lines = await run_in_threadpool(run_verb, "rescale", root, option)
        return _json({"requested": f"done in {json.loads(lines[-1])['outcome']['seconds']:.1f} s"})

    async def metrics(self, _: Request) -> Response:
        text = await run_in_threadpool(lambda: exposition(self._board.examined()))
        return Response(text, headers=_HEADERS, media_type="text/plain; version=0.0.4")

    async def events(self, _: Request) -> Response:
        """Send the list of jobs after each read of the statuses, as server-sent events."""
        if self._viewers >= VIEWERS_MAX:
            return _json(
                {"error": f"{VIEWERS_MAX} viewers is the limit; request /api/jobs instead"}, 503
            )
        return StreamingResponse(self._looks(), headers=_HEADERS, media_type="text/event-stream")

    async def _looks(self) -> AsyncIterator[str]:
        self._viewers += 1
        try:
            while True:  # ends with the viewer
                yield f"data: {self._text or await run_in_threadpool(self._list)}\n\n"
                async with self._changed:
                    await self._changed.wait()
        finally:
            self._viewers -= 1

    async def act(self, request: Request) -> Response:
        """Cancel, stop, finish, drain a host, or retry deliveries."""
        root = self._board.root(request.path_params["name"])
        host = request.query_params.get("host", "")
        answer = await run_in_threadpool(ask, root, request.path_params["action"], host)
        return _json({"requested": answer})


async def _result_of(verb: str, *arguments: str) -> Response:
    """Run a command. Return the last line that it prints, which is JSON."""
    lines = await run_in_threadpool(run_verb, verb, *arguments)
    return Response(lines[-1], headers=_HEADERS, media_type="application/json")


def _sent(send: Callable[[], None]) -> str:
    """Call ``send``. Return its error as text, so that a failed export does not stop the page."""
    try:
        send()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _json(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(document, status, {**_HEADERS, **(headers or {})})
