"""What lets ids keep tenants apart: all that is named for a tenant begins with its name."""

import pytest
from temporalio.client import Client

from perdure import Agent
from perdure.client.launch import new_id
from perdure.client.manager import RunManager
from perdure.gateway.access import Caller
from perdure.runs.errors import RunNotFound
from perdure.runs.ids import child_run_id, is_valid_id
from perdure.runs.limits import MAX_AGENT_DEPTH
from perdure.sessions.contract import workflow_id
from tests.harness.engine import Engine
from tests.harness.scripted_openai import text

CALLER = Caller("ci", frozenset({"read"}), tenant="t" * 32)


def test_runs_of_agents_that_are_called_keep_the_tenant() -> None:
    run_id = CALLER.scoped(new_id())
    for _ in range(MAX_AGENT_DEPTH + 1):
        run_id = child_run_id(run_id, 9_999_999)
        assert run_id.startswith(CALLER.prefix)
        assert is_valid_id(run_id)


async def test_only_runs_are_runs(engine: Engine, client: Client) -> None:
    """Whoever knows the workflow id of a Session, or of anything else, gets nothing by it."""
    engine.model.script([text("Done.")])
    manager = RunManager(client, engine.task_queue)
    session = engine.manager.session(f"{engine.task_queue}-other")
    async with engine.serving(Agent(name="speaker", instructions="Speak.")):
        started = await session.start_run("speaker", "Go.")
        await manager.wait(started.run_id)
    foreign = workflow_id(session.session_id)
    for call in (manager.get_run, manager.pending_steps, manager.wait, manager.files):
        with pytest.raises(RunNotFound) as caught:
            await call(foreign)  # type: ignore[operator]
        with pytest.raises(RunNotFound) as unknown:
            await call("nobody")  # type: ignore[operator]
        assert str(caught.value).replace(foreign, "nobody") == str(unknown.value)
