"""What Runs wait for people to decide, and the decisions."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from perdure.client.deciding import ActionList
from perdure.gateway.bodies import body, taken
from perdure.gateway.described import problems, taking
from perdure.gateway.ids import scoped_run
from perdure.gateway.queries import ListActions, mine_only
from perdure.gateway.routes.callers import Approver, Manager, Reader
from perdure.gateway.shapes import DecideAction
from perdure.runs.errors import InvalidRequest
from perdure.runs.run import Run

router = APIRouter(tags=["actions"])


@router.get(
    "/v1/actions",
    response_model=ActionList,
    responses=problems(),
    summary="List what waits for a person.",
)
async def list_actions(
    caller: Reader, manager: Manager, asked: Annotated[ListActions, Query()]
) -> Any:
    """Return what people are to decide, of a page of the Runs that wait, newest first."""
    chosen = mine_only(caller, asked.session_id).model_copy(update={"agent": asked.agent})
    return await manager.list_actions(chosen, limit=asked.limit, cursor=asked.cursor)


@router.post(
    "/v1/runs/{run_id}/actions",
    response_model=Run,
    responses=taking(404, 409),
    openapi_extra=taken(DecideAction),
    summary="Approve, reject or answer.",
)
async def decide_action(
    run_id: str,
    caller: Approver,
    manager: Manager,
    given: Annotated[DecideAction, Depends(body(DecideAction))],
) -> Any:
    """Take a decision; the Run keeps that it was the caller's. Taken twice, it counts once."""
    _check_suits(given)
    chosen, action, by = scoped_run(caller, run_id), given.action_id, caller.name
    match given.decision:
        case "approve":
            edited = given.arguments
            return await manager.approve(chosen, action, by=by, note=given.note, arguments=edited)
        case "reject":
            return await manager.reject(chosen, action, by=by, note=given.note)
        case "answer":
            return await manager.answer(chosen, action, given.answer or "", by=by)


def _check_suits(given: DecideAction) -> None:
    if given.arguments is not None and given.decision != "approve":
        raise InvalidRequest("`arguments` are for the decision `approve`.")
    if (given.answer is not None) is not (given.decision == "answer"):
        raise InvalidRequest("`answer` and the decision `answer` go together.")
    if given.note and given.decision == "answer":
        raise InvalidRequest("`note` is for the decisions `approve` and `reject`.")
