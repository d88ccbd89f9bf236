"""`on_unknown="ask"`: a person is asked what a tool did of which nobody knows, then the model."""

import asyncio
import json
from typing import Any

import pytest

from perdure import Agent, Fork, Timeouts, tool
from perdure.runs.actions import Action
from perdure.runs.errors import ErrorCode, InvalidRequest
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, soon
from tests.harness.processes import output
from tests.harness.scripted_openai import call, text, tool_calls


@tool(timeout_s=0.3)
async def pay(euros: int) -> str:
    """Pay somebody, for ever."""
    await asyncio.Event().wait()
    return ""


@tool(effect="read", timeout_s=0.3)
async def stare(euros: int) -> str:
    """Look for ever."""
    await asyncio.Event().wait()
    return ""


@tool
def note(euros: int) -> str:
    """Write something down."""
    return f"noted {euros}"


TOOLS = [pay, stare, note]
ASKS = Agent(name="asks", tools=TOOLS, on_unknown="ask")
TELLS = Agent(name="tells", tools=TOOLS)


def script(engine: Engine, *calls: str) -> None:
    """One turn with these calls, then an answer."""
    named = [call(name, {"euros": n}, id=f"{name}{n}") for n, name in enumerate(calls, 1)]
    engine.model.script([tool_calls(*named), text("Done.")])


async def asked(engine: Engine, run_id: str, count: int = 1) -> list[Action]:
    """Wait until a Run waits for answers to so many questions, and return them."""
    found: list[Run] = []

    async def waits() -> bool:
        found[:] = [await engine.manager.get_run(run_id)]
        waiting = found[0].waiting_on
        return waiting is not None and len(waiting.action_ids) == count

    await soon(waits)
    queried = await engine.queried(run_id)
    assert found[0].waiting_on is not None
    assert queried.waiting_on is not None
    assert found[0].waiting_on.type == queried.waiting_on.type == "input"
    assert found[0].waiting_on.action_ids == queried.waiting_on.action_ids
    return [c.action for c in found[0].tool_calls if c.action is not None and c.action.is_open]


def told(engine: Engine, nth: int = -1) -> dict[str, str]:
    """Return what the model was told about each call, in a request."""
    sent = engine.model.requests[nth].messages
    return {m["tool_call_id"]: m["content"] for m in sent if m["role"] == "tool"}


@pytest.mark.parametrize(
    ("agent", "options"),
    [("asks", {}), ("tells", {"on_unknown": "ask"})],
    ids=["as the agent says", "as the Run says"],
)
async def test_a_person_says_what_happened_and_the_model_reads_it(
    engine: Engine, agent: str, options: dict[str, Any]
) -> None:
    script(engine, "pay", "stare", "note")
    async with engine.serving(ASKS, TELLS):
        run_id = await engine.start(agent, **options)
        (action,) = await asked(engine, run_id)
        # What failed for sure, or was done, is no question; and the model has to wait.
        assert (action.kind, action.about, action.call_id) == ("input", "outcome", "pay1")
        assert json.loads(action.arguments) == {"euros": 1}
        assert action.reason.endswith("What happened?")
        assert len(engine.model.requests) == 1
        with pytest.raises(InvalidRequest, match="is an input"):
            await engine.manager.approve(run_id, "pay1", by="ann")
        await engine.manager.answer(run_id, "pay1", "The bank has it.", by="ann")
        run = await engine.ended(run_id)
    assert (run.status, run.output, run.actions_asked) == (RunStatus.COMPLETED, "Done.", 1)
    assert "outcome_unknown" in told(engine)["pay1"]
    assert told(engine)["pay1"].endswith("A person says what happened: The bank has it.")
    assert told(engine)["note3"] == "noted 3"
    paid = run.tool_calls[0]
    # It is still not known from the tool; what a person says stands beside that.
    assert paid.error is not None
    assert paid.error.code is ErrorCode.OUTCOME_UNKNOWN
    assert paid.action is not None
    assert paid.action.resolution is not None
    assert paid.action.resolution.by == "ann"


async def test_the_run_goes_on_with_what_is_known_where_nobody_is_asked_or_answers(
    engine: Engine,
) -> None:
    script(engine, "pay", "pay")
    async with engine.serving(ASKS, TELLS):
        run_id = await engine.start("asks", timeouts=Timeouts(action_s=5))
        await asked(engine, run_id, 2)
        await engine.manager.reject(run_id, "pay1", by="bob", note="I can't see that.")
        expired = await engine.ended(run_id)
        answers = told(engine)
        script(engine, "pay")
        not_asked = await engine.run("asks", on_unknown="tell")
        alone = told(engine)["pay1"]
    assert (expired.status, expired.actions_asked) == (RunStatus.COMPLETED, 2)
    resolutions = [c.action.resolution for c in expired.tool_calls if c.action is not None]
    assert [r.verdict for r in resolutions if r is not None] == ["rejected", "expired"]
    assert (not_asked.status, not_asked.actions_asked) == (RunStatus.COMPLETED, 0)
    # Whether nobody was asked, would say, or came: what the tool left is all that is told.
    assert answers == {"pay1": alone, "pay2": alone}
    assert json.loads(alone)["error"]["code"] == "outcome_unknown"


async def test_a_question_about_an_outcome_ends_with_its_run(engine: Engine) -> None:
    script(engine, "pay")
    async with engine.serving(ASKS):
        run_id = await engine.start("asks")
        await asked(engine, run_id)
        await engine.manager.cancel(run_id, reason="no more")
        run = await engine.ended(run_id)
    assert run.status is RunStatus.CANCELLED
    action = run.tool_calls[0].action
    assert action is not None
    assert action.resolution is not None
    assert action.resolution.verdict == "cancelled"


async def test_a_fork_of_a_run_that_asks_says_that_it_waits(engine: Engine) -> None:
    script(engine, "pay")
    async with engine.serving(ASKS):
        run_id = await engine.start("asks")
        await asked(engine, run_id)
        fork = await engine.queried(await engine.manager.fork(run_id, Fork(step=2)))
        engine.model.script([text("Done.")])  # for both
        for each in (run_id, fork.run_id):
            await engine.manager.answer(each, "pay1", "It came back.", by="ann")
            await engine.ended(each)
    assert fork.status is RunStatus.RUNNING
    assert fork.waiting_on is not None


async def test_a_fork_asks_as_its_original_does_but_not_the_same_again(engine: Engine) -> None:
    script(engine, "pay")
    async with engine.serving(ASKS, TELLS):
        run_id = await engine.start("tells", on_unknown="ask")
        await asked(engine, run_id)
        await engine.manager.answer(run_id, "pay1", "It came back.", by="ann")
        await engine.ended(run_id)
        engine.model.script([text("Done again.")])
        after = await engine.ended(await engine.manager.fork(run_id, Fork(step=2)))
        assert after.output == "Done again."
        assert after.actions_asked == 1  # the one that was answered in the original
        assert told(engine)["pay1"].endswith("It came back.")
        script(engine, "pay")
        before = await engine.manager.fork(run_id, Fork(step=1, message="Once more."))
        await asked(engine, before)
        await engine.manager.answer(before, "pay1", "Never sent.", by="ann")
        await engine.ended(before)
        assert told(engine)["pay1"].endswith("Never sent.")


async def test_the_command_line_lets_a_run_ask(engine: Engine) -> None:
    script(engine, "pay")
    async with engine.serving(TELLS):
        arguments = ("start", "Go.", "--agent", "tells", "--on-unknown", "ask")
        env = {"PERDURE_TASK_QUEUE": engine.task_queue}
        code, out, err = await output(*arguments, env=env)
        assert (code, err) == (0, "")
        run_id = out.strip()
        await asked(engine, run_id)
        await engine.manager.answer(run_id, "pay1", "Done.", by="ann")
        assert (await engine.ended(run_id)).status is RunStatus.COMPLETED
