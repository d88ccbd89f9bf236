"""Runs in which people decide, or other agents are called, one of each kind. Change none."""

from perdure import Agent, Limits, Timeouts, tool
from perdure.agents.asking import ask_user
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, text, tool_calls


@tool(approval=True)
def pay(euros: int) -> str:
    """Pay somebody."""
    return f"paid {euros}"


@tool(effect="read")
def look(what: str) -> str:
    """Look something up."""
    return f"saw {what}"


HELPER = Agent(name="helper", instructions="Help.", tools=[look])
CASHIER = Agent(
    name="cashier",
    instructions="Pay.",
    tools=[pay, look, ask_user, HELPER.as_tool()],
    handoffs=["helper"],
)
PEOPLE_AGENTS = (HELPER, CASHIER)


async def asked(engine: Engine, run_id: str, count: int) -> None:
    """Wait until a Run waits for so many decisions."""

    async def waits() -> bool:
        waiting = (await engine.manager.get_run(run_id)).waiting_on
        return waiting is not None and len(waiting.action_ids) == count

    await soon(waits)


async def approved_and_rejected(engine: Engine) -> str:
    pays = [call("pay", {"euros": n}, id=f"p{n}") for n in range(3)]
    engine.model.script([tool_calls(*pays, call("look", {"what": "x"})), text("Done.")])
    run_id = await engine.start("cashier")
    await asked(engine, run_id, 3)
    await engine.manager.approve(run_id, "p2", by="ann", arguments={"euros": 7})
    await engine.manager.reject(run_id, "p0", by="bob", note="no")
    await engine.manager.pause(run_id)
    await engine.manager.unpause(run_id)
    await engine.manager.approve(run_id, "p1", by="ann")
    return run_id


async def expired_action(engine: Engine) -> str:
    engine.model.script([tool_calls(call("pay", {"euros": 1})), text("Done.")])
    return await engine.start("cashier", timeouts=Timeouts(action_s=0.5))


async def cancelled_while_asking(engine: Engine) -> str:
    engine.model.script([tool_calls(call("pay", {"euros": 1}))])
    run_id = await engine.start("cashier")
    await asked(engine, run_id, 1)
    await engine.manager.cancel(run_id, "enough")
    return run_id


async def answered_and_handed_off(engine: Engine) -> str:
    engine.model.script(
        [
            tool_calls(call("ask_user", {"question": "Which?"}, id="q")),
            tool_calls(call("handoff_to_helper", {}), call("look", {"what": "x"})),
            text("Done."),
        ]
    )
    run_id = await engine.start("cashier")
    await asked(engine, run_id, 1)
    await engine.manager.answer(run_id, "q", "That one.", by="ann")
    return run_id


async def called_agents(engine: Engine) -> str:
    calls = [call("helper", {"input": f"Do {n}."}, id=f"h{n}") for n in range(2)]
    engine.model.respond_with(
        lambda request: (
            text("Done.")
            if len(request.messages) > 2 or "Do" in str(request.messages[-1])
            else tool_calls(*calls)
        )
    )
    return await engine.start("cashier", limits=Limits(max_tokens=10_000))


async def cancelled_with_a_child(engine: Engine) -> str:
    gate = Gate()
    engine.model.script(
        [tool_calls(call("helper", {"input": "Do."}, id="h")), text("Half").hold(gate)]
    )
    run_id = await engine.start("cashier")
    await gate.reached
    await engine.manager.cancel(run_id, "enough")
    return run_id


async def gone_on_without_its_child(engine: Engine) -> str:
    gate = Gate()
    engine.model.script(
        [
            tool_calls(call("helper", {"input": "Do."}, id="h")),
            text("Half").hold(gate),
            text("Done."),
        ]
    )
    run_id = await engine.start("cashier")
    await gate.reached
    await engine.manager.cancel(f"{run_id}.2", "enough")
    return run_id


PEOPLE_KINDS = (
    approved_and_rejected,
    expired_action,
    cancelled_while_asking,
    answered_and_handed_off,
    called_agents,
    cancelled_with_a_child,
    gone_on_without_its_child,
)
