"""What is true of every Session, whatever was done to it."""

import json
from collections.abc import Iterator, Sequence

from temporalio.client import WorkflowHistory

from perdure.client.manager import RunManager
from perdure.runs.events import Event
from perdure.runs.messages import Message, wire
from perdure.runs.run import Run
from perdure.runs.usage import Usage
from perdure.sessions.contract import SessionReport
from tests.harness.transcript_rules import check_request


async def is_at_rest(manager: RunManager, session_id: str) -> bool:
    """Tell whether no Run goes on in a Session, and none waits."""
    report = await manager.session(session_id).get()
    return report.active_run_id is None and not report.queue


def started_runs(histories: Sequence[WorkflowHistory]) -> list[str]:
    """Return the Runs that a Session has started, once each, in that order."""
    events = (event for history in histories for event in history.events)
    started = (each.child_workflow_execution_started_event_attributes for each in events)
    ids = (each.workflow_execution.workflow_id for each in started)
    return list(dict.fromkeys(filter(None, ids)))


def assert_session(
    report: SessionReport,
    runs: Sequence[Run],
    events: Sequence[Sequence[Event]],
    conversation: Sequence[Message],
) -> None:
    """Check a Session in which nothing goes on.

    Args:
        report: Where it stands.
        runs: All its Runs.
        events: Those of each Run.
        conversation: What the next Run would begin with.
    """
    assert all(run.is_terminal and run.session_id == report.session_id for run in runs)
    assert_one_at_a_time(events)
    assert_valid(conversation)
    assert len(conversation) == report.messages
    total = Usage()
    for run in runs:
        total = total.plus_run(run.usage)
    assert _numbers(report.usage) == _numbers(total)


def assert_one_at_a_time(events: Sequence[Sequence[Event]]) -> None:
    """The history never shows two Runs that have begun and have not ended."""
    moments = sorted(moment for each in events for moment in _turns(each))
    going_on = 0
    for _, change, run_id in moments:
        going_on += change
        assert going_on <= 1, f"Run {run_id!r} began while another one was going on"


def _turns(events: Sequence[Event]) -> Iterator[tuple[float, int, str]]:
    """Yield when a Run began (1) and ended (-1); of one moment, the end comes first."""
    has_begun = False
    for event in events:
        if event.type in ("run.started", "run.resumed"):
            has_begun = True
            yield event.at.timestamp(), 1, event.run_id
        elif hasattr(event, "stop_reason") and has_begun:
            has_begun = False
            yield event.at.timestamp(), -1, event.run_id


def assert_valid(conversation: Sequence[Message]) -> None:
    """The conversation may be the beginning of a request to any provider."""
    if conversation:
        sent = [json.loads(wire(message)) for message in conversation]
        assert check_request({"messages": sent}) == []


def _numbers(usage: Usage) -> dict[str, object]:
    """Return what was used, with costs rounded: sums of floats depend on their order."""
    data = usage.model_dump(mode="json")
    data["by_model"] = sorted(
        ({**each, "cost": round(each["cost"], 9)} for each in data["by_model"]),
        key=lambda each: str(each["model"]),
    )
    return {**data, "cost": round(usage.cost, 9)}
