"""Compaction: older messages are summed up before the model's window is full."""

from perdure import Agent, ContextBundle, tool
from perdure.runs.errors import ErrorCode
from perdure.runs.messages import AssistantMessage, UserMessage
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Reply, call, status, text, tool_calls

FACT = "The vault's number is 4711. " * 20


@tool(effect="read")
def look(number: int) -> str:
    """Look something up."""
    return f"{number}: {FACT}"


OVERFLOW = {"error": {"code": "context_length_exceeded", "message": "Too long."}}


def looking(number: int, used: int) -> Reply:
    return tool_calls(call("look", {"number": number}), usage=(used, 10))


def roles(body: dict[str, object]) -> list[str]:
    return [message["role"] for message in body["messages"]]  # type: ignore[attr-defined]


async def test_older_messages_are_summed_up_before_the_window_is_full(engine: Engine) -> None:
    agent = Agent(name="clerk", instructions="Be brief.", tools=[look], context_window=1000)
    engine.model.script(
        [
            *(looking(1, 200), looking(2, 400), looking(3, 700)),
            text("1 to 3 hold 4711.", usage=(9, 9)),
            *(looking(4, 300), text("4711.", usage=(400, 5))),
        ]
    )
    async with engine.serving(agent):
        run = await engine.run("clerk", "What is the number?")
    assert (run.status, run.output) == (RunStatus.COMPLETED, "4711.")
    models = [step for step in run.steps if step.kind == "model"]
    assert [s.purpose for s in models] == ["turn"] * 3 + ["compact"] + ["turn"] * 2
    assert [s.turn for s in models] == [1, 2, 3, 4, 4, 5]
    summing_up, after = engine.model.requests[3].body, engine.model.requests[4].body
    assert roles(summing_up) == ["system", "user"]
    assert "tools" not in summing_up
    asked = summing_up["messages"][1]["content"]
    assert "What is the number?" in asked
    assert "1: The vault" in asked
    assert "3: The vault" not in asked
    assert roles(after) == ["system", "user", "assistant", "tool"]
    told = after["messages"][1]["content"]
    assert "1 to 3 hold 4711." in told
    assert "What is the number?" in told
    assert after["messages"][3]["content"].startswith("3: ")
    assert roles(engine.model.requests[5].body) == [*roles(after), "assistant", "tool"]
    # Nothing is lost of the original.
    assert [c.result for c in run.tool_calls] == [look.function(n) for n in (1, 2, 3, 4)]
    assert run.usage.model_calls == 6


async def test_a_conversation_that_the_provider_finds_too_long_is_summed_up_once(
    engine: Engine,
) -> None:
    agent = Agent(name="clerk", tools=[look], model="no-such-model")
    engine.model.script(
        [looking(1, 200), looking(2, 400), status(400, OVERFLOW), text("4711."), text("Done.")]
    )
    async with engine.serving(agent):
        run = await engine.run("clerk")
    assert (run.status, run.output) == (RunStatus.COMPLETED, "Done.")
    kinds = [(s.purpose, s.status) for s in run.steps if s.kind == "model"]
    assert kinds[2:] == [("turn", "failed"), ("compact", "completed"), ("turn", "completed")]


async def test_a_conversation_that_stays_too_long_ends_the_run(engine: Engine) -> None:
    agent = Agent(name="clerk", tools=[look])
    engine.model.script([looking(1, 200), looking(2, 400), status(400, OVERFLOW)])
    engine.model.script([text("4711."), status(400, OVERFLOW)])
    async with engine.serving(agent):
        run = await engine.run("clerk")
    assert run.error is not None
    assert (run.status, run.error.code) == (RunStatus.FAILED, ErrorCode.CONTEXT_OVERFLOW)
    assert len(engine.model.requests) == 5


async def test_a_single_message_that_is_too_long_can_not_be_summed_up(engine: Engine) -> None:
    engine.model.script([status(400, OVERFLOW)])
    async with engine.serving(Agent(name="clerk")):
        run = await engine.run("clerk")
    assert run.error is not None
    assert run.error.code is ErrorCode.CONTEXT_OVERFLOW
    assert len(engine.model.requests) == 1


async def test_an_earlier_conversation_is_summed_up_and_the_task_is_kept(engine: Engine) -> None:
    earlier = tuple(
        message
        for n in range(3)
        for message in (UserMessage(content=f"Question {n}?"), AssistantMessage(content=f"{n}!"))
    )
    engine.model.script([status(400, OVERFLOW), text("They counted."), text("Done.")])
    async with engine.serving(Agent(name="clerk")):
        run = await engine.run("clerk", "Go on.", context=ContextBundle(messages=earlier))
    assert run.status is RunStatus.COMPLETED
    assert "Question 2?" in engine.model.requests[1].body["messages"][1]["content"]
    assert roles(engine.model.requests[2].body) == ["user"]
    assert engine.model.requests[2].body["messages"][0]["content"].endswith("Go on.")


async def test_a_window_is_filled_and_summed_up_again_and_again(engine: Engine) -> None:
    agent = Agent(name="clerk", tools=[look], context_window=1000)

    def answer(request: object) -> Reply:
        body = engine.model.requests[-1].body
        if "tools" not in body:
            return text("A summary.", usage=(500, 10))
        size = sum(len(str(m.get("content"))) for m in body["messages"]) // 3
        return looking(len(engine.model.requests), size)

    engine.model.respond_with(answer)
    async with engine.serving(agent):
        run = await engine.run(
            "clerk",
        )
    assert run.error is not None
    assert run.error.code is ErrorCode.MAX_TURNS
    largest = max(
        len(r.raw) if hasattr(r, "raw") else len(str(r.body)) for r in engine.model.requests
    )
    assert sum(s.purpose == "compact" for s in run.steps) > 10
    assert largest < 8_000
