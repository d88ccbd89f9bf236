"""Signals that come when a Run has recorded its end, and only waits for Temporal to cancel it."""

import pytest
from google.protobuf.json_format import Parse
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import History, HistoryEvent

from perdure import Agent
from perdure.client.project import Projection
from perdure.runs import contract
from perdure.runs.contract import BeginRequest, CancelRequest
from perdure.runs.frozen import Frozen
from perdure.runs.run import Run
from perdure.runs.start import SessionShare
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, without_times
from tests.harness.scripted_openai import Gate, text

AGENT = Agent(name="helper")


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        (contract.BEGIN_SIGNAL, BeginRequest(share=SessionShare(context_window=4000))),
        (contract.CANCEL_SIGNAL, CancelRequest(reason="now", mode="now")),
    ],
)
async def test_a_signal_behind_the_recorded_end_is_passed_over_by_every_reader(
    engine: Engine, name: str, request_: Frozen
) -> None:
    gate = Gate()
    engine.model.script([text("First.").hold(gate)])
    async with engine.serving(AGENT):
        session = engine.manager.session(engine.task_queue)
        await session.start_run("helper", "1")
        waits = await session.start_run("helper", "2", on_busy="enqueue")
        await gate.reached
        await engine.manager.cancel(waits.run_id, "enough", mode="after_step")
        run = await engine.ended(waits.run_id)
        assert (run.status, run.started_at) == (RunStatus.CANCELLED, None)
        gate.open()
        await engine.rest(engine.task_queue)
        (stored,) = await engine.histories(run.run_id)
        queried = await engine.queried(run.run_id)
    history = Parse(stored, History())
    late = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
    attributes = late.workflow_execution_signaled_event_attributes
    attributes.signal_name = name
    attributes.input.payloads.extend(await engine.client.data_converter.encode([request_]))
    read = await projected(engine, run.run_id, history, late)
    assert without_times(read) == without_times(queried)


async def projected(engine: Engine, run_id: str, history: History, late: HistoryEvent) -> Run:
    """Return the Run as it reads with an event behind that of the recorded end."""
    projection = Projection(run_id, engine.client.data_converter)
    for event in history.events:
        await projection.feed(event)
        if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED:
            late.event_time.CopyFrom(event.event_time)
            await projection.feed(late)
    assert projection.run is not None
    return projection.run
