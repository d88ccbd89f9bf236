"""The agents that the workers serve."""

from typing import Any

from fastapi import APIRouter, Request

from perdure.gateway.described import problems
from perdure.gateway.routes.callers import Reader
from perdure.runs.catalogue import AgentList

router = APIRouter(tags=["agents"])


@router.get(
    "/v1/agents", response_model=AgentList, responses=problems(), summary="List the agents."
)
async def list_agents(request: Request, caller: Reader) -> Any:
    """Return the agents that Runs can be of, with their tools: a worker tells."""
    return await request.app.state.agents.get()
