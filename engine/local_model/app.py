"""The HTTP surface: OpenAI's Chat Completions API over one loaded model."""

import json
import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from perdure.engine.local_model.adapter import (
    Adapted,
    AnswerText,
    Reply,
    adapt,
    answer_only,
    read_reply,
    repeats_a_call,
)
from perdure.engine.local_model.backend import Backend, Text
from perdure.engine.local_model.messages import JsonObject, RequestRefused
from perdure.engine.local_model.replies import Head, Usage, error_json

CLIENT_CLOSED = 499
"""Status of a request whose client has gone; nobody reads it."""


@dataclass(frozen=True)
class Service:
    """What all requests share."""

    backend: Backend
    model: str
    """The only model's name."""
    api_key: str
    created: int = field(default_factory=lambda: int(time.time()))


@dataclass
class _Outcome:
    """The end of one generation."""

    reply: Reply
    finish_reason: str
    usage: Usage


def make_app(service: Service) -> Starlette:
    """Return the server's ASGI application."""
    app = Starlette(
        routes=[
            Route("/healthz", _healthz),
            Route("/v1/models", _guarded(_models)),
            Route("/v1/models/{model:path}", _guarded(_model)),
            Route("/v1/chat/completions", _guarded(_chat), methods=["POST"]),
        ],
        exception_handlers={HTTPException: _http_error, RequestRefused: _refused},
    )
    app.state.service = service
    return app


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _guarded(
    endpoint: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    async def checked(request: Request) -> Response:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        expected = _service(request).api_key.encode()
        if scheme.lower() != "bearer" or not secrets.compare_digest(key.encode(), expected):
            raise RequestRefused("Incorrect API key provided.", code="invalid_api_key", status=401)
        return await endpoint(request)

    return checked


async def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestRefused):
        raise error
    return JSONResponse(error_json(error), error.status)


async def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    message = f"{error.detail}: {request.method} {request.url.path}"
    return JSONResponse(error_json(RequestRefused(message)), error.status_code, error.headers)


async def _healthz(request: Request) -> Response:
    healthy = await _service(request).backend.healthy()
    return JSONResponse({"status": "ok" if healthy else "failed"}, 200 if healthy else 503)


def _model_json(service: Service) -> JsonObject:
    return {
        "id": service.model,
        "object": "model",
        "created": service.created,
        "owned_by": "local",
    }


async def _models(request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [_model_json(_service(request))]})


async def _model(request: Request) -> Response:
    service = _service(request)
    _check_model(request.path_params["model"], service)
    return JSONResponse(_model_json(service))


def _check_model(name: object, service: Service) -> None:
    if name != service.model:
        raise RequestRefused(
            f"The model {name!r} does not exist here; there is only {service.model!r}.",
            param="model",
            code="model_not_found",
            status=404,
        )


async def _chat(request: Request) -> Response:
    service = _service(request)
    asked = await _json_object(request)
    _check_model(asked.get("model"), service)
    adapted = adapt(asked)
    head = Head(f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), service.model)
    call_id = f"call_{uuid.uuid4().hex[:24]}"
    pieces = _generate(service.backend, adapted)
    if not asked.get("stream"):
        return await _unless_gone(request, _whole(pieces, head, call_id))
    options = asked.get("stream_options")
    with_usage = isinstance(options, dict) and bool(options.get("include_usage"))
    chunks = _chunks(pieces, head, call_id, with_usage=with_usage)
    return await _unless_gone(request, _stream(chunks))


async def _json_object(request: Request) -> JsonObject:
    try:
        body = json.loads(await request.body())
    except ValueError as error:
        raise RequestRefused(f"The body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestRefused("The body must be a JSON object.")
    return body


async def _unless_gone(request: Request, work: Awaitable[Response]) -> Response:
    """Await a response, but stop its generation when the client hangs up before."""
    response: Response = Response(status_code=CLIENT_CLOSED)
    refused: RequestRefused | None = None

    async def watch(scope: anyio.CancelScope) -> None:
        # The body has been read, so the only message left is the end of the connection.
        while (await request.receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch, group.cancel_scope)
        try:
            response = await work
        except RequestRefused as error:
            refused = error  # raised outside, where it is not part of an exception group
        group.cancel_scope.cancel()
    if refused:
        raise refused
    return response


async def _generate(backend: Backend, adapted: Adapted) -> AsyncGenerator[str | _Outcome]:
    """Yield the text of an answer as far as it is known early, then the outcome.

    What was yielded as text is a prefix of the outcome's `reply.content`.
    """
    spent = Usage()
    while True:
        texts: list[str] = []
        answer = AnswerText()
        async with aclosing(backend.generate(adapted.body)) as pieces:
            async for piece in pieces:
                if not isinstance(piece, Text):
                    end = piece
                    continue
                texts.append(piece.text)
                if not adapted.constrained:
                    yield piece.text
                elif adapted.answers_in_text and (ready := answer.feed(piece.text)):
                    yield ready
        spent += end.usage
        try:
            reply = read_reply(adapted, "".join(texts))
        except ValueError as error:
            raise RequestRefused(str(error), status=500) from error
        if not repeats_a_call(adapted, reply):
            break
        adapted = answer_only(adapted)
    yield _Outcome(reply, "tool_calls" if reply.call else end.finish_reason, spent)


async def _whole(pieces: AsyncGenerator[str | _Outcome], head: Head, call_id: str) -> Response:
    async with aclosing(pieces):
        async for piece in pieces:
            if isinstance(piece, _Outcome):
                outcome = piece
    completion = head.completion(outcome.reply, call_id, outcome.finish_reason, outcome.usage)
    return JSONResponse(completion)


async def _chunks(
    pieces: AsyncGenerator[str | _Outcome], head: Head, call_id: str, *, with_usage: bool
) -> AsyncGenerator[JsonObject]:
    sent = 0
    async with aclosing(pieces):
        async for piece in pieces:
            if not sent:
                yield head.role()  # not earlier: a refusal of the request comes before any piece
            if isinstance(piece, str):
                sent += len(piece)
                yield head.text(piece)
                continue
            if rest := piece.reply.content[sent:]:
                yield head.text(rest)
            for chunk in head.call(piece.reply, call_id):
                yield chunk
            yield head.finish(piece.finish_reason)
            if with_usage:
                yield head.usage(piece.usage)


async def _stream(chunks: AsyncGenerator[JsonObject]) -> Response:
    """Return a response once there is something to say, so that a refusal keeps its status."""
    first = await anext(chunks)

    async def events() -> AsyncGenerator[str]:
        async with aclosing(chunks):
            yield _event(first)
            try:
                async for chunk in chunks:
                    yield _event(chunk)
            except RequestRefused as error:
                yield _event(error_json(error))
                return
            yield "data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


def _event(data: JsonObject) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
