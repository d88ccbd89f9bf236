"""Asking a scripted provider through a real `ChatClient`, within bounds."""

import asyncio
import json

import pytest
from temporalio.exceptions import ApplicationError

from perdure.activities.chat_client import ChatClient
from perdure.activities.openai_chat import Answer
from perdure.runs.errors import RunError
from perdure.runs.limits import MAX_REPLY_BYTES, Timeouts
from tests.harness.scripted_openai import chunk

KEY = "sk-test-0123456789abcdef"
BODY = json.dumps(
    {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "Grüße"}],
    },
    ensure_ascii=False,
).encode()
PATIENT = Timeouts(model_s=10, model_first_byte_s=10, model_idle_s=10)
LIMIT_S = 20.0
HEL = chunk({"content": "Hel"})
"""A chunk that begins an answer."""


async def ask(
    chat: ChatClient, timeouts: Timeouts = PATIENT, max_bytes: int = MAX_REPLY_BYTES
) -> Answer:
    """Ask within bounds."""
    answer = Answer()
    async with asyncio.timeout(LIMIT_S):
        await chat.ask(BODY, answer, timeouts, max_bytes)
    return answer


async def refused(
    chat: ChatClient, timeouts: Timeouts = PATIENT, max_bytes: int = MAX_REPLY_BYTES
) -> tuple[ApplicationError, RunError]:
    """Ask, and return what went wrong: as it is raised, and as it is kept."""
    with pytest.raises(ApplicationError) as raised:
        await ask(chat, timeouts, max_bytes)
    why = RunError.model_validate(raised.value.details[0])
    assert raised.value.type == why.code.value
    assert raised.value.non_retryable is not why.retryable
    assert raised.value.__cause__ is None
    return raised.value, why
