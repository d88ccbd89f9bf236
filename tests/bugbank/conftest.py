"""One worker and one model server for the whole bank; its cases run several at a time."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from tests.bugbank.agents import AGENTS
from tests.bugbank.case import Case
from tests.bugbank.playing import Asked, Stage
from tests.harness.engine import Engine
from tests.harness.scripted_openai import ScriptedOpenAI

AT_ONCE = 8


@pytest.fixture(scope="session")
async def bank(client: Client) -> AsyncIterator[Engine]:
    """An engine that serves the agents of the bank."""
    async with ScriptedOpenAI() as model:
        async with Engine(client, model, f"bank-{os.getpid()}").serving(*AGENTS) as engine:
            yield engine


@pytest.fixture(scope="session")
async def played(
    request: pytest.FixtureRequest, bank: Engine
) -> AsyncIterator[dict[str, asyncio.Task[Asked]]]:
    """The Runs of all cases that were asked for, by the case's name."""
    stage = Stage(bank)
    turnstile = asyncio.Semaphore(AT_ONCE)

    async def in_turn(case: Case) -> Asked:
        async with turnstile:
            return await stage.play(case)

    params = [getattr(item, "callspec", None) for item in request.session.items]
    cases = [each.params["case"] for each in params if each and "case" in each.params]
    tasks = {str(c): asyncio.create_task(in_turn(c)) for c in cases if isinstance(c, Case)}
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
