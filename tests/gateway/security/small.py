"""A small application with routes like the gateway's, over two tenants' ids in memory."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from perdure.engine.settings import Settings
from perdure.gateway import problems
from perdure.gateway.access import Caller, needs
from perdure.gateway.audit import note
from perdure.gateway.guard import hold_stream, secure
from perdure.runs.errors import RunNotFound

RUNS = ("acme:run_1", "umbrella:run_2")
SESSIONS = ("acme:talk", "umbrella:talk")

Reader = Annotated[Caller, Depends(needs("read"))]
Writer = Annotated[Caller, Depends(needs("write"))]
Approver = Annotated[Caller, Depends(needs("approve"))]
Admin = Annotated[Caller, Depends(needs("admin"))]

runs = APIRouter(prefix="/runs")
sessions = APIRouter(prefix="/sessions")


class Start(BaseModel):
    agent: str
    input: str
    session_id: str | None = None


class Which(BaseModel):
    run_ids: list[str]


class Decision(BaseModel):
    action_id: str
    verdict: Literal["approve", "reject"]


class SessionFork(BaseModel):
    new_session_id: str
    run_id: str | None = None


def known(run_id: str, among: tuple[str, ...] = RUNS) -> str:
    if run_id not in among:
        raise RunNotFound(f"There is no Run {run_id!r}.", hint="Look for others.")
    return run_id


@runs.get("")
async def list_runs(caller: Reader, session_id: str | None = None) -> list[str]:
    seen = [each for each in RUNS if each.startswith(caller.prefix)]
    return seen if session_id in (None, "talk") else []


@runs.post("", status_code=202)
async def start_run(
    asked: Start, caller: Writer, idempotency_key: Annotated[str | None, Header()] = None
) -> Response:
    if asked.session_id is not None:
        known(caller.scoped(asked.session_id), SESSIONS)
    run_id = caller.scoped("run_3")
    return JSONResponse({"run_id": run_id}, 202, headers={"Location": f"/v1/runs/{run_id}"})


@runs.post("/cancel")
async def cancel_runs(which: Which, caller: Writer) -> list[str]:
    return [known(caller.scoped(each)) for each in which.run_ids]


@runs.get("/{run_id}")
async def get_run(run_id: str, caller: Reader) -> str:
    return known(caller.scoped(run_id))


@runs.delete("/{run_id}")
async def delete_run(run_id: str, caller: Admin) -> str:
    return known(caller.scoped(run_id))


@runs.post("/{run_id}/cancel")
async def cancel_run(run_id: str, caller: Writer) -> str:
    return known(caller.scoped(run_id))


@runs.get("/{run_id}/events")
async def events(run_id: str, caller: Reader, request: Request) -> Response:
    found = known(caller.scoped(run_id))
    await hold_stream(request, caller)

    async def told() -> AsyncIterator[str]:
        yield f"data: {found}\n\n"

    return StreamingResponse(told(), media_type="text/event-stream")


@runs.post("/{run_id}/actions")
async def decide(run_id: str, decision: Decision, caller: Approver, request: Request) -> str:
    note(request, action_id=decision.action_id, decision=decision.verdict)
    return known(caller.scoped(run_id))


@sessions.post("/{session_id}/fork")
async def fork_session(session_id: str, asked: SessionFork, caller: Writer) -> str:
    if asked.run_id is not None:
        known(caller.scoped(asked.run_id))
    return known(caller.scoped(session_id), SESSIONS) + caller.scoped(asked.new_session_id)


async def health() -> str:
    return "well"


async def broken(caller: Writer) -> None:
    raise RuntimeError("it is broken")


async def page(caller: Reader) -> Response:
    return Response("<!doctype html>", media_type="text/html")


def create_app(settings: Settings) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None)
    app.include_router(runs, prefix="/v1")
    app.include_router(sessions, prefix="/v1")
    for path in ("/healthz", "/readyz"):
        app.add_api_route(path, health)
    app.add_api_route("/", page, include_in_schema=False)
    app.add_api_route("/v1/broken", broken, methods=["POST"])
    problems.install(app)
    secure(app, settings)
    return app
