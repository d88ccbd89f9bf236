"""Health, open to everybody; and what the gateway says of itself."""

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from perdure.gateway.routes.callers import Reader

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """Whether the gateway is well."""

    status: Literal["ok", "failing"]
    reason: str | None = None
    """What is wrong."""


@router.get(
    "/healthz",
    response_model=Health,
    response_model_exclude_none=True,
    openapi_extra={"security": []},
    summary="Tell whether the process is up.",
)
async def healthz() -> Any:
    """Answer; nothing else is looked at."""
    return Health(status="ok")


@router.get(
    "/readyz",
    response_model=Health,
    response_model_exclude_none=True,
    responses={503: {"model": Health, "description": "Temporal does not answer."}},
    openapi_extra={"security": []},
    summary="Tell whether the gateway can work.",
)
async def readyz(request: Request, response: Response) -> Any:
    """Ask Temporal whether it is there; workers are not asked after."""
    reason = await request.app.state.ready.get()
    response.status_code = 503 if reason else 200
    return Health(status="failing" if reason else "ok", reason=reason)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request, caller: Reader) -> Response:
    """Return the OpenAPI document."""
    return JSONResponse(request.app.openapi())
