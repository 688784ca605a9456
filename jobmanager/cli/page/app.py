"""The page over HTTP: files, JSON, a stream of events, metrics, and the buttons.

Without a token everything can be read and nothing changed, and only names of this machine are
answered, so that no page of another site can read it through a browser. With tokens, what changes
a job needs one; on an address that other machines reach, everything but ``/health`` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from jobmanager.cli.page.board import LOOK_EVERY_S
from jobmanager.cli.page.metrics import exposition
from jobmanager.cli.requests import ask
from jobmanager.errors import NoJobError
from jobmanager.intake.errors import NoTokenError
from jobmanager.intake.tokens import check_token
from rstream.errors import StreamEngineError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

    from jobmanager.cli.page.board import Board

    Handler = Callable[[Request], Awaitable[Response]]

STATIC = Path(__file__).parent / "static"
#: Streams of events that are open at a time.
VIEWERS_MAX = 200
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_THIS_MACHINE = ["localhost", "127.0.0.1", "[::1]"]
_KINDS = ("output", "table", "late", "dead_letters")


def make_app(board: Board, tokens: list[bytes], *, is_local: bool) -> Starlette:
    """The application over a board; ``is_local``: only this machine reaches it."""
    page = _Page(board, tokens, is_local=is_local)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        looking = asyncio.create_task(page.keep_looking())
        yield
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking

    one = "/api/jobs/{name}"
    reads = {
        "/api/jobs": page.jobs,
        "/api/events": page.events,
        one: page.job,
        f"{one}/plan": page.plan,
        f"{one}/timeline": page.timeline,
        f"{one}/findings": page.findings,
        f"{one}/rows/{{kind}}": page.rows,
        f"{one}/table.arrow": page.table,
        "/metrics": page.metrics,
    }
    routes = [
        Route("/health", page.health),
        *(Route(path, page.reading(handler)) for path, handler in reads.items()),
        Route(f"{one}/{{action}}", page.changing(page.act), methods=["POST"]),
        Mount("/", StaticFiles(directory=STATIC, html=True)),
    ]
    hosts = [Middleware(TrustedHostMiddleware, allowed_hosts=_THIS_MACHINE)] if is_local else []
    return Starlette(routes=routes, lifespan=lifespan, middleware=hosts)


class _Page:
    """What each route answers."""

    def __init__(self, board: Board, tokens: list[bytes], *, is_local: bool) -> None:
        self._board, self._tokens, self._is_local = board, tokens, is_local
        self._changed = asyncio.Condition()
        self._viewers = 0

    async def keep_looking(self) -> None:
        """Read the statuses again and again, for all viewers."""
        while True:  # ends with the server
            with contextlib.suppress(StreamEngineError):
                await run_in_threadpool(self._board.look)
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(LOOK_EVERY_S)

    def reading(self, handler: Handler) -> Handler:
        """The handler, for those who may read."""
        return self._guarded(handler, () if self._is_local else self._tokens)

    def changing(self, handler: Handler) -> Handler:
        """The handler, for those who may change a job: nobody, without tokens."""

        async def with_tokens(request: Request) -> Response:
            if not self._tokens:
                advice = "this page only shows; serve it with --token-file to change jobs from it"
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

    async def health(self, _: Request) -> Response:
        """Whoever runs the page asks this without a token."""
        return _json({"status": "ok"})

    async def jobs(self, _: Request) -> Response:
        return _json(self._list())

    def _list(self) -> dict[str, Any]:
        return {
            "jobs": self._board.rows(),
            "unread": self._board.unread,
            "can_change": bool(self._tokens),
        }

    async def job(self, request: Request) -> Response:
        return _json(self._board.details(request.path_params["name"]))

    async def plan(self, request: Request) -> Response:
        return await self._found(self._board.plan, request.path_params["name"])

    async def timeline(self, request: Request) -> Response:
        return await self._found(self._board.timeline, request.path_params["name"])

    async def findings(self, request: Request) -> Response:
        return await self._found(self._board.findings, request.path_params["name"])

    async def rows(self, request: Request) -> Response:
        kind, rows = request.path_params["kind"], request.query_params.get("n", "100")
        if kind not in _KINDS or not rows.isdigit():
            return _json({"error": f"there is {', '.join(_KINDS)}, and n is a number"}, 400)
        return await self._found(self._board.table, request.path_params["name"], kind, int(rows))

    async def table(self, request: Request) -> Response:
        """All rows that are alive now, or ``?at=TIME``, as a stream of Arrow."""
        name, at = request.path_params["name"], request.query_params.get("at")
        body = await run_in_threadpool(lambda: _arrow(self._board.current(name, at)))
        return Response(body, headers=_HEADERS, media_type="application/vnd.apache.arrow.stream")

    async def _found(self, read: Callable[..., Any], *args: Any) -> Response:
        """What takes files to read, beside the loop."""
        return _json(await run_in_threadpool(read, *args))

    async def metrics(self, _: Request) -> Response:
        text = await run_in_threadpool(lambda: exposition(self._board.examined()))
        return Response(text, headers=_HEADERS, media_type="text/plain; version=0.0.4")

    async def events(self, _: Request) -> Response:
        """The list of jobs, again after each look, as server-sent events."""
        if self._viewers >= VIEWERS_MAX:
            return _json({"error": f"{VIEWERS_MAX} viewers are here; ask /api/jobs"}, 503)
        return StreamingResponse(self._looks(), headers=_HEADERS, media_type="text/event-stream")

    async def _looks(self) -> AsyncIterator[str]:
        self._viewers += 1
        try:
            while True:  # ends with the viewer
                yield f"data: {json.dumps(self._list())}\n\n"
                async with self._changed:
                    await self._changed.wait()
        finally:
            self._viewers -= 1

    async def act(self, request: Request) -> Response:
        """Cancel, stop, finish, drain a host, or retry deliveries."""
        root = self._board.job(request.path_params["name"]).root
        host = request.query_params.get("host", "")
        answer = await run_in_threadpool(ask, root, request.path_params["action"], host)
        return _json({"requested": answer})


def _arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _json(found: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(found, status, {**_HEADERS, **(headers or {})})
