"""Runs whose input or output is checked, one of each kind. Change none."""

from perdure import Agent, File
from perdure.agents.checks import CheckedInput, CheckedOutput, Verdict, ask, change
from tests.harness.engine import Engine, soon
from tests.harness.pictures import png
from tests.harness.scripted_openai import text


def masked(said: CheckedInput) -> Verdict | None:
    """Hide a number."""
    return change(said.text.replace("42", "**")) if "42" in said.text else None


def seen(said: CheckedOutput) -> Verdict | None:
    """Let a person see what matters."""
    return ask("It matters.") if "matters" in said.text else None


SHAPED = Agent(name="shaped", output_type=list[int])
CHECKED = Agent(name="checked", input_checks=[masked], output_checks=[seen])
OUTPUT_AGENTS = (SHAPED, CHECKED)


async def unfit_answers(engine: Engine) -> str:
    engine.model.script([text("Two."), text("[2, 3]")])
    return await engine.start("shaped")


async def changed_input_and_reviewed_output(engine: Engine) -> str:
    engine.model.script([text("It matters.")])
    run_id = await engine.start("checked", "It is 42.")

    async def asks() -> bool:
        return (await engine.manager.get_run(run_id)).waiting_on is not None

    await soon(asks)
    await engine.manager.approve(run_id, "action_1", by="ann")
    return run_id


async def files_given(engine: Engine) -> str:
    engine.model.script([text("A picture.")])
    return await engine.start("adder", files=[File.from_bytes(png(300, 1), "image/png", "a.png")])


OUTPUT_KINDS = (unfit_answers, changed_input_and_reviewed_output, files_given)
