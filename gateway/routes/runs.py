"""Runs: finding, reading, waiting for, stopping, changing, deleting."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from perdure.client.deleting import Deleted
from perdure.client.event_pages import EventPage
from perdure.client.listing import RunList
from perdure.client.overseeing import CancelReport
from perdure.client.settling import is_settled
from perdure.client.tree import RunTree
from perdure.gateway.bodies import body, taken
from perdure.gateway.described import problems, taking
from perdure.gateway.given import limits
from perdure.gateway.ids import manager_of, scoped_run
from perdure.gateway.patience import WentAway, unless_gone
from perdure.gateway.queries import ListRuns, ReadEvents, ReadTree, WaitFor, mine_only
from perdure.gateway.routes.callers import Admin, Manager, Reader, Writer
from perdure.gateway.routes.starting import CLIENT_CLOSED
from perdure.gateway.shapes import CancelRun, CancelRuns, ChangeRun
from perdure.gateway.streaming.following import STREAMED, Stream, stream_run, wanted_format
from perdure.runs.deltas import Position
from perdure.runs.errors import InvalidRequest
from perdure.runs.run import Run

router = APIRouter(tags=["runs"])

LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", description="Wins over `starting_after`.")
]


@router.get("/v1/runs", response_model=RunList, responses=problems(), summary="List Runs.")
async def list_runs(caller: Reader, manager: Manager, asked: Annotated[ListRuns, Query()]) -> Any:
    """Return a page of Runs, newest first. Temporal's list is a second or so behind."""
    chosen = asked.chosen(caller)
    return await manager.list_runs(chosen, limit=asked.limit, cursor=asked.cursor)


@router.post(
    "/v1/runs/cancel",
    response_model=CancelReport,
    responses=taking(),
    openapi_extra=taken(CancelRuns),
    summary="Cancel several Runs.",
)
async def cancel_runs(
    caller: Writer, manager: Manager, given: Annotated[CancelRuns, Depends(body(CancelRuns))]
) -> Any:
    """Ask Runs to stop, and tell what became of each."""
    if (given.run_ids is None) is (given.filter is None):
        raise InvalidRequest("Which Runs? Give either `run_ids` or `filter`.")
    if given.filter is None:
        which = [caller.scoped(each) for each in given.run_ids or ()]
        return await manager.cancel_runs(which, given.reason, mode=given.mode)
    chosen = mine_only(caller, given.filter.session_id).model_copy(
        update=given.filter.model_dump(exclude={"session_id"})
    )
    return await manager.cancel_runs(chosen, given.reason, mode=given.mode)


@router.get("/v1/runs/{run_id}", response_model=Run, responses=problems(404), summary="Get a Run.")
async def get_run(run_id: str, caller: Reader, manager: Manager) -> Any:
    """Return a Run as it stands; no worker is asked."""
    return await manager.get_run(scoped_run(caller, run_id))


@router.patch(
    "/v1/runs/{run_id}",
    response_model=Run,
    responses=taking(404, 409),
    openapi_extra=taken(ChangeRun),
    summary="Change the limits of a Run.",
)
async def change_run(
    run_id: str,
    caller: Writer,
    manager: Manager,
    given: Annotated[ChangeRun, Depends(body(ChangeRun))],
) -> Any:
    """Change how much a Run may use; one that is paused at a limit goes on."""
    return await manager.raise_limits(scoped_run(caller, run_id), limits(given.limits))


@router.delete(
    "/v1/runs/{run_id}", response_model=Deleted, responses=problems(404), summary="Delete a Run."
)
async def delete_run(run_id: str, caller: Admin, manager: Manager) -> Any:
    """Cancel a Run if it goes on, and delete it with the Runs it has called. Up to a minute."""
    return await manager.delete_run(scoped_run(caller, run_id))


@router.get(
    "/v1/runs/{run_id}/wait",
    response_model=Run,
    responses={
        200: {"description": "It has ended, or needs a person."},
        202: {"model": Run, "description": "It goes on: ask again."},
        **problems(404),
    },
    summary="Wait for a Run.",
)
async def wait_for_run(
    run_id: str,
    request: Request,
    response: Response,
    caller: Reader,
    asked: Annotated[WaitFor, Query()],
) -> Any:
    """Return a Run once it has ended or needs a person, or as it stands when time is up."""
    chosen = scoped_run(caller, run_id)
    manager = manager_of(request)
    try:
        run = await unless_gone(request, manager.settled(chosen, timeout_s=asked.timeout_s))
    except WentAway:
        return Response(status_code=CLIENT_CLOSED)
    run = run or await manager.get_run(chosen)
    response.status_code = 200 if is_settled(run) else 202
    return run


@router.get(
    "/v1/runs/{run_id}/events",
    response_model=EventPage,
    responses=STREAMED | problems(404, 410),
    summary="Follow a Run, or read its Events of a Run.",
)
async def read_events(
    run_id: str,
    request: Request,
    caller: Reader,
    asked: Annotated[ReadEvents, Query()],
    last_event_id: LastEventId = None,
) -> Any:
    """Follow a Run, or read a page of the Events that have happened, which waits for no more.

    What it is, the header `Accept` says, or `format`: `text/event-stream` (`sse`) follows, with
    deltas between the Events; so does `text/plain` (`text`), with nothing but the answer's words.
    """
    chosen = scoped_run(caller, run_id)
    position = last_event_id or asked.starting_after
    if wanted_format(request, asked.format) != "json":
        return await stream_run(request, caller, Stream(chosen, position, asked.format))
    found = Position.parse(position)
    if found is None:
        raise InvalidRequest(f"{position[:80]!r} is no position.", hint="Give an Event's number.")
    manager = manager_of(request)
    return await manager.event_page(chosen, starting_after=found.after, limit=asked.limit)


@router.get(
    "/v1/runs/{run_id}/tree",
    response_model=RunTree,
    responses=problems(404),
    summary="Get a Run with those it has called.",
)
async def get_tree(
    run_id: str, caller: Reader, manager: Manager, asked: Annotated[ReadTree, Query()]
) -> Any:
    """Return a Run with the Runs of agents that it has called, and those of theirs."""
    return await manager.tree(scoped_run(caller, run_id), running_only=asked.running_only)


@router.post(
    "/v1/runs/{run_id}/cancel",
    response_model=Run,
    responses=taking(404),
    openapi_extra=taken(CancelRun),
    summary="Cancel a Run.",
)
async def cancel_run(
    run_id: str,
    caller: Writer,
    manager: Manager,
    given: Annotated[CancelRun, Depends(body(CancelRun))],
) -> Any:
    """Ask a Run to stop, and return it as it stands then; one that has ended stays as it is."""
    return await manager.cancel(scoped_run(caller, run_id), given.reason, mode=given.mode)
