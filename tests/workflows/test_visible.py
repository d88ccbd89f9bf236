"""What a person sees of a Run in the Temporal UI, without decoding any JSON."""

from temporalio.api.sdk.v1 import WorkflowMetadata

from perdure import Agent, tool
from perdure.runs import contract
from perdure.runs.contract import RunStatusReport
from perdure.runs.status import RunStatus
from perdure.workflows.visible import AGENT as AGENT_KEY
from perdure.workflows.visible import COST, SESSION, SHOWN_STEPS, STATUS, TOKENS
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Gate, call, text, tool_calls


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


AGENT = Agent(name="adder", tools=[add])


async def details(engine: Engine, run_id: str) -> str:
    handle = engine.client.get_workflow_handle(run_id)
    metadata: WorkflowMetadata = await handle.query(
        "__temporal_workflow_metadata", result_type=WorkflowMetadata
    )
    return metadata.current_details


async def test_details_summary_and_attributes_tell_status_totals_and_steps(engine: Engine) -> None:
    engine.model.script(
        [tool_calls(call("add", {"a": 1, "b": 2}), usage=(900, 100)), text("3", usage=(950, 50))]
    )
    async with engine.serving(AGENT):
        run = await engine.run("adder", "What is 1 + 2?", session_id="s-7")
        shown = await details(engine, run.run_id)
        described = await engine.client.get_workflow_handle(run.run_id).describe()
        summary = await described.static_summary()
    for part in ("completed", "end_turn", "turn 2", "2,000 tokens", "model gpt-5-mini", "tool add"):
        assert part in shown
    assert summary == "adder: What is 1 + 2?"
    attributes = described.typed_search_attributes
    assert attributes[STATUS] == "completed"
    assert attributes[AGENT_KEY] == "adder"
    assert attributes[SESSION] == "s-7"
    assert attributes[TOKENS] == 2000
    assert attributes[COST] > 0


async def test_each_activity_says_in_a_line_what_it_does(engine: Engine) -> None:
    engine.model.script([tool_calls(call("add", {"a": 1, "b": 2})), text("3")])
    async with engine.serving(AGENT):
        run = await engine.run("adder")
    history = await engine.client.get_workflow_handle(run.run_id).fetch_history()
    summaries = [
        event.user_metadata.summary.data.decode()
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert summaries == [
        '"turn 1 · adder"',
        '"turn 1 · add({\\"a\\": 1, \\"b\\": 2})"',
        '"turn 2 · adder"',
    ]


async def test_details_show_the_latest_steps_of_a_long_run(engine: Engine) -> None:
    def answer(request: object) -> object:
        asked = len(engine.model.requests) <= SHOWN_STEPS
        return (
            tool_calls(call("add", {"a": len(engine.model.requests), "b": 1}))
            if asked
            else text("Done.")
        )

    engine.model.respond_with(answer)  # type: ignore[arg-type]
    async with engine.serving(AGENT):
        run = await engine.run("adder")
        shown = await details(engine, run.run_id)
    assert len(run.steps) > SHOWN_STEPS
    assert shown.count("\n| ") == SHOWN_STEPS + 1  # and the heading
    assert f"{len(run.steps) - SHOWN_STEPS} earlier Steps are not shown." in shown


async def test_the_status_query_tells_where_a_running_run_stands(engine: Engine) -> None:
    gate = Gate()
    engine.model.script(
        [
            tool_calls(call("add", {"a": 1, "b": 2}), usage=(900, 100)),
            text("Half ", "an answer").hold(gate, before_chunk=2),
        ]
    )
    async with engine.serving(AGENT):
        run_id = await engine.start("adder")
        await gate.reached
        handle = engine.client.get_workflow_handle(run_id)
        report: RunStatusReport = await handle.query(
            contract.STATUS_QUERY, result_type=RunStatusReport
        )
        gate.open()
        await engine.ended(run_id)
    assert (report.status, report.turn, report.current_step) == (RunStatus.RUNNING, 2, 3)
    assert report.total_tokens == 1000
    assert report.waiting_on is None
