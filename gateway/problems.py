"""Every error as RFC 9457 `application/problem+json`, with the stable code and the way out.

https://www.rfc-editor.org/rfc/rfc9457
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path
from temporalio.service import RPCError

from perdure.client import follow
from perdure.runs.errors import (
    MEANINGS,
    EngineUnavailable,
    ErrorCode,
    EventsExpired,
    InvalidRequest,
    PerdureError,
    SessionBusy,
    SessionWaitingForAction,
)
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.strict_json import strict_json

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
"""After which to ask again what could not be answered: something is being started, or restarts."""
MAX_TOLD = 20
"""Faults of one request that are told."""
NOT_CONNECTED = "Failed client connect"
"""What the SDK says, as a RuntimeError, while it could not connect for the first time."""

STATUS: dict[ErrorCode, int] = {
    ErrorCode.UNSUPPORTED_PARAMETER: 422,
    ErrorCode.PROVIDER_REFUSED_REQUEST: 422,
    ErrorCode.UNSUPPORTED_FILE: 422,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.RUN_NOT_FOUND: 404,
    ErrorCode.CALL_NOT_FOUND: 404,
    ErrorCode.ACTION_NOT_FOUND: 404,
    ErrorCode.SESSION_NOT_FOUND: 404,
    ErrorCode.AGENT_NOT_FOUND: 404,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.SESSION_BUSY: 409,
    ErrorCode.SESSION_WAITING_FOR_ACTION: 409,
    ErrorCode.SESSION_LIMIT: 409,
    ErrorCode.IDEMPOTENCY_CONFLICT: 409,
    ErrorCode.ACTION_ALREADY_RESOLVED: 409,
    ErrorCode.RUN_ALREADY_EXISTS: 409,
    ErrorCode.RUN_ALREADY_TERMINAL: 409,
    ErrorCode.RUN_NOT_RESUMABLE: 409,
    ErrorCode.EVENTS_EXPIRED: 410,
    ErrorCode.PAYLOAD_TOO_LARGE: 413,
    ErrorCode.QUEUE_FULL: 429,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: 415,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.ENGINE_UNAVAILABLE: 503,
    ErrorCode.NO_WORKER: 503,
    ErrorCode.STORAGE_UNAVAILABLE: 503,
    ErrorCode.CONFIGURATION: 503,
}
"""All others are faults of ours: 500."""

HINTS = {
    ErrorCode.RUN_NOT_FOUND: "GET /v1/runs lists those there are.",
    ErrorCode.SESSION_NOT_FOUND: "GET /v1/sessions lists those there are.",
    ErrorCode.ACTION_NOT_FOUND: "GET /v1/actions lists what waits for a person.",
    ErrorCode.CALL_NOT_FOUND: "GET /v1/runs/{run_id}/steps shows its Steps and calls.",
    ErrorCode.RUN_ALREADY_TERMINAL: "POST /v1/runs/{run_id}/resume or …/fork goes on from it.",
}
"""Where the hints of errors name commands that somebody who asks over HTTP has not."""


class Fault(BaseModel):
    """One thing that is wrong with a request."""

    where: str
    """`body`, `query`, `path` or `header`, and the field in it, with points between."""
    message: str


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it, and the way out."""

    model_config = ConfigDict(
        extra="allow",
        use_attribute_docstrings=True,
        json_schema_extra={
            "example": {
                "type": "urn:perdure:error:session_busy",
                "title": "The Session has a Run that is going on, and has at most one at a time.",
                "status": 409,
                "detail": "Session 'anna' has a Run that is going on: 'run_5f2c'.",
                "code": "session_busy",
                "hint": "Wait for it, cancel it, or say with on_busy what is to happen.",
                "active_run_id": "run_5f2c",
            }
        },
    )

    type: str
    """`urn:perdure:error:` and the code."""
    title: str
    """What the code means."""
    status: int
    """The HTTP status, again."""
    detail: str
    """What went wrong, with which thing."""
    code: ErrorCode
    """Stable; docs/errors.md has all."""
    hint: str
    """The way out."""
    active_run_id: str | None = None
    """With `session_busy` and `session_waiting_for_action`."""
    action_ids: list[str] | None = None
    """With `session_waiting_for_action`: what is to be decided."""
    last_event: int | None = None
    """With `events_expired`: the number of the last Event that is gone."""
    errors: list[Fault] | None = None
    """With `invalid_request` and `unsupported_parameter`: all that is wrong with the request."""
    message: dict[str, Any] | None = None
    """Where a message was not taken: the message, back."""


class Refused(PerdureError):
    """A refusal that only HTTP knows of, or that says more than others.

    Args:
        code: The stable code.
        message: What went wrong, in one sentence.
        hint: The way out; the code's own when not given.
        status: Where it is not the code's own.
        headers: Of the response; a name may have several values.
        **more: Members of the problem.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        /,
        *,
        hint: str = "",
        status: int = 0,
        headers: Mapping[str, tuple[str, ...]] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.status = status
        self.headers = headers or {}
        self.more = more


def status_of(error: PerdureError) -> int:
    """Return the HTTP status of an error."""
    return getattr(error, "status", 0) or STATUS.get(error.code, 500)


def problem(error: PerdureError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response that tells an error."""
    title, _, way_out = MEANINGS[error.code]
    status = status_of(error)
    told = Problem(
        type=f"urn:perdure:error:{error.code}",
        title=title,
        status=status,
        detail=error.message,
        code=error.code,
        hint=HINTS.get(error.code) or error.hint or way_out,
        **getattr(error, "more", {}),
    )
    if isinstance(error, SessionBusy):
        told.active_run_id = error.active_run_id
    if isinstance(error, EventsExpired):
        told.last_event = error.last_event
    if isinstance(error, SessionWaitingForAction):
        told.action_ids = list(error.action_ids)
    own: Mapping[str, tuple[str, ...]] = getattr(error, "headers", {})
    waits = {"Retry-After": str(RETRY_AFTER_S)} if status in (429, 503) else {}
    answer = Response(
        strict_json(told.model_dump(exclude_none=True)),
        status,
        {name: value for name, value in {**waits, **(headers or {})}.items() if name not in own},
        MEDIA_TYPE,
    )
    for name, values in own.items():
        for value in values:
            answer.headers.append(name, value)
    return answer


def invalid(faults: Iterable[Any], where: Sequence[str] = ()) -> PerdureError:
    """Return the refusal of a request that is not as it has to be.

    Args:
        faults: As pydantic tells them.
        where: What was read.
    """
    found = list(faults)[:MAX_TOLD]
    told = [Fault(where=_place((*where, *each["loc"])), message=each["msg"]) for each in found]
    unknown = [fault for fault, each in zip(told, found, strict=True) if _is_unknown(each)]
    if unknown:
        names = ", ".join(repr(fault.where.rpartition(".")[2]) for fault in unknown)
        return Refused(
            ErrorCode.UNSUPPORTED_PARAMETER,
            f"There is no parameter {names} here.",
            errors=unknown,
        )
    first = told[0] if told else Fault(where="body", message="it can't be read")
    return Refused(
        ErrorCode.PROVIDER_REFUSED_REQUEST,
        f"{first.where}: {first.message}.".replace("..", "."),
        hint="`errors` names everything that is to be changed.",
        errors=told,
    )


def _place(loc: Sequence[object]) -> str:
    return without_lone_surrogates(".".join(str(part) for part in loc))[:200]


def _is_unknown(fault: Any) -> bool:
    return bool(fault["type"] == "extra_forbidden")


def _of_http(error: HTTPException) -> PerdureError:
    match error.status_code:
        case 404:
            return Refused(ErrorCode.NOT_FOUND, "Nothing is served at that path.")
        case 405:
            return Refused(ErrorCode.METHOD_NOT_ALLOWED, "The path does not take that method.")
        case 413:
            return Refused(ErrorCode.PAYLOAD_TOO_LARGE, "The request is too large.")
        case status:
            return InvalidRequest(f"The request can't be read ({status}).")


def _allowed(request: Request) -> dict[str, str]:
    """Return the header that names a path's methods: Starlette's has those of one route only."""
    path, described = request.scope["path"], request.app.openapi()["paths"]
    for pattern in (path, *described):
        if pattern in described and compile_path(pattern)[0].match(path):
            return {"Allow": ", ".join(sorted(map(str.upper, described[pattern])))}
    return {}


def _unexpected(error: Exception) -> PerdureError:
    if isinstance(error, RuntimeError) and str(error).startswith(NOT_CONNECTED):
        return EngineUnavailable("Temporal does not answer.")
    logger.error("A request failed.", exc_info=error)
    return Refused(
        ErrorCode.INTERNAL,
        "The gateway could not answer this request.",
        hint="Its log says why; report it.",
    )


def install(app: FastAPI) -> None:
    """Let every error of an application be told as a problem."""

    @app.exception_handler(PerdureError)
    async def ours(_: Request, error: PerdureError) -> Response:
        return problem(error)

    @app.exception_handler(RequestValidationError)
    async def validation(_: Request, error: RequestValidationError) -> Response:
        return problem(invalid(error.errors()))

    @app.exception_handler(ValidationError)
    async def checked_late(_: Request, error: ValidationError) -> Response:
        return problem(invalid(error.errors(include_input=False, include_url=False)))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        said = dict(error.headers or {})
        return problem(
            _of_http(error), said | (_allowed(request) if error.status_code == 405 else {})
        )

    @app.exception_handler(RPCError)
    async def temporal(_: Request, error: RPCError) -> Response:
        return problem(follow.translated(error, None))

    @app.exception_handler(RuntimeError)
    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        return problem(_unexpected(error))
