"""Runs with MCP servers: executed, and looked at."""

from perdure import Agent
from perdure.runs.run import Run
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Call, text, tool_calls


async def using(engine: Engine, agent: Agent, *calls: Call) -> Run:
    """Execute a Run whose model makes these calls in one turn."""
    engine.model.script([tool_calls(*calls), text("Done.")])
    async with engine.serving(agent):
        return await engine.run(agent.name)


def told(engine: Engine) -> dict[str, str]:
    """Return what the model was told of each call."""
    messages = engine.model.requests[-1].messages
    return {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}


def codes(run: Run) -> dict[str, tuple[str | None, int]]:
    """Return the code and the attempt of each call's Step."""
    steps = {step.number: step for step in run.steps}
    return {
        each.call_id: (
            each.error.code.value if each.error else None,
            steps[each.step].attempt if each.step else 0,
        )
        for each in run.tool_calls
    }


def offered(engine: Engine, request: int = 0) -> list[str]:
    """Return the names of the tools that a model request had."""
    return [each["function"]["name"] for each in engine.model.requests[request].body["tools"]]
