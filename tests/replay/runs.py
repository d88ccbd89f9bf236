"""One Run of each kind, for the stored histories. Add kinds; never change one."""

from collections.abc import Awaitable, Callable

from perdure import Agent, Limits, Timeouts, tool
from tests.harness.engine import Engine
from tests.harness.scripted_openai import (
    Gate,
    RecordedRequest,
    Reply,
    call,
    status,
    text,
    tool_calls,
)


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
async def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


AGENT = Agent(name="adder", instructions="Add.", tools=[add, fail])
TURNS = 60
"""Several times what the recording server lets a history grow to."""


async def parallel_tools(engine: Engine) -> str:
    calls = [call("add", {"a": n, "b": n}) for n in range(5)]
    engine.model.script([tool_calls(*calls), text("Done.")])
    return await engine.start("adder")


async def failing_and_rejected_calls(engine: Engine) -> str:
    good, bad = call("add", {"a": 1, "b": 2}), call("add", "{")
    calls = tool_calls(call("fail", {"reason": "no"}), call("nothing", {}), bad, good)
    engine.model.script([calls, text("Done.")])
    return await engine.start("adder")


async def retried_model_call(engine: Engine) -> str:
    engine.model.script([status(503), text("Done.")])
    return await engine.start("adder")


async def failed_model_call(engine: Engine) -> str:
    engine.model.script([status(401)])
    return await engine.start("adder")


async def limit_reached(engine: Engine) -> str:
    engine.model.respond_with(lambda request: tool_calls(call("add", {"a": 1, "b": 1})))
    return await engine.start("adder", limits=Limits(max_turns=2))


async def cancelled(engine: Engine) -> str:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2)])
    run_id = await engine.start("adder")
    await gate.reached
    await engine.manager.cancel(run_id, "enough")
    return run_id


async def cancelled_by_signal(engine: Engine) -> str:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2)])
    run_id = await engine.start("adder")
    await gate.reached
    await engine.client.get_workflow_handle(run_id).signal("cancel", {"reason": "enough"})
    return run_id


async def timed_out(engine: Engine) -> str:
    engine.model.script([text("Half ", "an answer").hold(Gate(), before_chunk=2)])
    return await engine.start("adder", timeouts=Timeouts(run_s=1))


async def continued_as_new(engine: Engine) -> str:
    def answer(request: RecordedRequest) -> Reply:
        said = sum(message["role"] == "assistant" for message in request.messages)
        return text("Done.") if said == TURNS else tool_calls(call("add", {"a": said, "b": 1}))

    engine.model.respond_with(answer)
    return await engine.start("adder")


KINDS: dict[str, Callable[[Engine], Awaitable[str]]] = {
    each.__name__: each
    for each in (
        parallel_tools,
        failing_and_rejected_calls,
        retried_model_call,
        failed_model_call,
        limit_reached,
        cancelled,
        cancelled_by_signal,
        timed_out,
        continued_as_new,
    )
}
