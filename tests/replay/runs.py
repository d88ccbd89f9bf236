"""One Run of each kind, for the stored histories. Add kinds; never change one."""

from collections.abc import Awaitable, Callable

from perdure import Agent, ErrorCode, Limits, RetryRule, Timeouts, tool
from perdure.client.continuing import Fork
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import (
    Gate,
    RecordedRequest,
    Reply,
    call,
    status,
    text,
    tool_calls,
)
from tests.replay.outputs import OUTPUT_AGENTS, OUTPUT_KINDS
from tests.replay.people import PEOPLE_AGENTS, PEOPLE_KINDS


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
async def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


@tool(effect="read", task_queue="record-elsewhere")
def elsewhere() -> str:
    """Tell where."""
    return "elsewhere"


AGENT = Agent(name="adder", instructions="Add.", tools=[add, fail])
STUBBORN = Agent(
    name="stubborn",
    model="first-model",
    fallback_models=["second-model"],
    retries={ErrorCode.LLM_UNAVAILABLE: RetryRule(max_attempts=2)},
)
NARROW = Agent(name="narrow", tools=[add], context_window=100)
FAR = Agent(name="far", tools=[elsewhere])
AGENTS = (AGENT, STUBBORN, NARROW, FAR, *PEOPLE_AGENTS, *OUTPUT_AGENTS)
TURNS = 60
"""Several times what the recording server lets a history grow to."""


async def parallel_tools(engine: Engine) -> str:
    calls = [call("add", {"a": n, "b": n}) for n in range(5)]
    engine.model.script([tool_calls(*calls), text("Done.")])
    return await engine.start("adder")


async def called_on_another_task_queue(engine: Engine) -> str:
    engine.model.script([tool_calls(call("elsewhere", {})), text("Done.")])
    return await engine.start("far")


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


async def cancelled_after_step(engine: Engine) -> str:
    gate = Gate()
    engine.model.script([tool_calls(call("add", {"a": 1, "b": 1})).hold(gate)])
    run_id = await engine.start("adder")
    await gate.reached
    await engine.manager.cancel(run_id, "enough", mode="after_step")
    gate.open()
    return run_id


async def concluded(engine: Engine) -> str:
    engine.model.script([tool_calls(call("add", {"a": 1, "b": 1})), text("So far.")])
    return await engine.start("adder", limits=Limits(max_turns=1), on_limit="finalize")


async def paused(engine: Engine) -> str:
    engine.model.script([tool_calls(call("add", {"a": 1, "b": 1})), text("Done.")])
    run_id = await engine.start("adder", limits=Limits(max_turns=1), on_limit="pause")

    async def waits() -> bool:
        return (await engine.manager.get_run(run_id)).waiting_on is not None

    await soon(waits)
    await engine.manager.raise_limits(run_id, Limits(max_turns=2))
    return run_id


async def resumed(engine: Engine) -> str:
    engine.model.script([tool_calls(call("add", {"a": 1, "b": 1})), status(401), text("Done.")])
    run_id = await engine.start("adder")
    await engine.ended(run_id)
    await engine.manager.resume(run_id)
    return run_id


async def forked(engine: Engine) -> str:
    engine.model.script([tool_calls(call("add", {"a": 1, "b": 1})), text("Done."), text("Other.")])
    run_id = await engine.start("adder")
    await engine.ended(run_id)
    return await engine.manager.fork(run_id, Fork(step=1, message="Do something else."))


async def fallen_back(engine: Engine) -> str:
    unavailable = status(503, headers={"retry-after-ms": "1"})
    engine.model.script([unavailable] * 2 + [text("Done.")])
    return await engine.start("stubborn")


async def compacted(engine: Engine) -> str:
    adding = [tool_calls(call("add", {"a": n, "b": 1}), usage=(85, 5)) for n in range(2)]
    engine.model.script([*adding, text("They added 0 and 1."), text("Done.", usage=(20, 5))])
    return await engine.start("narrow")


async def told(engine: Engine) -> str:
    gates = [Gate(), Gate()]
    adding = tool_calls(call("add", {"a": 1, "b": 1}))
    engine.model.script([adding.hold(gates[0]), text("Two.").hold(gates[1]), text("Done.")])
    run_id = await engine.start("adder")
    await gates[0].reached
    await engine.manager.send_message(run_id, "Be quick.", message_id="m1")
    gates[0].open()
    await gates[1].reached
    handle = engine.client.get_workflow_handle(run_id)
    for said, message_id in (("Thanks.", "m2"), ("Be quick.", "m1")):
        await handle.signal("message", {"text": said, "message_id": message_id})
    gates[1].open()
    return run_id


async def paused_by_a_person(engine: Engine) -> str:
    gate = Gate()
    engine.model.script([tool_calls(call("add", {"a": 1, "b": 1})).hold(gate), text("Done.")])
    run_id = await engine.start("adder", limits=Limits(max_turns=1), on_limit="pause")
    await gate.reached
    await engine.manager.pause(run_id, "let me see")
    gate.open()
    for waited, go_on in (
        ("pause", lambda: engine.manager.unpause(run_id)),
        ("limit", lambda: engine.manager.pause(run_id)),
        ("pause", lambda: engine.manager.raise_limits(run_id, Limits(max_turns=2))),
        ("pause", lambda: engine.manager.send_message(run_id, "Go on.", message_id="m1")),
        ("pause", lambda: engine.manager.unpause(run_id)),
    ):

        async def waits(waited: str = waited) -> bool:
            waiting = (await engine.manager.get_run(run_id)).waiting_on
            return waiting is not None and waiting.type == waited

        await soon(waits)
        await go_on()
    return run_id


async def cancelled_while_paused(engine: Engine) -> str:
    gate = Gate()
    engine.model.script([tool_calls(call("add", {"a": 1, "b": 1})).hold(gate)])
    run_id = await engine.start("adder")
    await gate.reached
    await engine.manager.pause(run_id)
    gate.open()

    async def waits() -> bool:
        return (await engine.manager.get_run(run_id)).waiting_on is not None

    await soon(waits)
    await engine.manager.cancel(run_id, "enough")
    return run_id


async def waited_for_its_turn(engine: Engine) -> str:
    gate = Gate()
    engine.model.script([text("First.").hold(gate), text("Second.")])
    session = engine.manager.session("turns")
    await session.start_run("adder", "1")
    second = await session.start_run("adder", "2", on_busy="enqueue")
    gate.open()
    return second.run_id


async def waited_in_vain(engine: Engine) -> str:
    gate = Gate()
    engine.model.script([text("First.").hold(gate)])
    session = engine.manager.session("patience")
    await session.start_run("adder", "1")
    patience = Timeouts(queue_s=0.2)
    second = await session.start_run("adder", "2", on_busy="enqueue", timeouts=patience)
    await engine.ended(second.run_id)
    gate.open()
    return second.run_id


KINDS: dict[str, Callable[[Engine], Awaitable[str]]] = {
    each.__name__: each
    for each in (
        parallel_tools,
        called_on_another_task_queue,
        failing_and_rejected_calls,
        retried_model_call,
        failed_model_call,
        limit_reached,
        cancelled,
        cancelled_by_signal,
        timed_out,
        continued_as_new,
        cancelled_after_step,
        concluded,
        paused,
        resumed,
        forked,
        fallen_back,
        compacted,
        told,
        paused_by_a_person,
        cancelled_while_paused,
        waited_for_its_turn,
        waited_in_vain,
        *PEOPLE_KINDS,
        *OUTPUT_KINDS,
    )
}
