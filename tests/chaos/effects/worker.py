"""A worker that dies also where no tool can let it: `python -m tests.chaos.effects.worker`.

It is the real one, with a stop before and behind what it does with a call.
"""

import json
from typing import Any

from temporalio import activity

import perdure.activities.agent_activities as making
import perdure.worker as real
from perdure.activities.heartbeat import heartbeats
from perdure.activities.tool import Surroundings, ToolActivity, tool_activity
from perdure.agents.tool import AnyTool
from perdure.runs.contract import ToolRequest
from perdure.runs.steps import ToolCall, ToolReply
from perdure.workflows import steps
from tests.chaos.effects.book import Row
from tests.chaos.effects.dying import BLOCKED_S, BOOK, stand, stand_in_thread
from tests.chaos.effects.points import Point


def _doomed(tool: AnyTool, given: Surroundings) -> ToolActivity:
    execute = tool_activity(tool, given)
    name = activity._Definition.must_from_callable(execute).name

    @activity.defn(name=name)
    async def run_tool(request: ToolRequest) -> ToolReply:
        arguments, attempt = json.loads(request.arguments), activity.info().attempt
        key = request.idempotency_key
        BOOK.write(Row("began", arguments["entry"], key=key, attempt=attempt))
        async with heartbeats():
            await stand(Point.PICKED_UP, arguments, attempt)
        reply = await execute(request)
        async with heartbeats():
            await stand(Point.RETURNED, arguments, attempt)
        return reply

    return run_tool


def _start_tool(request: ToolRequest, call: ToolCall, heartbeat_s: float | None) -> Any:
    if request.approval is not None:
        stand_in_thread(Point.APPROVED, json.loads(request.arguments), 0, BLOCKED_S)
    return start_tool(request, call, heartbeat_s)


start_tool = steps.start_tool

if __name__ == "__main__":
    making.tool_activity = _doomed
    steps.start_tool = _start_tool
    real.main()
