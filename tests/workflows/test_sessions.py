"""Sessions on the real server: one Run at a time, whatever is asked."""

from perdure.agents.agent import Agent
from tests.harness.engine import Engine
from tests.harness.scripted_openai import text


async def test_the_next_run_knows_what_was_said(engine: Engine) -> None:
    engine.model.script([text("Hi Ada."), text("Ada.")])
    async with engine.serving(Agent(name="helper")):
        session = engine.manager.session("s1")
        first = await session.start_run("helper", "I am Ada.")
        await engine.ended(first.run_id)
        second = await session.start_run("helper", "Who am I?")
        run = await engine.ended(second.run_id)
        assert run.output == "Ada."
