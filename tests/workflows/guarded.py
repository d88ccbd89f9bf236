"""Agents with checks, for the tests of guardrails, and what these have seen and done."""

import asyncio
from typing import Any

from pydantic import BaseModel

from perdure import Agent, ErrorCode, tool
from perdure.agents.approval import ProposedCall
from perdure.agents.checks import (
    CheckedInput,
    CheckedOutput,
    Verdict,
    allow,
    ask,
    change,
    reject,
    retry,
)
from perdure.agents.judge import judged_by
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine

PAID: list[int] = []
SEEN: list[str] = []
LAX: list[bool] = []
"""So many calls the checks of arguments let pass, whatever they are: as those of another version
would, on the worker that asked the model."""


def forget() -> None:
    """Begin anew."""
    PAID.clear()
    SEEN.clear()
    LAX.clear()


class Sum(BaseModel):
    total: int


@tool(effect="read")
def pay(euros: int) -> str:
    """Pay somebody."""
    PAID.append(euros)
    return f"paid {euros}"


def no_secrets(said: CheckedInput) -> Verdict | None:
    """Keep what must not reach a provider from it."""
    SEEN.append(said.text)
    if "broken" in said.text:
        raise RuntimeError("no answer with sk-0123456789abcdef")
    if "exit" in said.text:
        raise SystemExit(1)
    return change(said.text.replace("4711", "####")) if "4711" in said.text else None


async def only_cooking(said: CheckedInput) -> Verdict:
    await asyncio.sleep(0)
    if "bomb" in said.text:
        return reject("We cook")
    return ask("Is that cooking?") if "maybe" in said.text else allow()


def sums(asked: ProposedCall) -> Any:
    euros = asked.arguments["euros"]
    if LAX:
        LAX.pop()
        return None
    if euros < 100:
        return None
    if euros == 666:
        return reject("Never that")
    if euros == 667:
        return "no"
    return ask("Is that much right?") if euros == 500 else change({"euros": 100})


def polite(said: CheckedOutput) -> Verdict | None:
    if said.value is not None:
        return change({"total": 0}) if said.value["total"] < 0 else None
    if "damn" in said.text:
        return retry("Say it without swearing")
    if "secret" in said.text:
        return reject("It tells")
    if "person" in said.text:
        return ask("May we say that?")
    return change(said.text.upper()) if "loud" in said.text else None


CLERK = Agent(
    name="clerk",
    tools=[pay],
    input_checks=[no_secrets, only_cooking],
    argument_checks=[sums],
    output_checks=[polite],
)
SUMS = Agent(name="sums", output_type=Sum, output_checks=[polite])
RULES = Agent(name="rules", instructions="Only cooking passes.", model="judge-model")
JUDGED = Agent(
    name="judged",
    input_checks=[judged_by(RULES)],
    output_checks=[judged_by(RULES, otherwise="retry")],
)
PLAIN = Agent(name="plain")


def said_to_model(engine: Engine, request: int = -1) -> list[str]:
    return [str(each["content"]) for each in engine.model.requests[request].body["messages"]]


def assert_refused(run: Run, about: str, why: str) -> None:
    assert run.status is RunStatus.FAILED
    assert run.error is not None
    assert run.error.code is ErrorCode.GUARDRAIL
    assert why in run.error.message
    assert run.error.details["about"] == about
