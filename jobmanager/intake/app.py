"""The HTTP interface of the intake service. The only module that imports Starlette.

Every request except ``GET /health`` needs ``Authorization: Bearer TOKEN``. The token is compared in
constant time before any other part of the request is read.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from jobmanager.intake.errors import AGAIN, BodyTooLargeError, as_document, status_of
from jobmanager.intake.inflate import Inflater
from jobmanager.intake.tokens import check_token
from rstream.errors import StreamEngineError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from jobmanager.intake.service import IntakeService

    Handler = Callable[[Request], Coroutine[Any, Any, JSONResponse]]

_NO_TOKEN = 401


def make_app(service: IntakeService, tokens: list[bytes]) -> Starlette:
    """Return the application. Without ``tokens``, any client may post."""
    handlers = _Handlers(service, tokens)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    one = "/streams/{name}/producers/{producer}"
    routes = [
        Route("/health", handlers.health, methods=["GET"]),
        Route("/streams", handlers.guarded(handlers.streams), methods=["GET"]),
        Route("/streams/{name}", handlers.guarded(handlers.post), methods=["POST"]),
        Route(one, handlers.guarded(handlers.position), methods=["GET"]),
        Route(one, handlers.guarded(handlers.open_producer), methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


class _Handlers:
    """The handlers of the routes."""

    def __init__(self, service: IntakeService, tokens: list[bytes]) -> None:
        self._service, self._tokens = service, tokens

    def guarded(self, handler: Handler) -> Handler:
        """Return a handler that first checks the token."""

        async def guard(request: Request) -> JSONResponse:
            try:
                check_token(request.headers.get("authorization", ""), self._tokens)
                return await handler(request)
            except StreamEngineError as error:
                return _refused(error, self._service.limits.retry_after_s)

        return guard

    async def post(self, request: Request) -> JSONResponse:
        service, name = self._service, request.path_params["name"]
        service.find(name)
        with service.room(), contextlib.ExitStack() as room:
            try:
                body = await asyncio.wait_for(
                    _body(request, service, room), service.limits.body_wait_s
                )
            except (TimeoutError, ClientDisconnect):
                late = "the body did not arrive in time; no row was stored"
                return JSONResponse({"error": late}, 408)
            media_type = request.headers.get("content-type", "")
            ack = await service.post(name, media_type, body, request.headers)
            return JSONResponse(asdict(ack))

    async def streams(self, _: Request) -> JSONResponse:
        return JSONResponse({"streams": self._service.streams})

    async def position(self, request: Request) -> JSONResponse:
        name, producer = request.path_params["name"], request.path_params["producer"]
        return JSONResponse(asdict(self._service.position(name, producer)))

    async def open_producer(self, request: Request) -> JSONResponse:
        name, producer = request.path_params["name"], request.path_params["producer"]
        opened = await asyncio.to_thread(self._service.open_producer, name, producer)
        return JSONResponse(asdict(opened))

    async def health(self, _: Request) -> JSONResponse:
        """Return the health of the server. Monitoring calls it without a token."""
        fenced = self._service.fenced
        return JSONResponse({"status": "replaced" if fenced else "ok"}, 503 if fenced else 200)


async def _body(request: Request, service: IntakeService, room: contextlib.ExitStack) -> bytes:
    """Read the bytes of a post, unless too many bytes of other posts are unanswered."""
    most = service.limits.body_bytes_max
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise BodyTooLargeError(most)
    parts: list[bytes] = []
    inflater = Inflater(request.headers.get("content-encoding", ""), most)
    async for part in request.stream():
        for piece in inflater.pieces(part):
            room.enter_context(service.room_for_bytes(len(piece)))
            parts.append(piece)
    inflater.finish()
    return b"".join(parts)


def _refused(error: StreamEngineError, retry_after_s: int) -> JSONResponse:
    status = status_of(error)
    headers = {"Retry-After": str(retry_after_s)} if status in AGAIN else {}
    if status == _NO_TOKEN:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(as_document(error), status, headers)
