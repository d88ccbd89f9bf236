"""Fixtures of tests that ask a scripted provider."""

from collections.abc import AsyncIterator

import pytest

from perdure.activities.chat_client import ChatClient
from tests.activities.asking import KEY
from tests.harness.scripted_openai import ScriptedOpenAI


@pytest.fixture
async def chat(model: ScriptedOpenAI) -> AsyncIterator[ChatClient]:
    """The client that workers use, in front of the scripted model."""
    client = ChatClient(KEY, model.base_url)
    yield client
    await client.close()
