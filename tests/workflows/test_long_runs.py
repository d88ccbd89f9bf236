"""Long Runs: continue-as-new on the way, one id, one gapless stream, right totals."""

from temporalio.client import Client

from perdure import Agent, Limits, tool
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, without_times
from tests.harness.scripted_openai import (
    RecordedRequest,
    Reply,
    ScriptedOpenAI,
    call,
    text,
    tool_calls,
)

TURNS = 500
"""Temporal suggests to continue as new after about 370 here."""


@tool(effect="read")
def note(number: int) -> str:
    """Note a number."""
    return f"noted {number}"


AGENT = Agent(name="clerk", tools=[note], limits=Limits(max_turns=TURNS))


def next_note(request: RecordedRequest) -> Reply:
    said = sum(message["role"] == "assistant" for message in request.messages)
    if said == TURNS - 1:
        return text("All noted.", usage=(100, 10))
    return tool_calls(call("note", {"number": said + 1}), usage=(100, 10))


async def test_a_run_of_five_hundred_turns_ends_well_under_one_id(client: Client) -> None:
    async with ScriptedOpenAI(record=False) as model:
        model.respond_with(next_note)
        engine = Engine(client, model, "queue-long")
        async with engine.serving(AGENT):
            run = await engine.run("clerk", "Note all numbers.")
            handle = client.get_workflow_handle(run.run_id)
            info = (await handle.describe()).raw_description.workflow_execution_info
            whole = await engine.projected_from_start(run.run_id)
    assert run.status is RunStatus.COMPLETED
    assert run.output == "All noted."
    assert info.first_run_id != info.execution.run_id, "it never continued as new"
    assert [step.number for step in run.steps] == list(range(1, 2 * TURNS))
    assert [call.result for call in run.tool_calls] == [f"noted {n}" for n in range(1, TURNS)]
    assert run.usage.model_calls == TURNS
    assert (run.usage.input_tokens, run.usage.output_tokens) == (100 * TURNS, 10 * TURNS)
    assert run.last_event == 2 + 2 * (2 * TURNS - 1)
    # get_run begins with what the last execution carries; this one begins at the beginning.
    assert without_times(whole) == without_times(run)
